//! Which requests of a log go into the trace: a window of arrivals, and conditions on columns.
//!
//! A [`Filter`] is made once from what the user typed; [`Sieve`] applies it to rows whose attempts
//! are merged, before sessions are found, and counts what it leaves out by reason; so it knows
//! nothing of sessions and of the kinds of requests that rest on them. Instants are microseconds;
//! a window holds its start and not its end. Values of `user`, `key` and `tenant` are given in
//! clear, hashed with the salt at once, and never kept. It reads no file and changes no row. A row
//! without an arrival is in no window.

use super::error::IngestError;
use super::format::Zone;
use super::privacy::{Column, Hasher};
use super::stamp;
use crate::domain::record::{Hash128, Operation, RequestRecord, Status};
use crate::domain::time::{Nanos, WallTime};
use crate::domain::trace::Decision;
use std::collections::BTreeMap;

/// What the user typed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// Start of the window, inclusive: `2026-11-24` or `2026-11-24T09:15`.
    pub from: Option<&'a str>,
    /// End of the window, exclusive.
    pub to: Option<&'a str>,
    /// The window's length, back from the last arrival; its two ends are in it.
    pub last: Option<Nanos>,
    /// `KEY=VALUE|VALUE`, each.
    pub conditions: &'a [String],
}

/// Which rows are wanted; the default wants all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    from: Option<WallTime>,
    to: Option<WallTime>,
    last_us: Option<i64>,
    conditions: Vec<Condition>,
}

/// The values that one key may have.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    Model(Vec<String>),
    Status(Vec<Status>),
    Operation(Vec<Operation>),
    User(Vec<Hash128>),
    Key(Vec<Hash128>),
    Tenant(Vec<Hash128>),
}

/// The keys of `--where`.
const KEYS: &str = "model, tenant, status, user, key or operation";

impl Filter {
    /// Reads what the user typed. Several conditions of one key: any of their values; of several
    /// keys: each must hold.
    ///
    /// # Errors
    ///
    /// If a time, a key or a word is not known, a value is empty, or the window ends before it
    /// starts.
    pub fn parse(wanted: &Wanted<'_>, zone: &Zone, hasher: &Hasher) -> Result<Self, IngestError> {
        let edge = |option, text: Option<&str>| {
            text.map(|text| instant(text, zone).ok_or_else(|| bad(option, A_TIME, text)))
                .transpose()
        };
        let (from, to) = (edge("--from", wanted.from)?, edge("--to", wanted.to)?);
        if let (Some(start), Some(end)) = (from, to)
            && start >= end
        {
            let typed = wanted.to.unwrap_or_default();
            return Err(bad("--to", "a time after `--from`", typed));
        }
        let last_us = match wanted.last.map(|span| i64::try_from(span.0 / 1_000)) {
            None => None,
            Some(Ok(span)) if span > 0 => Some(span),
            Some(_) => return Err(bad("--last", "a span above 0, such as `7d`", "0")),
        };
        let mut conditions: Vec<Condition> = Vec::new();
        for text in wanted.conditions {
            let condition = Condition::parse(text, hasher)?;
            if !conditions.iter_mut().any(|known| known.widen(&condition)) {
                conditions.push(condition);
            }
        }
        Ok(Self { from, to, last_us, conditions })
    }

    /// Returns whether every row is wanted.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the filter with `--last` counted back from the last arrival of the logs.
    #[must_use]
    pub fn ending_at(mut self, last_arrival: Option<WallTime>) -> Self {
        // Without an arrival there is no span to count back: every row is left out as `no_time`.
        if let (Some(span), Some(last)) = (self.last_us, last_arrival) {
            self.last_us = None;
            self.from = self.from.max(Some(last.plus_micros(-span)));
        }
        self
    }

    /// Checks a row.
    ///
    /// # Errors
    ///
    /// The reason to leave it out: a fixed word.
    pub fn keep(&self, row: &RequestRecord) -> Result<(), &'static str> {
        if self.from.is_some() || self.to.is_some() || self.last_us.is_some() {
            let arrival = row.arrival_time.ok_or("no_time")?;
            let too_early = self.from.is_some_and(|from| arrival < from);
            if too_early || self.to.is_some_and(|to| arrival >= to) {
                return Err("outside_window");
            }
        }
        self.conditions
            .iter()
            .find(|condition| !condition.holds(row))
            .map_or(Ok(()), |condition| Err(condition.reason()))
    }

    /// Returns the filter in words for the trace's metadata; identifiers are counted, not named.
    pub fn decisions(&self) -> Vec<Decision> {
        let decision = |what: &str, value: String| Decision {
            what: what.to_owned(),
            value,
            why: "asked for; rows outside are dropped and counted".to_owned(),
        };
        let instant = |edge: Option<WallTime>| edge.map_or("open".to_owned(), |at| at.to_string());
        let mut decisions = Vec::new();
        if self.from.is_some() || self.to.is_some() {
            let value = format!("{} up to {}", instant(self.from), instant(self.to));
            decisions.push(decision("window of arrivals", value));
        }
        for condition in &self.conditions {
            decisions.push(decision(&format!("only {}", condition.key()), condition.shown()));
        }
        decisions
    }
}

impl Condition {
    fn parse(text: &str, hasher: &Hasher) -> Result<Self, IngestError> {
        let (key, values) = text.split_once('=').unwrap_or((text, ""));
        let values: Vec<&str> = values.split('|').map(str::trim).collect();
        if values.contains(&"") {
            return Err(bad("--where", "`KEY=VALUE` or `KEY=VALUE|VALUE`", &format!("{key}=")));
        }
        let hashes = |column| values.iter().filter_map(|text| hasher.hash(column, text)).collect();
        Ok(match key.trim() {
            "model" => Self::Model(values.iter().map(|text| (*text).to_owned()).collect()),
            "status" => Self::Status(words(&values, Status::parse, &names(Status::ALL))?),
            "operation" => {
                Self::Operation(words(&values, Operation::parse, &names(Operation::ALL))?)
            }
            "user" => Self::User(hashes(Column::User)),
            "key" => Self::Key(hashes(Column::Key)),
            "tenant" => Self::Tenant(hashes(Column::Tenant)),
            other => return Err(bad("--where", &format!("the key {KEYS}"), other)),
        })
    }

    /// Takes in the values of another condition of the same key; returns whether it is one.
    fn widen(&mut self, other: &Self) -> bool {
        match (self, other) {
            (Self::Model(a), Self::Model(b)) => a.extend_from_slice(b),
            (Self::Status(a), Self::Status(b)) => a.extend_from_slice(b),
            (Self::Operation(a), Self::Operation(b)) => a.extend_from_slice(b),
            (Self::User(a), Self::User(b))
            | (Self::Key(a), Self::Key(b))
            | (Self::Tenant(a), Self::Tenant(b)) => a.extend_from_slice(b),
            _ => return false,
        }
        true
    }

    fn holds(&self, row: &RequestRecord) -> bool {
        let among = |hashes: &[Hash128], hash: Option<Hash128>| {
            hash.is_some_and(|hash| hashes.contains(&hash))
        };
        match self {
            // A gateway's public name or the one behind it: users know either.
            Self::Model(names) => [&row.request_model, &row.response_model]
                .into_iter()
                .flatten()
                .any(|model| names.iter().any(|name| **name == **model)),
            Self::Status(statuses) => statuses.contains(&row.status),
            Self::Operation(operations) => operations.contains(&row.operation),
            Self::User(hashes) => among(hashes, row.user_hash),
            Self::Key(hashes) => among(hashes, row.key_hash),
            Self::Tenant(hashes) => among(hashes, row.tenant_hash),
        }
    }

    const fn key(&self) -> &'static str {
        match self {
            Self::Model(_) => "model",
            Self::Status(_) => "status",
            Self::Operation(_) => "operation",
            Self::User(_) => "user",
            Self::Key(_) => "key",
            Self::Tenant(_) => "tenant",
        }
    }

    const fn reason(&self) -> &'static str {
        match self {
            Self::Model(_) => "where_model",
            Self::Status(_) => "where_status",
            Self::Operation(_) => "where_operation",
            Self::User(_) => "where_user",
            Self::Key(_) => "where_key",
            Self::Tenant(_) => "where_tenant",
        }
    }

    /// Returns the values for the metadata. What was typed as a model may be anything, so that
    /// only its number is told, like that of identifiers.
    fn shown(&self) -> String {
        let counted = |values: usize| format!("{values} named");
        match self {
            Self::Status(words) => names(words),
            Self::Operation(words) => names(words),
            Self::Model(values) => counted(values.len()),
            Self::User(values) | Self::Key(values) | Self::Tenant(values) => counted(values.len()),
        }
    }
}

/// Applies a filter and counts what it leaves out.
#[derive(Debug)]
pub struct Sieve {
    filter: Filter,
    dropped: BTreeMap<&'static str, u64>,
}

impl Sieve {
    /// Starts to sieve rows of logs whose last arrival is known.
    pub fn new(filter: &Filter, last_arrival: Option<WallTime>) -> Self {
        Self { filter: filter.clone().ending_at(last_arrival), dropped: BTreeMap::new() }
    }

    /// Returns whether a row is wanted; counts it when not.
    pub fn keep(&mut self, row: &RequestRecord) -> bool {
        match self.filter.keep(row) {
            Ok(()) => true,
            Err(reason) => {
                *self.dropped.entry(reason).or_insert(0) += 1;
                false
            }
        }
    }

    /// Returns the rows left out, by reason, and the filter in words.
    pub fn finish(self) -> (BTreeMap<&'static str, u64>, Vec<Decision>) {
        (self.dropped, self.filter.decisions())
    }
}

/// What a time may be.
const A_TIME: &str = "a date or a time, such as `2026-11-24` or `2026-11-24T09:15:00Z`";

/// Reads a date (its first instant), a time to the minute, or a time with or without zone.
fn instant(text: &str, zone: &Zone) -> Option<WallTime> {
    let text = text.trim();
    let whole = match text.len() {
        10 => format!("{text}T00:00:00"),
        16 => format!("{text}:00"),
        _ => text.to_owned(),
    };
    stamp::parse(&whole, &zone.zone).map(|stamp| stamp.at)
}

fn words<W>(
    values: &[&str],
    parse: impl Fn(&str) -> Option<W>,
    known: &str,
) -> Result<Vec<W>, IngestError> {
    let word = |text: &&str| parse(text).ok_or_else(|| bad("--where", known, text));
    values.iter().map(word).collect()
}

/// Returns words with commas between them.
fn names<W: std::fmt::Display>(words: &[W]) -> String {
    words.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn bad(option: &'static str, expected: &str, found: &str) -> IngestError {
    IngestError::BadFilter { option, expected: expected.to_owned(), found: found.to_owned() }
}

/// Returns how many rows a sieve left out.
pub fn total(dropped: &BTreeMap<&'static str, u64>) -> u64 {
    dropped.values().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hasher() -> Hasher {
        Hasher::new(b"a salt for tests")
    }

    fn parse(from: Option<&str>, to: Option<&str>, conditions: &[&str]) -> Result<Filter, String> {
        let conditions: Vec<String> = conditions.iter().map(|text| (*text).to_owned()).collect();
        let wanted = Wanted { from, to, last: None, conditions: &conditions };
        Filter::parse(&wanted, &Zone::utc(), &hasher()).map_err(|error| error.to_string())
    }

    fn at(text: &str) -> RequestRecord {
        let mut row = RequestRecord::unknown("test".into(), 0, 1);
        row.arrival_time = instant(text, &Zone::utc());
        row
    }

    #[test]
    fn no_filter_keeps_everything() {
        let filter = parse(None, None, &[]).unwrap();
        assert!(filter.is_everything() && filter.decisions().is_empty());
        assert_eq!(filter.keep(&RequestRecord::unknown("test".into(), 0, 1)), Ok(()));
    }

    #[test]
    fn a_window_has_its_start_and_not_its_end() {
        let filter = parse(Some("2026-11-24"), Some("2026-11-25T09:15"), &[]).unwrap();
        let kept = |text| filter.keep(&at(text));
        assert_eq!(kept("2026-11-23 23:59:59.999999"), Err("outside_window"));
        assert_eq!(kept("2026-11-24"), Ok(()));
        assert_eq!(kept("2026-11-25 09:14:59.999999"), Ok(()));
        assert_eq!(kept("2026-11-25 09:15:00"), Err("outside_window"));
        let unknown = RequestRecord::unknown("test".into(), 0, 1);
        assert_eq!(filter.keep(&unknown), Err("no_time"));
    }

    #[test]
    fn dates_are_read_in_the_zone() {
        let berlin = Zone::named("Europe/Berlin").unwrap();
        let wanted = Wanted { from: Some("2026-07-01"), ..Wanted::default() };
        let filter = Filter::parse(&wanted, &berlin, &hasher()).unwrap();
        assert_eq!(filter.keep(&at("2026-06-30 22:00:00")), Ok(()));
        assert_eq!(filter.keep(&at("2026-06-30 21:59:59")), Err("outside_window"));
        assert_eq!(instant("2026-07-01T00:00:00Z", &berlin), instant("2026-07-01", &Zone::utc()));
    }

    #[test]
    fn the_last_span_counts_back_from_the_last_arrival() {
        let hour = Nanos::from_millis(3_600_000);
        let wanted = Wanted { last: Some(hour), ..Wanted::default() };
        let filter = Filter::parse(&wanted, &Zone::utc(), &hasher()).unwrap();
        let last = at("2026-11-24 10:00:00").arrival_time;
        let mut sieve = Sieve::new(&filter, last);
        let kept = ["08:59:59.999999", "09:00:00", "10:00:00"]
            .map(|time| sieve.keep(&at(&format!("2026-11-24 {time}"))));
        assert_eq!(kept, [false, true, true]);
        let (dropped, decisions) = sieve.finish();
        assert_eq!((dropped.get("outside_window"), total(&dropped)), (Some(&1), 1));
        let shown: Vec<&str> = decisions.iter().map(|told| &*told.value).collect();
        assert_eq!(shown, ["2026-11-24T09:00:00.000000Z up to open"]);
        // Logs without any time have no last hour.
        let mut none = Sieve::new(&filter, None);
        assert!(!none.keep(&RequestRecord::unknown("test".into(), 0, 1)));
        assert_eq!(none.finish().0.get("no_time"), Some(&1));
    }

    #[test]
    fn conditions_of_one_key_add_up_and_of_several_must_all_hold() {
        let filter =
            parse(None, None, &["model=a|b", "status=ok", "model=c", "user=alice"]).unwrap();
        let mut row = RequestRecord::unknown("test".into(), 0, 1);
        assert_eq!(filter.keep(&row), Err("where_model"), "no model is none of them");
        row.request_model = Some("public".into());
        row.response_model = Some("c".into());
        assert_eq!(filter.keep(&row), Err("where_status"));
        row.status = Status::Ok;
        assert_eq!(filter.keep(&row), Err("where_user"));
        row.user_hash = hasher().hash(Column::User, "alice");
        assert_eq!(filter.keep(&row), Ok(()));
        // The same name in another column has another hash.
        row.user_hash = hasher().hash(Column::Key, "alice");
        assert_eq!(filter.keep(&row), Err("where_user"));
        row.response_model = Some("cc".into());
        assert_eq!(filter.keep(&row), Err("where_model"));
    }

    #[test]
    fn every_key_has_its_reason() {
        let row = RequestRecord::unknown("test".into(), 0, 1);
        let reason = |text| parse(None, None, &[text]).unwrap().keep(&row);
        assert_eq!(reason("tenant=t"), Err("where_tenant"));
        assert_eq!(reason("key=k"), Err("where_key"));
        assert_eq!(reason("operation=chat"), Err("where_operation"));
        assert_eq!(reason("status=unknown"), Ok(()));
    }

    #[test]
    fn decisions_name_no_identifier() {
        let filter = parse(None, None, &["user=alice|bob", "status=ok|error", "model=m"]).unwrap();
        let shown: Vec<String> = filter
            .decisions()
            .iter()
            .map(|told| format!("{}: {}", told.what, told.value))
            .collect();
        assert_eq!(shown, ["only user: 2 named", "only status: ok, error", "only model: 1 named"]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refuse = |text: &str| parse(None, None, &[text]).unwrap_err();
        insta::assert_snapshot!(refuse("colour=red"), @"--where: expected the key model, tenant, status, user, key or operation, found `colour`");
        insta::assert_snapshot!(refuse("model"), @"--where: expected `KEY=VALUE` or `KEY=VALUE|VALUE`, found `model=`");
        insta::assert_snapshot!(refuse("user=alice|"), @"--where: expected `KEY=VALUE` or `KEY=VALUE|VALUE`, found `user=`");
        insta::assert_snapshot!(refuse("status=fine"), @"--where: expected ok, error, cancelled, timeout, rate_limited, unknown, found `fine`");
        insta::assert_snapshot!(parse(Some("yesterday"), None, &[]).unwrap_err(), @"--from: expected a date or a time, such as `2026-11-24` or `2026-11-24T09:15:00Z`, found `yesterday`");
        insta::assert_snapshot!(parse(Some("2026-11-24"), Some("2026-11-24"), &[]).unwrap_err(), @"--to: expected a time after `--from`, found `2026-11-24`");
        let wanted = Wanted { last: Some(Nanos(10)), ..Wanted::default() };
        let error = Filter::parse(&wanted, &Zone::utc(), &hasher()).unwrap_err();
        insta::assert_snapshot!(error, @"--last: expected a span above 0, such as `7d`, found `0`");
    }
}
