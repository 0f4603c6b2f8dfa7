//! Picks named values out of a JSON line without building a tree of it.
//!
//! A path is a top-level key or keys joined by dots (`usage.prompt_tokens`); a key that itself
//! contains dots is found too. Everything else is skipped as it is read. Missing values are null;
//! of a key that occurs twice the last value counts.

use super::loose::Loose;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;

/// Paths to pick, each with its place in the result.
#[derive(Clone, Debug)]
pub struct Picker {
    paths: Vec<String>,
}

impl Picker {
    /// Makes a picker of paths.
    pub fn new(paths: &[String]) -> Self {
        Self { paths: paths.to_vec() }
    }

    /// Returns the values in the order of the paths.
    ///
    /// # Errors
    ///
    /// If the line is not one JSON object.
    pub fn pick<'a>(&self, line: &'a str) -> Result<Vec<Loose<'a>>, serde_json::Error> {
        let mut found = vec![Loose::Null; self.paths.len()];
        let wanted: Vec<(&str, usize)> =
            self.paths.iter().enumerate().map(|(place, path)| (path.as_str(), place)).collect();
        let mut deserializer = serde_json::Deserializer::from_str(line);
        let pick = Pick { wanted, found: &mut found, is_root: true };
        pick.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(found)
    }
}

struct Pick<'f, 'p, 'a> {
    wanted: Vec<(&'p str, usize)>,
    found: &'f mut Vec<Loose<'a>>,
    is_root: bool,
}

impl<'de> DeserializeSeed<'de> for Pick<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.is_root {
            deserializer.deserialize_map(self)
        } else {
            deserializer.deserialize_any(self)
        }
    }
}

impl<'de> Visitor<'de> for Pick<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Key(key)) = map.next_key::<Key<'de>>()? {
            if let Some((_, place)) = self.wanted.iter().find(|(path, _)| *path == key) {
                let value = map.next_value()?;
                if let Some(slot) = self.found.get_mut(*place) {
                    *slot = value;
                }
                continue;
            }
            let wanted: Vec<(&str, usize)> =
                self.wanted.iter().filter_map(|wanted| below(*wanted, &key)).collect();
            if wanted.is_empty() {
                map.next_value::<IgnoredAny>()?;
            } else {
                map.next_value_seed(Pick { wanted, found: &mut *self.found, is_root: false })?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

/// Returns what is left of a path below `key`.
fn below<'p>((path, place): (&'p str, usize), key: &str) -> Option<(&'p str, usize)> {
    Some((path.strip_prefix(key)?.strip_prefix('.')?, place))
}

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
        let paths = ["a", "b.c", "b.d.e", "f.g", "none", "a.x"].map(str::to_owned);
        let line =
            r#"{"a": 1, "b": {"c": "two", "d": {"e": null}, "z": [1]}, "f.g": 3.5, "h": {}}"#;
        let found = Picker::new(&paths).pick(line).unwrap();
        let text = Loose::Text(Cow::Borrowed("two"));
        let expected =
            [Loose::Int(1), text, Loose::Null, Loose::Float(3.5), Loose::Null, Loose::Null];
        assert_eq!(found, expected);
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
