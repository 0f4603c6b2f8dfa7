//! Lists inside documents: where the records of an API answer or an export stand.
//!
//! The first bytes of a document -> the path to its records, by the names that the APIs of
//! gateways, Azure (`records`), CloudWatch (`logEvents`), Elasticsearch (`hits.hits`) and Loki
//! (`data.result[].values`) use. A document that has keys of a record before its list is a record.

use super::scan::value_length;

/// One step towards the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Into the value of a key.
    Key(&'static str),
    /// Into each element.
    Each,
}

use Step::{Each, Key};

/// A path to records.
pub type ListPath = &'static [Step];

/// The path of a plain array.
pub const ARRAY: ListPath = &[Each];

/// The path of Loki's answer: each element is a pair of time and line.
pub const LOKI: ListPath = &[Key("data"), Key("result"), Each, Key("values"), Each];

/// The known paths; longer ones first.
const LISTS: &[ListPath] = &[
    LOKI,
    &[Key("data"), Key("items"), Each],
    &[Key("data"), Key("data"), Each],
    &[Key("data"), Key("logs"), Each],
    &[Key("data"), Key("records"), Each],
    &[Key("hits"), Key("hits"), Each],
    &[Key("data"), Each],
    &[Key("items"), Each],
    &[Key("result"), Each],
    &[Key("results"), Each],
    &[Key("rows"), Each],
    &[Key("records"), Each],
    &[Key("logEvents"), Each],
    &[Key("events"), Each],
    &[Key("logs"), Each],
    &[Key("value"), Each],
];

/// Keys that a record has and an answer of an API has not.
const RECORD_KEYS: &[&str] = &[
    "request",
    "response",
    "model",
    "usage",
    "timestamp",
    "created_at",
    "schema",
    "schemaType",
    "messages",
    "session_id",
    "request_id",
    "resourceSpans",
    "run_type",
    "trace_id",
    "spans",
];

/// Returns the path to the records of a document that begins with `head`; `None` when the
/// document is a record.
pub fn find(head: &str) -> Option<ListPath> {
    LISTS.iter().copied().find(|path| leads(head, path, true))
}

/// Returns whether a path leads to an object, or for Loki to a pair, in the text of a value.
fn leads(text: &str, path: &[Step], at_top: bool) -> bool {
    let text = text.trim_start();
    match path.split_first() {
        None => text.starts_with(['{', '[']),
        Some((Each, rest)) => text
            .strip_prefix('[')
            .map(str::trim_start)
            .is_some_and(|first| leads(first, rest, false)),
        Some((Key(name), rest)) => {
            value_of(text, name, at_top).is_some_and(|value| leads(value, rest, false))
        }
    }
}

/// Returns the text from the value of a key on; the value may be cut.
fn value_of<'a>(object: &'a str, name: &str, at_top: bool) -> Option<&'a str> {
    let mut rest = object.strip_prefix('{')?;
    loop {
        let text = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == ',');
        let (key, after) = text.split_at_checked(value_length(text.as_bytes())?)?;
        let key = key.strip_prefix('"')?.strip_suffix('"')?;
        let value = after.trim_start().strip_prefix(':')?.trim_start();
        if key == name {
            return Some(value);
        }
        if at_top && RECORD_KEYS.contains(&key) {
            return None;
        }
        let (_, after) = value.split_at_checked(value_length(value.as_bytes())?)?;
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_known_apis_are_found_in_the_first_bytes() {
        for (head, path) in [
            (r#"{"object":"list","data":[{"id":"#, &[Key("data"), Each][..]),
            (r#"{"success":true,"data":{"items":[{"#, &[Key("data"), Key("items"), Each]),
            (
                r#"{"took":3,"hits":{"total":{"value":1},"hits":[ {"#,
                &[Key("hits"), Key("hits"), Each],
            ),
            ("{\n \"records\": [\n  {\"time\"", &[Key("records"), Each]),
            (r#"{"logEvents":[{"message":"x"}]}"#, &[Key("logEvents"), Each]),
            (
                r#"{"status":"success","data":{"resultType":"streams","result":[{"stream":{},"values":[["1","a"]"#,
                LOKI,
            ),
        ] {
            assert_eq!(find(head), Some(path), "{head}");
        }
    }

    #[test]
    fn records_are_no_lists() {
        for head in [
            r#"{"request":{"data":[{"a":1}]},"response":{}}"#,
            r#"{"model":"m","data":[{"a":1}]}"#,
            r#"{"data":[]}"#,
            r#"{"data":[1,2]}"#,
            r#"{"data":"x","rows":3}"#,
            r#"{"resourceSpans":[{"a":1}],"rows":[{}]}"#,
            "text",
        ] {
            assert_eq!(find(head), None, "{head}");
        }
    }
}
