//! A JSON or CSV value of whatever type, and the rules that turn it into a number or a text.
//!
//! Logs write counts as numbers, as strings, as floats and as null. A value is read as it is and
//! judged by the field that wants it, so that a surprise names its field instead of failing the
//! whole line with the parser's message, which could quote the content. Reasons never quote.

use super::pick::{items, text::unescaped};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Why a record was refused: the field, and what is wrong with it, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The field's name in the log; empty for the record as a whole.
    pub field: Cow<'static, str>,
    /// What is wrong.
    pub reason: Cow<'static, str>,
}

impl FieldError {
    /// Makes a reason for a field.
    pub fn new(field: impl Into<Cow<'static, str>>, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }
}

/// A value of whatever type.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Loose<'a> {
    /// Missing or null.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A text.
    Text(Cow<'a, str>),
    /// An array or an object, as JSON text.
    Json(&'a str),
}

impl<'a> Loose<'a> {
    /// Makes a value of the text of one JSON value, without white space around it.
    pub fn of_json(raw: &'a str) -> Self {
        match raw.as_bytes().first() {
            Some(b'"') => Self::Text(match (plain_string(raw), inside(raw)) {
                (Some(text), _) => Cow::Borrowed(text),
                (None, Some(text)) => Cow::Owned(unescaped(text)),
                (None, None) => Cow::Borrowed(raw),
            }),
            Some(b'{' | b'[') => Self::Json(raw),
            _ => Self::scalar(raw).unwrap_or(Self::Text(Cow::Borrowed(raw))),
        }
    }

    /// Makes a value of a JSON number or word; `None` when it is neither. Python's `NaN` and
    /// `Infinity` are nothing.
    #[inline]
    pub(super) fn scalar(raw: &'a str) -> Option<Self> {
        Some(match raw.as_bytes() {
            [b'0'..=b'9', ..] | [b'-', b'0'..=b'9', ..] => match Number::of_json(raw) {
                Some(Number::Int(number)) => Self::Int(number),
                Some(Number::Float(number)) => Self::Float(number),
                None if raw.bytes().all(|byte| b"0123456789+-.eE".contains(&byte)) => {
                    Self::Text(Cow::Borrowed(raw))
                }
                None => return None,
            },
            b"null" | b"NaN" | b"Infinity" | b"-Infinity" => Self::Null,
            b"true" => Self::Bool(true),
            b"false" => Self::Bool(false),
            _ => return None,
        })
    }

    /// Returns the JSON text of an array or object, also of one written into a string.
    ///
    /// Exports that double their quotes once too often are read too.
    pub fn json(&self) -> Option<Cow<'a, str>> {
        match self {
            Self::Json(raw) => Some(Cow::Borrowed(raw)),
            Self::Text(text) => {
                let trimmed = text.trim_start();
                if !trimmed.starts_with(['{', '[']) {
                    return None;
                }
                let doubled = trimmed.starts_with("{\"\"") || trimmed.starts_with("[{\"\"");
                Some(if doubled { Cow::Owned(text.replace("\"\"", "\"")) } else { text.clone() })
            }
            _ => None,
        }
    }

    /// Returns how many elements an array or object has, 1 for a text that is not empty; `None`
    /// for everything else.
    pub fn elements(&self) -> Option<u32> {
        match self {
            Self::Json(raw) => {
                let mut elements = 0_u32;
                items(raw, |_| elements = elements.saturating_add(1)).ok()?;
                Some(elements)
            }
            Self::Text(text) => Some(u32::from(!text.is_empty())),
            _ => None,
        }
    }

    /// Makes a value of a CSV cell.
    pub fn cell(cell: Option<&'a str>) -> Self {
        cell.map_or(Self::Null, |text| Self::Text(Cow::Borrowed(text)))
    }

    /// Returns whether there is no value: null, or a text that stands for "nothing".
    pub fn is_nothing(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Text(text) => is_nothing(text),
            _ => false,
        }
    }

    /// Returns the text, when it is one and not empty or a word for "nothing".
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(&**text).filter(|text| !is_nothing(text)),
            _ => None,
        }
    }

    /// Returns an identifier: a text as it is, a whole number in digits.
    pub fn id(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Int(number) => Some(Cow::Owned(number.to_string())),
            other => other.text().map(Cow::Borrowed),
        }
    }

    /// Returns the number, from a number or from a text that is one.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn number(&self, field: &'static str) -> Result<Option<Number>, FieldError> {
        let not_a_number = || FieldError::new(field, "is not a number");
        match self {
            Self::Null => Ok(None),
            Self::Int(number) => Ok(Some(Number::Int(*number))),
            Self::Float(number) => Ok(Some(Number::Float(*number))),
            Self::Text(text) if is_nothing(text) => Ok(None),
            Self::Text(text) => Number::parse(text.trim()).map(Some).ok_or_else(not_a_number),
            Self::Bool(_) | Self::Json(_) => Err(not_a_number()),
        }
    }

    /// Returns a count; a float without fraction is one.
    ///
    /// # Errors
    ///
    /// If it is negative, fractional, above 2147483647 or not a number.
    pub fn count(&self, field: &'static str) -> Result<Option<u32>, FieldError> {
        let Some(number) = self.number(field)? else { return Ok(None) };
        let whole = match number {
            Number::Int(number) => Some(number),
            Number::Float(number) => crate::domain::convert::whole(number),
        };
        match whole {
            None => Err(FieldError::new(field, "is a fraction, not a whole number")),
            Some(number) if number < 0 => {
                Err(FieldError::new(field, "is negative, not a whole number"))
            }
            // The trace's narrowest columns of counts have 32 bits with a sign.
            Some(number) => match i32::try_from(number) {
                Ok(count) => Ok(Some(count.unsigned_abs())),
                Err(_) => Err(FieldError::new(field, "is above 2147483647")),
            },
        }
    }

    /// Returns a float; `None` for what is no finite number.
    pub fn float(&self) -> Option<f64> {
        let number = self.number("").ok()??;
        Some(number.as_f64()).filter(|number| number.is_finite())
    }

    /// Returns true or false, from a Boolean, a word or 0 and 1.
    pub fn truth(&self) -> Option<bool> {
        match self {
            Self::Bool(truth) => Some(*truth),
            Self::Int(0) => Some(false),
            Self::Int(1) => Some(true),
            Self::Text(text) => match &**text {
                "true" | "True" | "TRUE" | "t" | "1" => Some(true),
                "false" | "False" | "FALSE" | "f" | "0" => Some(false),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Words that stand for "no value" in exports.
#[inline]
fn is_nothing(text: &str) -> bool {
    // Most texts are longer than any of the words and have no white space around them.
    if let [first, _, _, _, .., last] = text.as_bytes()
        && first.is_ascii_graphic()
        && last.is_ascii_graphic()
        && text.len() > 4
    {
        return false;
    }
    matches!(text.trim(), "" | "-" | "None" | "null" | "NULL" | "nan" | "NaN")
}

/// A number as written: whole, or with a fraction or exponent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Written as a whole number.
    Int(i64),
    /// Written with a fraction or an exponent, or too large for the other.
    Float(f64),
}

impl Number {
    /// Reads a number as JSON writes it; one beyond all floats is none.
    #[inline]
    fn of_json(text: &str) -> Option<Self> {
        let (sign, digits) = match text.as_bytes() {
            [b'-', digits @ ..] => (-1, digits),
            digits => (1, digits),
        };
        // Up to 18 digits fit.
        if digits.len() <= 18 {
            let sum = digits.iter().try_fold(0_i64, |sum, digit| {
                digit.is_ascii_digit().then(|| 10 * sum + i64::from(digit - b'0'))
            });
            if let Some(sum) = sum {
                return Some(Self::Int(sign * sum));
            }
        }
        Self::parse(text)
    }

    fn parse(text: &str) -> Option<Self> {
        match text.parse() {
            Ok(number) => Some(Self::Int(number)),
            Err(_) => text.parse().ok().filter(|n: &f64| n.is_finite()).map(Self::Float),
        }
    }

    /// Returns whether there is a fraction: `3000.0` is a whole number.
    pub fn has_fraction(self) -> bool {
        matches!(self, Self::Float(number) if number.fract() != 0.0)
    }

    /// Returns the number as a float; exact below 2^53.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(number) => crate::domain::convert::float_signed(number),
            Self::Float(number) => number,
        }
    }
}

/// Returns what stands between the quotes of a JSON string.
fn inside(raw: &str) -> Option<&str> {
    raw.strip_prefix('"')?.strip_suffix('"')
}

/// Returns the text of a JSON string without escapes.
fn plain_string(raw: &str) -> Option<&str> {
    let text = inside(raw)?;
    memchr::memchr(b'\\', text.as_bytes()).is_none().then_some(text)
}

impl<'de: 'a, 'a> Deserialize<'de> for Loose<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&'de RawValue>::deserialize(deserializer).map(|raw| Loose::of_json(raw.get()))
    }
}

/// How many elements an array or object has; `None` for null and for any scalar but a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elements(pub Option<u32>);

impl<'de> Deserialize<'de> for Elements {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ElementsVisitor)
    }
}

struct ElementsVisitor;

impl<'de> Visitor<'de> for ElementsVisitor {
    type Value = Elements;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Elements(None))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Elements(None))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Elements(None))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Elements(None))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Elements(None))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Elements(Some(u32::from(!value.is_empty()))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut elements = 0_u32;
        while seq.next_element::<IgnoredAny>()?.is_some() {
            elements = elements.saturating_add(1);
        }
        Ok(Elements(Some(elements)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut elements = 0_u32;
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            elements = elements.saturating_add(1);
        }
        Ok(Elements(Some(elements)))
    }
}

/// Reads a field that is JSON, or a string that holds JSON, as JSON text.
///
/// # Errors
///
/// If the value is not JSON.
pub fn nested<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Cow<'de, str>>, D::Error> {
    let Some(raw) = Option::<&'de RawValue>::deserialize(deserializer)? else { return Ok(None) };
    let text = raw.get();
    if text.starts_with('"') {
        let inner: String = serde_json::from_str(text).map_err(serde::de::Error::custom)?;
        return Ok(Some(Cow::Owned(inner)).filter(|inner| !is_nothing(inner)));
    }
    Ok(Some(Cow::Borrowed(text)))
}

/// Returns why a line is no record, without the parser's message (it may quote the content).
pub fn json_refusal(error: &serde_json::Error) -> FieldError {
    let column = error.column();
    let reason = match error.classify() {
        serde_json::error::Category::Eof => {
            format!("ends in the middle of its JSON, at byte {column}")
        }
        serde_json::error::Category::Syntax => format!("is not JSON, at byte {column}"),
        serde_json::error::Category::Data | serde_json::error::Category::Io => {
            format!("has a value of an unexpected type, or a key twice, at byte {column}")
        }
    };
    FieldError::new("", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(json: &str) -> Result<Option<u32>, String> {
        let value: Loose<'_> = serde_json::from_str(json).unwrap();
        value.count("n").map_err(|error| error.reason.into_owned())
    }

    #[test]
    fn counts_come_in_many_forms() {
        for none in ["null", "\"\"", "\"-\"", "\"None\""] {
            assert_eq!(count(none), Ok(None), "{none}");
        }
        for twelve in ["12", "\"12\"", "12.0", "\" 12.0 \"", "1.2e1"] {
            assert_eq!(count(twelve), Ok(Some(12)), "{twelve}");
        }
        assert_eq!(count("0"), Ok(Some(0)));
        assert_eq!(count("2147483647"), Ok(Some(2_147_483_647)));
    }

    #[test]
    fn what_is_no_count_says_why_without_the_value() {
        let negative = "is negative, not a whole number";
        assert_eq!(count("-1").unwrap_err(), negative);
        assert_eq!(count("\"-1\"").unwrap_err(), negative);
        assert_eq!(count("1.5").unwrap_err(), "is a fraction, not a whole number");
        assert_eq!(count("2147483648").unwrap_err(), "is above 2147483647");
        for other in ["\"canary\"", "true", "[1]", "{\"a\":1}"] {
            assert_eq!(count(other).unwrap_err(), "is not a number", "{other}");
        }
    }

    #[test]
    fn truths_and_ids() {
        for (json, truth) in [
            ("true", Some(true)),
            ("\"False\"", Some(false)),
            ("1", Some(true)),
            ("\"None\"", None),
        ] {
            assert_eq!(serde_json::from_str::<Loose<'_>>(json).unwrap().truth(), truth, "{json}");
        }
        assert_eq!(Loose::Int(17).id().as_deref(), Some("17"));
        assert_eq!(Loose::cell(Some("a")).id().as_deref(), Some("a"));
        assert_eq!(Loose::cell(None).id(), None);
    }

    #[test]
    fn elements_are_counted_not_read() {
        let count = |json| serde_json::from_str::<Elements>(json).unwrap().0;
        assert_eq!(count("[1,{\"a\":[2]}]"), Some(2));
        assert_eq!(count("{}"), Some(0));
        assert_eq!(count("\"text\""), Some(1));
        assert_eq!(count("null"), None);
    }

    #[test]
    fn json_errors_do_not_quote() {
        #[derive(Debug, Deserialize)]
        struct Number {
            #[expect(dead_code, reason = "only the failure is looked at")]
            n: u32,
        }
        let why = |json| json_refusal(&serde_json::from_str::<Number>(json).unwrap_err()).reason;
        insta::assert_snapshot!(why("{\"n\": "), @"ends in the middle of its JSON, at byte 6");
        insta::assert_snapshot!(why("{\"n\": canary}"), @"is not JSON, at byte 7");
        insta::assert_snapshot!(why("{\"n\": \"canary\"}"), @"has a value of an unexpected type, or a key twice, at byte 14");
    }
}
