//! Picks named values out of a JSON object without building a tree of it.
//!
//! A path is a top-level key or keys joined by dots (`usage.prompt_tokens`); a key that itself
//! contains dots is found too. A slot has one path or several names for the same thing, the best
//! one first. Everything else is skipped as it is read. Missing values are null; of a key that
//! occurs twice the last value counts.

mod blocks;
mod paths;
pub(in crate::ingest) mod text;
mod walk;

use super::loose::{FieldError, Loose};
use paths::Paths;
use walk::{Slots, Walk};

/// How the reason begins when a text ends in the middle.
const CUT: &str = "ends in the middle of";

/// Paths to pick, each with its slot in the result.
#[derive(Clone, Debug)]
pub struct Picker {
    paths: Paths,
    slots: usize,
}

impl Picker {
    /// Makes a picker of paths, one slot each.
    pub fn new(paths: &[String]) -> Self {
        let named = paths.iter().enumerate().map(|(slot, path)| (path.as_str(), slot, 0));
        Self { paths: Paths::new(named), slots: paths.len() }
    }

    /// Makes a picker of slots, each with its names, the best one first.
    pub fn of(slots: &[&[&'static str]]) -> Self {
        let named = slots.iter().enumerate().flat_map(|(slot, names)| {
            names.iter().zip(0..).map(move |(name, rank)| (*name, slot, rank))
        });
        Self { paths: Paths::new(named), slots: slots.len() }
    }

    /// Returns the values in the order of the slots.
    ///
    /// # Errors
    ///
    /// If the text is not one JSON object; the reason quotes nothing.
    pub fn pick<'a>(&self, text: &'a str) -> Result<Vec<Loose<'a>>, FieldError> {
        let mut values = vec![Loose::Null; self.slots];
        let mut ranks = vec![u16::MAX; self.slots];
        self.fill(text, Slots { values: &mut values, ranks: &mut ranks })?;
        Ok(values)
    }

    /// Returns the values of the first `N` slots.
    ///
    /// # Errors
    ///
    /// As [`Picker::pick`].
    #[inline]
    pub fn array<'a, const N: usize>(&self, text: &'a str) -> Result<[Loose<'a>; N], FieldError> {
        let mut values = [const { Loose::Null }; N];
        let mut ranks = [u16::MAX; N];
        self.fill(text, Slots { values: &mut values, ranks: &mut ranks })?;
        Ok(values)
    }

    fn fill<'a>(&self, text: &'a str, mut slots: Slots<'_, 'a>) -> Result<(), FieldError> {
        let walked = Walk::new(text).record(&self.paths, &mut slots);
        walked.map_err(|fault| fault.refusal(text.len()))
    }
}

/// Returns whether a text was refused because it ends in the middle.
pub fn is_cut(error: &FieldError) -> bool {
    error.reason.starts_with(CUT)
}

/// Calls `each` with the JSON text of every value of an array or object, in order.
///
/// # Errors
///
/// If the text is not one array or object; `each` got the values before the fault.
pub fn items<'a>(text: &'a str, each: impl FnMut(&'a str)) -> Result<(), FieldError> {
    Walk::new(text).items(each).map_err(|fault| fault.refusal(text.len()))
}

/// Declares the fields an adapter reads of an object: a struct of values, picked by path; further
/// names of the same thing follow after `|`.
macro_rules! wire {
    ($(#[$doc:meta])* $name:ident { $($field:ident = $first:literal $(| $more:literal)*),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(super) struct $name<'a> { $(pub(super) $field: $crate::ingest::loose::Loose<'a>),+ }

        impl<'a> $name<'a> {
            /// Returns what reads these fields; made once per adapter.
            pub(super) fn picker() -> $crate::ingest::pick::Picker {
                $crate::ingest::pick::Picker::of(&[$(&[$first $(, $more)*]),+])
            }

            /// Reads the fields of an object.
            pub(super) fn read(
                picker: &$crate::ingest::pick::Picker,
                text: &'a str,
            ) -> Result<Self, $crate::ingest::loose::FieldError> {
                let [$($field),+] = picker.array(text)?;
                Ok(Self { $($field),+ })
            }
        }
    };
}
pub(super) use wire;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;
    use std::borrow::Cow;

    #[test]
    fn paths_lead_to_values() {
        let paths = ["a", "b.c", "b.d.e", "f.g", "none", "a.x", "b.d"].map(str::to_owned);
        let line =
            r#"{"a": 1, "b": {"c": "two", "d": {"e": null}, "z": [1]}, "f.g": 3.5, "h": {}}"#;
        let found = Picker::new(&paths).pick(line).unwrap();
        let text = Loose::Text(Cow::Borrowed("two"));
        let expected = [
            Loose::Int(1),
            text,
            Loose::Null,
            Loose::Float(3.5),
            Loose::Null,
            Loose::Null,
            Loose::Json(r#"{"e": null}"#),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_best_name_counts_whatever_the_order() {
        let picker = Picker::of(&[&["new", "old"], &["x.y", "z"]]);
        let picked = picker.pick(r#"{"old": 1, "new": 2, "z": 3}"#).unwrap();
        assert_eq!(picked, [Loose::Int(2), Loose::Int(3)]);
        let picked = picker.pick(r#"{"new": null, "old": 1, "x": {"y": 4}, "z": 3}"#).unwrap();
        assert_eq!(picked, [Loose::Int(1), Loose::Int(4)]);
    }

    #[test]
    fn only_objects_are_records() {
        let picker = Picker::new(&["a".to_owned()]);
        for line in ["[1]", "1", "\"a\"", "{\"a\": 1", "{} {}"] {
            assert!(picker.pick(line).is_err(), "{line}");
        }
        assert_eq!(picker.pick(r#"{"a": 1, "a": 2}"#).unwrap(), [Loose::Int(2)]);
        let nested = Picker::new(&["a.b".to_owned()]);
        for line in ["{\"a\": 1}", "{\"a\": [1]}", "{\"a\": \"b\"}", "{\"a\": null}"] {
            assert_eq!(nested.pick(line).unwrap(), [Loose::Null], "{line}");
        }
    }

    #[test]
    fn what_is_not_wanted_is_not_looked_at() {
        let picker = Picker::new(&["a".to_owned(), "b.c".to_owned()]);
        for other in [
            r#""\x22 \q \ud800""#,
            r#"{"b": {"c": 3}, "x": "]}{\"", "y": [{}, "\\"]}"#,
            "[[[[1, 2], {}]]]",
            "NaN",
            "1.5e-7",
        ] {
            let line = format!("{{\"z\": {other}, \"a\": 1, \"b\": {{\"x\": {other}, \"c\": 2}}}}");
            assert_eq!(picker.pick(&line), Ok(vec![Loose::Int(1), Loose::Int(2)]), "{line}");
        }
        let text = picker.pick(r#"{"a": "\x22\q", "b": {"\u0063": NaN, "c": 7}}"#).unwrap();
        assert_eq!(text, [Loose::Text("\"\\q".into()), Loose::Int(7)]);
    }

    #[test]
    fn refusals_quote_nothing() {
        let why = |line: &str| {
            let picker = Picker::new(&["a".to_owned(), "b.c".to_owned()]);
            picker.pick(line).map_err(|error| error.reason.into_owned()).unwrap_err()
        };
        insta::assert_snapshot!(why("{\"n\": "), @"ends in the middle of its JSON, at byte 6");
        insta::assert_snapshot!(why(""), @"ends in the middle of its JSON, at byte 0");
        insta::assert_snapshot!(why("{\"a\": canary}"), @"is not JSON, at byte 7");
        insta::assert_snapshot!(why("{\"a\": 1x}"), @"is not JSON, at byte 7");
        insta::assert_snapshot!(why("{\"n\" 1}"), @"is not JSON, at byte 6");
        insta::assert_snapshot!(why("{\"n\": 1,}"), @"is not JSON, at byte 9");
        insta::assert_snapshot!(why("{\"n\": 1}}"), @"is not JSON, at byte 9");
        insta::assert_snapshot!(why("[1]"), @"is not a JSON object");
    }

    #[test]
    fn nesting_has_an_end() {
        let picker = Picker::new(&["a".to_owned(), vec!["x"; 200].join(".")]);
        let nested = |open: &str, close: &str, depth: usize| {
            let text = format!("{}0{}", open.repeat(depth), close.repeat(depth));
            picker.pick(&text).map(|_| ())
        };
        for (open, close) in [("{\"x\":", "}"), ("{\"x\":[", "]}"), ("{\"a\":[[[[", "]]]]}")] {
            let levels = open.matches(['{', '[']).count();
            assert!(nested(open, close, 128 / levels).is_ok(), "{open}");
            let error = nested(open, close, 128 / levels + 1).unwrap_err();
            assert!(error.reason.starts_with("is nested deeper than 128 levels"), "{error:?}");
        }
        assert!(nested("{\"x\":", "}", 1_000_000).is_err());
    }

    #[test]
    fn items_are_those_of_arrays_and_objects() {
        let all = |text| {
            let mut found = Vec::new();
            items(text, |item| found.push(item)).map(|()| found).map_err(|error| error.reason)
        };
        assert_eq!(
            all(r#" [1, "a]", {"b": [2]}, null ] "#),
            Ok(vec!["1", "\"a]\"", "{\"b\": [2]}", "null"])
        );
        assert_eq!(all(r#"{"a": 1, "b": []}"#), Ok(vec!["1", "[]"]));
        assert_eq!((all("[]"), all("{ }")), (Ok(vec![]), Ok(vec![])));
        for bad in ["", "1", "[1", "[1,]", "[1]]", "{1}", "[1}", "{\"a\":1]"] {
            assert!(all(bad).is_err(), "{bad}");
        }
    }

    /// Any JSON, with keys that meet the wanted paths.
    fn json() -> impl Strategy<Value = Value> {
        let text = || "([abx.\\PC\"\\\\]|\u{e9}|None|-){0,9}";
        let number = prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            number,
            text().prop_map(Value::from),
            "[a ]{60,70}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 64, 6, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                object(inner),
            ]
        })
    }

    fn object(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
        let key = prop_oneof!["[abc]", "[abc][.][abc]", "\\PC{0,3}", "[\"\\\\n]{0,3}"];
        let pairs = proptest::collection::btree_map(key, inner, 0..6);
        pairs.prop_map(|pairs| pairs.into_iter().collect())
    }

    /// What a path leads to, in the order of the text.
    fn leads_to<'v>(value: &'v Value, path: &str, found: &mut Vec<&'v Value>) {
        for (key, value) in value.as_object().into_iter().flatten() {
            if path == key {
                found.push(value);
            } else if let Some(rest) = path.strip_prefix(key.as_str())
                && let Some(rest) = rest.strip_prefix('.')
            {
                leads_to(value, rest, found);
            }
        }
    }

    fn is(picked: &Loose<'_>, value: &Value) -> bool {
        match (picked, value) {
            (Loose::Null, Value::Null) => true,
            (Loose::Bool(picked), Value::Bool(truth)) => picked == truth,
            (Loose::Int(picked), Value::Number(number)) => number.as_i64() == Some(*picked),
            (Loose::Float(picked), Value::Number(number)) => {
                number.as_i64().is_none() && number.as_f64() == Some(*picked)
            }
            (Loose::Text(picked), Value::String(text)) => picked == text,
            (Loose::Json(raw), Value::Array(_) | Value::Object(_)) => {
                serde_json::from_str::<Value>(raw).is_ok_and(|read| read == *value)
            }
            _ => false,
        }
    }

    const PATHS: [&str; 8] = ["a", "b", "a.b", "a.b.c", "c.a.b.c", "b.a", "\"", "\\.n"];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn values_are_those_of_serde(record in object(json()), is_pretty: bool) {
            let text = if is_pretty { serde_json::to_string_pretty(&record) } else { serde_json::to_string(&record) };
            let text = text.unwrap();
            let picked = Picker::new(&PATHS.map(str::to_owned)).pick(&text).unwrap();
            for (path, picked) in PATHS.iter().zip(&picked) {
                let mut found = Vec::new();
                leads_to(&record, path, &mut found);
                found.retain(|value| !Loose::of_json(&value.to_string()).is_nothing());
                prop_assert!(is(picked, found.last().unwrap_or(&&Value::Null)), "{path}: {picked:?} of {text}");
            }
        }

        #[test]
        fn a_cut_record_is_refused(record in object(json())) {
            let text = record.to_string();
            let picker = Picker::new(&PATHS.map(str::to_owned));
            for cut in (0..text.len()).filter_map(|end| text.get(..end)) {
                prop_assert!(picker.pick(cut).is_err_and(|error| is_cut(&error)), "{cut}");
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            record in object(json()),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), "[{}\\[\\]\",:\\\\0-9a\u{0} ]"), 1..6),
            other in "\\PC{0,80}",
        ) {
            let mut bytes = record.to_string().into_bytes();
            for (place, byte) in changes {
                let at = place.index(bytes.len());
                bytes[at] = byte.as_bytes()[0];
            }
            let picker = Picker::new(&PATHS.map(str::to_owned));
            for text in [String::from_utf8_lossy(&bytes).into_owned(), other] {
                let picked = picker.pick(&text);
                if serde_json::from_str::<Value>(&text).is_ok_and(|value| value.is_object()) {
                    prop_assert!(picked.is_ok(), "{text}");
                }
            }
        }
    }
}
