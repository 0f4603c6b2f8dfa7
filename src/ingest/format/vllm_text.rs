//! vLLM's request log: `Received request ID: ...` and `Generated response ID ...: ...`, as text.
//!
//! Times are `MM-DD HH:MM:SS`: whole seconds, local, without year, so `--year` is asked for unless
//! a date with the year stands in front of a line. It is the year of each file's first line: within
//! a file, after a December a January is of the next year; several files of different years are to
//! be read apart.
//! Prompts may hold newlines and the text of other log lines: a record goes on until its quotes
//! close, and is read from its last `params: SamplingParams(`. Input tokens are the logged ids of
//! the prompt, if these were not cut; output tokens those of the answer. Both lines of a request
//! share its id and are put together later. Source: `vllm-project/vllm`,
//! `vllm/entrypoints/logger.py`, `vllm/logger.py`.

use super::text::{argument, arguments, count_argument, plain, unescaped};
use super::{
    Adapter, At, Draft, Format, Hints, Input, Join, Made, Naive, Out, Refusal, Role, Shared, fill,
};
use crate::domain::convert;
use crate::domain::record::{Operation, RequestRecord, Status, TokenSource};
use crate::domain::trace::Decision;
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::privacy::Column;
use crate::ingest::sample::{Records, Sample};
use std::borrow::Cow;

/// Words in front of the time.
const LEVELS: [&str; 5] = ["INFO", "DEBUG", "WARNING", "ERROR", "CRITICAL"];
/// How far into a line its time may begin: behind process names and stamps of containers.
const MAX_PREFIX: usize = 512;
/// Longest record; what follows an answer whose end never came is not swallowed for ever.
const MAX_RECORD: usize = 1 << 20;
/// How much of a record's end is searched for its close.
const TAIL: usize = 1 << 15;
/// What begins the parameters of a request, and of one without sampling.
const PARAMS: [&str; 4] = [
    "params: SamplingParams(",
    "params: PoolingParams(",
    "sampling_params: SamplingParams(",
    "sampling params: SamplingParams(",
];

struct VllmText {
    /// Year of the file's first time.
    year: i32,
    /// Its month.
    first_month: Option<u8>,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// If the year is not told and no line shows it.
pub fn make(sample: &Sample, hints: &Hints) -> Result<Made, IngestError> {
    let lines = match &sample.records {
        Records::Text(lines) | Records::Jsonl(lines) => lines.as_slice(),
        Records::Csv(..) => &[],
    };
    let plain: Vec<Cow<'_, str>> = lines.iter().map(|line| plain(line)).collect();
    let mut heads = plain.iter().filter_map(|line| Head::parse(line));
    let first_month = heads.clone().next().and_then(|head| head.month());
    let shown = heads.find_map(|head| head.year());
    let (year, why) = match (hints.year, shown) {
        (Some(year), _) => (
            year,
            "`--year` is that of the first line of each file; in a file, after a December a \
             January is of the next year",
        ),
        (None, Some(year)) => (year, "the dates in front of the lines; `--year` changes it"),
        (None, None) => return Err(IngestError::NoYear { file: sample.file.clone() }),
    };
    // A line for each month that a file begins in, without the names of files, which stay out of
    // the trace: so a January is seen that was put in front of a December.
    let value = match first_month {
        Some(month) => format!("{year}, of a file that begins in {year}-{month:02}"),
        None => year.to_string(),
    };
    let what = "year of the times".to_owned();
    let decision = Decision { what, value, why: why.to_owned() };
    Ok((Box::new(VllmText { year, first_month }), vec![decision]))
}

/// The time of a line and what is around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head<'a> {
    before: &'a str,
    /// `MM-DD`.
    date: &'a str,
    /// `HH:MM:SS`.
    clock: &'a str,
    /// Behind the name of the source file.
    message: &'a str,
}

impl<'a> Head<'a> {
    /// Finds `LEVEL MM-DD HH:MM:SS [FILE:LINE] ` near the beginning of a line.
    fn parse(line: &'a str) -> Option<Self> {
        let dashes = line.match_indices('-').map(|(at, _)| at);
        let (before, date, rest) = dashes.take_while(|at| *at < MAX_PREFIX).find_map(|at| {
            let (before, rest) = line.split_at_checked(at.checked_sub(2)?)?;
            let (date, rest) = rest.split_at_checked(5)?;
            let level = before.strip_suffix(' ')?;
            let is_level = LEVELS.iter().any(|name| level.ends_with(name));
            (is_level && has_form(date, "00-00")).then_some((before, date, rest))
        })?;
        let (clock, rest) = rest.strip_prefix(' ')?.split_at_checked(8)?;
        // `[logger.py:42] `, in older versions without the first bracket.
        let (file, message) = rest.split_once("] ")?;
        let is_file = !file.trim_start().contains(char::is_whitespace);
        (is_file && has_form(clock, "00:00:00")).then_some(Self { before, date, clock, message })
    }

    fn month(&self) -> Option<u8> {
        self.date.split_once('-')?.0.parse().ok()
    }

    /// Returns the year of a date in front that has the same month and day.
    fn year(&self) -> Option<i32> {
        let (year, _) = self.before.split_once(&format!("-{}", self.date))?;
        let year = year.get(year.len().checked_sub(4)?..)?;
        has_form(year, "0000").then(|| year.parse().ok()).flatten()
    }
}

/// Returns whether a text has digits where the form has `0`, and else the same characters.
fn has_form(text: &str, form: &str) -> bool {
    let fits = |(byte, wanted): (u8, u8)| {
        if wanted == b'0' { byte.is_ascii_digit() } else { byte == wanted }
    };
    text.len() == form.len() && text.bytes().zip(form.bytes()).all(fits)
}

/// A request or an answer, in its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event<'a> {
    Received { id: &'a str, prompt: Option<&'a str>, params: Option<&'a str> },
    Generated { id: &'a str, kind: Kind, tail: &'a str },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Whole,
    Delta,
    Complete,
}

impl<'a> Event<'a> {
    fn parse(message: &'a str) -> Option<Self> {
        if let Some(rest) = message.strip_prefix("Received request ") {
            let (id, body) = rest.split_once(": ")?;
            let is_request =
                body.starts_with("prompt: ") || PARAMS.iter().any(|p| body.starts_with(p));
            if id.contains(char::is_whitespace) || !is_request {
                return None;
            }
            let (prompt, params) = split_prompt(body);
            return Some(Self::Received { id, prompt, params });
        }
        let rest = message.strip_prefix("Generated response ")?;
        let (head, tail) = rest.split_once(": output: ")?;
        let (id, kind) = match head.split_once(" (streaming ") {
            Some((id, "complete)")) => (id, Kind::Complete),
            Some((id, _)) => (id, Kind::Delta),
            None => (head, Kind::Whole),
        };
        (!id.contains(char::is_whitespace)).then_some(Self::Generated { id, kind, tail })
    }

    /// Returns the quote that a prompt or an answer begins with, and what follows its end.
    fn opening(message: &str) -> Option<(char, &'static [&'static str])> {
        let (literal, closers) = if message.starts_with("Received request ") {
            (message.split_once(": prompt: ")?.1, &PARAMS[..])
        } else if message.starts_with("Generated response ") {
            (message.split_once(": output: ")?.1, &["output_token_ids: "][..])
        } else {
            return None;
        };
        let quote = literal.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        Some((quote, closers))
    }
}

/// Returns the beginning and the end of a text, both at most so long; they may overlap.
fn ends(text: &str, head: usize, tail: usize) -> (&str, &str) {
    let (mut to, mut from) = (head.min(text.len()), text.len().saturating_sub(tail));
    while !text.is_char_boundary(to) {
        to -= 1;
    }
    while !text.is_char_boundary(from) {
        from += 1;
    }
    (text.get(..to).unwrap_or_default(), text.get(from..).unwrap_or_default())
}

/// Returns where the literal closes: its quote, not escaped, in front of the last `, CLOSER`.
fn close(text: &str, quote: char, closer: &str) -> Option<usize> {
    let at = text.rfind(&format!("{quote}, {closer}"))?;
    let before = text.get(..at)?;
    let slashes = before.bytes().rev().take_while(|byte| *byte == b'\\').count();
    (slashes % 2 == 0).then_some(at)
}

/// Splits `prompt: 'TEXT', params: SamplingParams(REST` into the literal without quotes, and REST.
fn split_prompt(body: &str) -> (Option<&str>, Option<&str>) {
    let behind =
        |text: &'_ str, params: &'static str| text.find(params).map(|at| at + params.len());
    let Some(literal) = body.strip_prefix("prompt: ") else {
        let params = PARAMS.iter().find_map(|params| body.strip_prefix(params));
        return (None, params);
    };
    let quote = literal.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let Some(quote) = quote else {
        // `None`: the prompt was given as ids or embeddings.
        let rest = literal.split_once(", ").map_or("", |(_, rest)| rest);
        return (None, PARAMS.iter().find_map(|params| rest.strip_prefix(params)));
    };
    let closed = PARAMS.iter().filter_map(|params| Some((close(literal, quote, params)?, *params)));
    let Some((at, params)) = closed.max_by_key(|(at, _)| *at) else { return (None, None) };
    let Some((inner, rest)) = literal.split_at_checked(at) else { return (None, None) };
    let params = behind(rest, params).and_then(|from| rest.get(from..));
    (inner.strip_prefix(quote), params)
}

/// Returns how many ids `NAME: [1, 2, 3]` lists; `None` when they are missing or cut.
fn listed(tail: &str, name: &str) -> Option<u32> {
    let at = tail.rfind(&format!(", {name}: "))?;
    let (_, list) = tail.get(at..)?.split_once('[')?;
    let (ids, _) = list.split_once(']')?;
    let is_before = tail.get(at..)?.strip_prefix(&format!(", {name}: ["));
    is_before?;
    if ids.trim().is_empty() {
        return Some(0);
    }
    let mut count = 0_u32;
    for id in ids.split(',') {
        id.trim().parse::<u64>().ok()?;
        count = count.checked_add(1)?;
    }
    Some(count)
}

/// Returns the characters that a literal stands for.
fn characters(literal: &str) -> u64 {
    convert::count(unescaped(literal).chars().count())
}

impl VllmText {
    fn new_row(
        &self,
        head: &Head<'_>,
        at: At,
        shared: &mut Shared,
    ) -> Result<RequestRecord, FieldError> {
        let wrapped = self
            .first_month
            .zip(head.month())
            .is_some_and(|(first, month)| first.saturating_sub(month) >= 6);
        let year = self.year.saturating_add(i32::from(wrapped));
        let iso = format!("{year:04}-{}T{}", head.date, head.clock);
        let format = shared.name(Format::VllmText.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        if let Some(time) = shared.time(&Loose::Text(Cow::Owned(iso)), "time", Naive::Local)? {
            fill::arrival(&mut row, time);
        }
        Ok(row)
    }
}

impl Adapter for VllmText {
    fn decode(
        &self,
        input: Input<'_>,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let text = match input {
            Input::Text(text) => plain(text),
            _ => Cow::Borrowed(""),
        };
        let head = Head::parse(&text);
        let Some((head, event)) = head.and_then(|head| Some((head, Event::parse(head.message)?)))
        else {
            out.drop("not_llm");
            return Ok(());
        };
        let (id, rank) = match event {
            Event::Received { id, .. } => (id, 2),
            Event::Generated { kind: Kind::Delta, .. } => {
                out.drop("partial_chunk");
                return Ok(());
            }
            // Its time is an end: the request's own line knows better when it came.
            Event::Generated { id, .. } => (id, 1),
        };
        let mut draft = Draft::from(self.new_row(&head, at, shared)?);
        draft.row.operation = operation_of(id);
        draft.row.request_id_hash = shared.hash(Column::Request, &Loose::cell(Some(id)));
        draft.join = draft.row.request_id_hash.map(|key| Join { key, role: Role::Part(rank) });
        match event {
            Event::Received { prompt, params, .. } => {
                fill_received(prompt, params, &mut draft, shared);
            }
            Event::Generated { kind, tail, .. } => {
                fill_generated(kind, tail, &mut draft.row, shared);
            }
        }
        out.keep(draft);
        Ok(())
    }

    fn continues(&self, so_far: &str, _line: &str) -> bool {
        if so_far.len() > MAX_RECORD {
            return false;
        }
        let (begin, tail) = ends(so_far, 4 * MAX_PREFIX, TAIL);
        let text = plain(begin);
        let opening = Head::parse(&text).and_then(|head| Event::opening(head.message));
        opening.is_some_and(|(quote, closers)| {
            !closers.iter().any(|closer| close(tail, quote, closer).is_some())
        })
    }
}

fn operation_of(id: &str) -> Operation {
    let known = [
        ("chatcmpl-", Operation::Chat),
        ("resp_", Operation::Chat),
        ("cmpl-", Operation::TextCompletion),
        ("embd-", Operation::Embeddings),
        ("rerank-", Operation::Rerank),
        ("score-", Operation::Rerank),
    ];
    let found = known.into_iter().find(|(begin, _)| id.starts_with(begin));
    found.map_or(Operation::Unknown, |(_, operation)| operation)
}

fn fill_received(
    prompt: Option<&str>,
    params: Option<&str>,
    draft: &mut Draft,
    shared: &mut Shared,
) {
    let row = &mut draft.row;
    if let Some(params) = params {
        let found = arguments(params);
        row.max_tokens = count_argument(&found, "max_tokens", '=');
        row.temperature = argument(&found, "temperature", '=').filter(|t: &f64| t.is_finite());
        row.top_p = argument(&found, "top_p", '=').filter(|p: &f64| p.is_finite());
        row.choice_count = count_argument(&found, "n", '=');
        let ids = listed(params, "prompt_token_ids").filter(|ids| *ids > 0);
        // The logger cuts text and ids at one length; as many ids as characters were cut.
        let cut = ids.zip(prompt).is_some_and(|(ids, text)| u64::from(ids) == characters(text));
        row.input_tokens = ids.filter(|_| !cut);
        if row.input_tokens.is_some() {
            row.input_token_source = TokenSource::Engine;
        }
    }
    if let Some(text) = prompt.filter(|text| !text.is_empty())
        && let Ok(prompt) = serde_json::to_string(&unescaped(text))
    {
        content::fill_request(&format!("{{\"prompt\":{prompt}}}"), draft, shared);
    }
}

fn fill_generated(kind: Kind, tail: &str, row: &mut RequestRecord, shared: &mut Shared) {
    if let (Some(at), zone) = (row.arrival_time, row.zone_assumed) {
        let quantum_us = row.arrival_resolution_us;
        let end =
            crate::ingest::stamp::Stamp { at, quantum_us, zone_assumed: zone, ambiguous: false };
        fill::arrival_from_end(row, end, None);
    }
    row.stream = Some(kind == Kind::Complete);
    row.output_tokens = listed(tail, "output_token_ids").filter(|ids| *ids > 0);
    if row.output_tokens.is_some() {
        row.output_token_source = TokenSource::Engine;
    }
    let reason = tail.rsplit_once(", finish_reason: ").map(|(_, reason)| reason);
    let reason = Loose::cell(reason.map(|reason| reason.trim().trim_end_matches('.')));
    row.status = match reason.text() {
        None => Status::Unknown,
        Some("abort") => Status::Cancelled,
        Some("error") => Status::Error,
        Some(_) => Status::Ok,
    };
    row.finish_reasons = shared.finish_reason(&reason).into_iter().collect();
}

#[cfg(test)]
mod tests {
    use super::super::trial::{ARRIVAL, adapter, draft, draft_by, hints, row, survives, why_not};
    use super::*;
    use crate::domain::record::ArrivalSource;

    const RECEIVED: &str = "INFO 11-24 09:15:02 [logger.py:42] Received request chatcmpl-a: prompt: '<s>it\\'s\\n', params: SamplingParams(n=1, temperature=0.2, top_p=1.0, stop=[', max_tokens=9'], max_tokens=512, seed=None), prompt_token_ids: [1, 2, 3], prompt_embeds shape: None, lora_request: None.";
    const GENERATED: &str = "INFO 11-24 09:15:05 [logger.py:71] Generated response chatcmpl-a (streaming complete): output: 'So.', output_token_ids: [7, 8], finish_reason: stop";

    #[test]
    fn a_request_and_its_answer_are_tied() {
        let received = draft(Format::VllmText, RECEIVED);
        let generated = draft(Format::VllmText, GENERATED);
        let (first, second) = (received.join.unwrap(), generated.join.unwrap());
        assert_eq!(first.key, second.key);
        assert_eq!((first.role, second.role), (Role::Part(2), Role::Part(1)));
        let (first, second) = (received.row, generated.row);
        assert_eq!(first.arrival_time, Some(ARRIVAL.plus_micros(-123_000)));
        assert_eq!((first.arrival_resolution_us, first.zone_assumed), (1_000_000, true));
        assert_eq!((first.arrival_source, first.end_time), (ArrivalSource::Logged, None));
        assert_eq!(
            (first.max_tokens, first.temperature, first.choice_count),
            (Some(512), Some(0.2), Some(1))
        );
        assert_eq!((first.input_tokens, first.operation), (Some(3), Operation::Chat));
        assert_eq!((second.status, second.stream), (Status::Ok, Some(true)));
        assert_eq!(
            (second.output_tokens, second.output_token_source),
            (Some(2), TokenSource::Engine)
        );
        assert_eq!(second.end_time, Some(ARRIVAL.plus_micros(2_877_000)));
        assert_eq!(second.arrival_source, ArrivalSource::EndOnly);
    }

    #[test]
    fn prompts_that_imitate_a_log_stay_prompts() {
        let lines = [
            "INFO 11-24 09:15:31 [logger.py:42] Received request cmpl-b-0: prompt: 'one",
            "two: params: SamplingParams(n=9, max_tokens=9), prompt_token_ids: [1]",
            "INFO 11-24 09:15:31 [logger.py:42] Received request fake: params: SamplingParams(n=9)",
            "it\\', params: SamplingParams(n=9), lora_request: None.",
            "', params: SamplingParams(n=1, max_tokens=64), prompt_token_ids: [5, 6, 7, 8], lora_request: None.",
        ];
        let adapter = adapter(Format::VllmText, &lines);
        let mut record = String::new();
        for line in lines {
            if !record.is_empty() {
                assert!(adapter.continues(&record, line), "{line}");
                record.push('\n');
            }
            record.push_str(line);
        }
        assert!(!adapter.continues(&record, "INFO 11-24 09:15:31 [x.py:1] Engine 000"));
        let draft = draft_by(&*adapter, &record);
        assert_eq!((draft.row.max_tokens, draft.row.input_tokens), (Some(64), Some(4)));
        assert_eq!(draft.row.operation, Operation::TextCompletion);
    }

    #[test]
    fn only_open_records_go_on() {
        let adapter = adapter(Format::VllmText, &[RECEIVED]);
        for closed in [RECEIVED, GENERATED, "INFO:     x - \"POST / HTTP/1.1\" 200 OK", ""] {
            assert!(!adapter.continues(closed, "x"), "{closed}");
        }
        let answer = GENERATED.split_once("o.'").unwrap().0;
        assert!(adapter.continues(answer, "x"));
        let endless = format!("{answer}{}", "\u{e9}".repeat(MAX_RECORD / 2));
        assert!(!adapter.continues(&endless, "x"));
        assert!(adapter.continues(&format!("{answer}{}", "\u{e9}".repeat(TAIL)), "x"));
    }

    #[test]
    fn other_forms_of_lines() {
        let new = "\u{1b}[0;36m(APIServer pid=1)\u{1b}[0;0m INFO 11-24 09:15:31 [logger.py:47] Received request cmpl-c-0: params: SamplingParams(n=1, temperature=1.0, max_tokens=16, seed=None), lora_request: None.";
        let record = row(Format::VllmText, new);
        assert_eq!((record.max_tokens, record.input_tokens), (Some(16), None));
        let old = RECEIVED.replace("[logger", "logger").replace('\'', "\"");
        assert_eq!(row(Format::VllmText, &old).max_tokens, Some(512));
        let ids = RECEIVED.replace("'<s>it\\'s\\n'", "None");
        assert_eq!(row(Format::VllmText, &ids).input_tokens, Some(3));
        let cut = RECEIVED.replace("<s>it\\'s\\n", "a\\nb");
        assert_eq!(row(Format::VllmText, &cut).input_tokens, None);
        let unknown = RECEIVED.replace("[1, 2, 3]", "None");
        assert_eq!(row(Format::VllmText, &unknown).input_token_source, TokenSource::Missing);
        let aborted = row(Format::VllmText, &GENERATED.replace(": stop", ": abort"));
        assert_eq!(aborted.status, Status::Cancelled);
        let open = RECEIVED.split_once("', params").unwrap().0;
        assert_eq!(row(Format::VllmText, open).max_tokens, None);
    }

    #[test]
    fn other_lines_are_left_out() {
        for line in [
            "INFO 11-24 09:15:02 [async_llm.py:271] Added request chatcmpl-a.",
            "INFO:     192.0.2.1:1 - \"POST /v1/chat/completions HTTP/1.1\" 200 OK",
            "INFO 11-24 09:15:35 [loggers.py:118] Engine 000: Avg prompt throughput: 132.0 tokens/s",
            "Received request x: prompt: 'no time', params: SamplingParams(n=1)",
            "INFO 11-24 09:15:02 [a.py:1] Received request two words: prompt: 'x'",
            "INFO 11-24 09:15:02 [logger.py:42] Received request",
            "",
        ] {
            assert_eq!(why_not(Format::VllmText, line), "not_llm", "{line}");
        }
        let delta = GENERATED.replace("complete", "delta");
        assert_eq!(why_not(Format::VllmText, &delta), "partial_chunk");
        let no_date = RECEIVED.replace("11-24", "13-99");
        let reason = why_not(Format::VllmText, &no_date);
        assert_eq!(reason, "time is no time: neither a date nor a number");
        survives(Format::VllmText, RECEIVED);
        survives(Format::VllmText, GENERATED);
    }

    #[test]
    fn the_year_is_told_or_shown_and_goes_up_in_january() {
        let sample = |lines: &[&str]| {
            let lines = lines.iter().map(|line| (*line).to_owned()).collect();
            Sample::new("log".into(), Records::Text(lines))
        };
        let error = make(&sample(&[RECEIVED]), &hints(None)).err().unwrap();
        assert_eq!(error.to_string(), "log: its times have no year, expected `--year`");
        let stamped = format!("2026-11-24T08:15:02.1Z stdout F {RECEIVED}");
        let (made, decisions) = make(&sample(&[&stamped]), &hints(None)).unwrap();
        assert_eq!(decisions[0].value, "2026, of a file that begins in 2026-11");
        let draft = draft_by(&*made, &stamped);
        assert_eq!(draft.row.arrival_time, Some(ARRIVAL.plus_micros(-123_000)));
        let december = RECEIVED.replace("11-24", "12-31");
        let (made, decisions) = make(&sample(&[&december]), &hints(Some(2026))).unwrap();
        assert_eq!(decisions[0].value, "2026, of a file that begins in 2026-12");
        let draft = draft_by(&*made, &RECEIVED.replace("11-24", "01-01"));
        let day = draft.row.arrival_time.unwrap().micros_since(ARRIVAL) / 86_400_000_000;
        assert_eq!(day, 37);
    }
}
