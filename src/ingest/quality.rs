//! The quality table: what a trace holds, what it lacks, and what looks wrong.
//!
//! One pass over the rows as they are written; counts only, no rates of anything that was not
//! seen. A column's coverage is the share of rows that have it. Printed by `cli`, in this order.

use crate::domain::convert;
use crate::domain::record::{ArrivalSource, Flag, RagLabel, RequestRecord, SessionSource, Status};
use crate::domain::time::WallTime;
use crate::domain::trace::TraceMetadata;

/// Returns whether a row has a value in a column.
type HasValue = fn(&RequestRecord) -> bool;

/// The columns whose coverage is shown.
const COLUMNS: &[(&str, HasValue)] = &[
    ("arrival_time", |row| row.arrival_time.is_some()),
    ("end_time", |row| row.end_time.is_some()),
    ("time_to_first_chunk", |row| row.time_to_first_chunk_us.is_some()),
    ("input_tokens", |row| row.input_tokens.is_some()),
    ("output_tokens", |row| row.output_tokens.is_some()),
    ("cached_tokens", |row| row.cache_read_input_tokens.is_some()),
    ("model", |row| row.request_model.is_some()),
    ("session", |row| row.session_id_hash.is_some()),
    ("user", |row| row.user_hash.is_some()),
    ("stream", |row| row.stream.is_some()),
    ("finish_reason", |row| !row.finish_reasons.is_empty()),
    ("prefix_blocks", |row| !row.prefix_block_hashes.is_empty()),
];

/// Further columns, shown where some row has them: few logs do.
const RARER: &[(&str, HasValue)] = &[
    ("response_model", |row| row.response_model.is_some()),
    ("key", |row| row.key_hash.is_some()),
    ("http_status", |row| row.http_status_code.is_some()),
    ("max_tokens", |row| row.max_tokens.is_some()),
    ("reasoning_tokens", |row| row.reasoning_output_tokens.is_some()),
    ("queue_time", |row| row.queue_time_us.is_some()),
    ("messages", |row| row.message_count.is_some()),
    ("tools", |row| row.tool_definition_count.is_some_and(|tools| tools > 0)),
    ("images", |row| row.image_count.is_some_and(|images| images > 0)),
    ("parent", |row| row.parent_row_id.is_some()),
];

/// What was seen in the rows of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quality {
    rows: u64,
    covered: [u64; COLUMNS.len()],
    rarer: [u64; RARER.len()],
    sessions: [u64; SessionSource::ALL.len()],
    labels: [u64; RagLabel::ALL.len()],
    overlaps: u64,
    statuses: [u64; Status::ALL.len()],
    arrivals: [u64; ArrivalSource::ALL.len()],
    flags: [u64; Flag::ALL.len()],
    zero_output: u64,
    zone_assumed: u64,
    first: Option<WallTime>,
    last: Option<WallTime>,
    biggest_gap_us: Option<i64>,
    gap_after: Option<WallTime>,
}

impl Quality {
    /// Counts a row; rows come in order of arrival.
    pub fn observe(&mut self, row: &RequestRecord) {
        self.rows += 1;
        for (count, (_, has_value)) in self.covered.iter_mut().zip(COLUMNS) {
            *count += u64::from(has_value(row));
        }
        for (count, (_, has_value)) in self.rarer.iter_mut().zip(RARER) {
            *count += u64::from(has_value(row));
        }
        for (count, source) in self.sessions.iter_mut().zip(SessionSource::ALL) {
            *count += u64::from(row.session_source == *source);
        }
        for (count, label) in self.labels.iter_mut().zip(RagLabel::ALL) {
            *count += u64::from(row.rag_label == *label);
        }
        self.overlaps += u64::from(row.think_time_us.is_some_and(|think| think < 0));
        for (count, status) in self.statuses.iter_mut().zip(Status::ALL) {
            *count += u64::from(row.status == *status);
        }
        for (count, source) in self.arrivals.iter_mut().zip(ArrivalSource::ALL) {
            *count += u64::from(row.arrival_source == *source);
        }
        for (count, flag) in self.flags.iter_mut().zip(Flag::ALL) {
            *count += u64::from(row.flags.contains(flag));
        }
        self.zero_output += u64::from(row.output_tokens == Some(0));
        self.zone_assumed += u64::from(row.zone_assumed);
        let Some(arrival) = row.arrival_time else { return };
        if let Some(last) = self.last {
            let gap = arrival.micros_since(last);
            if Some(gap) > self.biggest_gap_us {
                self.biggest_gap_us = Some(gap);
                self.gap_after = Some(last);
            }
        }
        self.first = self.first.or(Some(arrival));
        self.last = Some(arrival);
    }

    /// Returns the rows with a status.
    pub fn with_status(&self, status: Status) -> u64 {
        let place = Status::ALL.iter().position(|known| *known == status);
        place.and_then(|place| self.statuses.get(place)).copied().unwrap_or(0)
    }

    /// Returns the rows with a flag.
    pub fn with_flag(&self, flag: Flag) -> u64 {
        let place = Flag::ALL.iter().position(|known| *known == flag);
        place.and_then(|place| self.flags.get(place)).copied().unwrap_or(0)
    }

    /// Returns the table as text, with the decisions behind it.
    pub fn render(&self, metadata: &TraceMetadata) -> String {
        let lines = self.lines(metadata).into_iter();
        lines.map(|(name, value)| format!("{name:<28} {value}\n")).collect::<Vec<_>>().concat()
    }

    /// Returns the lines of the table: name and value.
    pub fn lines(&self, metadata: &TraceMetadata) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        let mut line = |name: &str, value: String| lines.push((name.to_owned(), value));
        line("rows", self.rows.to_string());
        if let (Some(first), Some(last)) = (self.first, self.last) {
            line("first arrival", first.to_string());
            line("last arrival", last.to_string());
            line("span", seconds(last.micros_since(first)));
        }
        if let (Some(gap), Some(after)) = (self.biggest_gap_us, self.gap_after) {
            line("biggest gap", format!("{}, after {after}", seconds(gap)));
        }
        for (status, count) in Status::ALL.iter().zip(self.statuses).filter(|(_, n)| *n > 0) {
            line(&format!("status {status}"), self.share(count));
        }
        for (column, count) in ["input_tokens", "output_tokens"].iter().filter_map(|column| {
            let place = COLUMNS.iter().position(|(name, _)| name == column)?;
            Some((column, self.covered.get(place)?))
        }) {
            line(&format!("missing {column}"), self.share(self.rows - count));
        }
        line("output_tokens = 0", self.share(self.zero_output));
        line("start = end", self.share(self.with_flag(Flag::StartEqualsEnd)));
        line("negative span", self.share(self.with_flag(Flag::NegativeDuration)));
        for (flag, count) in Flag::ALL.iter().zip(self.flags) {
            let shown = matches!(flag, Flag::StartEqualsEnd | Flag::NegativeDuration);
            if count > 0 && !shown {
                line(&format!("flag {flag}"), self.share(count));
            }
        }
        if self.zone_assumed > 0 {
            line("zone assumed", self.share(self.zone_assumed));
        }
        for ((name, _), count) in COLUMNS.iter().zip(self.covered) {
            line(&format!("has {name}"), self.share(count));
        }
        for (name, count) in self.only_where_seen() {
            line(&name, self.share(count));
        }
        for decision in &metadata.decisions {
            line(&decision.what, format!("{} ({})", decision.value, decision.why));
        }
        lines
    }

    /// Returns the lines that appear only where some row has what they count.
    fn only_where_seen(&self) -> Vec<(String, u64)> {
        let rarer = RARER.iter().zip(self.rarer).map(|((name, _), n)| (format!("has {name}"), n));
        let arrivals = ArrivalSource::ALL.iter().zip(self.arrivals);
        let arrivals = arrivals
            .filter(|(source, _)| **source != ArrivalSource::Logged)
            .map(|(source, count)| (format!("arrival {source}"), count));
        let sessions = SessionSource::ALL.iter().zip(self.sessions);
        let sessions = sessions
            .filter(|(source, _)| **source != SessionSource::None)
            .map(|(source, count)| (format!("session by {source}"), count));
        let overlaps = std::iter::once(("turns that overlap".to_owned(), self.overlaps));
        // Where nothing could be judged, there is nothing to tell apart.
        let judged = RagLabel::ALL.iter().zip(self.labels);
        let judged = judged.clone().filter(move |_| {
            judged.clone().any(|(label, count)| *label != RagLabel::Unknowable && count > 0)
        });
        let labels = judged.map(|(label, count)| (format!("retrieval {label}"), count));
        let lines = arrivals.chain(rarer).chain(sessions).chain(overlaps).chain(labels);
        lines.filter(|(_, count)| *count > 0).collect()
    }

    fn share(&self, count: u64) -> String {
        if self.rows == 0 {
            return count.to_string();
        }
        let percent = 100.0 * convert::float(count) / convert::float(self.rows);
        format!("{count:>10}  {percent:>6.2} %")
    }
}

fn seconds(micros: i64) -> String {
    format!("{:.6} s", convert::float_signed(micros) / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::trace::Decision;

    #[test]
    fn the_table_counts_what_is_there_and_what_is_not() {
        let mut quality = Quality::default();
        for (arrival, output) in [(0, Some(3)), (2_500_000, Some(0)), (3_000_000, None)] {
            let mut row = RequestRecord::unknown("test".into(), 0, 1);
            row.arrival_time = Some(WallTime(arrival));
            row.input_tokens = Some(5);
            row.output_tokens = output;
            row.status = if output == Some(0) { Status::Error } else { Status::Unknown };
            row.zone_assumed = true;
            if output.is_none() {
                row.flags = vec![Flag::ZeroMeansUnknown, Flag::StartEqualsEnd];
            }
            quality.observe(&row);
        }
        let metadata = TraceMetadata {
            decisions: vec![Decision {
                what: "unit of `timestamp`".to_owned(),
                value: "ms".to_owned(),
                why: "a guess".to_owned(),
            }],
            ..TraceMetadata::default()
        };
        let text: Vec<String> =
            quality.render(&metadata).lines().map(|line| line.trim_end().to_owned()).collect();
        insta::assert_snapshot!(text.join("\n"), @r#"
        rows                         3
        first arrival                1970-01-01T00:00:00.000000Z
        last arrival                 1970-01-01T00:00:03.000000Z
        span                         3.000000 s
        biggest gap                  2.500000 s, after 1970-01-01T00:00:00.000000Z
        status error                          1   33.33 %
        status unknown                        2   66.67 %
        missing input_tokens                  0    0.00 %
        missing output_tokens                 1   33.33 %
        output_tokens = 0                     1   33.33 %
        start = end                           1   33.33 %
        negative span                         0    0.00 %
        flag zero_means_unknown               1   33.33 %
        zone assumed                          3  100.00 %
        has arrival_time                      3  100.00 %
        has end_time                          0    0.00 %
        has time_to_first_chunk               0    0.00 %
        has input_tokens                      3  100.00 %
        has output_tokens                     2   66.67 %
        has cached_tokens                     0    0.00 %
        has model                             0    0.00 %
        has session                           0    0.00 %
        has user                              0    0.00 %
        has stream                            0    0.00 %
        has finish_reason                     0    0.00 %
        has prefix_blocks                     0    0.00 %
        arrival none                          3  100.00 %
        unit of `timestamp`          ms (a guess)
        "#);
        assert_eq!(quality.with_status(Status::Error), 1);
        assert_eq!(quality.with_flag(Flag::StartEqualsEnd), 1);
    }

    #[test]
    fn rarer_things_have_lines_where_they_are_seen() {
        let mut quality = Quality::default();
        for (source, label, think) in [
            (SessionSource::MessageChain, RagLabel::Strong, Some(-1)),
            (SessionSource::MessageChain, RagLabel::Unknowable, Some(0)),
            (SessionSource::None, RagLabel::Unknowable, None),
        ] {
            let mut row = RequestRecord::unknown("test".into(), 0, 1);
            row.session_source = source;
            row.rag_label = label;
            row.think_time_us = think;
            row.parent_row_id = think.map(|_| 0);
            quality.observe(&row);
        }
        let lines: Vec<_> =
            quality.only_where_seen().into_iter().map(|(name, n)| format!("{name} {n}")).collect();
        let expected = [
            "arrival none 3",
            "has parent 2",
            "session by message_chain 2",
            "turns that overlap 1",
            "retrieval strong 1",
            "retrieval unknowable 2",
        ];
        assert_eq!(lines, expected);
        let mut quality = Quality::default();
        let mut logged = RequestRecord::unknown("test".into(), 0, 1);
        logged.arrival_source = ArrivalSource::Logged;
        quality.observe(&logged);
        assert_eq!(quality.only_where_seen(), Vec::new(), "nothing to judge by");
    }

    #[test]
    fn no_rows_no_shares() {
        let text = Quality::default().render(&TraceMetadata::default());
        assert!(text.starts_with("rows                         0\n"), "{text}");
        assert!(!text.contains('%') && !text.contains("arrival  "), "{text}");
    }
}
