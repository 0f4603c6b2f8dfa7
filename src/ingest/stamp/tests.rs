//! Tests of instants: texts, units of columns, odd values.

use super::*;
use proptest::prelude::*;

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
    let at = |text| parse(text, &zone.zone).map(|stamp| (stamp.at.0 / 1_000_000, stamp.ambiguous));
    // Clocks went back at 03:00 summer time; the first of the two instants is taken.
    let (first, _) = at("2026-10-25 02:30:00+02:00").unwrap();
    assert_eq!(at("2026-10-25 02:30:00"), Some((first, true)));
    assert_eq!(at("2026-10-25 03:00:00").map(|(_, ambiguous)| ambiguous), Some(false));
    assert_eq!(at("2026-03-29 02:30:00").map(|(_, ambiguous)| ambiguous), Some(true));
}

fn decide(values: &[Loose<'_>], name: &str, told: Option<Unit>) -> Result<String, String> {
    let (column, decisions) = TimeColumn::decide(&"f".into(), name, values, told, &Zone::utc())
        .map_err(|e| e.to_string())?;
    let decision = decisions.first().map_or("-".to_owned(), |d| format!("{} | {}", d.value, d.why));
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
fn one_odd_time_in_twenty_decides_nothing_and_is_refused() {
    use Loose::Int;
    let zone = Zone::utc();
    let of = |usual: &Loose<'static>, odd: &Loose<'static>, times: usize| {
        let mut values = vec![usual.clone(); times];
        values.push(odd.clone());
        let (column, _) = TimeColumn::decide(&"f".into(), "t", &values, None, &zone).ok()?;
        assert!(column.read(usual, "t", &zone).unwrap().is_some());
        assert!(matches!(column.read(odd, "t", &zone), Err(Refusal::Reject(_))), "{odd:?}");
        Some(())
    };
    let (second, milli, offset) = (Int(1_795_511_731), Int(1_795_511_731_100), Int(7));
    let text = Loose::cell(Some("2026-01-01 00:00:00"));
    let word = Loose::cell(Some("canary"));
    for (usual, odd) in [
        (&second, &milli),
        (&second, &offset),
        (&second, &text),
        (&second, &word),
        (&offset, &second),
        (&offset, &word),
        (&text, &second),
        (&text, &word),
    ] {
        assert_eq!(of(usual, odd, 19), Some(()), "{usual:?} {odd:?}");
    }
    // One of nineteen is above the share.
    assert_eq!(of(&second, &milli, 18), None);
    assert_eq!(of(&text, &second, 18), None);
}

#[test]
fn later_values_are_held_to_the_decision() {
    use Loose::{Float, Int};
    let zone = Zone::utc();
    let column =
        |values: &[Loose<'_>]| TimeColumn::decide(&"f".into(), "t", values, None, &zone).unwrap().0;
    let seconds = column(&[Int(1_795_511_731)]);
    assert!(matches!(seconds.read(&Int(1_795_511_731_100), "t", &zone), Err(Refusal::Reject(_))));
    assert!(matches!(seconds.read(&Int(0), "t", &zone), Err(Refusal::Reject(_))));
    assert_eq!(seconds.read(&Loose::Null, "t", &zone), Ok(None));
    let millis = column(&[Int(0), Int(5)]);
    let date = Int(1_795_511_731);
    assert!(matches!(millis.read(&date, "t", &zone), Err(Refusal::MixedUnits { .. })));
    assert!(matches!(millis.read(&Float(0.5), "t", &zone), Err(Refusal::MixedUnits { .. })));
    assert!(matches!(millis.read(&Int(-5), "t", &zone), Err(Refusal::Reject(_))));
    let read = millis.read(&Int(7), "t", &zone).unwrap().unwrap();
    assert_eq!((read.at, read.quantum_us), (WallTime(7_000), 1_000));
    assert_eq!(Unit::Nanos.to_micros(Number::Int(46_926_808)), Some(46_926));
    assert_eq!(Unit::Seconds.to_micros(Number::Float(f64::NAN)), None);
    assert_eq!(Unit::Seconds.to_micros(Number::Int(i64::MAX)), None);
}

proptest! {
    #[test]
    fn days_are_those_of_the_calendar(
        (year, month, day) in (1_i16..=9998, 0_i8..=13, 0_i8..=32),
        (hour, minute, second) in (0_i8..=24, 0_i8..=60, 0_i8..=60),
    ) {
        let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
        let civil = DateTime::new(year, month, day, hour, minute, second, 0).ok();
        let at = civil.map(|civil| TimeZone::UTC.to_timestamp(civil).unwrap().as_microsecond());
        prop_assert_eq!(micros(&text).map(|(at, ..)| at), at, "{}", text);
        let plus_one = TimeZone::fixed(jiff::tz::offset(1));
        let naive = parse(&text, &plus_one).map(|stamp| stamp.at.0 + 3_600_000_000);
        prop_assert_eq!(naive, at);
    }
}
