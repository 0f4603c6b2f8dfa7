//! What a report needs to know of a run beside its outcomes and its plan.
//!
//! `cli` fills it from the run's manifest. Nothing secret belongs here: the target is a URL without
//! user, password or query. Everything is printed as given.

use crate::domain::schedule::CountKind;
use crate::domain::word::word_enum;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

word_enum! {
    /// How a run ended.
    pub enum RunStatus {
        /// Every planned request was tried.
        Complete = "complete",
        /// Stopped by the user, by a limit, or killed.
        Interrupted = "interrupted",
    }
}

/// The facts of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFacts {
    /// The run's name: its directory's last part.
    pub name: String,
    /// The URL that was sent to, without secrets.
    pub target: String,
    /// Whether the target was the built-in mock, whose numbers say nothing about a real server.
    pub target_is_mock: bool,
    /// The API's name, for example `chat`.
    pub api: String,
    /// The model asked for.
    pub model: String,
    /// How the run ended.
    pub status: RunStatus,
    /// Whether the outcomes come out of the partial file of a run that was killed.
    pub recovered: bool,
    /// The scheduling class that the dispatcher had, when known.
    pub scheduling_class: Option<String>,
    /// What the server says of itself, by name.
    pub server: BTreeMap<String, String>,
    /// Prompts above this many planned input tokens form the group `long_context`.
    pub long_context_tokens: u32,
    /// The tokenizer that counted the plan.
    pub tokenizer: String,
    /// What the plan's input tokens count; `None` when unknown or mixed.
    pub count_kind: Option<CountKind>,
}
