//! Pieces that text logs are made of: colours, dates of other shapes, spans with units, argument
//! lists of Python and Rust, escaped texts.
//!
//! Text -> a slice of it, an ISO date, microseconds. Pure functions that never panic; what does not
//! have the expected form is `None`. They do not judge what a piece means. Sources: the common log
//! format of nginx, `gin-gonic/gin` (logger.go), Rust's and Go's printed durations, Python's `repr`.

use crate::domain::convert;
use std::borrow::Cow;
use std::iter::Peekable;
use std::str::{Chars, FromStr};

/// Largest span, in microseconds: a year.
const MAX_SPAN_US: i64 = 31_557_600_000_000;

/// Units as Rust and Go print them, with their microseconds; longer names first.
const UNITS: &[(&str, f64)] = &[
    ("ns", 1e-3),
    ("\u{b5}s", 1.0),
    ("\u{3bc}s", 1.0),
    ("us", 1.0),
    ("ms", 1e3),
    ("s", 1e6),
    ("m", 6e7),
    ("h", 3.6e9),
];

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns a line without the colours of a terminal.
pub(super) fn plain(line: &str) -> Cow<'_, str> {
    if !line.contains('\u{1b}') {
        return Cow::Borrowed(line);
    }
    let mut chars = line.chars();
    let mut text = String::with_capacity(line.len());
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            text.push(c);
        } else if chars.next() == Some('[') {
            // Digits and semicolons, then the letter that ends the sequence.
            let _ = chars.find(char::is_ascii_alphabetic);
        }
    }
    Cow::Owned(text)
}

/// Returns `24/Nov/2026:10:15:05 +0100` as an ISO date.
pub(super) fn iso_of_common(text: &str) -> Option<String> {
    let (day, rest) = text.trim().split_once('/')?;
    let (month, rest) = rest.split_once('/')?;
    let (year, rest) = rest.split_once(':')?;
    let (clock, zone) = rest.split_once(' ').unwrap_or((rest, ""));
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))? + 1;
    let whole = |text: &str, length| text.len() == length && text.bytes().all(is_digit);
    let is_date = whole(day, 2) && whole(year, 4) && clock.len() >= 8;
    is_date.then(|| format!("{year}-{month:02}-{day}T{clock}{zone}"))
}

/// Returns `2026/11/24 - 10:15:05` as an ISO date.
pub(super) fn iso_of_gin(text: &str) -> Option<String> {
    let (date, clock) = text.trim().split_once(" - ")?;
    let is_date = date.len() == 10 && date.bytes().all(|byte| is_digit(byte) || byte == b'/');
    is_date.then(|| format!("{}T{}", date.replace('/', "-"), clock.trim()))
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit()
}

/// Returns the microseconds of `3.5s`, `49.382µs`, `357.8ms` or `1m12s`.
pub(super) fn span(text: &str) -> Option<f64> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    let mut micros = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let (number, tail) = rest.split_at_checked(end)?;
        let after = |(unit, scale): &(&str, f64)| Some((tail.strip_prefix(unit)?, *scale));
        let (after, scale) = UNITS.iter().find_map(after)?;
        micros += number.parse::<f64>().ok()? * scale;
        rest = after;
    }
    Some(micros).filter(|micros| micros.is_finite())
}

/// Returns the same in whole microseconds; `None` for more than a year.
pub(super) fn span_us(text: &str) -> Option<i64> {
    convert::whole(span(text)?.round()).filter(|micros| *micros <= MAX_SPAN_US)
}

/// Splits an argument list at its commas, up to the bracket that closes it; commas in quotes and
/// in brackets do not count. `text` begins behind the opening bracket.
pub(super) fn arguments(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut escaped) = (0_u32, 0, false);
    let mut quote = None;
    let mut found = Vec::new();
    for (at, c) in text.char_indices() {
        if let Some(open) = quote {
            if escaped {
                escaped = false;
            } else if c == '\\' {
                escaped = true;
            } else if c == open {
                quote = None;
            }
            continue;
        }
        match c {
            '\'' | '"' => quote = Some(c),
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => {
                found.extend(text.get(from..at));
                return found;
            }
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                found.extend(text.get(from..at));
                from = at + 1;
            }
            _ => {}
        }
    }
    found.extend(text.get(from..));
    found
}

/// Returns the value of a named argument, out of its `Some(...)`; `None` where it is `None`.
pub(super) fn argument<T: FromStr>(arguments: &[&str], name: &str, sign: char) -> Option<T> {
    let value = arguments
        .iter()
        .find_map(|argument| argument.trim().strip_prefix(name)?.trim_start().strip_prefix(sign))?;
    let value = value.trim();
    let inner = value.strip_prefix("Some(").and_then(|inner| inner.strip_suffix(')'));
    inner.unwrap_or(value).trim().parse().ok()
}

/// Returns an argument that is a count which the trace's columns hold.
pub(super) fn count_argument(arguments: &[&str], name: &str, sign: char) -> Option<u32> {
    argument::<i32>(arguments, name, sign).and_then(|count| u32::try_from(count).ok())
}

/// Returns the text that a Python literal stands for, without its quotes; unknown escapes stay.
pub(super) fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('r') => plain.push('\r'),
            Some('x') => plain.extend(code(&mut chars, 2)),
            Some('u') => plain.extend(code(&mut chars, 4)),
            Some('U') => plain.extend(code(&mut chars, 8)),
            Some(other) => plain.push(other),
            None => plain.push('\\'),
        }
    }
    plain
}

/// Takes up to `digits` hexadecimal digits and returns their character.
fn code(chars: &mut Peekable<Chars<'_>>, digits: usize) -> Option<char> {
    let mut number = 0;
    for _ in 0..digits {
        let Some(digit) = chars.next_if(char::is_ascii_hexdigit) else { break };
        number = number * 16 + digit.to_digit(16)?;
    }
    char::from_u32(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_mixed_units() {
        for (text, micros) in [
            ("3.5s", 3_500_000),
            ("49.382\u{b5}s", 49),
            ("49.382\u{3bc}s", 49),
            ("357.867572ms", 357_868),
            ("1m12s", 72_000_000),
            ("1h2m3.5s", 3_723_500_000),
            ("812ns", 1),
            ("0s", 0),
            (" 2ms ", 2_000),
        ] {
            assert_eq!(span_us(text), Some(micros), "{text}");
        }
        let long = "9".repeat(400) + "s";
        for text in ["", "s", "3", "-1s", "1.2.3s", "3x", "1m12", "999999h", &long, "\u{b5}s"] {
            assert_eq!(span_us(text), None, "{text}");
        }
    }

    #[test]
    fn dates_of_other_shapes_become_iso() {
        let common = iso_of_common("24/Nov/2026:10:15:05 +0100");
        assert_eq!(common.as_deref(), Some("2026-11-24T10:15:05+0100"));
        for text in ["", "24/Nvo/2026:10:15:05 +0100", "4/Nov/2026:10:15:05", "24/Nov/2026:1", "/"]
        {
            assert_eq!(iso_of_common(text), None, "{text}");
        }
        let gin = iso_of_gin("2026/11/24 - 10:15:05");
        assert_eq!(gin.as_deref(), Some("2026-11-24T10:15:05"));
        for text in ["", "2026/11/24", "26/11/24 - 10:15:05", "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9} - x"]
        {
            assert_eq!(iso_of_gin(text), None, "{text}");
        }
    }

    #[test]
    fn colours_are_taken_out() {
        assert_eq!(plain("\u{1b}[0;36m(pid=1)\u{1b}[0;0m INFO"), "(pid=1) INFO");
        assert_eq!(plain("[0m stays"), "[0m stays");
        assert_eq!(plain("cut \u{1b}[0"), "cut ");
        assert_eq!(plain("cut \u{1b}"), "cut ");
    }

    #[test]
    fn arguments_know_quotes_and_brackets() {
        let text = r#"n=1, stop=['a, max_tokens=9', "b)"], max_tokens=Some(512), seed=None), x=2"#;
        let found = arguments(text);
        assert_eq!(found.len(), 4);
        assert_eq!(argument::<u32>(&found, "max_tokens", '='), Some(512));
        assert_eq!(argument::<u32>(&found, "n", '='), Some(1));
        assert_eq!(argument::<u32>(&found, "seed", '='), None);
        let counts = ["n=2147483647", "best_of=2147483648", "m=-1"];
        assert_eq!(count_argument(&counts, "n", '='), Some(2_147_483_647));
        assert_eq!(count_argument(&counts, "best_of", '='), None);
        assert_eq!(count_argument(&counts, "m", '='), None);
        assert_eq!(argument::<u32>(&found, "x", '='), None);
        assert_eq!(arguments("a, 'open"), ["a", " 'open"]);
        assert_eq!(arguments(""), [""]);
    }

    #[test]
    fn literals_are_unescaped() {
        assert_eq!(unescaped(r"a\nb\\n\'\x41\u00e9\U0001f600"), "a\nb\\n'A\u{e9}\u{1f600}");
        assert_eq!(unescaped(r"\x4"), "\u{4}");
        assert_eq!(unescaped(r"\ud800|\"), "|\\");
    }
}
