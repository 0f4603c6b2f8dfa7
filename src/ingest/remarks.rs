//! What was decided record by record, as lines for the user and the trace's metadata.
//!
//! Threads count on their own; the counts are added up here, so that the lines do not depend on
//! which thread read what.

use super::format::{Reading, Shared, Zone};
use crate::domain::trace::Decision;
use std::collections::BTreeMap;

/// Returns the decisions of all threads.
pub(super) fn decisions(shared: &[Shared], zone: &Zone) -> Vec<Decision> {
    let mut readings: BTreeMap<(&str, Reading), u64> = BTreeMap::new();
    let mut remarks: BTreeMap<&str, u64> = BTreeMap::new();
    for one in shared {
        for (field, reading, count) in &one.readings {
            *readings.entry((field, *reading)).or_insert(0) += count;
        }
        for (what, count) in &one.remarks {
            *remarks.entry(what).or_insert(0) += count;
        }
    }
    let mut decisions: Vec<Decision> = readings
        .into_iter()
        .filter_map(|((field, reading), count)| reading_decision(field, reading, count, zone))
        .collect();
    let hidden = shared.iter().map(|one| one.hidden).sum();
    let ambiguous = shared.iter().map(|one| one.zone.ambiguous.get()).sum();
    decisions.extend(counted(
        hidden,
        "names kept as `other`",
        "models, providers or errors that could be a person, a key or an address",
    ));
    decisions.extend(counted(
        ambiguous,
        "times where clocks change",
        "the zone has them twice, and the first is taken, or never; order there is not sure",
    ));
    decisions
        .extend(remarks.into_iter().filter_map(|(what, count)| counted(count, what, "counted")));
    decisions
}

fn counted(count: u64, what: &str, why: &str) -> Option<Decision> {
    let decision =
        Decision { what: what.to_owned(), value: count.to_string(), why: why.to_owned() };
    (count > 0).then_some(decision)
}

/// Says how a field's instants were read; nothing where the log leaves no choice.
fn reading_decision(field: &str, reading: Reading, count: u64, zone: &Zone) -> Option<Decision> {
    let told = zone.told.then_some("`--tz`; the times carry no zone");
    let (what, value, why) = match reading {
        Reading::Zoned => return None,
        Reading::NaiveUtc => (
            "zone",
            zone.name.as_str(),
            told.unwrap_or("the source writes UTC without a zone; `--tz` changes it"),
        ),
        Reading::NaiveLocal => (
            "zone",
            zone.name.as_str(),
            told.unwrap_or(
                "assumed: the source writes the local time of its machine; name its zone with `--tz`",
            ),
        ),
        Reading::Epoch(unit) => ("unit", unit.as_str(), "since 1970, by the numbers' magnitude"),
        Reading::Ticks => ("unit", "100 ns", "ticks since year 1"),
    };
    Some(Decision {
        what: format!("{what} of `{field}`"),
        value: value.to_owned(),
        why: format!("{why}; {count} values"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::privacy::Hasher;
    use crate::ingest::stamp::Unit;

    fn shared(readings: &[(&'static str, Reading, u64)]) -> Shared {
        let mut shared = Shared::new(Hasher::new(b"a salt for tests"), Zone::utc());
        for (field, reading, count) in readings {
            shared.count_reading(field, *reading, *count);
        }
        shared
    }

    #[test]
    fn threads_add_up() {
        let one = shared(&[
            ("ts", Reading::Epoch(Unit::Seconds), 2),
            ("start", Reading::Zoned, 9),
            ("start", Reading::NaiveUtc, 1),
        ]);
        let mut two = shared(&[
            ("ts", Reading::Epoch(Unit::Nanos), 1),
            ("ts", Reading::Epoch(Unit::Seconds), 3),
        ]);
        two.remark("empty traces");
        two.hidden = 4;
        let lines: Vec<String> = decisions(&[one, two], &Zone::utc())
            .into_iter()
            .map(|made| format!("{}: {} ({})", made.what, made.value, made.why))
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        zone of `start`: UTC (the source writes UTC without a zone; `--tz` changes it; 1 values)
        unit of `ts`: s (since 1970, by the numbers' magnitude; 5 values)
        unit of `ts`: ns (since 1970, by the numbers' magnitude; 1 values)
        names kept as `other`: 4 (models, providers or errors that could be a person, a key or an address)
        empty traces: 1 (counted)
        ");
    }

    #[test]
    fn a_told_zone_is_named() {
        let one = shared(&[("ts", Reading::NaiveLocal, 1)]);
        let zone = Zone::named("Europe/Berlin").unwrap();
        let found = decisions(&[one], &zone);
        assert_eq!(found[0].value, "Europe/Berlin");
        assert!(found[0].why.starts_with("`--tz`"), "{}", found[0].why);
    }
}
