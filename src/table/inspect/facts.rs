//! The facts about one column, in bounded memory.
//!
//! Numbers are kept up to [`MAX_VALUES`] (32 MB) and quantiles are then exact, by the linear form
//! of `domain::percentiles`; beyond that they are counted in buckets of a relative width of 1/256
//! (of times: relative to the first one seen), and `exact` is false. Different words and hashes
//! are counted up to a limit, too. Numbers are floats here: exact below 2^53.

use super::super::schema::{Column, Kind};
use crate::domain::convert;
use crate::domain::percentiles;
use crate::domain::time::WallTime;
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};

/// Numbers kept for exact quantiles.
pub const MAX_VALUES: usize = 1 << 22;
/// Different words counted one by one; further ones are counted together.
const MAX_WORDS: usize = 10_000;
/// Words told.
const SHOWN_WORDS: usize = 20;
/// Longest word told.
const MAX_WORD_BYTES: usize = 80;
/// Different hashes told apart.
const MAX_HASHES: usize = 1 << 20;
/// Stands for words that are not told: too many different ones, or no words.
const OTHERS: &str = "(others)";

/// What is known of a column.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ColumnFacts {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Its unit; null when it has none.
    pub unit: Option<&'static str>,
    /// What it holds.
    pub meaning: &'static str,
    /// Rows without a value.
    pub nulls: u64,
    /// For numbers.
    pub numbers: Option<Numbers>,
    /// For times, as RFC 3339 in UTC.
    pub times: Option<Times>,
    /// For lists: how long they are.
    pub lengths: Option<Numbers>,
    /// For words, most frequent first; null for text that is not told.
    pub words: Option<Vec<WordCount>>,
    /// For hashes: different ones; null for too many to count, and for other columns.
    pub distinct: Option<u64>,
}

/// How numbers are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Numbers {
    /// Values.
    pub count: u64,
    /// The least.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// The largest.
    pub max: f64,
    /// Whether the percentiles are exact; else they are off by at most 1 in 256.
    pub exact: bool,
}

/// How times are distributed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Times {
    /// Values.
    pub count: u64,
    /// The first.
    pub min: String,
    /// Median.
    pub p50: String,
    /// 90th percentile.
    pub p90: String,
    /// 99th percentile.
    pub p99: String,
    /// The last.
    pub max: String,
    /// Whether the percentiles are exact; else they are off by at most 1/256 of the time since
    /// the first value of the file.
    pub exact: bool,
}

/// How often a word is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WordCount {
    /// The word.
    pub value: String,
    /// Its rows (of lists: its places).
    pub count: u64,
}

/// Collects the facts about one column.
#[derive(Debug)]
pub struct Facts {
    column: &'static Column,
    tells_words: bool,
    nulls: u64,
    values: Values,
    lengths: Values,
    base: Option<i64>,
    words: BTreeMap<String, u64>,
    hashes: HashSet<[u8; 16]>,
    too_many_hashes: bool,
}

impl Facts {
    /// Starts a column; `tells_words` says that its texts are words that may be told.
    pub fn new(column: &'static Column, tells_words: bool) -> Self {
        Self {
            column,
            tells_words,
            nulls: 0,
            values: Values::default(),
            lengths: Values::default(),
            base: None,
            words: BTreeMap::new(),
            hashes: HashSet::new(),
            too_many_hashes: false,
        }
    }

    /// Counts the nulls of a batch.
    pub fn nulls(&mut self, nulls: usize) {
        self.nulls += convert::count(nulls);
    }

    /// Takes a number.
    pub fn number(&mut self, value: f64) {
        if value.is_finite() {
            self.values.add(value);
        }
    }

    /// Takes a whole number; of times, the span since the first one.
    pub fn whole(&mut self, value: i128) {
        let Ok(mut value) = i64::try_from(value) else {
            // Only unsigned numbers above 2^63 come here; no column has them.
            return;
        };
        if self.column.kind == Kind::Time {
            value = value.saturating_sub(*self.base.get_or_insert(value));
        }
        self.values.add(convert::float_signed(value));
    }

    /// Takes a truth value.
    pub fn truth(&mut self, value: bool) {
        *self.words.entry(value.to_string()).or_insert(0) += 1;
    }

    /// Takes a word.
    pub fn word(&mut self, text: &str) {
        if !self.tells_words {
            return;
        }
        let plain =
            text.len() <= MAX_WORD_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic());
        let known = self.words.len() < MAX_WORDS || self.words.contains_key(text);
        let word = if plain && known { text } else { OTHERS };
        if let Some(count) = self.words.get_mut(word) {
            *count += 1;
        } else {
            self.words.insert(word.to_owned(), 1);
        }
    }

    /// Takes a hash: it is told apart from others, and not told.
    pub fn hash(&mut self, hash: &[u8]) {
        let Ok(hash) = <[u8; 16]>::try_from(hash) else { return };
        if self.hashes.len() < MAX_HASHES {
            self.hashes.insert(hash);
        } else if !self.hashes.contains(&hash) {
            self.too_many_hashes = true;
        }
    }

    /// Takes the length of a list.
    pub fn length(&mut self, length: usize) {
        self.lengths.add(convert::float_count(length));
    }

    /// Returns the facts.
    pub fn finish(self) -> ColumnFacts {
        let Self { column, nulls, values, lengths, base, words, .. } = self;
        let numbers = values.finish();
        let is_time = column.kind == Kind::Time;
        let has_words = self.tells_words || column.kind == Kind::Bool;
        let distinct = convert::count(self.hashes.len());
        let counts_hashes = column.kind == Kind::Hash && !self.too_many_hashes;
        ColumnFacts {
            name: column.name,
            kind: column.kind.name(),
            unit: (!column.unit.is_empty()).then_some(column.unit),
            meaning: column.meaning,
            nulls,
            times: numbers
                .filter(|_| is_time)
                .zip(base)
                .map(|(numbers, base)| times(numbers, base)),
            numbers: numbers.filter(|_| !is_time),
            lengths: lengths.finish(),
            words: has_words.then(|| top(words)),
            distinct: counts_hashes.then_some(distinct),
        }
    }
}

fn times(spans: Numbers, base: i64) -> Times {
    let shown = |span: f64| {
        let micros = i64::try_from(convert::round_to_u64(span.abs())).unwrap_or(i64::MAX);
        let micros = if span < 0.0 { -micros } else { micros };
        WallTime(base).plus_micros(micros).to_string()
    };
    Times {
        count: spans.count,
        min: shown(spans.min),
        p50: shown(spans.p50),
        p90: shown(spans.p90),
        p99: shown(spans.p99),
        max: shown(spans.max),
        exact: spans.exact,
    }
}

/// Returns the most frequent words, then by name; the others together.
fn top(words: BTreeMap<String, u64>) -> Vec<WordCount> {
    let mut words: Vec<WordCount> =
        words.into_iter().map(|(value, count)| WordCount { value, count }).collect();
    words.sort_by_key(|word| (word.value == OTHERS, std::cmp::Reverse(word.count)));
    let others: u64 = words.iter().skip(SHOWN_WORDS).map(|word| word.count).sum();
    words.truncate(SHOWN_WORDS);
    if others > 0 {
        words.push(WordCount { value: OTHERS.to_owned(), count: others });
    }
    words
}

/// Numbers, one by one or in buckets.
#[derive(Debug, Default)]
struct Values {
    list: Vec<f64>,
    /// Values by bucket, once there are too many for the list.
    buckets: BTreeMap<i64, u64>,
    count: u64,
    range: Option<(f64, f64)>,
}

impl Values {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let (min, max) = self.range.unwrap_or((value, value));
        self.range = Some((min.min(value), max.max(value)));
        if self.buckets.is_empty() {
            self.list.push(value);
            if self.list.len() > MAX_VALUES {
                for value in std::mem::take(&mut self.list) {
                    *self.buckets.entry(bucket(value)).or_insert(0) += 1;
                }
            }
        } else {
            *self.buckets.entry(bucket(value)).or_insert(0) += 1;
        }
    }

    fn finish(mut self) -> Option<Numbers> {
        let (min, max) = self.range?;
        percentiles::sort(&mut self.list);
        let exact = self.buckets.is_empty();
        let quantile = |q: f64| {
            if exact {
                return percentiles::quantile(&self.list, q).unwrap_or(min);
            }
            let rank = convert::round_to_u64(q * convert::float(self.count - 1));
            let mut seen = 0;
            let place = self.buckets.iter().find(|(_, count)| {
                seen += **count;
                rank < seen
            });
            place.map_or(max, |(place, _)| middle(*place)).clamp(min, max)
        };
        let (p50, p90, p99) = (quantile(0.5), quantile(0.9), quantile(0.99));
        Some(Numbers { count: self.count, min, p50, p90, p99, max, exact })
    }
}

/// Bits of a float that a bucket does not tell: it keeps sign, exponent and 8 bits of the rest.
const DROPPED_BITS: u32 = 44;

/// Returns the bucket of a value; buckets are in the order of their values.
fn bucket(value: f64) -> i64 {
    let place = (value.abs().to_bits() >> DROPPED_BITS).cast_signed();
    if value < 0.0 { -1 - place } else { place }
}

/// Returns the middle of a bucket; that of the smallest numbers is 0.
fn middle(bucket: i64) -> f64 {
    let place = if bucket < 0 { -1 - bucket } else { bucket }.cast_unsigned();
    if place == 0 {
        return 0.0;
    }
    let value = f64::from_bits((place << DROPPED_BITS) | (1 << (DROPPED_BITS - 1)));
    if bucket < 0 { -value } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::schema::{POOL, TRACE};

    fn facts(name: &str, tells_words: bool) -> Facts {
        Facts::new(TRACE.column(name).unwrap().1, tells_words)
    }

    #[test]
    fn nothing_seen_gives_no_numbers() {
        let facts = facts("duration_us", false).finish();
        assert_eq!((facts.numbers, facts.lengths, facts.distinct), (None, None, None));
        assert_eq!((facts.unit, facts.words), (Some("us"), None));
    }

    #[test]
    fn buckets_are_in_order_and_narrow() {
        let values = [-1e9, -3.0, -1e-3, 0.0, 1.0, 2.0, 999.0, 1_000_000.0, 1.7e15];
        for pair in values.windows(2) {
            assert!(bucket(pair[0]) < bucket(pair[1]), "{pair:?}");
        }
        for value in values {
            let off = (middle(bucket(value)) - value).abs();
            assert!(off <= value.abs() / 256.0, "{value}: off by {off}");
        }
    }

    #[test]
    fn too_many_numbers_are_told_nearly() {
        let mut facts = facts("duration_us", false);
        let all = i128::try_from(MAX_VALUES).unwrap() + 1_000;
        for value in 1..=all {
            facts.whole(value);
        }
        let numbers = facts.finish().numbers.unwrap();
        let all = convert::float_signed(i64::try_from(all).unwrap());
        assert!(!numbers.exact);
        let ends = format!("{} {} {}", numbers.min, numbers.max, numbers.count);
        assert_eq!(ends, format!("1 {all} 4195304"));
        for (found, q) in [(numbers.p50, 0.5), (numbers.p90, 0.9), (numbers.p99, 0.99)] {
            assert!((found / (all * q) - 1.0).abs() < 1.0 / 256.0, "{found} for {q}");
        }
    }

    #[test]
    fn times_before_the_first_one_seen_are_told() {
        let mut facts = facts("end_time", false);
        for value in [2_000_000, 0, 1_000_000] {
            facts.whole(value);
        }
        let times = facts.finish().times.unwrap();
        assert_eq!(times.min, "1970-01-01T00:00:00.000000Z");
        assert_eq!(times.p50, "1970-01-01T00:00:01.000000Z");
        assert_eq!(times.max, "1970-01-01T00:00:02.000000Z");
    }

    #[test]
    fn only_words_are_told_and_only_the_most_frequent() {
        let mut facts = facts("status", true);
        for number in 0..30_u32 {
            for _ in 0..=number {
                facts.word(&format!("word{number:02}"));
            }
        }
        facts.word("a sentence with spaces");
        let words = facts.finish().words.unwrap();
        assert_eq!(words.len(), SHOWN_WORDS + 1);
        assert_eq!((words[0].value.as_str(), words[0].count), ("word29", 30));
        let last = words.last().unwrap();
        assert_eq!((last.value.as_str(), last.count), (OTHERS, (1..=10).sum::<u64>() + 1));
        let text = POOL.column("text").unwrap().1;
        let mut facts = Facts::new(text, false);
        facts.word("secret");
        assert_eq!(facts.finish().words, None);
    }
}
