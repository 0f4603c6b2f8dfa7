//! `SGLang`: its request log (`request.received` and `request.finished`), and its metrics exporter.
//!
//! Two lines of one request share a `rid` and are put together later; a request that did not finish
//! stays, with unknown end. The log's `timestamp` is local time without zone; where the epoch
//! seconds of the engine stand beside it, they tell the zone. Latencies are seconds, counts the
//! engine's. A rid of a health check is a probe. Older exporters have no time at all (`no_time`).
//! Prompts are cut at some levels. Source: `sgl-project/sglang`, `request_logger.py`,
//! `request_metrics_exporter.py`.

use super::{
    Adapter, At, Draft, Format, Hints, Input, Join, Made, Naive, ObjectAdapter, Out, Refusal, Role,
    Shared, fill,
};
use crate::domain::record::{Flag, RequestRecord, Status, TokenSource};
use crate::domain::trace::Decision;
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;
use crate::ingest::stamp::{self, Stamp};
use jiff::tz::TimeZone;
use std::borrow::Cow;

/// Begins the rid of the server's own checks.
const HEALTH_CHECK: &str = "HEALTH_CHECK";
/// Stands where the logger cut a text.
const CUT: &str = " ... ";
/// Zones differ by quarters of an hour.
const QUARTER_US: i64 = 900_000_000;
/// Largest difference of two clocks that were read for the same event.
const SAME_US: i64 = 60_000_000;

wire! {
    /// A line of the request log.
    Wire {
        time = "timestamp",
        event = "event",
        rid = "rid" | "obj.rid" | "out.meta_info.id",
        parameters = "obj",
        meta = "out.meta_info",
    }
}

wire! {
    /// What the engine tells at the end; in the exporter's lines at the top.
    Meta {
        rid = "id",
        parameters = "request_parameters",
        finish = "finish_reason.type" | "finish_reason",
        status = "finish_reason.status_code",
        error = "finish_reason.err_type",
        input = "prompt_tokens",
        output = "completion_tokens",
        cached = "cached_tokens",
        reasoning = "reasoning_tokens",
        latency = "e2e_latency",
        queue = "queue_time",
        received = "request_received_ts",
        finished = "request_finished_ts",
    }
}

wire! {
    /// What was asked for.
    Parameters {
        rid = "rid",
        text = "text",
        input_ids = "input_ids",
        stream = "stream",
        max_tokens = "sampling_params.max_new_tokens",
        temperature = "sampling_params.temperature",
        top_p = "sampling_params.top_p",
        choices = "sampling_params.n",
    }
}

struct Pickers {
    wire: Picker,
    meta: Picker,
    parameters: Picker,
}

struct Requests {
    pickers: Pickers,
    /// `+01:00`, where the file tells it.
    offset: Option<String>,
}

struct Metrics {
    pickers: Pickers,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(format: Format, sample: &Sample, hints: &Hints) -> Result<Made, IngestError> {
    let pickers =
        Pickers { wire: Wire::picker(), meta: Meta::picker(), parameters: Parameters::picker() };
    if format == Format::SglangRequestMetrics {
        return Ok((Box::new(Metrics { pickers }), Vec::new()));
    }
    let offset = if hints.zone.told { None } else { offset_of(sample) };
    let decision = offset.as_ref().map(|offset| Decision {
        what: "zone of `timestamp`".to_owned(),
        value: offset.clone(),
        why: "the difference from `request_finished_ts`; `--tz` changes it".to_owned(),
    });
    Ok((Box::new(Requests { pickers, offset }), decision.into_iter().collect()))
}

/// Returns by how much the log's local times are ahead of UTC, where a line has both.
fn offset_of(sample: &Sample) -> Option<String> {
    let local = sample.column("timestamp");
    let epochs = sample.column("out.meta_info.request_finished_ts");
    let ahead = local.iter().zip(&epochs).find_map(|(local, epoch)| {
        let local = stamp::parse(local.text()?, &TimeZone::UTC)?;
        let unit = stamp::Unit::by_magnitude(epoch.float()?)?;
        let epoch = unit.to_micros(epoch.number("").ok()??)?;
        let ahead = local.at.0 - epoch;
        let quarters = (ahead + QUARTER_US / 2).div_euclid(QUARTER_US);
        let is_same = (ahead - quarters * QUARTER_US).abs() <= SAME_US;
        (local.zone_assumed && is_same && quarters.abs() <= 14 * 4).then_some(quarters)
    })?;
    let (sign, ahead) = (if ahead < 0 { '-' } else { '+' }, ahead.abs());
    Some(format!("{sign}{:02}:{:02}", ahead / 4, ahead % 4 * 15))
}

impl Adapter for Requests {
    fn decode(
        &self,
        input: Input<'_>,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        // A line may begin with the logger's own `[date time]`.
        let line = match input {
            Input::Json(line) => Some(line),
            Input::Text(line) => line.find("{\"timestamp\"").and_then(|from| line.get(from..)),
            Input::Csv(_) => None,
        };
        let Some(line) = line else {
            out.drop("not_llm");
            return Ok(());
        };
        let wire = Wire::read(&self.pickers.wire, line)?;
        let rank = match wire.event.text() {
            Some("request.received") => 1,
            Some("request.finished") => 2,
            _ => {
                out.drop("not_llm");
                return Ok(());
            }
        };
        if is_probe(&wire.rid) {
            out.drop("probe");
            return Ok(());
        }
        let format = shared.name(Format::SglangRequests.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        let logged = self.time(&wire.time, shared)?;
        if rank == 1 {
            let Some(logged) = logged else {
                out.drop("no_time");
                return Ok(());
            };
            fill::arrival(&mut row, logged);
        } else {
            let text = wire.meta.json();
            let meta = Meta::read(&self.pickers.meta, text.as_deref().unwrap_or("{}"))?;
            if !fill_times(&meta, logged, &mut row, shared)? {
                out.drop("no_time");
                return Ok(());
            }
            fill_meta(&meta, &mut row, shared)?;
        }
        let mut draft = Draft::from(row);
        let text = wire.parameters.json().unwrap_or(Cow::Borrowed("{}"));
        let parameters = Parameters::read(&self.pickers.parameters, &text)?;
        fill_parameters(&parameters, &mut draft, shared)?;
        draft.row.request_id_hash = shared.hash(Column::Request, &wire.rid);
        draft.join = draft.row.request_id_hash.map(|key| Join { key, role: Role::Part(rank) });
        out.keep(draft);
        Ok(())
    }
}

impl Requests {
    fn time(&self, value: &Loose<'_>, shared: &mut Shared) -> Result<Option<Stamp>, FieldError> {
        let naive = value.text().filter(|text| {
            stamp::parse(text, &TimeZone::UTC).is_some_and(|stamp| stamp.zone_assumed)
        });
        match (naive, &self.offset) {
            (Some(text), Some(offset)) => {
                let zoned = Loose::Text(Cow::Owned(format!("{text}{offset}")));
                shared.time(&zoned, "timestamp", Naive::Local)
            }
            _ => shared.time(value, "timestamp", Naive::Local),
        }
    }
}

impl ObjectAdapter for Metrics {
    fn decode_object(
        &self,
        line: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let meta = Meta::read(&self.pickers.meta, line)?;
        let text = meta.parameters.json();
        // Parameters that were cut are no object any more; the rest of the line is as good.
        let parameters = text
            .as_deref()
            .and_then(|text| Parameters::read(&self.pickers.parameters, text).ok())
            .unwrap_or_default();
        let rid = if meta.rid.is_nothing() { &parameters.rid } else { &meta.rid };
        if is_probe(rid) {
            out.drop("probe");
            return Ok(());
        }
        let format = shared.name(Format::SglangRequestMetrics.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        if !fill_times(&meta, None, &mut row, shared)? {
            out.drop("no_time");
            return Ok(());
        }
        fill_meta(&meta, &mut row, shared)?;
        row.request_id_hash = shared.hash(Column::Request, rid);
        let mut draft = Draft::from(row);
        fill_parameters(&parameters, &mut draft, shared)?;
        out.keep(draft);
        Ok(())
    }
}

fn is_probe(rid: &Loose<'_>) -> bool {
    rid.text().is_some_and(|rid| rid.starts_with(HEALTH_CHECK))
}

/// Fills the times of a finished request; returns false when there are none.
fn fill_times(
    meta: &Meta<'_>,
    logged: Option<Stamp>,
    row: &mut RequestRecord,
    shared: &mut Shared,
) -> Result<bool, FieldError> {
    let latency = fill::span_us(&meta.latency, "e2e_latency", fill::SECONDS)?;
    let start = shared.time(&meta.received, "request_received_ts", Naive::Utc)?;
    let end = shared.time(&meta.finished, "request_finished_ts", Naive::Utc)?;
    match (start, end.or(logged)) {
        (Some(start), end) => {
            fill::arrival(row, start);
            match (latency, end) {
                (Some(latency), _) => fill::duration(row, latency),
                (None, Some(end)) => fill::end(row, end),
                (None, None) => {}
            }
        }
        (None, Some(end)) => fill::arrival_from_end(row, end, latency),
        (None, None) => return Ok(false),
    }
    Ok(true)
}

fn fill_meta(
    meta: &Meta<'_>,
    row: &mut RequestRecord,
    shared: &mut Shared,
) -> Result<(), FieldError> {
    row.finish_reasons = shared.finish_reason(&meta.finish).into_iter().collect();
    row.status = match meta.finish.text() {
        Some("abort") => Status::Cancelled,
        Some(_) => Status::Ok,
        None => Status::Unknown,
    };
    // An abort by the server has a code; one by the client has none.
    fill::http_status(row, meta.status.count("status_code").ok().flatten());
    if !meta.error.is_nothing() {
        row.error_type = shared.error_type(&meta.error);
        if !row.status.is_failure() {
            row.status = Status::Error;
        }
    }
    let counts =
        (meta.input.count("prompt_tokens")?, meta.output.count("completion_tokens")?, None);
    fill::tokens(row, counts, TokenSource::Engine, fill::Zeros::Real);
    row.cache_read_input_tokens = meta.cached.count("cached_tokens")?;
    row.reasoning_output_tokens = meta.reasoning.count("reasoning_tokens")?;
    let queue = fill::span_us(&meta.queue, "queue_time", fill::SECONDS)?;
    row.queue_time_us = queue.filter(|queue| *queue >= 0);
    row.drop_impossible_parts();
    Ok(())
}

fn fill_parameters(
    parameters: &Parameters<'_>,
    draft: &mut Draft,
    shared: &mut Shared,
) -> Result<(), FieldError> {
    let row = &mut draft.row;
    row.stream = parameters.stream.truth();
    row.max_tokens = parameters.max_tokens.count("max_new_tokens")?;
    row.temperature = parameters.temperature.float();
    row.top_p = parameters.top_p.float();
    row.choice_count = parameters.choices.count("n")?;
    // The ids of one prompt; a batch has lists of them.
    if let (Loose::Json(ids), None) = (&parameters.input_ids, row.input_tokens)
        && ids.strip_prefix('[').is_some_and(|rest| !rest.trim_start().starts_with('['))
    {
        let tokens = parameters.input_ids.elements().filter(|tokens| *tokens > 0);
        row.input_tokens = tokens;
        row.input_token_source =
            if tokens.is_some() { TokenSource::Engine } else { TokenSource::Missing };
    }
    match parameters.text.text() {
        Some(text) if text.contains(CUT) || text.ends_with("...") => {
            row.flags.push(Flag::TruncatedBody);
        }
        Some(text) => {
            if let Ok(prompt) = serde_json::to_string(text) {
                content::fill_request(&format!("{{\"prompt\":{prompt}}}"), draft, shared);
            }
        }
        None => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Zone;
    use super::super::trial::{ARRIVAL, adapter, draft, draft_by, hints, row, survives, why_not};
    use super::*;
    use crate::domain::record::ArrivalSource;
    use crate::ingest::sample::Records;

    const RECEIVED: &str = r#"{"timestamp":"2026-11-24T09:15:02.123000","event":"request.received",
        "rid":"r1","obj":{"rid":"r1","text":"Hi","sampling_params":{"max_new_tokens":512,
        "temperature":0.2},"stream":true}}"#;
    const FINISHED: &str = r#"{"timestamp":"2026-11-24T09:15:05.623000","event":"request.finished",
        "rid":"r1","obj":{"sampling_params":{},"stream":true},"out":{"meta_info":{
        "finish_reason":{"type":"stop","matched":7},"prompt_tokens":1320,"completion_tokens":160,
        "cached_tokens":1024,"e2e_latency":3.5,"queue_time":0.011,
        "request_received_ts":1795511702.123,"request_finished_ts":1795511705.623}}}"#;
    const METRICS: &str = r#"{"request_parameters":"{\"rid\":\"r1\",\"sampling_params\":{\"max_new_tokens\":512},\"stream\":true}",
        "id":"r1","finish_reason":{"type":"length","length":16},"prompt_tokens":1320,
        "completion_tokens":160,"cached_tokens":1024,"e2e_latency":3.5,"queue_time":0.011,
        "request_received_ts":1795511702.123,"request_finished_ts":1795511705.623}"#;

    #[test]
    fn both_lines_of_a_request_are_tied() {
        let received = draft(Format::SglangRequests, RECEIVED);
        let finished = draft(Format::SglangRequests, FINISHED);
        let (first, second) = (received.join.unwrap(), finished.join.unwrap());
        assert_eq!(first.key, second.key);
        assert_eq!((first.role, second.role), (Role::Part(1), Role::Part(2)));
        let (first, second) = (received.row, finished.row);
        assert_eq!((first.arrival_time, second.arrival_time), (Some(ARRIVAL), Some(ARRIVAL)));
        assert_eq!((first.status, first.end_time), (Status::Unknown, None));
        assert_eq!((first.max_tokens, first.temperature), (Some(512), Some(0.2)));
        assert_eq!((second.status, second.duration_us), (Status::Ok, Some(3_500_000)));
        assert_eq!((second.input_tokens, second.output_tokens), (Some(1320), Some(160)));
        assert_eq!(second.input_token_source, TokenSource::Engine);
        assert_eq!(
            (second.cache_read_input_tokens, second.queue_time_us),
            (Some(1024), Some(11_000))
        );
        assert_eq!((second.stream, second.zone_assumed), (Some(true), false));
    }

    #[test]
    fn the_engines_clock_tells_the_zone() {
        let ahead = FINISHED.replace("T09:15:05", "T10:45:05");
        let sample = |lines: &[&str]| {
            let lines = lines.iter().map(|line| (*line).to_owned()).collect();
            Sample::new("log".into(), Records::Jsonl(lines))
        };
        let found = |lines: &[&str]| offset_of(&sample(lines));
        assert_eq!(found(&[RECEIVED, &ahead]).as_deref(), Some("+01:30"));
        let behind = FINISHED.replace("T09:15:05", "T04:15:05");
        assert_eq!(found(&[&behind]).as_deref(), Some("-05:00"));
        assert_eq!(found(&[RECEIVED]), None);
        assert_eq!(found(&[&FINISHED.replace("T09:15:05", "T09:20:05")]), None);
        let received = RECEIVED.replace("T09:15:02", "T10:45:02");
        let adapter = adapter(Format::SglangRequests, &[&received, &ahead]);
        let draft = draft_by(&*adapter, &received);
        assert_eq!((draft.row.arrival_time, draft.row.zone_assumed), (Some(ARRIVAL), false));
        let told = Hints { zone: Zone::named("Europe/Berlin").unwrap(), ..hints(None) };
        let made = make(Format::SglangRequests, &sample(&[&ahead]), &told).unwrap();
        assert!(made.1.is_empty());
    }

    #[test]
    fn aborts_and_older_builds() {
        let line = FINISHED
            .replace(r#"{"type":"stop","matched":7}"#, r#"{"type":"abort","message":"invented"}"#)
            .replace(":160,", ":0,")
            .replace(r#","request_finished_ts":1795511705.623"#, "")
            .replace("\n        \"request_received_ts\":1795511702.123", "\"x\":1");
        let record = row(Format::SglangRequests, &line);
        assert_eq!((record.status, record.output_tokens), (Status::Cancelled, Some(0)));
        assert_eq!(record.arrival_source, ArrivalSource::EndMinusDuration);
        assert_eq!((record.arrival_time, record.zone_assumed), (Some(ARRIVAL), true));
        let coded = line.replace("\"message\"", "\"status_code\":503,\"message\"");
        assert_eq!(row(Format::SglangRequests, &coded).status, Status::Error);
    }

    #[test]
    fn prompts_that_were_cut_are_marked() {
        let record = row(Format::SglangRequests, &RECEIVED.replace("\"Hi\"", "\"Wh ... ?\""));
        assert_eq!(record.flags, [Flag::TruncatedBody]);
        let ids = RECEIVED.replace("\"text\":\"Hi\"", "\"input_ids\":[1,2,3]");
        assert_eq!(row(Format::SglangRequests, &ids).input_tokens, Some(3));
        let batch = RECEIVED.replace("\"text\":\"Hi\"", "\"input_ids\":[[1,2],[3]]");
        assert_eq!(row(Format::SglangRequests, &batch).input_tokens, None);
    }

    #[test]
    fn a_line_of_metrics_is_read() {
        let row = row(Format::SglangRequestMetrics, METRICS);
        assert_eq!((row.arrival_time, row.duration_us), (Some(ARRIVAL), Some(3_500_000)));
        assert_eq!((row.input_tokens, row.output_tokens), (Some(1320), Some(160)));
        assert_eq!((row.max_tokens, row.stream), (Some(512), Some(true)));
        assert_eq!((row.status, row.queue_time_us), (Status::Ok, Some(11_000)));
        assert_eq!(row.finish_reasons, ["length".into()]);
    }

    #[test]
    fn other_lines_are_left_out() {
        let old = METRICS.replace("_ts\"", "\"");
        assert_eq!(why_not(Format::SglangRequestMetrics, &old), "no_time");
        let probe = METRICS.replace("\"id\":\"r1\"", "\"id\":\"HEALTH_CHECK_17\"");
        assert_eq!(why_not(Format::SglangRequestMetrics, &probe), "probe");
        let other = RECEIVED.replace("received", "other");
        assert_eq!(why_not(Format::SglangRequests, &other), "not_llm");
        assert_eq!(why_not(Format::SglangRequests, "[09:15] Receive: obj=X()"), "not_llm");
        let compact = RECEIVED.replace("\n        ", "");
        let prefixed = format!("[2026-11-24 09:15:02] {compact}");
        assert_eq!(row(Format::SglangRequests, &prefixed).max_tokens, Some(512));
        for line in [RECEIVED, FINISHED] {
            survives(Format::SglangRequests, line);
        }
        survives(Format::SglangRequestMetrics, METRICS);
    }
}
