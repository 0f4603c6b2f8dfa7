//! Instants in logs: texts with or without zone, and bare numbers of some unit.
//!
//! A text is read to the microsecond; further digits are cut, not rounded, so that order never
//! changes. The unit of bare numbers is decided once per column, by `--time-unit`, the column's
//! name (`_ms`), or magnitude (2001 to 2103); smaller numbers are offsets from an unknown origin:
//! any fraction means seconds, whole numbers mean milliseconds. Each decision is printed. Values
//! that are missing (null, empty, `None`, `-`) decide nothing.

use super::error::IngestError;
use super::format::{Naive, Reading, Refusal, Zone};
use super::loose::{FieldError, Loose, Number};
use crate::domain::convert;
use crate::domain::position::Position;
use crate::domain::time::{MICROS_PER_SECOND, WallTime};
use crate::domain::trace::Decision;
use crate::domain::word::word_enum;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::sync::Arc;

/// 2001-01-01 in microseconds: numbers below are offsets, not dates.
const YEAR_2001_US: i64 = 978_307_200_000_000;
/// Largest magnitude of an instant in microseconds: year 4147.
const MAX_US: f64 = 6.87e16;

word_enum! {
    /// The unit of a bare number.
    pub enum Unit {
        /// Seconds.
        Seconds = "s",
        /// Milliseconds.
        Millis = "ms",
        /// Microseconds.
        Micros = "us",
        /// Nanoseconds.
        Nanos = "ns",
    }
}

impl Unit {
    /// Returns the unit in which `number` is a date from 2001 to 2103.
    pub fn by_magnitude(number: f64) -> Option<Self> {
        let scales =
            [(1e9, Self::Seconds), (1e12, Self::Millis), (1e15, Self::Micros), (1e18, Self::Nanos)];
        scales
            .into_iter()
            .find(|(scale, _)| (*scale..=4.2 * scale).contains(&number))
            .map(|(_, unit)| unit)
    }

    /// Returns the unit that ends the name of a column, as in `latency_ms`.
    pub fn by_name(column: &str) -> Option<Self> {
        let (_, last) = column.rsplit_once('_')?;
        match last {
            "s" | "sec" | "secs" | "seconds" => Some(Self::Seconds),
            other => Self::parse(other),
        }
    }

    /// Returns the unit that a column without other signs has: fractions mean seconds.
    fn guess(numbers: &[Number]) -> Self {
        let fraction = numbers.iter().any(|number| number.has_fraction());
        if fraction { Self::Seconds } else { Self::Millis }
    }

    /// Returns microseconds, cut below; `None` when out of range.
    pub fn to_micros(self, number: Number) -> Option<i64> {
        match (number, self) {
            (Number::Int(number), Self::Seconds) => number.checked_mul(MICROS_PER_SECOND),
            (Number::Int(number), Self::Millis) => number.checked_mul(1_000),
            (Number::Int(number), Self::Micros) => Some(number),
            (Number::Int(number), Self::Nanos) => Some(number.div_euclid(1_000)),
            (Number::Float(number), unit) => round_micros(number * unit.micros()),
        }
        .filter(|micros| convert::float_signed(*micros).abs() <= MAX_US)
    }

    fn micros(self) -> f64 {
        match self {
            Self::Seconds => 1e6,
            Self::Millis => 1e3,
            Self::Micros => 1.0,
            Self::Nanos => 1e-3,
        }
    }

    /// Returns the quantum of whole numbers of this unit, in microseconds.
    fn quantum_us(self) -> i64 {
        match self {
            Self::Seconds => MICROS_PER_SECOND,
            Self::Millis => 1_000,
            Self::Micros | Self::Nanos => 1,
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "bounded by the check before the cast")]
fn round_micros(micros: f64) -> Option<i64> {
    (micros.abs() <= MAX_US).then(|| micros.round() as i64)
}

/// An instant as read from a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The instant; offsets from an unknown origin count from the Unix epoch.
    pub at: WallTime,
    /// Quantum of the source, in microseconds.
    pub quantum_us: i64,
    /// Whether a zone had to be assumed.
    pub zone_assumed: bool,
    /// Whether the zone has this time twice or never; of two instants it is the earlier one.
    pub ambiguous: bool,
}

/// Reads `2026-11-24 09:15:02.123`, with `T` or space, any decimals, and `Z`, `UTC`, `+01:00`,
/// `+0100`, `+01` or no zone; `None` for anything else.
pub fn parse(text: &str, zone: &TimeZone) -> Option<Stamp> {
    let bytes = text.trim().as_bytes();
    let (date, rest) = bytes.split_at_checked(19)?;
    let part = |from: usize, length: usize| digits(date.get(from..from + length)?);
    let separators = (*date.get(4)?, *date.get(7)?, *date.get(10)?, *date.get(13)?, *date.get(16)?);
    if !matches!(separators, (b'-', b'-', b'T' | b't' | b' ', b':', b':')) {
        return None;
    }
    let small = |from: usize| part(from, 2).and_then(|number| i8::try_from(number).ok());
    let civil = DateTime::new(
        i16::try_from(part(0, 4)?).ok()?,
        small(5)?,
        small(8)?,
        small(11)?,
        small(14)?,
        small(17)?,
        0,
    )
    .ok()?;
    let (micros, decimals, rest) = fraction(rest)?;
    let mut ambiguous = false;
    let (seconds, zone_assumed) = match rest {
        b"" => {
            let instant = zone.to_ambiguous_timestamp(civil);
            ambiguous = instant.is_ambiguous();
            (instant.compatible().ok()?.as_second(), true)
        }
        b"Z" | b"z" | b" UTC" | b" GMT" | b" Z" => {
            (TimeZone::UTC.to_timestamp(civil).ok()?.as_second(), false)
        }
        offset => {
            let utc = TimeZone::UTC.to_timestamp(civil).ok()?.as_second();
            (utc - offset_seconds(offset)?, false)
        }
    };
    let quantum_us = 10_i64.pow(6 - decimals.min(6));
    let at = WallTime(seconds * MICROS_PER_SECOND + micros);
    Some(Stamp { at, quantum_us, zone_assumed, ambiguous })
}

/// Splits `.1234567+00:00` into microseconds (cut), decimals and the rest.
fn fraction(rest: &[u8]) -> Option<(i64, u32, &[u8])> {
    let Some((b'.' | b',', after)) = rest.split_first() else { return Some((0, 0, rest)) };
    let length = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = after.split_at_checked(length)?;
    let kept = number.get(..length.min(6))?;
    let decimals = u32::try_from(length).ok().filter(|length| *length > 0)?;
    let micros = i64::from(digits(kept)?) * 10_i64.pow(6_u32.saturating_sub(decimals));
    Some((micros, decimals, rest))
}

fn offset_seconds(offset: &[u8]) -> Option<i64> {
    let (sign, clock) = offset.trim_ascii_start().split_first()?;
    let sign = match sign {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = match clock {
        [h1, h2] => ([*h1, *h2], [b'0', b'0']),
        [h1, h2, m1, m2] | [h1, h2, b':', m1, m2] => ([*h1, *h2], [*m1, *m2]),
        _ => return None,
    };
    let (hours, minutes) = (digits(&hours)?, digits(&minutes)?);
    (hours <= 23 && minutes <= 59).then(|| i64::from(sign * (hours * 3_600 + minutes * 60)))
}

fn digits(bytes: &[u8]) -> Option<i32> {
    bytes.iter().try_fold(0_i32, |sum, byte| {
        byte.is_ascii_digit().then(|| sum * 10 + i32::from(byte - b'0'))
    })
}

/// How one column of instants is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeColumn {
    name: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Number { unit: Unit, relative: bool, told: bool, guessed: bool },
}

impl TimeColumn {
    /// Decides how a column is read, from its values in the sample.
    ///
    /// # Errors
    ///
    /// If texts and numbers are mixed, or numbers of different units.
    pub fn decide(
        file: &Arc<str>,
        name: &str,
        values: &[Loose<'_>],
        told: Option<Unit>,
        zone: &Zone,
    ) -> Result<(Self, Vec<Decision>), IngestError> {
        let column = |kind| Self { name: name.to_owned(), kind };
        let mixed = |unit: String| IngestError::MixedUnits {
            at: Position { file: file.clone(), line: 0, byte: None },
            column: name.to_owned(),
            unit,
        };
        let present = values.iter().filter(|value| !value.is_nothing()).count();
        let numbers: Vec<Number> =
            values.iter().filter_map(|value| value.number("").ok().flatten()).collect();
        if numbers.is_empty() {
            let naive = values
                .iter()
                .filter_map(Loose::text)
                .any(|text| parse(text, &zone.zone).is_some_and(|stamp| stamp.zone_assumed));
            let decision = naive.then(|| zone_decision(name, zone));
            return Ok((column(Kind::Text), decision.into_iter().collect()));
        }
        if numbers.len() < present {
            return Err(mixed("one kind, found numbers and texts".to_owned()));
        }
        let mut units: Vec<Option<Unit>> =
            numbers.iter().map(|number| Unit::by_magnitude(number.as_f64())).collect();
        units.sort_unstable();
        units.dedup();
        let named = told.or_else(|| Unit::by_name(name));
        let (unit, relative, why) = match (named, units.as_slice()) {
            (Some(unit), _) => {
                let largest = numbers.iter().filter_map(|number| unit.to_micros(*number)).max();
                let why = if told.is_some() { "`--time-unit`" } else { "the column's name" };
                (unit, largest.unwrap_or(0) < YEAR_2001_US, why)
            }
            (None, [Some(unit)]) => (*unit, false, "the numbers' magnitude"),
            (None, [None]) => {
                let unit = Unit::guess(&numbers);
                let why = match unit {
                    Unit::Seconds => "a guess: some have fractions",
                    _ => "a guess: all are whole numbers",
                };
                (unit, true, why)
            }
            (None, several) => return Err(mixed(unit_names(several))),
        };
        let kind = Kind::Number { unit, relative, told: named.is_some(), guessed: named.is_none() };
        let decision = unit_decision(name, unit, relative, (why, &numbers));
        Ok((column(kind), vec![decision]))
    }

    /// Returns whether the times are offsets from an unknown origin.
    pub fn is_relative(&self) -> bool {
        matches!(self.kind, Kind::Number { relative: true, .. })
    }

    /// Returns the unit of bare numbers; `None` for texts.
    pub fn unit(&self) -> Option<Unit> {
        match self.kind {
            Kind::Number { unit, .. } => Some(unit),
            Kind::Text => None,
        }
    }

    /// Reads one value; `None` when there is none.
    ///
    /// # Errors
    ///
    /// Rejects what is no instant; stops at a number of another unit.
    pub fn read(
        &self,
        value: &Loose<'_>,
        field: &'static str,
        zone: &Zone,
    ) -> Result<Option<Stamp>, Refusal> {
        let reject = |reason: &'static str| Refusal::Reject(FieldError::new(field, reason));
        let (unit, relative, told, guessed) = match self.kind {
            Kind::Text => return text_stamp(value, zone).map_err(reject),
            Kind::Number { unit, relative, told, guessed } => (unit, relative, told, guessed),
        };
        let Some(number) = value.number(field).map_err(Refusal::Reject)? else { return Ok(None) };
        let found = Unit::by_magnitude(number.as_f64());
        let fraction = number.has_fraction();
        let stop = |expected: String| Refusal::MixedUnits { column: self.name.clone(), expected };
        if !told && found.is_some() && found != (!relative).then_some(unit) {
            return Err(stop(format!("{unit}, as in the sample, found another magnitude")));
        }
        if guessed && relative && unit == Unit::Millis && fraction {
            return Err(stop("ms, guessed from whole numbers, found a fraction".to_owned()));
        }
        if !told && !relative && found.is_none() {
            return Err(reject("is no time from 2001 to 2103"));
        }
        let micros = unit.to_micros(number).ok_or_else(|| reject("is out of range"))?;
        if micros < 0 {
            return Err(reject("is before its origin"));
        }
        let quantum_us = if fraction { 1 } else { unit.quantum_us() };
        Ok(Some(Stamp { at: WallTime(micros), quantum_us, zone_assumed: false, ambiguous: false }))
    }
}

/// Ticks of 100 ns from year 1 to 1970.
const TICKS_TO_1970: i64 = 621_355_968_000_000_000;

/// Reads an instant of whatever form: a text with or without zone, a number since 1970 whose unit
/// its magnitude tells, or .NET ticks. `None` when there is none.
///
/// # Errors
///
/// If the value is no instant from 2001 to 2103.
pub fn read_any(
    value: &Loose<'_>,
    field: &'static str,
    naive: Naive,
    zone: &Zone,
) -> Result<Option<(Stamp, Reading)>, FieldError> {
    if value.is_nothing() {
        return Ok(None);
    }
    if let Some(text) = value.text()
        && let Some(stamp) = parse(text, &zone.zone)
    {
        zone.ambiguous.set(zone.ambiguous.get() + u64::from(stamp.ambiguous));
        let reading = match (stamp.zone_assumed, naive) {
            (false, _) => Reading::Zoned,
            (true, Naive::Utc) => Reading::NaiveUtc,
            (true, Naive::Local) => Reading::NaiveLocal,
        };
        return Ok(Some((stamp, reading)));
    }
    let number = match value.number(field) {
        Ok(Some(number)) => number,
        Ok(None) => return Ok(None),
        Err(_) => return Err(FieldError::new(field, "is no time: neither a date nor a number")),
    };
    let found = Unit::by_magnitude(number.as_f64());
    let ticks = match number {
        Number::Int(ticks)
            if (600_000_000_000_000_000..700_000_000_000_000_000).contains(&ticks) =>
        {
            Some(ticks - TICKS_TO_1970)
        }
        _ => None,
    };
    let (micros, quantum_us, reading) = match (found, ticks) {
        (_, Some(ticks)) => (Some(ticks.div_euclid(10)), 1, Reading::Ticks),
        (Some(unit), None) => {
            let quantum_us = if number.has_fraction() { 1 } else { unit.quantum_us() };
            (unit.to_micros(number), quantum_us, Reading::Epoch(unit))
        }
        (None, None) => (None, 1, Reading::Zoned),
    };
    match micros {
        Some(micros) => {
            let at = WallTime(micros);
            let stamp = Stamp { at, quantum_us, zone_assumed: false, ambiguous: false };
            Ok(Some((stamp, reading)))
        }
        None => Err(FieldError::new(field, "is no time from 2001 to 2103")),
    }
}

fn text_stamp(value: &Loose<'_>, zone: &Zone) -> Result<Option<Stamp>, &'static str> {
    match value {
        Loose::Null => Ok(None),
        Loose::Text(_) => match value.text() {
            None => Ok(None),
            Some(text) => parse(text, &zone.zone)
                .inspect(|stamp| {
                    zone.ambiguous.set(zone.ambiguous.get() + u64::from(stamp.ambiguous));
                })
                .map(Some)
                .ok_or("is no time of the form YYYY-MM-DD HH:MM:SS"),
        },
        _ => Err("is no text, as the other times are"),
    }
}

/// Says that times without zone were read in some zone.
pub fn zone_decision(name: &str, zone: &Zone) -> Decision {
    Decision {
        what: format!("zone of `{name}`"),
        value: zone.name.clone(),
        why: if zone.told {
            "`--tz`; the times carry no zone".to_owned()
        } else {
            "assumed: the times carry no zone; `--tz` changes it".to_owned()
        },
    }
}

fn unit_decision(name: &str, unit: Unit, relative: bool, from: (&str, &[Number])) -> Decision {
    let (why, numbers) = from;
    let mut why = why.to_owned();
    let micros: Vec<i64> = numbers.iter().filter_map(|number| unit.to_micros(*number)).collect();
    let span = micros.iter().max().zip(micros.iter().min()).map_or(0, |(max, min)| max - min);
    if relative && span > 0 {
        let seconds = convert::float_signed(span) / 1e6;
        let rate = (convert::float_count(micros.len()) - 1.0) / seconds;
        why = format!("{why}; implies {rate:.3} requests/s over the first {}", micros.len());
    }
    let origin = if relative { ", counted from an unknown origin" } else { "" };
    Decision { what: format!("unit of `{name}`"), value: format!("{unit}{origin}"), why }
}

fn unit_names(units: &[Option<Unit>]) -> String {
    let names: Vec<&str> = units.iter().map(|unit| unit.map_or("offsets", Unit::as_str)).collect();
    format!("one unit, found magnitudes of {}", names.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(text: &str) -> Option<(i64, i64, bool)> {
        parse(text, &TimeZone::UTC).map(|stamp| (stamp.at.0, stamp.quantum_us, stamp.zone_assumed))
    }

    #[test]
    fn texts_are_read_to_the_microsecond() {
        const AT: i64 = 1_700_158_623_000_000;
        assert_eq!(micros("2023-11-16 18:17:03"), Some((AT, 1_000_000, true)));
        assert_eq!(micros("2023-11-16T18:17:03Z"), Some((AT, 1_000_000, false)));
        assert_eq!(micros("2023-11-16 18:17:03.9799600"), Some((AT + 979_960, 1, true)));
        // The seventh digit is cut, not rounded.
        assert_eq!(micros("2023-11-16 18:17:03.9999999"), Some((AT + 999_999, 1, true)));
        assert_eq!(micros("2023-11-16 19:17:03.5+01:00"), Some((AT + 500_000, 100_000, false)));
        assert_eq!(micros("2023-11-16 12:47:03.5-0530"), Some((AT + 500_000, 100_000, false)));
        assert_eq!(micros("2023-11-16 18:17:03.123 UTC"), Some((AT + 123_000, 1_000, false)));
        assert_eq!(micros("2023-11-16 18:17:03+00"), Some((AT, 1_000_000, false)));
    }

    #[test]
    fn other_texts_are_no_times() {
        for text in [
            "",
            "2023-11-16",
            "2023-13-16 18:17:03",
            "2023-02-29 18:17:03",
            "2023-11-16 24:17:03",
            "2023-11-16 18:17:03.",
            "2023-11-16 18:17:03.x",
            "2023-11-16 18:17:03+1",
            "2023-11-16 18:17:03 CET",
            "16/11/2023 18:17:03",
            "2023-11-16_18:17:03",
            "canary",
            "2023-11-16 18:17:0\u{e9}",
        ] {
            assert_eq!(micros(text), None, "{text}");
        }
    }

    #[test]
    fn a_declared_zone_counts_for_naive_times_only() {
        let zone = Zone::named("Europe/Berlin").unwrap();
        let naive = parse("2026-07-01 12:00:00", &zone.zone).unwrap();
        let offset = parse("2026-07-01 10:00:00Z", &zone.zone).unwrap();
        assert_eq!(naive.at, offset.at);
        let error = Zone::named("Mars/Olympus").unwrap_err();
        assert_eq!(error.to_string(), "--tz: expected an IANA time zone, found `Mars/Olympus`");
    }

    #[test]
    fn a_repeated_hour_is_noticed() {
        let zone = Zone::named("Europe/Berlin").unwrap();
        let at =
            |text| parse(text, &zone.zone).map(|stamp| (stamp.at.0 / 1_000_000, stamp.ambiguous));
        // Clocks went back at 03:00 summer time; the first of the two instants is taken.
        let (first, _) = at("2026-10-25 02:30:00+02:00").unwrap();
        assert_eq!(at("2026-10-25 02:30:00"), Some((first, true)));
        assert_eq!(at("2026-10-25 03:00:00").map(|(_, ambiguous)| ambiguous), Some(false));
        assert_eq!(at("2026-03-29 02:30:00").map(|(_, ambiguous)| ambiguous), Some(true));
    }

    fn decide(values: &[Loose<'_>], name: &str, told: Option<Unit>) -> Result<String, String> {
        let (column, decisions) = TimeColumn::decide(&"f".into(), name, values, told, &Zone::utc())
            .map_err(|e| e.to_string())?;
        let decision =
            decisions.first().map_or("-".to_owned(), |d| format!("{} | {}", d.value, d.why));
        Ok(format!("{} | {decision}", column.is_relative()))
    }

    #[test]
    fn units_are_decided_by_column() {
        use Loose::{Float, Int};
        let whole = [Int(0), Int(3_000), Int(3_000)];
        insta::assert_snapshot!(decide(&whole, "timestamp", None).unwrap(), @"true | ms, counted from an unknown origin | a guess: all are whole numbers; implies 0.667 requests/s over the first 3");
        let fractions = [Float(0.0), Float(0.877), Float(2.0)];
        insta::assert_snapshot!(decide(&fractions, "timestamp", None).unwrap(), @"true | s, counted from an unknown origin | a guess: some have fractions; implies 1.000 requests/s over the first 3");
        insta::assert_snapshot!(decide(&whole, "timestamp", Some(Unit::Seconds)).unwrap(), @"true | s, counted from an unknown origin | `--time-unit`; implies 0.001 requests/s over the first 3");
        insta::assert_snapshot!(decide(&whole, "arrival_time_ns", None).unwrap(), @"true | ns, counted from an unknown origin | the column's name; implies 666666.667 requests/s over the first 3");
        insta::assert_snapshot!(decide(&[Int(1_795_511_731_100)], "t", None).unwrap(), @"false | ms | the numbers' magnitude");
        insta::assert_snapshot!(decide(&[Loose::cell(Some("1795511731.5"))], "t", None).unwrap(), @"false | s | the numbers' magnitude");
        let floats = [Float(0.0), Float(3_000.0), Loose::Null];
        insta::assert_snapshot!(decide(&floats, "t", None).unwrap(), @"true | ms, counted from an unknown origin | a guess: all are whole numbers; implies 0.333 requests/s over the first 2");
        let gaps = ["None", "-", "NULL", "", " ", "5", "5.0"].map(|text| Loose::cell(Some(text)));
        insta::assert_snapshot!(decide(&gaps, "t", None).unwrap(), @"true | ms, counted from an unknown origin | a guess: all are whole numbers");
        insta::assert_snapshot!(decide(&[], "t", None).unwrap(), @"false | -");
    }

    #[test]
    fn mixed_units_are_an_error() {
        use Loose::Int;
        let mixed = [Int(1_795_511_731), Int(1_795_511_731_100)];
        insta::assert_snapshot!(decide(&mixed, "t", None).unwrap_err(), @"f: times in `t` do not share one unit: expected one unit, found magnitudes of s and ms");
        let text = [Int(1_795_511_731), Loose::cell(Some("2026-01-01 00:00:00"))];
        insta::assert_snapshot!(decide(&text, "t", None).unwrap_err(), @"f: times in `t` do not share one unit: expected one kind, found numbers and texts");
    }

    #[test]
    fn later_values_are_held_to_the_decision() {
        use Loose::{Float, Int};
        let zone = Zone::utc();
        let column = |values: &[Loose<'_>]| {
            TimeColumn::decide(&"f".into(), "t", values, None, &zone).unwrap().0
        };
        let seconds = column(&[Int(1_795_511_731)]);
        assert!(matches!(
            seconds.read(&Int(1_795_511_731_100), "t", &zone),
            Err(Refusal::MixedUnits { .. })
        ));
        assert!(matches!(seconds.read(&Int(0), "t", &zone), Err(Refusal::Reject(_))));
        assert_eq!(seconds.read(&Loose::Null, "t", &zone), Ok(None));
        let millis = column(&[Int(0), Int(5)]);
        assert!(matches!(millis.read(&Float(0.5), "t", &zone), Err(Refusal::MixedUnits { .. })));
        assert!(matches!(millis.read(&Int(-5), "t", &zone), Err(Refusal::Reject(_))));
        let read = millis.read(&Int(7), "t", &zone).unwrap().unwrap();
        assert_eq!((read.at, read.quantum_us), (WallTime(7_000), 1_000));
        assert_eq!(Unit::Nanos.to_micros(Number::Int(46_926_808)), Some(46_926));
        assert_eq!(Unit::Seconds.to_micros(Number::Float(f64::NAN)), None);
        assert_eq!(Unit::Seconds.to_micros(Number::Int(i64::MAX)), None);
    }
}
