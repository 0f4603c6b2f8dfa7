//! Tells the format of a log from the keys of its first records.
//!
//! A table of rules: all of these keys, none of those; the first rule that holds gets the
//! record's vote. A format needs 95 % of the records that parse. Otherwise the message lists the
//! candidates with counts and key names, never values, and a `--map` line to start from.

use super::error::IngestError;
use super::format::{Format, Hints};
use super::pick::Key;
use super::sample::{Records, Sample};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use std::collections::BTreeMap;

/// Keys that decide for a format.
struct Rule {
    format: Format,
    all: &'static [&'static str],
    none: &'static [&'static str],
}

/// In order of priority.
const RULES: &[Rule] = &[
    Rule {
        format: Format::LitellmSpendlogs,
        all: &["request_id", "call_type", "api_key", "spend", "startTime", "endTime"],
        none: &[],
    },
    Rule {
        format: Format::AzureLlmPublic,
        all: &["TIMESTAMP", "ContextTokens", "GeneratedTokens"],
        none: &["NumImages"],
    },
    Rule {
        format: Format::LengthTrace,
        all: &["timestamp", "input_length", "output_length"],
        none: &["session_id", "chat_id", "parent_chat_id", "delay"],
    },
];

/// Share of the votes a format needs, in percent.
const MIN_SHARE_PERCENT: usize = 95;
/// Key names shown in a message.
const SHOWN_KEYS: usize = 40;

/// Returns the format of a log: as told, by `--map`, or by its keys.
///
/// # Errors
///
/// If no format is clear.
pub fn detect(sample: &Sample, hints: &Hints) -> Result<Format, IngestError> {
    if let Some(told) = hints.format {
        return Ok(told);
    }
    if !hints.map.is_empty() {
        return Ok(Format::Generic);
    }
    match &sample.records {
        Records::Jsonl(lines) => detect_json(sample, lines),
        Records::Csv(header, _) => {
            let names: Vec<&str> = header.names().iter().map(String::as_str).collect();
            // Where the first line is data, no cell of it is shown.
            let shown = if names.iter().any(|name| is_data(name)) { &[][..] } else { &names };
            vote(&names).ok_or_else(|| IngestError::UnknownHeader {
                file: sample.file.clone(),
                found: describe_header(&names),
                map_line: map_line(shown),
            })
        }
    }
}

/// Returns the names of the keys for a message, without those that could be data.
pub(super) fn show_keys(keys: &[&str]) -> String {
    let mut shown: Vec<&str> = keys.iter().take(SHOWN_KEYS).map(|key| safe_key(key)).collect();
    if keys.len() > SHOWN_KEYS {
        shown.push("…");
    }
    shown.join(", ")
}

fn vote(keys: &[&str]) -> Option<Format> {
    let holds = |rule: &&Rule| {
        rule.all.iter().all(|key| keys.contains(key))
            && !rule.none.iter().any(|key| keys.contains(key))
    };
    RULES.iter().find(holds).map(|rule| rule.format)
}

fn detect_json(sample: &Sample, lines: &[String]) -> Result<Format, IngestError> {
    let mut votes: BTreeMap<Option<Format>, (usize, String)> = BTreeMap::new();
    let mut parsed = 0;
    let mut first_keys = Vec::new();
    for line in lines {
        let Ok(keys) = serde_json::from_str::<Keys<'_>>(line) else { continue };
        let keys: Vec<&str> = keys.0.iter().map(|key| &*key.0).collect();
        parsed += 1;
        let entry = votes.entry(vote(&keys)).or_insert_with(|| (0, show_keys(&keys)));
        entry.0 += 1;
        if first_keys.is_empty() {
            first_keys = keys.iter().map(|key| (*key).to_owned()).collect();
        }
    }
    let winner = votes.iter().max_by_key(|(_, (count, _))| *count);
    if let Some((Some(format), (count, _))) = winner
        && count * 100 >= parsed * MIN_SHARE_PERCENT
    {
        return Ok(*format);
    }
    let candidates: Vec<String> = votes
        .iter()
        .map(|(format, (count, keys))| {
            let name = format.map_or("unknown", Format::as_str);
            format!("{name} {count} (keys: {keys})")
        })
        .chain((parsed < lines.len()).then(|| format!("not JSON objects {}", lines.len() - parsed)))
        .collect();
    let first_keys: Vec<&str> = first_keys.iter().map(String::as_str).collect();
    Err(IngestError::UnknownFormat {
        file: sample.file.clone(),
        sampled: lines.len(),
        candidates: candidates.join("; "),
        map_line: map_line(&first_keys),
    })
}

/// The top-level keys of a JSON object.
struct Keys<'a>(Vec<Key<'a>>);

impl<'de> serde::Deserialize<'de> for Keys<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(KeysVisitor)
    }
}

struct KeysVisitor;

impl<'de> Visitor<'de> for KeysVisitor {
    type Value = Keys<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut keys = Vec::new();
        while let Some((key, _)) = map.next_entry::<Key<'de>, IgnoredAny>()? {
            keys.push(key);
        }
        Ok(Keys(keys))
    }
}

fn describe_header(names: &[&str]) -> String {
    match names.iter().position(|name| is_data(name)) {
        Some(place) => {
            format!("the first line looks like data, not names (column {})", place + 1)
        }
        None => show_keys(names),
    }
}

/// Whether a cell of the first line is no name of a column.
fn is_data(name: &str) -> bool {
    let words = name.split(' ').count();
    name.is_empty()
        || words > 3
        || name.parse::<f64>().is_ok()
        || name.starts_with("20")
        || !is_safe(name)
}

/// A name that is a name: data in its place is not shown.
fn is_safe(key: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-. :/()[]".contains(&byte);
    !key.is_empty() && key.len() <= 64 && key.bytes().all(fits)
}

fn safe_key(key: &str) -> &str {
    if is_safe(key) { key } else { "?" }
}

/// Fields for which a column is looked for by parts of its name, most telling first.
const GUESSES: &[(&str, &[&str])] = &[
    ("arrival", &["arriv", "start", "timestamp", "created", "time", "date"]),
    ("input_tokens", &["input_tok", "prompt_tok", "prefill", "input", "prompt", "context"]),
    ("output_tokens", &["output_tok", "completion_tok", "decode", "output", "completion", "gener"]),
    ("session", &["session", "conversation", "thread"]),
    ("model", &["model"]),
    ("status", &["status"]),
];

/// Returns a `--map` line for these columns, with `COLUMN` where none fits.
fn map_line(columns: &[&str]) -> String {
    let guess = |parts: &[&str]| {
        parts.iter().find_map(|part| {
            columns.iter().find(|name| is_safe(name) && name.to_lowercase().contains(part))
        })
    };
    let mut line = Vec::new();
    for (field, parts) in GUESSES {
        match guess(parts) {
            Some(column) if column.contains(' ') => line.push(format!("--map '{field}={column}'")),
            Some(column) => line.push(format!("--map {field}={column}")),
            None if matches!(*field, "input_tokens" | "output_tokens") => {
                line.push(format!("--map {field}=COLUMN"));
            }
            None => {}
        }
    }
    line.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints() -> Hints {
        Hints { format: None, map: Vec::new(), zone: super::super::Zone::utc(), units: Vec::new() }
    }

    fn of(text: &str) -> Result<Format, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, text).unwrap();
        let found = Sample::read(&path).and_then(|sample| detect(&sample, &hints()));
        found.map_err(|error| {
            let text = format!("{error}\n{}", error.hint().unwrap_or_default());
            text.replace(&format!("{}/", folder.path().display()), "")
        })
    }

    #[test]
    fn keys_decide() {
        let length = r#"{"timestamp":0,"input_length":1,"output_length":1}"#;
        assert_eq!(of(length), Ok(Format::LengthTrace));
        assert_eq!(of("timestamp,input_length,output_length\n"), Ok(Format::LengthTrace));
        assert_eq!(of("TIMESTAMP,ContextTokens,GeneratedTokens\r\n"), Ok(Format::AzureLlmPublic));
        assert!(of("TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n").is_err());
        let spend = r#"{"request_id":"","call_type":"","api_key":"","spend":0,"startTime":"","endTime":""}"#;
        assert_eq!(of(spend), Ok(Format::LitellmSpendlogs));
        let session = r#"{"session_id":"s","timestamp":0,"input_length":1,"output_length":1}"#;
        assert!(of(session).is_err());
    }

    #[test]
    fn nineteen_of_twenty_records_are_enough() {
        let length = r#"{"timestamp":0,"input_length":1,"output_length":1}"#;
        let mut lines = vec![length; 19];
        lines.push(r#"{"level":"info"}"#);
        assert_eq!(of(&lines.join("\n")), Ok(Format::LengthTrace));
        lines.push(r#"{"level":"info"}"#);
        lines.push("no json");
        insta::assert_snapshot!(of(&lines.join("\n")).unwrap_err(), @r"
        log: the format is not clear from 22 records: unknown 2 (keys: level); length-trace 19 (keys: timestamp, input_length, output_length); not JSON objects 1
        known formats: litellm-spendlogs, azure-llm-public, length-trace, generic; for others say which column is what: --map arrival=timestamp --map input_tokens=input_length --map output_tokens=output_length
        ");
    }

    #[test]
    fn an_unknown_header_gives_a_map_to_start_from() {
        insta::assert_snapshot!(of("arrival_time_ns,input_toks,output_toks\n1,2,3\n").unwrap_err(), @r"
        log: the header is of no known format: arrival_time_ns, input_toks, output_toks
        known formats: litellm-spendlogs, azure-llm-public, length-trace, generic; for others say which column is what: --map arrival=arrival_time_ns --map input_tokens=input_toks --map output_tokens=output_toks
        ");
        insta::assert_snapshot!(of("level,Total Time\n").unwrap_err(), @r"
        log: the header is of no known format: level, Total Time
        known formats: litellm-spendlogs, azure-llm-public, length-trace, generic; for others say which column is what: --map 'arrival=Total Time' --map input_tokens=COLUMN --map output_tokens=COLUMN
        ");
    }

    #[test]
    fn data_in_place_of_names_is_not_shown() {
        for text in ["canary,2026-01-01,5\n", "canary@example.com,b\n", "{\"canary secret!\":1}\n"]
        {
            let error = of(text).unwrap_err();
            assert!(!error.contains("canary"), "{error}");
        }
        insta::assert_snapshot!(of("[{\"a\":1}]").unwrap_err(), @r"
        log: expected one JSON object a line, found a JSON array
        make lines of it: `jq -c '.[]' FILE > FILE.jsonl`
        ");
    }
}
