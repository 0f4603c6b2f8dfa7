//! Provenance of a trace: what was read, what was decided, and where every record went.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything about a trace that is not a row of it. Holds no wall-clock time of the ingest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceMetadata {
    /// The inputs; `source_file_id` is an index into this list.
    pub files: Vec<SourceFile>,
    /// Where every source record went.
    pub counts: IngestCounts,
    /// What was decided about zones, units and sessions, and why.
    pub decisions: Vec<Decision>,
    /// Id of the salt behind every hash; never the salt.
    pub salt_id: String,
}

/// One input file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceFile {
    /// Keyed hash of the file's name, in hexadecimal.
    pub name_hash: String,
    /// The adapter that read it, for example `litellm-spendlogs`.
    pub format: String,
    /// Source records in it.
    pub records: u64,
}

/// Counts that add up: `read = kept + merged + dropped + rejected`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IngestCounts {
    /// Source records read.
    pub read: u64,
    /// Records that became a row of the trace.
    pub kept: u64,
    /// Records merged into the row of another attempt of the same call.
    pub merged: u64,
    /// Records left out on purpose, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Records that could not be read; each is in the rejects file.
    pub rejected: u64,
    /// Lines of the inputs, for comparison with `wc -l`.
    pub lines: u64,
}

impl IngestCounts {
    /// Returns whether every record that was read is accounted for.
    pub fn add_up(&self) -> bool {
        let dropped: u64 = self.dropped.values().sum();
        self.read == self.kept + self.merged + dropped + self.rejected
    }
}

/// One decision, as printed and as recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// What was decided, for example `zone of startTime`.
    pub what: String,
    /// The outcome, for example `UTC`.
    pub value: String,
    /// Why.
    pub why: String,
}
