//! Instants in logs: texts with or without zone, and bare numbers of some unit.
//!
//! A text is read to the microsecond; further digits are cut, not rounded, so that order never
//! changes. The unit of bare numbers is decided once per column, by `--time-unit`, the column's
//! name (`_ms`), or magnitude (2001 to 2103); smaller numbers are offsets from an unknown origin:
//! any fraction means seconds, whole numbers mean milliseconds. Kind and unit are those of 95 % of
//! the values; the others are refused one by one. Each decision is printed. Values that are missing
//! (null, empty, `None`, `-`) decide nothing.

use super::error::IngestError;
use super::format::{Naive, Reading, Refusal, Zone};
use super::loose::{FieldError, Loose, Number};
use super::sample::HEAD_RECORDS;
use crate::domain::convert;
use crate::domain::position::Position;
use crate::domain::time::{MICROS_PER_SECOND, WallTime};
use crate::domain::trace::Decision;
use crate::domain::word::word_enum;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::sync::Arc;

/// 2001-01-01 in microseconds: numbers below are offsets, not dates.
const YEAR_2001_US: i64 = 978_307_200_000_000;
/// 2104-01-01 in microseconds: later dates are no times of requests.
const YEAR_2104_US: i64 = 4_228_675_200_000_000;
/// 0001-01-01 in microseconds.
const YEAR_1_US: i64 = -62_135_596_800_000_000;
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

    /// Returns microseconds: whole nanoseconds are cut down, fractions rounded; `None` when out of
    /// range.
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
    let (clock, rest) = text.trim().as_bytes().split_first_chunk::<19>()?;
    let (utc, at_day) = clock_seconds(clock)?;
    let (micros, decimals, rest) = fraction(rest)?;
    let mut ambiguous = false;
    let (seconds, zone_assumed) = match rest {
        b"" if *zone == TimeZone::UTC => (utc, true),
        b"" => {
            let (year, month, day) = at_day;
            let small = |number: i64| i8::try_from(number).ok();
            let of_day = utc.rem_euclid(86_400);
            let civil = DateTime::new(
                i16::try_from(year).ok()?,
                small(month)?,
                small(day)?,
                small(of_day / 3_600)?,
                small(of_day / 60 % 60)?,
                small(of_day % 60)?,
                0,
            );
            let instant = zone.to_ambiguous_timestamp(civil.ok()?);
            ambiguous = instant.is_ambiguous();
            (instant.compatible().ok()?.as_second(), true)
        }
        b"Z" | b"z" | b"+00:00" | b" UTC" | b" GMT" | b" Z" => (utc, false),
        offset => (utc - offset_seconds(offset)?, false),
    };
    let quantum_us = 10_i64.pow(6 - decimals.min(6));
    let at = WallTime(seconds * MICROS_PER_SECOND + micros);
    Some(Stamp { at, quantum_us, zone_assumed, ambiguous })
}

/// Reads `2026-11-24 09:15:02` as if in UTC: seconds since 1970, and year, month and day.
fn clock_seconds(clock: &[u8; 19]) -> Option<(i64, (i64, i64, i64))> {
    let [
        y1,
        y2,
        y3,
        y4,
        b'-',
        m1,
        m2,
        b'-',
        d1,
        d2,
        b'T' | b't' | b' ',
        h1,
        h2,
        b':',
        i1,
        i2,
        b':',
        s1,
        s2,
    ] = clock
    else {
        return None;
    };
    let all = [y1, y2, y3, y4, m1, m2, d1, d2, h1, h2, i1, i2, s1, s2];
    if !all.iter().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let two = |tens: &u8, ones: &u8| 10 * i64::from(tens - b'0') + i64::from(ones - b'0');
    let (year, month, day) = (100 * two(y1, y2) + two(y3, y4), two(m1, m2), two(d1, d2));
    let (hour, minute, second) = (two(h1, h2), two(i1, i2), two(s1, s2));
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(is_leap),
        _ => return None,
    };
    if day == 0 || day > days || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    // Years that begin in March: the leap day is the last one, and months repeat every five.
    let (march_year, march_month) =
        if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days =
        march_year.div_euclid(4) - march_year.div_euclid(100) + march_year.div_euclid(400);
    let in_year = (153 * march_month + 2) / 5 + day - 1;
    let days = 365 * march_year + leap_days + in_year - DAYS_TO_1970;
    Some((days * 86_400 + hour * 3_600 + minute * 60 + second, (year, month, day)))
}

/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;

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
    /// `odd`: the sample has some values of another magnitude.
    Number {
        unit: Unit,
        relative: bool,
        told: bool,
        guessed: bool,
        odd: bool,
    },
}

/// Share of the values that decide kind and unit of a column, in percent.
const DECIDING_PERCENT: usize = 95;

/// Whether so many of `all` decide.
fn decides(count: usize, all: usize) -> bool {
    count * 100 >= all * DECIDING_PERCENT
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
        let numbers_of = |values: &[Loose<'_>]| -> Vec<Number> {
            values.iter().filter_map(|value| value.number("").ok().flatten()).collect()
        };
        let numbers = numbers_of(values);
        if numbers.is_empty() || decides(present - numbers.len(), present) {
            let naive = values
                .iter()
                .filter_map(Loose::text)
                .any(|text| parse(text, &zone.zone).is_some_and(|stamp| stamp.zone_assumed));
            let decision = naive.then(|| zone_decision(name, zone));
            return Ok((column(Kind::Text), decision.into_iter().collect()));
        }
        if !decides(numbers.len(), present) {
            return Err(mixed("one kind, found numbers and texts".to_owned()));
        }
        let units = magnitudes(&numbers);
        let named = told.or_else(|| Unit::by_name(name));
        let (unit, relative, why) = match (named, units.first()) {
            (Some(unit), _) => {
                let dates = numbers.iter().filter_map(|number| unit.to_micros(*number));
                let dates = dates.filter(|micros| *micros >= YEAR_2001_US).count();
                let why = if told.is_some() { "`--time-unit`" } else { "the column's name" };
                (unit, dates * 2 < numbers.len(), why)
            }
            (None, Some((Some(unit), count))) if decides(*count, numbers.len()) => {
                (*unit, false, "the numbers' magnitude")
            }
            (None, Some((None, count))) if decides(*count, numbers.len()) => {
                let unit = Unit::guess(&numbers);
                let why = match unit {
                    Unit::Seconds => "a guess: some have fractions",
                    _ => "a guess: all are whole numbers",
                };
                (unit, true, why)
            }
            (None, _) => return Err(mixed(unit_names(&units))),
        };
        let (told, odd) = (named.is_some(), units.len() > 1);
        let kind = Kind::Number { unit, relative, told, guessed: !told, odd };
        // Only these follow each other without a gap, as a rate asks for.
        let head = numbers_of(values.get(..HEAD_RECORDS).unwrap_or(values));
        let decision = unit_decision(name, unit, relative, (why, &head));
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
    /// Rejects what is no instant of the column's kind and unit; stops at a number that shows a guess
    /// to be wrong.
    pub fn read(
        &self,
        value: &Loose<'_>,
        field: &'static str,
        zone: &Zone,
    ) -> Result<Option<Stamp>, Refusal> {
        let reject = |reason: &'static str| Refusal::Reject(FieldError::new(field, reason));
        let (unit, relative, told, guessed, odd) = match self.kind {
            Kind::Text => return text_stamp(value, zone).map_err(reject),
            Kind::Number { unit, relative, told, guessed, odd } => {
                (unit, relative, told, guessed, odd)
            }
        };
        let Some(number) = value.number(field).map_err(Refusal::Reject)? else { return Ok(None) };
        let found = Unit::by_magnitude(number.as_f64());
        let fraction = number.has_fraction();
        let stop = |expected: String| Refusal::MixedUnits { column: self.name.clone(), expected };
        if !told && found.is_some() && found != (!relative).then_some(unit) {
            return Err(if guessed && relative && !odd {
                stop(format!("{unit}, as in the sample, found another magnitude"))
            } else {
                reject("is of another unit than the other times")
            });
        }
        if guessed && relative && unit == Unit::Millis && fraction {
            return Err(stop("ms, guessed from whole numbers, found a fraction".to_owned()));
        }
        if !told && !relative && found.is_none() {
            return Err(reject("is no time from 2001 to 2103"));
        }
        let micros = unit.to_micros(number).ok_or_else(|| reject("is out of range"))?;
        if told && (micros < YEAR_2001_US) != relative {
            return Err(reject("is of another unit than the other times"));
        }
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
        if is_zero_time(stamp) {
            return Ok(None);
        }
        if !is_plausible(stamp) {
            return Err(FieldError::new(field, "is no time from 2001 to 2103"));
        }
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

/// Returns whether a time is the first instant of year 1: how Go and .NET write that there is none.
fn is_zero_time(stamp: Stamp) -> bool {
    (YEAR_1_US..YEAR_1_US + 86_400_000_000).contains(&stamp.at.0)
}

/// Returns whether a date can be that of a request, by the same bounds as for numbers.
fn is_plausible(stamp: Stamp) -> bool {
    (YEAR_2001_US..YEAR_2104_US).contains(&stamp.at.0)
}

fn text_stamp(value: &Loose<'_>, zone: &Zone) -> Result<Option<Stamp>, &'static str> {
    match value {
        Loose::Null => Ok(None),
        Loose::Text(_) => match value.text() {
            None => Ok(None),
            Some(text) => {
                let stamp = parse(text, &zone.zone);
                let stamp = stamp.ok_or("is no time of the form YYYY-MM-DD HH:MM:SS")?;
                if is_zero_time(stamp) {
                    return Ok(None);
                }
                if !is_plausible(stamp) {
                    return Err("is no time from 2001 to 2103");
                }
                zone.ambiguous.set(zone.ambiguous.get() + u64::from(stamp.ambiguous));
                Ok(Some(stamp))
            }
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

/// Returns the units that numbers have by their magnitude, with counts, the most frequent first.
fn magnitudes(numbers: &[Number]) -> Vec<(Option<Unit>, usize)> {
    let mut counts: BTreeMap<Option<Unit>, usize> = BTreeMap::new();
    for number in numbers {
        *counts.entry(Unit::by_magnitude(number.as_f64())).or_insert(0) += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

fn unit_names(units: &[(Option<Unit>, usize)]) -> String {
    let names: Vec<&str> =
        units.iter().map(|(unit, _)| unit.map_or("offsets", Unit::as_str)).collect();
    format!("one unit, found magnitudes of {}", names.join(" and "))
}

#[cfg(test)]
mod tests;
