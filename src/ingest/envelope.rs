//! What transports wrap around records: Docker, CRI, Fluent, CloudWatch, GCP, Elasticsearch,
//! Grafana, journald, and a text before the first brace.
//!
//! The layers are decided from the sample, up to three, each by the majority of its records; then
//! every record loses those layers that it has, and passes as it is where it has none. The times
//! of envelopes are not used. The names are general knowledge of these tools.

use super::container::scan::{is_object, members};
use std::borrow::Cow;

/// Layers looked for.
const MAX_LAYERS: usize = 3;

/// One layer around a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// Docker's `json-file`: `{"log":"...\n","stream":"stdout","time":"..."}`.
    Docker,
    /// The container runtime interface: `TIME stdout F TEXT`.
    Cri,
    /// A member of an object: the first of these names.
    Member(&'static [&'static str]),
    /// A pair of time and line, as Loki answers.
    Pair,
    /// A text before the first brace of an object.
    Prefix,
}

/// Members that hold a record as an object, and one of the keys that stand beside it.
const OBJECTS: &[(&[&str], &[&str])] = &[
    (&["_source"], &["_index", "_id"]),
    (&["jsonPayload", "textPayload"], &["insertId", "logName", "resource", "receiveTimestamp"]),
];

/// Members that hold a record as a text.
const TEXTS: &[&[&str]] = &[
    &["log"],
    &["message"],
    &["MESSAGE"],
    &["line"],
    &["msg"],
    &["textPayload"],
    &["_raw"],
    &["@message"],
];

/// Keys that stand beside such a member in envelopes; with others it is a record of its own.
const BESIDE: &[&str] = &[
    "log",
    "message",
    "line",
    "msg",
    "textPayload",
    "_raw",
    "@message",
    "stream",
    "time",
    "timestamp",
    "@timestamp",
    "date",
    "kubernetes",
    "docker",
    "container_id",
    "container_name",
    "source",
    "tag",
    "host",
    "hostname",
    "path",
    "labels",
    "fields",
    "severity",
    "insertId",
    "resource",
    "logName",
    "receiveTimestamp",
    "eventId",
    "ingestionTime",
    "logStreamName",
    "id",
    "type",
    "@version",
    "input",
    "agent",
    "ecs",
    "offset",
    "file",
    "_p",
    "attrs",
    "nano",
    "tsNs",
    "logtag",
    "source_type",
    "level",
    "cluster",
    "logStream",
    "@logStream",
    "@log",
    "@ingestionTime",
];

/// What the records of a log are wrapped in, outermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    layers: Vec<Layer>,
}

impl Envelope {
    /// Decides the envelope of a log by the texts of its sample, and removes it from them.
    pub fn decide(texts: &mut [String]) -> Option<Self> {
        let mut layers = Vec::new();
        while layers.len() < MAX_LAYERS {
            let Some(layer) = common_layer(texts) else { break };
            for text in texts.iter_mut() {
                if let Some(inner) = layer.peel(text) {
                    *text = inner.into_owned();
                }
            }
            layers.push(layer);
        }
        (!layers.is_empty()).then_some(Self { layers })
    }

    /// Returns the layers, outermost first.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Returns a record without the layers it has.
    pub fn unwrap<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.layers.iter().fold(Cow::Borrowed(text), |text, layer| match text {
            Cow::Borrowed(text) => layer.peel(text).unwrap_or(Cow::Borrowed(text)),
            Cow::Owned(text) => match layer.peel(&text) {
                Some(inner) => Cow::Owned(inner.into_owned()),
                None => Cow::Owned(text),
            },
        })
    }
}

/// Returns the layer that most texts have. A prefix needs one in ten: other lines of such a log
/// hold no object at all.
fn common_layer(texts: &[String]) -> Option<Layer> {
    let mut found: Vec<(Layer, usize)> = Vec::new();
    let mut filled = 0_usize;
    for text in texts {
        if text.trim_start().is_empty() {
            continue;
        }
        filled += 1;
        let Some(layer) = layer_of(text) else { continue };
        match found.iter_mut().find(|(known, _)| *known == layer) {
            Some((_, count)) => *count += 1,
            None => found.push((layer, 1)),
        }
    }
    let (layer, count) = found.into_iter().max_by_key(|(layer, count)| (*count, *layer))?;
    let needed = if layer == Layer::Prefix { filled.div_ceil(10) } else { filled / 2 + 1 };
    (count >= needed).then_some(layer)
}

/// Returns the layer that a text has.
fn layer_of(text: &str) -> Option<Layer> {
    if text.trim_start().starts_with('{') {
        return member_of(text);
    }
    let others = [Layer::Cri, Layer::Pair, Layer::Prefix];
    others.into_iter().find(|layer| match layer.peel(text) {
        Some(inner) => *layer != Layer::Prefix || is_object(&inner),
        None => false,
    })
}

fn member_of(text: &str) -> Option<Layer> {
    let fields: Vec<(&str, &str)> = members(text).collect();
    let value = |name: &str| fields.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    let is_text = |name: &str| value(name).is_some_and(|value| value.starts_with('"'));
    for (names, beside) in OBJECTS {
        let held = names.iter().any(|name| value(name).is_some());
        if held && beside.iter().any(|name| value(name).is_some()) {
            return Some(Layer::Member(names));
        }
    }
    if ["log", "stream", "time"].into_iter().all(is_text) {
        return Some(Layer::Docker);
    }
    let is_beside =
        |key: &str| BESIDE.contains(&key) || key.starts_with('_') || key.starts_with("log.");
    let nothing_else = fields
        .iter()
        .all(|(key, _)| is_beside(key) || !key.bytes().any(|byte| byte.is_ascii_lowercase()));
    for names in TEXTS {
        let layer = Layer::Member(names);
        let Some(inner) = layer.peel(text) else { continue };
        if is_object(&inner) || nothing_else {
            return Some(layer);
        }
    }
    None
}

impl Layer {
    /// Returns what is inside; `None` when the text does not have this layer.
    pub fn peel(self, text: &str) -> Option<Cow<'_, str>> {
        match self {
            Self::Docker => docker(text).and_then(|line| inside(line.text)),
            Self::Member(names) => member(text, names),
            Self::Cri => cri(text).map(|line| Cow::Borrowed(line.text)),
            Self::Pair => {
                let pair = text.trim_start().strip_prefix('[')?.trim_start();
                pair.starts_with('"')
                    .then(|| super::container::scan::elements(text).nth(1))?
                    .and_then(inside)
            }
            Self::Prefix => {
                let trimmed = text.trim();
                if trimmed.starts_with('{') || !trimmed.ends_with('}') {
                    return None;
                }
                let begins = |(at, _): (usize, &str)| {
                    let (_, rest) = trimmed.split_at_checked(at)?;
                    let inside = rest.strip_prefix('{')?.trim_start();
                    inside.starts_with(['"', '}']).then_some(rest)
                };
                trimmed.match_indices('{').take(8).find_map(begins).map(Cow::Borrowed)
            }
        }
    }
}

/// Returns the value of the first of these members.
fn member<'t>(text: &'t str, names: &[&str]) -> Option<Cow<'t, str>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    members(text).find(|(key, _)| names.contains(key)).and_then(|(_, value)| inside(value))
}

/// Returns the text of an object or array, or what a string says, without its line end.
fn inside(value: &str) -> Option<Cow<'_, str>> {
    match value.as_bytes().first()? {
        b'{' | b'[' => Some(Cow::Borrowed(value)),
        b'"' => {
            let plain = value.strip_prefix('"')?.strip_suffix('"')?;
            if !plain.contains('\\') {
                return Some(Cow::Borrowed(plain));
            }
            let mut text: String = serde_json::from_str(value).ok()?;
            while text.ends_with(['\n', '\r']) {
                text.pop();
            }
            Some(Cow::Owned(text))
        }
        _ => None,
    }
}

/// A line that a container runtime wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuntimeLine<'t> {
    /// `stdout` or `stderr`.
    pub stream: &'t str,
    /// Whether the line goes on in the next one of its stream.
    pub is_partial: bool,
    /// The text; for Docker as a JSON string.
    pub text: &'t str,
}

/// Reads `{"log":"text\n","stream":"stdout","time":"..."}`; a text without line end goes on.
pub fn docker(line: &str) -> Option<RuntimeLine<'_>> {
    if !line.trim_start().starts_with('{') {
        return None;
    }
    let (mut text, mut stream) = (None, None);
    for (key, value) in members(line) {
        match key {
            "log" => text = Some(value),
            "stream" => stream = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')),
            _ => {}
        }
        if let (Some(text), Some(stream)) = (text, stream) {
            let is_partial = text.starts_with('"') && !ends_line(text);
            return Some(RuntimeLine { stream, is_partial, text });
        }
    }
    None
}

/// Whether a JSON string ends with a line end: an `n` after an odd number of backslashes.
fn ends_line(text: &str) -> bool {
    let Some(before) = text.strip_suffix("n\"") else { return false };
    (before.len() - before.trim_end_matches('\\').len()) % 2 == 1
}

/// Reads `2026-11-24T09:15:02.1Z stdout F text`; tags after `F` or `P` are joined by colons.
pub fn cri(line: &str) -> Option<RuntimeLine<'_>> {
    let (time, rest) = line.split_once(' ')?;
    let is_time = time.len() >= 20 && time.as_bytes().get(10) == Some(&b'T');
    let (stream, rest) = rest.split_once(' ')?;
    let (tag, text) = rest.split_once(' ').unwrap_or((rest, ""));
    let first = tag.split(':').next()?;
    let fits = is_time && matches!(stream, "stdout" | "stderr") && matches!(first, "F" | "P");
    fits.then_some(RuntimeLine { stream, is_partial: first == "P", text })
}
