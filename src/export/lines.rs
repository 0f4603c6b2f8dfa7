//! JSON lines for Mooncake's readers, AIPerf and GuideLLM.
//!
//! Requests in order of time in, one line each out; times count from the first line's. Mooncake:
//! whole milliseconds (cut). AIPerf: milliseconds with a fraction where there is one; with sessions,
//! on request, later turns carry `delay`, the wait after the answer before, and every turn holds its
//! whole prompt (`context_mode`). GuideLLM: seconds, no sessions.
//! A request without a token count, with a count of 0, or without a time is left out and counted.

use super::Format;
use super::blocks::Blocks;
use super::request::Request;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// Reasons that `--require-complete` refuses: something the row should know is missing.
pub const INCOMPLETE: [&str; 3] = ["no_time", "no_input_tokens", "no_output_tokens"];

/// Writes one format.
#[derive(Debug)]
pub struct Exporter {
    format: Format,
    keep_cache_hits: bool,
    with_sessions: bool,
    blocks: Blocks,
    origin_us: Option<i64>,
    /// Number of a session and the last request written of it.
    sessions: HashMap<u128, (u64, u64)>,
    counts: Counts,
}

/// What was written and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests seen.
    pub read: u64,
    /// Requests written.
    pub written: u64,
    /// Requests left out, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
    /// Sessions written.
    pub sessions: u64,
    /// Requests written with a delay after another's end.
    pub delays: u64,
    /// Times that were cut to the format's unit.
    pub cut_times: u64,
}

impl Counts {
    /// Returns the requests left out since they lack something.
    pub fn incomplete(&self) -> u64 {
        INCOMPLETE.iter().filter_map(|reason| self.left_out.get(reason)).sum()
    }
}

/// When a line is due.
#[derive(Clone, Copy)]
enum Due {
    /// Microseconds after the first line.
    At(u64),
    /// Microseconds after the end of the turn before.
    Delay(u64),
}

impl Exporter {
    /// Starts an export; `block_size` is that of the prefix blocks, in tokens.
    pub fn new(format: Format, block_size: u32, keep_cache_hits: bool) -> Self {
        Self {
            format,
            keep_cache_hits,
            with_sessions: false,
            blocks: Blocks::new(block_size),
            origin_us: None,
            sessions: HashMap::new(),
            counts: Counts::default(),
        }
    }

    /// Writes sessions, too, where the format has them.
    #[must_use]
    pub fn with_sessions(mut self, with_sessions: bool) -> Self {
        self.with_sessions = with_sessions;
        self
    }

    /// Returns what was done so far.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the prefix blocks.
    pub const fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Appends the line of a request to `out`, or counts why there is none.
    pub fn push(&mut self, request: &Request<'_>, out: &mut String) {
        self.counts.read += 1;
        match self.line(request) {
            Ok(line) => {
                self.counts.written += 1;
                out.push_str(&line);
                out.push('\n');
            }
            Err(reason) => *self.counts.left_out.entry(reason).or_insert(0) += 1,
        }
    }

    fn line(&mut self, request: &Request<'_>) -> Result<String, &'static str> {
        if request.is_cache_hit && !self.keep_cache_hits {
            return Err("cache_hit");
        }
        if !request.is_generation {
            return Err("not_generation");
        }
        let above_zero = |count: Option<u32>| count.filter(|count| *count > 0);
        let input = above_zero(request.input_tokens).ok_or("no_input_tokens")?;
        let output = above_zero(request.output_tokens).ok_or("no_output_tokens")?;
        let due = self.due(request).ok_or("no_time")?;
        let session = self.session(request);
        let mut line = String::from("{");
        self.write_time(due, &mut line);
        if let Some(session) = session {
            // AIPerf wants a text; the mode keeps it from putting the history before each turn.
            let mode = "message_array_with_responses";
            push(
                &mut line,
                format_args!("\"session_id\":\"{session}\",\"context_mode\":\"{mode}\","),
            );
        }
        push(&mut line, format_args!("\"input_length\":{input},\"output_length\":{output}"));
        let wants_blocks = match self.format {
            Format::Mooncake => true,
            Format::Aiperf => !request.blocks.is_empty(),
            Format::Guidellm | Format::DatasetJson => false,
        };
        if wants_blocks {
            let numbers = self.blocks.number(request, input);
            let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            push(&mut line, format_args!(",\"hash_ids\":[{}]", numbers.join(",")));
        }
        line.push('}');
        Ok(line)
    }

    /// Returns when a request is due: AIPerf's later turns wait for the answer before, where the
    /// request that was answered is in the file.
    fn due(&mut self, request: &Request<'_>) -> Option<Due> {
        if self.has_sessions()
            && let Some((parent, delay)) = request.after
            && let Ok(delay) = u64::try_from(delay)
        {
            let known = request.session.and_then(|session| self.sessions.get(&session));
            if known.is_some_and(|(_, last)| *last == parent) {
                self.counts.delays += 1;
                return Some(Due::Delay(delay));
            }
        }
        let at = request.at_us?;
        let origin = *self.origin_us.get_or_insert(at);
        // Requests come in order of time; one before the first would be a mistake of its file.
        u64::try_from(at.saturating_sub(origin)).ok().map(Due::At)
    }

    /// Whether lines name sessions: asked for, since AIPerf up to 0.13 puts the lengths of earlier
    /// turns on top of a length that holds them already.
    fn has_sessions(&self) -> bool {
        self.with_sessions && self.format == Format::Aiperf
    }

    /// Returns the number of a request's session, where the format has sessions.
    fn session(&mut self, request: &Request<'_>) -> Option<u64> {
        if !self.has_sessions() {
            return None;
        }
        let next = self.counts.sessions;
        let (number, last) =
            self.sessions.entry(request.session?).or_insert((next, request.number));
        *last = request.number;
        self.counts.sessions += u64::from(*number == next);
        Some(*number)
    }

    fn write_time(&mut self, due: Due, line: &mut String) {
        let (key, micros) = match due {
            Due::At(micros) => ("timestamp", micros),
            Due::Delay(micros) => ("delay", micros),
        };
        let (millis, rest) = (micros / 1_000, micros % 1_000);
        match self.format {
            Format::Mooncake => {
                self.counts.cut_times += u64::from(rest > 0);
                push(line, format_args!("\"{key}\":{millis},"));
            }
            Format::Aiperf if rest > 0 => push(line, format_args!("\"{key}\":{millis}.{rest:03},")),
            Format::Aiperf => push(line, format_args!("\"{key}\":{millis},")),
            Format::Guidellm | Format::DatasetJson => {
                let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
                push(line, format_args!("\"{key}\":{seconds}.{rest:06},"));
            }
        }
    }
}

fn push(line: &mut String, text: std::fmt::Arguments<'_>) {
    line.write_fmt(text).expect("a string takes any text");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::record::{CacheStatus, Hash128, Operation, RequestRecord};
    use crate::domain::scenario::Scenario;
    use crate::domain::schedule::{CountKind, Release, ScheduledRequest};
    use crate::domain::time::{Nanos, WallTime};

    fn row(arrival_us: i64, input: u32, output: u32) -> RequestRecord {
        let mut row = RequestRecord::unknown("test".into(), 0, 1);
        row.arrival_time = Some(WallTime(1_700_000_000_000_000 + arrival_us));
        (row.input_tokens, row.output_tokens) = (Some(input), Some(output));
        row
    }

    fn export(format: Format, rows: &[RequestRecord]) -> (Vec<String>, Counts) {
        let mut exporter = Exporter::new(format, 512, false).with_sessions(true);
        let mut out = String::new();
        for (row_id, row) in (0..).zip(rows) {
            exporter.push(&Request::of_trace(row, row_id), &mut out);
        }
        (out.lines().map(str::to_owned).collect(), exporter.counts().clone())
    }

    #[test]
    fn times_count_from_the_first_line_in_the_formats_unit() {
        let rows = [row(500, 600, 3), row(2_001_999, 5, 1)];
        let (lines, counts) = export(Format::Mooncake, &rows);
        assert_eq!(
            lines,
            [
                r#"{"timestamp":0,"input_length":600,"output_length":3,"hash_ids":[0,1]}"#,
                r#"{"timestamp":2001,"input_length":5,"output_length":1,"hash_ids":[2]}"#,
            ]
        );
        assert_eq!((counts.written, counts.cut_times), (2, 1));
        let (lines, _) = export(Format::Guidellm, &rows);
        assert_eq!(lines[1], r#"{"timestamp":2.001499,"input_length":5,"output_length":1}"#);
        let (lines, counts) = export(Format::Aiperf, &rows);
        assert_eq!(lines[1], r#"{"timestamp":2001.499,"input_length":5,"output_length":1}"#);
        assert_eq!(counts.cut_times, 0);
    }

    #[test]
    fn what_cannot_be_read_is_left_out_and_counted() {
        let mut rows = vec![row(0, 1, 1); 7];
        rows[0].arrival_time = None;
        rows[1].input_tokens = None;
        rows[2].output_tokens = None;
        rows[3].output_tokens = Some(0);
        rows[4].cache_status = Some(CacheStatus::Hit);
        rows[5].operation = Operation::Embeddings;
        let (lines, counts) = export(Format::Guidellm, &rows);
        assert_eq!(lines.len(), 1);
        let left: Vec<_> = counts.left_out.iter().map(|(reason, n)| (*reason, *n)).collect();
        let want = [
            ("cache_hit", 1),
            ("no_input_tokens", 1),
            ("no_output_tokens", 2),
            ("no_time", 1),
            ("not_generation", 1),
        ];
        assert_eq!(left, want);
        assert_eq!((counts.read, counts.written, counts.incomplete()), (7, 1, 4));
        assert_eq!(export(Format::Mooncake, &[]).0, [""; 0]);
    }

    /// Three turns of one session; the think times are 1.5 s and -1 s.
    fn session() -> Vec<RequestRecord> {
        let mut rows = vec![row(0, 10, 1), row(2_000_000, 20, 1), row(3_000_000, 30, 1)];
        for row in &mut rows {
            row.session_id_hash = Some(Hash128([7; 16]));
        }
        (rows[1].parent_row_id, rows[1].think_time_us) = (Some(0), Some(1_500_000));
        (rows[2].parent_row_id, rows[2].think_time_us) = (Some(1), Some(-1_000_000));
        rows
    }

    #[test]
    fn later_turns_wait_for_the_answer_unless_they_overlapped_it() {
        let (lines, counts) = export(Format::Aiperf, &session());
        let head = |line: &str| line.split(",\"input").next().unwrap_or_default().to_owned();
        let mode = r#""session_id":"0","context_mode":"message_array_with_responses""#;
        let want = [r#""timestamp":0"#, r#""delay":1500"#, r#""timestamp":3000"#];
        let heads: Vec<String> = lines.iter().map(|line| head(line)).collect();
        assert_eq!(heads, want.map(|time| format!("{{{time},{mode}")));
        assert_eq!((counts.sessions, counts.delays), (1, 1));
    }

    #[test]
    fn a_turn_whose_turn_before_is_left_out_keeps_its_time() {
        let mut rows = session();
        rows[0].output_tokens = None;
        let (lines, counts) = export(Format::Aiperf, &rows);
        assert!(lines[0].starts_with(r#"{"timestamp":0,"session_id":"0""#), "{lines:?}");
        assert!(lines[1].starts_with(r#"{"timestamp":1000,"#), "{lines:?}");
        assert_eq!(counts.delays, 0);
    }

    #[test]
    fn plans_keep_their_offsets() {
        let request = |request_id, release| ScheduledRequest {
            request_id,
            scenario: Scenario::MultiTurn,
            session_id: Some(5),
            turn_index: None,
            release,
            prompt_parts: Vec::new(),
            input_tokens: 40,
            count_kind: CountKind::Raw,
            content_tokens: 40,
            template_tokens: None,
            max_tokens: 9,
            min_tokens: None,
            stream: true,
            prefix_block_ids: Vec::new(),
            recorded_status: None,
            repeat_of: None,
        };
        let after = Release::After { request_id: 3, delay: Nanos(2_500_000) };
        let rows = [request(3, Release::At(Nanos(0))), request(4, after)];
        let mut exporter = Exporter::new(Format::Aiperf, 512, false).with_sessions(true);
        let mut out = String::new();
        for row in &rows {
            exporter.push(&Request::of_plan(row), &mut out);
        }
        assert!(out.contains("{\"delay\":2.500,\"session_id\":\"0\""), "{out}");
        let mut exporter = Exporter::new(Format::Guidellm, 512, false);
        let when_free = request(5, Release::WhenFree);
        exporter.push(&Request::of_plan(&rows[1]), &mut out);
        exporter.push(&Request::of_plan(&when_free), &mut out);
        assert_eq!(exporter.counts().left_out.get("no_time"), Some(&2));
    }
}
