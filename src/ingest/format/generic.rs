//! Any CSV or JSONL with `--map FIELD=COLUMN`; columns of JSONL are dotted paths.
//!
//! Fields are the trace's columns or their short names (`table::schema`). Identifiers are hashed;
//! bare numbers get their unit per column. Without a mapped time the trace has no times. A row
//! without a time in a log that has times is left out (`no_time`). 0 tokens stand for "unknown".

use super::{Adapter, At, Format, Hints, Input, Made, Origin, Out, Refusal, Shared};
use crate::domain::record::{
    ArrivalSource, Flag, Operation, RequestRecord, SessionSource, Status, TokenSource, TtftSource,
};
use crate::domain::scenario::Scenario;
use crate::domain::trace::Decision;
use crate::ingest::detect::show_keys;
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::pick::Picker;
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;
use crate::ingest::stamp::{TimeColumn, Unit};
use crate::table::schema::map_field;

/// One mapped field.
struct Mapped {
    /// The trace's column.
    field: &'static str,
    /// Its short name, for rejects.
    alias: &'static str,
    /// Place among the picked columns.
    column: usize,
    /// How its times are read.
    time: Option<TimeColumn>,
    /// The unit of a span.
    span: Unit,
}

struct Generic {
    mapped: Vec<Mapped>,
    picker: Picker,
    places: Vec<Option<usize>>,
    origin: Origin,
}

/// Parses `FIELD=COLUMN` into the trace's column and the log's column.
///
/// # Errors
///
/// If it has another form, or the field is unknown.
pub fn parse_map(text: &str) -> Result<(&'static str, String), IngestError> {
    let parsed = text.split_once('=').and_then(|(field, column)| {
        let field = map_field(field.trim())?;
        (!column.is_empty()).then(|| (field.column, column.to_owned()))
    });
    parsed.ok_or_else(|| IngestError::BadMap { found: text.to_owned() })
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// If nothing is mapped, a mapped column is missing from the header or from every record of the
/// sample, or times are of several kinds.
pub fn make(sample: &Sample, hints: &Hints) -> Result<Made, IngestError> {
    if hints.map.is_empty() {
        return Err(IngestError::NoMap { file: sample.file.clone() });
    }
    let (mut mapped, mut columns, mut decisions) = (Vec::new(), Vec::<String>::new(), Vec::new());
    for (field, column) in &hints.map {
        let place = columns.iter().position(|known| known == column);
        let place = place.unwrap_or_else(|| {
            columns.push(column.clone());
            columns.len() - 1
        });
        let values = sample.column(column);
        check_present(sample, column, &values)?;
        let mut made = Mapped {
            field,
            alias: map_field(field).map_or(field, |known| known.alias),
            column: place,
            time: None,
            span: Unit::Millis,
        };
        let told = hints.unit(column);
        match *field {
            "arrival_time" | "end_time" => {
                let (time, found) =
                    TimeColumn::decide(&sample.file, column, &values, told, &hints.zone)?;
                made.time = Some(time);
                decisions.extend(found);
            }
            "duration_us" | "time_to_first_chunk_us" => {
                let (span, decision) = decide_span(column, &values, told);
                made.span = span;
                decisions.push(decision);
            }
            _ => {}
        }
        mapped.push(made);
    }
    let places = columns
        .iter()
        .map(|column| sample.header().and_then(|header| header.place(column)))
        .collect();
    let origin = origin_of(&mapped);
    let picker = Picker::new(&columns);
    Ok((Box::new(Generic { mapped, picker, places, origin }), decisions))
}

fn check_present(sample: &Sample, column: &str, values: &[Loose<'_>]) -> Result<(), IngestError> {
    let found = match sample.header() {
        Some(header) if header.place(column).is_some() => return Ok(()),
        Some(header) => {
            let names: Vec<&str> = header.names().iter().map(String::as_str).collect();
            show_keys(&names)
        }
        None if values.iter().any(|value| !matches!(value, Loose::Null)) => return Ok(()),
        None => format!("no value of it in the first {} records", values.len()),
    };
    Err(IngestError::NoColumn { file: sample.file.clone(), column: column.to_owned(), found })
}

fn origin_of(mapped: &[Mapped]) -> Origin {
    let mut times = mapped.iter().filter_map(|field| field.time.as_ref()).peekable();
    if times.peek().is_none() {
        Origin::Missing
    } else if times.any(TimeColumn::is_relative) {
        Origin::Offsets
    } else {
        Origin::Dates
    }
}

fn decide_span(column: &str, values: &[Loose<'_>], told: Option<Unit>) -> (Unit, Decision) {
    let is_fraction =
        |value: &Loose<'_>| matches!(value.number(""), Ok(Some(number)) if number.has_fraction());
    let (unit, why) = match (told, Unit::by_name(column)) {
        (Some(unit), _) => (unit, "`--time-unit`"),
        (None, Some(unit)) => (unit, "the column's name"),
        (None, None) if values.iter().any(is_fraction) => {
            (Unit::Seconds, "a guess: some have fractions")
        }
        (None, None) => (Unit::Millis, "a guess: all are whole numbers"),
    };
    let decision = Decision {
        what: format!("unit of `{column}`"),
        value: unit.as_str().to_owned(),
        why: why.to_owned(),
    };
    (unit, decision)
}

impl Adapter for Generic {
    fn decode(
        &self,
        input: Input<'_>,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let values = match input {
            Input::Json(line) => self.picker.pick(line)?,
            Input::Csv(row) => {
                self.places.iter().map(|place| Loose::cell(row.cell(*place))).collect()
            }
            Input::Text(_) => {
                out.drop("not_llm");
                return Ok(());
            }
        };
        let format = shared.name(Format::Generic.as_str());
        let mut record = RequestRecord::unknown(format, at.file_id, at.line);
        let mut word = Status::Unknown;
        for field in &self.mapped {
            let Some(value) = values.get(field.column) else { continue };
            match field.time {
                Some(_) => self.fill_time(field, value, &mut record, shared)?,
                None if field.field == "status" => word = status(value),
                None => fill(field, value, &mut record, shared)?,
            }
        }
        if !self.finish_times(&mut record) {
            out.drop("no_time");
            return Ok(());
        }
        let code = record.http_status_code.map_or(Status::Unknown, status_of_code);
        record.status = status_of_both(code, word);
        finish_counts(&mut record);
        record.flags.sort_unstable();
        record.flags.dedup();
        out.keep(record);
        Ok(())
    }

    fn wants_rows(&self) -> bool {
        true
    }

    fn origin(&self) -> Origin {
        self.origin
    }
}

impl Generic {
    fn fill_time(
        &self,
        field: &Mapped,
        value: &Loose<'_>,
        record: &mut RequestRecord,
        shared: &Shared,
    ) -> Result<(), Refusal> {
        let Some(time) = &field.time else { return Ok(()) };
        let Some(stamp) = time.read(value, field.alias, &shared.zone)? else { return Ok(()) };
        record.zone_assumed |= stamp.zone_assumed;
        if field.field == "end_time" {
            record.end_time = Some(stamp.at);
            if record.arrival_time.is_none() {
                record.arrival_resolution_us = stamp.quantum_us;
            }
            return Ok(());
        }
        record.arrival_time = Some(stamp.at);
        record.arrival_resolution_us = stamp.quantum_us;
        record.arrival_source = match self.origin {
            Origin::Offsets => ArrivalSource::RelativeOrigin,
            Origin::Dates | Origin::Missing => ArrivalSource::Logged,
        };
        Ok(())
    }

    /// Completes arrival, end and duration from each other; false when a time should be there.
    fn finish_times(&self, record: &mut RequestRecord) -> bool {
        if self.origin == Origin::Missing {
            return true;
        }
        if record.arrival_time.is_none()
            && let Some(end) = record.end_time
        {
            record.arrival_time = Some(end.plus_micros(-record.duration_us.unwrap_or(0)));
            record.arrival_source = match record.duration_us {
                Some(_) => ArrivalSource::EndMinusDuration,
                None => ArrivalSource::EndOnly,
            };
            return true;
        }
        let Some(arrival) = record.arrival_time else { return false };
        match (record.end_time, record.duration_us) {
            (Some(end), None) => match end.micros_since(arrival) {
                negative if negative < 0 => {
                    record.end_time = None;
                    record.flags.push(Flag::NegativeDuration);
                }
                duration => record.duration_us = Some(duration),
            },
            (None, Some(duration)) => record.end_time = Some(arrival.plus_micros(duration)),
            (Some(end), Some(_)) if end < arrival => {
                record.end_time = None;
                record.flags.push(Flag::NegativeDuration);
            }
            _ => {}
        }
        if record.duration_us.is_some_and(|duration| record.time_to_first_chunk_us > Some(duration))
        {
            record.time_to_first_chunk_us = None;
            record.ttft_source = None;
            record.flags.push(Flag::TtftExceedsDuration);
        }
        if record.duration_us == Some(0) {
            record.flags.push(Flag::StartEqualsEnd);
        }
        true
    }
}

fn finish_counts(record: &mut RequestRecord) {
    if record.input_tokens == Some(0) || record.output_tokens == Some(0) {
        record.flags.push(Flag::ZeroMeansUnknown);
    }
    record.input_tokens = record.input_tokens.filter(|count| *count > 0);
    record.output_tokens = record.output_tokens.filter(|count| *count > 0);
    let source = |count: Option<u32>| {
        if count.is_some() { TokenSource::Logged } else { TokenSource::Missing }
    };
    record.input_token_source = source(record.input_tokens);
    record.output_token_source = source(record.output_tokens);
    record.drop_impossible_parts();
}

/// Fills one field that is no instant.
fn fill(
    field: &Mapped,
    value: &Loose<'_>,
    record: &mut RequestRecord,
    shared: &mut Shared,
) -> Result<(), FieldError> {
    let alias = field.alias;
    let hash = |column| value.id().and_then(|id| shared.hasher.hash(column, &id));
    match field.field {
        "duration_us" => record.duration_us = span(field, value, record)?,
        "time_to_first_chunk_us" => {
            record.time_to_first_chunk_us = span(field, value, record)?;
            record.ttft_source = record.time_to_first_chunk_us.map(|_| TtftSource::Logged);
        }
        "gen_ai_usage_input_tokens" => record.input_tokens = value.count(alias)?,
        "gen_ai_usage_output_tokens" => record.output_tokens = value.count(alias)?,
        "gen_ai_usage_cache_read_input_tokens" => {
            record.cache_read_input_tokens = value.count(alias)?;
        }
        "gen_ai_usage_reasoning_output_tokens" => {
            record.reasoning_output_tokens = value.count(alias)?;
        }
        "gen_ai_request_max_tokens" => record.max_tokens = value.count(alias)?,
        "turn_index" => record.turn_index = value.count(alias)?,
        "request_id_hash" => record.request_id_hash = hash(Column::Request),
        "trace_id_hash" => record.trace_id_hash = hash(Column::Trace),
        "user_hash" => record.user_hash = hash(Column::User),
        "key_hash" => record.key_hash = hash(Column::Key),
        "tenant_hash" => record.tenant_hash = hash(Column::Tenant),
        "session_id_hash" => {
            record.session_id_hash = hash(Column::Session);
            if record.session_id_hash.is_some() {
                record.session_source = SessionSource::Explicit;
            }
        }
        _ => return fill_word(field, value, record, shared),
    }
    Ok(())
}

/// Fills one field that is a word, a float or a truth.
fn fill_word(
    field: &Mapped,
    value: &Loose<'_>,
    record: &mut RequestRecord,
    shared: &mut Shared,
) -> Result<(), FieldError> {
    let alias = field.alias;
    match field.field {
        "gen_ai_request_model" => record.request_model = shared.model(value),
        "gen_ai_response_model" => record.response_model = shared.model(value),
        "gen_ai_provider_name" => record.provider_name = shared.word(value),
        "error_type" => record.error_type = shared.error_type(value),
        "gen_ai_response_finish_reasons" => {
            record.finish_reasons = shared.finish_reason(value).into_iter().collect();
        }
        "endpoint_family" => record.endpoint_family = shared.endpoint(value),
        "gen_ai_operation_name" => {
            let known = value.text().and_then(Operation::parse);
            record.operation = known.unwrap_or(Operation::Unknown);
        }
        "gen_ai_request_temperature" => record.temperature = value.float(),
        "gen_ai_request_top_p" => record.top_p = value.float(),
        "gen_ai_request_stream" => record.stream = value.truth(),
        "cost" => record.cost = value.float().filter(|cost| *cost >= 0.0),
        "http_response_status_code" => {
            let code = value.count(alias)?.filter(|code| *code > 0);
            if code.is_some_and(|code| !(100..=999).contains(&code)) {
                return Err(FieldError::new(alias, "is no HTTP status from 100 to 999"));
            }
            record.http_status_code = code.and_then(|code| u16::try_from(code).ok());
        }
        "scenario" => {
            let word = value.text().and_then(Scenario::parse);
            record.scenario =
                word.ok_or_else(|| FieldError::new(alias, "is no known kind of request"))?;
        }
        _ => {}
    }
    Ok(())
}

fn span(
    field: &Mapped,
    value: &Loose<'_>,
    record: &mut RequestRecord,
) -> Result<Option<i64>, FieldError> {
    let Some(number) = value.number(field.alias)? else { return Ok(None) };
    match field.span.to_micros(number) {
        None => Err(FieldError::new(field.alias, "is out of range")),
        Some(negative) if negative < 0 => {
            record.flags.push(Flag::NegativeDuration);
            Ok(None)
        }
        Some(micros) => Ok(Some(micros)),
    }
}

fn status(value: &Loose<'_>) -> Status {
    if let Ok(Some(code)) = value.count("status") {
        return u16::try_from(code).map_or(Status::Unknown, status_of_code);
    }
    let word = value.text().map(str::to_ascii_lowercase).unwrap_or_default();
    match word.as_str() {
        "success" | "succeeded" | "completed" | "finished" => Status::Ok,
        "failure" | "failed" | "fail" => Status::Error,
        "canceled" | "aborted" | "abort" => Status::Cancelled,
        "timed_out" => Status::Timeout,
        other => Status::parse(other).unwrap_or(Status::Unknown),
    }
}

/// Returns how a request ended, from what its code and its word say.
///
/// A code that tells of a failure is finer than the words for good and bad; any other word is
/// finer than the code, since a stream can break after its 200.
const fn status_of_both(code: Status, word: Status) -> Status {
    match (code, word) {
        (Status::Ok, Status::Error) => Status::Error,
        (code, Status::Unknown | Status::Ok | Status::Error)
            if !matches!(code, Status::Unknown) =>
        {
            code
        }
        (_, word) => word,
    }
}

/// Returns what an HTTP status code says of a request.
fn status_of_code(code: u16) -> Status {
    match code {
        200..=299 => Status::Ok,
        408 | 504 => Status::Timeout,
        429 => Status::RateLimited,
        499 => Status::Cancelled,
        400..=599 => Status::Error,
        _ => Status::Unknown,
    }
}
