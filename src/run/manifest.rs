//! `manifest.json` of a run: everything needed to judge and repeat it.
//!
//! Written first with the status `running`, last with `complete` or `interrupted`. The only
//! artifact with wall-clock times, and the only place that reads the wall clock. It holds no
//! secret and no host name: [`public_url`] takes user, password and query out of the target.

#![expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]

use super::dir::RunDir;
use super::error::RunError;
use crate::domain::time::WallTime;
use crate::domain::word::word_enum;
use crate::table::output::write_json;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// Version of `manifest.json`.
pub const MANIFEST_SCHEMA_VERSION: u32 = 1;

word_enum! {
    /// How far a run has come.
    pub enum RunStatus {
        /// It goes on, or its process was killed.
        Running = "running",
        /// Every planned request was dealt with.
        Complete = "complete",
        /// It was stopped early and closed its files.
        Interrupted = "interrupted",
    }
}

/// What was sent to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The URL without user, password and query; make it with [`public_url`].
    pub url: String,
    /// The API: `completions`, `chat` …
    pub api: String,
    /// The model's name in the requests.
    pub model: String,
}

/// Digests of what went into a run; null for what was not used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Digests {
    /// BLAKE3 of the plan.
    pub plan: Option<String>,
    /// BLAKE3 of the trace behind the plan.
    pub trace: Option<String>,
    /// BLAKE3 of the model behind the plan.
    pub model: Option<String>,
    /// Digest of the prompt pool.
    pub pool: Option<String>,
    /// Digest of the tokenizer.
    pub tokenizer: Option<String>,
}

/// Time limits, in milliseconds; null means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeouts {
    /// Until the connection stands.
    pub connect_ms: Option<u64>,
    /// Until the first generated text.
    pub first_token_ms: Option<u64>,
    /// Between two reads of the answer.
    pub idle_ms: Option<u64>,
    /// For the whole request.
    pub total_ms: Option<u64>,
}

/// The machine that sent the requests; never its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Cores this process may use; null when the system does not say.
    pub cores: Option<u64>,
    /// Operating system.
    pub os: String,
    /// Processor architecture.
    pub arch: String,
}

impl Host {
    /// Returns the facts of this machine.
    pub fn this() -> Self {
        let cores = std::thread::available_parallelism().ok();
        Self {
            cores: cores.and_then(|cores| u64::try_from(cores.get()).ok()),
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
        }
    }
}

/// The manifest of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunManifest {
    /// Version of this file's shape.
    pub schema_version: u32,
    /// Version of the tool that made the run.
    pub tool_version: String,
    /// How far the run has come.
    pub status: RunStatus,
    /// The run's name.
    pub name: String,
    /// When the run's clock started.
    #[serde(with = "rfc3339")]
    pub started_at: WallTime,
    /// When the run ended; null while it goes on.
    #[serde(with = "rfc3339_option")]
    pub ended_at: Option<WallTime>,
    /// The seed.
    pub seed: u64,
    /// Digests of what went in.
    pub digests: Digests,
    /// What was sent to.
    pub target: Target,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Most requests in flight; null means no limit.
    pub max_concurrency: Option<u64>,
    /// Scheduling class of the dispatcher: `fifo`, `normal` …
    pub scheduling_class: String,
    /// One sentence on how the dispatcher kept time.
    pub dispatcher_note: Option<String>,
    /// Requests in the plan.
    pub planned: u64,
    /// The sender's machine.
    pub host: Host,
    /// Further settings, by option.
    pub settings: BTreeMap<String, String>,
    /// What the server said about itself.
    pub server_facts: BTreeMap<String, String>,
}

impl RunManifest {
    /// Returns the manifest of a run that begins; what is not yet known is empty or null.
    pub fn begin(name: &str, started_at: WallTime, seed: u64, target: Target) -> Self {
        Self {
            schema_version: MANIFEST_SCHEMA_VERSION,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            status: RunStatus::Running,
            name: name.to_owned(),
            started_at,
            ended_at: None,
            seed,
            digests: Digests::default(),
            target: Target { url: public_url(&target.url), ..target },
            timeouts: Timeouts::default(),
            max_concurrency: None,
            scheduling_class: "unknown".to_owned(),
            dispatcher_note: None,
            planned: 0,
            host: Host::this(),
            settings: BTreeMap::new(),
            server_facts: BTreeMap::new(),
        }
    }

    /// Marks the run as ended.
    pub const fn end(&mut self, status: RunStatus, ended_at: WallTime) {
        self.status = status;
        self.ended_at = Some(ended_at);
    }

    /// Writes `manifest.json`, replacing an earlier one in one step.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn write(&self, dir: &RunDir) -> Result<(), RunError> {
        Ok(write_json(&dir.manifest(), self, true)?)
    }

    /// Reads `manifest.json`.
    ///
    /// # Errors
    ///
    /// If it is missing, not a manifest, or of another schema version.
    pub fn read(dir: &RunDir) -> Result<Self, RunError> {
        let path = dir.manifest();
        let text = std::fs::read_to_string(&path)
            .map_err(|_| RunError::NotARun { path: dir.path().to_owned() })?;
        let form = |source| RunError::Manifest { path: path.clone(), source };
        let Version { schema_version: found } = serde_json::from_str(&text).map_err(form)?;
        if found != MANIFEST_SCHEMA_VERSION {
            let expected = MANIFEST_SCHEMA_VERSION;
            return Err(RunError::SchemaVersion { path, expected, found });
        }
        serde_json::from_str(&text).map_err(form)
    }
}

/// The part of a manifest that says whether the rest can be read.
#[derive(Deserialize)]
struct Version {
    schema_version: u32,
}

/// Returns the current wall-clock time.
///
/// # Panics
///
/// Never before the year 294246 or on a clock set before 1970 (such a clock gives 1970).
pub fn now() -> WallTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallTime(i64::try_from(since.as_micros()).expect("the clock is before the year 294246"))
}

/// Returns a URL without user, password, query and fragment, for manifests and messages.
pub fn public_url(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, url),
    };
    let (authority, path) = match rest.split_once('/') {
        Some((authority, path)) => (authority, Some(path)),
        None => (rest, None),
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let scheme = scheme.map(|scheme| format!("{scheme}://")).unwrap_or_default();
    let path = path.map(|path| format!("/{path}")).unwrap_or_default();
    format!("{scheme}{host}{path}")
}

/// An instant as RFC 3339 in UTC.
mod rfc3339 {
    use crate::domain::time::WallTime;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
    pub(super) fn serialize<S: Serializer>(at: &WallTime, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(at)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<WallTime, D::Error> {
        parse(&String::deserialize(from)?)
    }

    pub(super) fn parse<E: serde::de::Error>(text: &str) -> Result<WallTime, E> {
        let at: jiff::Timestamp = text.parse().map_err(E::custom)?;
        Ok(WallTime(at.as_microsecond()))
    }
}

/// The same for an instant that may be missing.
mod rfc3339_option {
    use crate::domain::time::WallTime;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::ref_option, reason = "serde passes the field by reference")]
    pub(super) fn serialize<S: Serializer>(
        at: &Option<WallTime>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => to.collect_str(at),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<WallTime>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| super::rfc3339::parse(&text)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> RunManifest {
        let target = Target {
            url: "https://me:secret@host:8443/api?key=secret#x".to_owned(),
            api: "chat".to_owned(),
            model: "m".to_owned(),
        };
        RunManifest::begin("chat", WallTime(1_700_158_623_979_960), 42, target)
    }

    #[test]
    fn urls_lose_their_secrets() {
        for (url, public) in [
            ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
            ("http://127.0.0.1:8000/", "http://127.0.0.1:8000/"),
            ("https://me:pa@ss@host/api/v1", "https://host/api/v1"),
            ("https://host/v1?api_key=k", "https://host/v1"),
            ("https://host?api_key=k/@x", "https://host"),
            ("https://host/v1#k", "https://host/v1"),
            ("https://host/a@b", "https://host/a@b"),
            ("me:secret@host/v1", "host/v1"),
            ("http://[::1]:80/v1", "http://[::1]:80/v1"),
            ("", ""),
        ] {
            assert_eq!(public_url(url), public, "{url}");
        }
    }

    #[test]
    fn written_first_and_last() {
        let root = tempfile::tempdir().unwrap();
        let dir = RunDir::create_at(&root.path().join("x")).unwrap();
        let mut manifest = begun();
        manifest.write(&dir).unwrap();
        assert_eq!(RunManifest::read(&dir).unwrap(), manifest);
        manifest.end(RunStatus::Interrupted, WallTime(1_700_158_624_000_000));
        manifest.write(&dir).unwrap();
        assert_eq!(RunManifest::read(&dir).unwrap(), manifest);
        let text = std::fs::read_to_string(dir.manifest()).unwrap();
        assert!(!text.contains("secret"), "{text}");
        assert!(text.contains(r#""started_at": "2023-11-16T18:17:03.979960Z""#), "{text}");
        assert!(text.contains(r#""status": "interrupted""#), "{text}");
    }

    #[test]
    fn broken_manifests_say_so() {
        let root = tempfile::tempdir().unwrap();
        let dir = RunDir::create_at(&root.path().join("x")).unwrap();
        let shown = |text: &str| {
            std::fs::write(dir.manifest(), text).unwrap();
            let error = RunManifest::read(&dir).unwrap_err();
            let text = format!("{error}\nhint: {}", error.hint().unwrap());
            text.replace(root.path().to_str().unwrap(), "DIR")
        };
        insta::assert_snapshot!(shown("{"), @"
        DIR/x/manifest.json: the manifest does not have the expected form
        hint: the file was changed or made by another version
        ");
        insta::assert_snapshot!(shown(r#"{"schema_version": 9}"#), @"
        DIR/x/manifest.json: schema version 9 of a manifest, expected 1
        hint: report the run with the version that made it
        ");
    }

    #[test]
    fn the_clock_is_past_2020() {
        assert!(now() > WallTime(1_577_836_800_000_000));
    }
}
