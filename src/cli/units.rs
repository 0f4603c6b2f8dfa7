//! Quantities as people type them: spans, token counts, edges of a window; and as they read them.
//!
//! Text → whole nanoseconds or tokens, in integer arithmetic: `0.1s` is exactly 100,000,000 ns.
//! Errors are one line that names what was typed and what would do; clap adds the option's name.

use crate::domain::time::{Nanos, WallTime};
use crate::plan::options::Edge;

/// Nanoseconds of each unit that a span may have.
const SPAN_UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];
/// Tokens of each suffix that a count may have; `k` is a thousand, as in "4k context".
const TOKEN_UNITS: [(&str, u64); 3] = [("", 1), ("k", 1_000), ("m", 1_000_000)];

/// Returns the span in a text such as `200ms`, `30s`, `1.5h` or `1h30m`.
pub(crate) fn parse_duration(text: &str) -> Result<Nanos, String> {
    let wrong = || {
        format!(
            "`{text}` is no span of time: expected a number and a unit, such as `200ms`, `30s`, `10m` or `1h30m`"
        )
    };
    let mut total = 0_u64;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, after) = split_where(rest, |c| !c.is_ascii_digit() && c != '.');
        let (unit, next) = split_where(after, |c| c.is_ascii_digit() || c == '.');
        let scale = SPAN_UNITS.iter().find(|(name, _)| *name == unit).map(|&(_, scale)| scale);
        let part = scale.and_then(|scale| scaled(number, scale)).ok_or_else(wrong)?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = next;
    }
    if text.is_empty() { Err(wrong()) } else { Ok(Nanos(total)) }
}

/// Returns the number of tokens in a text such as `4096`, `4k` (4,000) or `1.5k`; at least 1.
pub(crate) fn parse_tokens(text: &str) -> Result<u32, String> {
    let (number, suffix) = split_where(text, |c| !c.is_ascii_digit() && c != '.');
    let suffix = suffix.to_ascii_lowercase();
    TOKEN_UNITS
        .iter()
        .find(|(name, _)| *name == suffix)
        .and_then(|&(_, scale)| scaled(number, scale))
        .and_then(|tokens| u32::try_from(tokens).ok())
        .filter(|&tokens| tokens > 0)
        .ok_or_else(|| {
            format!("`{text}` is no number of tokens: expected one above 0, such as `4096` or `4k` (4000)")
        })
}

/// Returns the edge of a window: an instant in RFC 3339, or a span after the trace's start.
pub(crate) fn parse_edge(text: &str) -> Result<Edge, String> {
    if let Ok(span) = parse_duration(text) {
        return Ok(Edge::Offset(span));
    }
    let wrong = || {
        format!(
            "`{text}` is neither an instant with its zone, such as `2026-03-01T09:00:00Z`, nor a span after the trace's start, such as `10m`"
        )
    };
    let at: jiff::Timestamp = text.parse().map_err(|_| wrong())?;
    // Arrivals are whole microseconds, so rounding up moves none across the edge.
    let nanos = at.as_nanosecond();
    let micros = nanos.div_euclid(1_000) + i128::from(nanos.rem_euclid(1_000) > 0);
    i64::try_from(micros).map(|micros| Edge::At(WallTime(micros))).map_err(|_| wrong())
}

/// Returns a whole number with its thousands set apart: `1,234,567`.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Splits a text before the first character that `ends` it.
fn split_where(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

/// Returns a plain decimal times `scale`, when that is a whole number that fits.
fn scaled(decimal: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = decimal.split_once('.').unwrap_or((decimal, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.len() > 18 {
        return None;
    }
    let digits = |part: &str| if part.is_empty() { Some(0) } else { part.parse::<u128>().ok() };
    let power = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let scaled = digits(whole)?.checked_mul(u128::from(scale))?;
    let below_one = digits(fraction)?.checked_mul(u128::from(scale))?;
    if below_one % power != 0 {
        return None;
    }
    u64::try_from(scaled.checked_add(below_one / power)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        let nanos = |text| parse_duration(text).map(|span| span.0);
        assert_eq!(nanos("200ms"), Ok(200_000_000));
        assert_eq!(nanos("0.1s"), Ok(100_000_000));
        assert_eq!(nanos("1h30m"), Ok(5_400_000_000_000));
        assert_eq!(nanos("1d"), Ok(86_400_000_000_000));
        assert_eq!(nanos("0s"), Ok(0));
        for wrong in ["", "5", "s", "-1s", "1 s", "1x", "1.2.3s", ".s", "0.5ns", "9999999d", "1e3s"]
        {
            assert!(nanos(wrong).is_err(), "{wrong}");
        }
        insta::assert_snapshot!(parse_duration("5").expect_err("no unit"), @"`5` is no span of time: expected a number and a unit, such as `200ms`, `30s`, `10m` or `1h30m`");
    }

    #[test]
    fn token_counts() {
        assert_eq!(parse_tokens("4096"), Ok(4_096));
        assert_eq!(parse_tokens("4k"), Ok(4_000));
        assert_eq!(parse_tokens("1.5K"), Ok(1_500));
        for wrong in ["", "0", "-4", "4g", "1.5", "9999m", "k"] {
            assert!(parse_tokens(wrong).is_err(), "{wrong}");
        }
        insta::assert_snapshot!(parse_tokens("0").expect_err("zero"), @"`0` is no number of tokens: expected one above 0, such as `4096` or `4k` (4000)");
    }

    #[test]
    fn edges_of_a_window() {
        assert_eq!(parse_edge("10m"), Ok(Edge::Offset(Nanos(600_000_000_000))));
        let nine = parse_edge("1970-01-01T09:00:00.0000005+09:00");
        assert_eq!(nine, Ok(Edge::At(WallTime(1))), "rounded up to the microsecond");
        insta::assert_snapshot!(parse_edge("2026-03-01").expect_err("no zone"), @"`2026-03-01` is neither an instant with its zone, such as `2026-03-01T09:00:00Z`, nor a span after the trace's start, such as `10m`");
    }

    #[test]
    fn thousands_are_set_apart() {
        let shown = [0, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
    }
}
