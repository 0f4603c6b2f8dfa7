//! Picks named values out of a JSON object without building a tree of it.
//!
//! A path is a top-level key or keys joined by dots (`usage.prompt_tokens`); a key that itself
//! contains dots is found too. A slot has one path or several names for the same thing, the best
//! one first. Everything else is skipped as it is read. Missing values are null; of a key that
//! occurs twice the last value counts.

use super::loose::{FieldError, Loose, json_refusal};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Paths to pick, each with its slot in the result.
#[derive(Clone, Debug)]
pub struct Picker {
    /// Path, slot, and rank within the slot: the lowest one that is there counts.
    paths: Vec<(Cow<'static, str>, usize, usize)>,
    slots: usize,
}

impl Picker {
    /// Makes a picker of paths, one slot each.
    pub fn new(paths: &[String]) -> Self {
        let paths: Vec<_> = paths
            .iter()
            .enumerate()
            .map(|(slot, path)| (Cow::Owned(path.clone()), slot, 0))
            .collect();
        Self { slots: paths.len(), paths }
    }

    /// Makes a picker of slots, each with its names, the best one first.
    pub fn of(slots: &[&[&'static str]]) -> Self {
        let names = slots.iter().enumerate().flat_map(|(slot, names)| {
            names.iter().enumerate().map(move |(rank, name)| (Cow::Borrowed(*name), slot, rank))
        });
        Self { paths: names.collect(), slots: slots.len() }
    }

    /// Returns the values in the order of the slots.
    ///
    /// # Errors
    ///
    /// If the text is not one JSON object; the reason quotes nothing.
    pub fn pick<'a>(&self, text: &'a str) -> Result<Vec<Loose<'a>>, FieldError> {
        let mut found: Vec<(usize, Loose<'a>)> = vec![(usize::MAX, Loose::Null); self.slots];
        let wanted: Vec<Wanted<'_>> = self
            .paths
            .iter()
            .map(|(path, slot, rank)| Wanted { path, slot: *slot, rank: *rank })
            .collect();
        let mut deserializer = serde_json::Deserializer::from_str(text);
        Pick { wanted, found: &mut found }
            .deserialize(&mut deserializer)
            .and_then(|()| deserializer.end())
            .map_err(|error| json_refusal(&error))?;
        Ok(found.into_iter().map(|(_, value)| value).collect())
    }
}

#[derive(Clone, Copy)]
struct Wanted<'p> {
    path: &'p str,
    slot: usize,
    rank: usize,
}

struct Pick<'f, 'p, 'a> {
    wanted: Vec<Wanted<'p>>,
    found: &'f mut Vec<(usize, Loose<'a>)>,
}

impl<'de> DeserializeSeed<'de> for Pick<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Pick<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Key(key)) = map.next_key::<Key<'de>>()? {
            let whole = self.wanted.iter().any(|wanted| wanted.path == key);
            let below: Vec<Wanted<'_>> =
                self.wanted.iter().filter_map(|wanted| below(*wanted, &key)).collect();
            if !whole && below.is_empty() {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let raw = map.next_value::<&'de RawValue>()?.get();
            for wanted in self.wanted.iter().filter(|wanted| wanted.path == key) {
                let value = Loose::of_json(raw);
                if let Some(slot) = self.found.get_mut(wanted.slot)
                    && wanted.rank <= slot.0
                    && !value.is_nothing()
                {
                    *slot = (wanted.rank, value);
                }
            }
            if !below.is_empty() && raw.starts_with('{') {
                let mut deserializer = serde_json::Deserializer::from_str(raw);
                Pick { wanted: below, found: &mut *self.found }
                    .deserialize(&mut deserializer)
                    .map_err(serde::de::Error::custom)?;
            }
        }
        Ok(())
    }
}

/// Returns what is left of a path below `key`.
fn below<'p>(wanted: Wanted<'p>, key: &str) -> Option<Wanted<'p>> {
    let path = wanted.path.strip_prefix(key)?.strip_prefix('.')?;
    Some(Wanted { path, ..wanted })
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
                let mut values = picker.pick(text)?.into_iter();
                Ok(Self { $($field: values.next().unwrap_or_default()),+ })
            }
        }
    };
}
pub(super) use wire;

/// A key, borrowed when it has no escapes.
pub(super) struct Key<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor).map(Self)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
