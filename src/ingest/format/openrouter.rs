//! Activity of OpenRouter, one row a generation: the CSV export, or objects of `/generation`.
//!
//! `created_at` is the arrival, in UTC without a zone; the id of a generation holds the second too
//! and tells when the zone is wrong. Native counts go before normalised ones; reasoning is part of
//! the output. 0 tokens stand for "unknown". A cost of web search says that documents were
//! retrieved. Daily sums are no requests and are left out. Source: OpenRouter's API reference and
//! the export's header.

use super::{
    At, Format, Hints, Made, Naive, ObjectAdapter, Out, Refusal, Shared, bodies, fill, parts,
};
use crate::domain::record::{Operation, RequestRecord, Status, TokenSource, TtftSource};
use crate::domain::time::MICROS_PER_SECOND;
use crate::ingest::error::IngestError;
use crate::ingest::loose::FieldError;
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;
use crate::ingest::stamp::Stamp;

/// How far the time in a generation's id may be from `created_at`, in microseconds.
const MAX_APART_US: i64 = 120 * MICROS_PER_SECOND;

wire! {
    /// One generation.
    Wire {
        id = "generation_id" | "id",
        created_at = "created_at",
        cost = "cost_total" | "total_cost",
        search = "cost_web_search" | "num_search_results",
        prompt = "native_tokens_prompt" | "tokens_prompt",
        completion = "native_tokens_completion" | "tokens_completion",
        reasoning = "native_tokens_reasoning" | "tokens_reasoning",
        cached = "native_tokens_cached" | "tokens_cached",
        model = "model_permaslug" | "model",
        provider = "provider_name",
        cancelled = "cancelled",
        streamed = "streamed",
        user = "external_user" | "user",
        finish = "finish_reason_normalized" | "finish_reason",
        duration = "generation_time_ms" | "generation_time",
        first = "time_to_first_token_ms",
        key = "api_key_name",
        session = "session_id",
        requests = "requests",
    }
}

struct OpenRouter {
    wire: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    Ok((Box::new(OpenRouter { wire: Wire::picker() }), Vec::new()))
}

impl ObjectAdapter for OpenRouter {
    fn decode_object(
        &self,
        text: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let wire = Wire::read(&self.wire, text)?;
        if wire.id.is_nothing() && !wire.requests.is_nothing() {
            out.drop("aggregate");
            return Ok(());
        }
        let Some(arrival) = shared.time(&wire.created_at, "created_at", Naive::Utc)? else {
            out.drop("no_time");
            return Ok(());
        };
        if differs_from_id(&wire, arrival) {
            shared.remark("generations whose id holds another time than `created_at`");
        }
        let format = shared.name(Format::OpenrouterActivity.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        fill::arrival(&mut row, arrival);
        if let Some(duration) = fill::span_us(&wire.duration, "generation_time_ms", fill::MILLIS)? {
            fill::duration(&mut row, duration);
        }
        let first = fill::span_us(&wire.first, "time_to_first_token_ms", fill::MILLIS)?;
        fill::ttft(&mut row, first, TtftSource::Logged);
        fill_tokens(&wire, &mut row)?;
        fill_names(&wire, &mut row, shared);
        row.status = status_of(&wire, &row);
        out.keep(row);
        Ok(())
    }
}

/// Returns whether the second in an id like `gen-1795511702-x` is far from the arrival.
fn differs_from_id(wire: &Wire<'_>, arrival: Stamp) -> bool {
    let seconds = wire.id.text().and_then(|id| id.strip_prefix("gen-")?.split('-').next());
    let Some(seconds) = seconds.and_then(|seconds| seconds.parse::<i64>().ok()) else {
        return false;
    };
    let apart = arrival.at.0.saturating_sub(seconds.saturating_mul(MICROS_PER_SECOND));
    apart.saturating_abs() > MAX_APART_US
}

fn fill_tokens(wire: &Wire<'_>, row: &mut RequestRecord) -> Result<(), FieldError> {
    let counts =
        (wire.prompt.count("tokens_prompt")?, wire.completion.count("tokens_completion")?, None);
    fill::tokens(row, counts, TokenSource::Provider, fill::Zeros::Unknown);
    row.cache_read_input_tokens = wire.cached.count("tokens_cached")?;
    row.reasoning_output_tokens = wire.reasoning.count("tokens_reasoning")?;
    row.drop_impossible_parts();
    Ok(())
}

fn fill_names(wire: &Wire<'_>, row: &mut RequestRecord, shared: &mut Shared) {
    row.operation = Operation::Chat;
    row.request_model = shared.model(&wire.model);
    row.response_model.clone_from(&row.request_model);
    row.provider_name = shared.word(&wire.provider);
    row.stream = wire.streamed.truth();
    row.finish_reasons = shared.finish_reason(&wire.finish).into_iter().collect();
    row.request_id_hash = shared.hash(Column::Request, &wire.id);
    row.user_hash = shared.hash(Column::User, &wire.user);
    row.key_hash = shared.hash(Column::Key, &wire.key);
    parts::session(row, shared.hash(Column::Session, &wire.session));
    bodies::fill_dollars(row, &wire.cost, shared);
    if wire.search.float().is_some_and(|search| search > 0.0) {
        parts::explicit_rag(row, "vector_store_meta", shared);
    }
}

fn status_of(wire: &Wire<'_>, row: &RequestRecord) -> Status {
    match wire.finish.text() {
        _ if wire.cancelled.truth() == Some(true) => Status::Cancelled,
        Some("error") => Status::Error,
        Some(_) => Status::Ok,
        None if row.output_tokens.is_some() => Status::Ok,
        None => Status::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, trial};
    use super::*;
    use crate::domain::record::{Flag, RagLabel};

    const FORMAT: Format = Format::OpenrouterActivity;
    const CALL: &str = r#"{"generation_id":"gen-1795511702-a","created_at":"2026-11-24 09:15:02.123","cost_total":"0.5","cost_web_search":"0","tokens_prompt":"1320","tokens_completion":"160","tokens_reasoning":"0","tokens_cached":"1024","model_permaslug":"openai/gpt-4o-mini","provider_name":"OpenAI","cancelled":"false","streamed":"true","user":"u","finish_reason_normalized":"stop","generation_time_ms":"3500","time_to_first_token_ms":"418","api_key_name":"demo"}"#;

    #[test]
    fn the_common_call() {
        let row = trial::row(FORMAT, CALL);
        assert_eq!(trial::facts(&row), trial::CALL);
        assert_eq!((row.status, row.stream, row.zone_assumed), (Status::Ok, Some(true), true));
        assert_eq!(row.provider_name.as_deref(), Some("OpenAI"));
        assert_eq!(row.rag_label, RagLabel::Unknowable);
        assert_eq!(row.cost, Some(0.5));
    }

    #[test]
    fn a_cancelled_row_has_no_output() {
        let text = CALL.replace("\"false\"", "\"true\"").replace("\"160\"", "\"0\"");
        let row = trial::row(FORMAT, &text.replace("\"stop\"", "\"\""));
        assert_eq!((row.status, row.output_tokens), (Status::Cancelled, None));
        assert_eq!(row.flags, [Flag::ZeroMeansUnknown]);
    }

    #[test]
    fn a_paid_search_is_retrieval() {
        let row = trial::row(FORMAT, &CALL.replace("web_search\":\"0\"", "web_search\":\"0.02\""));
        assert_eq!(row.rag_label, RagLabel::Explicit);
    }

    #[test]
    fn native_counts_go_first() {
        let text = CALL.replace("{\"gen", "{\"native_tokens_prompt\":1400,\"gen");
        assert_eq!(trial::row(FORMAT, &text).input_tokens, Some(1400));
    }

    #[test]
    fn sums_of_days_are_left_out() {
        let sums = r#"{"date":"2026-11-24","model":"m","requests":"12","prompt_tokens":"9"}"#;
        assert_eq!(trial::dropped(FORMAT, sums), "aggregate");
        assert_eq!(trial::dropped(FORMAT, r#"{"id":"gen-1-a"}"#), "no_time");
    }

    #[test]
    fn the_id_tells_when_the_zone_is_wrong() {
        let told = |text: &str| {
            let wire = Wire::picker();
            let wire = Wire::read(&wire, text).unwrap();
            let arrival = trial::shared().time(&wire.created_at, "t", Naive::Utc).unwrap();
            differs_from_id(&wire, arrival.unwrap())
        };
        assert!(!told(CALL));
        assert!(told(&CALL.replace(" 09:15", " 10:15")));
        assert!(!told(&CALL.replace("gen-1795511702", "gen-x")));
    }
}
