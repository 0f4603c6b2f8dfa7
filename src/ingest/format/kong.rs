//! Logs of Kong with its AI plugins: nested JSON, one object a request, written at its end.
//!
//! `started_at` (ms since 1970) is the arrival, `latencies.request` (ms) the duration, and
//! `latencies.proxy` the time to the upstream's headers (-1: none was called). Usage stands below
//! `ai`, under a name that changed with versions: the child with `usage` is taken. Tokens of 0 are
//! unknown; `tries` holds the attempts. Without `ai` only calls by known paths are rows. Keys in
//! headers are not read. Source: `Kong/kong`, `kong/pdk/log.lua` and `kong/llm/plugin`.

use super::access::{self, Request};
use super::{At, Draft, Format, Hints, Made, Naive, ObjectAdapter, Out, Refusal, Shared, fill};
use crate::domain::record::{CacheStatus, Flag, RequestRecord, TokenSource, TtftSource};
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

wire! {
    /// A line.
    Wire {
        id = "request.id" | "correlation_id",
        uri = "upstream_uri" | "request.uri",
        own_uri = "request.uri",
        method = "request.method",
        agent = "request.headers.user-agent" | "request.headers.User-Agent",
        session = "request.headers.x-session-id" | "request.headers.session-id" | "request.headers.x-conversation-id",
        request_bytes = "request.size",
        status = "response.status",
        response_bytes = "response.size",
        content_type = "response.headers.content-type" | "response.headers.Content-Type",
        proxy = "latencies.proxy",
        duration = "latencies.request",
        tries = "tries",
        credential = "authenticated_entity.id",
        consumer = "consumer.id" | "consumer.custom_id" | "consumer.username",
        workspace = "workspace",
        start = "started_at",
        ai = "ai",
    }
}

wire! {
    /// A child of `ai`.
    Child {
        meta = "meta",
        usage = "usage",
        provider = "meta.provider_name",
        request_model = "meta.request_model",
        response_model = "meta.response_model",
        mode = "meta.request_mode" | "request_mode",
        input = "usage.prompt_tokens" | "usage.prompt_token",
        output = "usage.completion_tokens" | "usage.completion_token",
        total = "usage.total_tokens",
        cost = "usage.cost",
        ttft = "usage.time_to_first_token" | "meta.time_to_first_token",
        cache = "cache.cache_status",
        embeddings = "cache.embeddings_model" | "cache.embeddings_provider",
        request = "payload.request",
        response = "payload.response",
    }
}

struct Kong {
    picker: Picker,
    child: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    Ok((Box::new(Kong { picker: Wire::picker(), child: Child::picker() }), Vec::new()))
}

impl ObjectAdapter for Kong {
    fn decode_object(
        &self,
        line: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let wire = Wire::read(&self.picker, line)?;
        let ai = wire.ai.json();
        let child = ai.as_deref().and_then(|ai| self.child_of(ai));
        let request = Request {
            method: wire.method.text().unwrap_or_default(),
            path: wire.uri.text().unwrap_or_default(),
            agent: wire.agent.text().unwrap_or_default(),
        };
        // The upstream's path is the model's; probes are known by the client's.
        let own = Request { path: wire.own_uri.text().unwrap_or_default(), ..request };
        let probe = own.drop_reason(child.is_some()).filter(|reason| *reason == "probe");
        if let Some(reason) = probe.or_else(|| request.drop_reason(child.is_some())) {
            out.drop(reason);
            return Ok(());
        }
        let Some(start) = shared.time(&wire.start, "started_at", Naive::Utc)? else {
            out.drop("no_time");
            return Ok(());
        };
        let format = shared.name(Format::KongAi.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        fill::arrival(&mut row, start);
        request.fill(&mut row, shared);
        fill_line(&wire, &mut row, shared)?;
        let Some(child) = child else {
            fill_headers_time(&wire, &mut row)?;
            out.keep(row);
            return Ok(());
        };
        fill_child(&child, &mut row, shared)?;
        fill_headers_time(&wire, &mut row)?;
        let mut draft = Draft::from(row);
        if let Some(body) = body_of(&child.request) {
            content::fill_request(&body, &mut draft, shared);
        }
        if let Some(body) = body_of(&child.response) {
            content::fill_response(&body, &mut draft, shared);
        }
        out.keep(draft);
        Ok(())
    }
}

impl Kong {
    /// Returns the child of `ai` that tells of the model: one with usage, the proxy's first.
    fn child_of<'a>(&self, ai: &'a str) -> Option<Child<'a>> {
        let children: BTreeMap<Cow<'a, str>, &'a RawValue> = serde_json::from_str(ai).ok()?;
        let mut best: Option<(u8, Child<'a>)> = None;
        let mut cache = (Loose::Null, Loose::Null);
        for (name, raw) in children {
            let Ok(child) = Child::read(&self.child, raw.get()) else { continue };
            if !child.cache.is_nothing() {
                cache = (child.cache.clone(), child.embeddings.clone());
            }
            let rank = match (child.usage.is_nothing(), child.meta.is_nothing()) {
                (false, _) if name.contains("proxy") => 0,
                (false, _) => 1,
                (true, false) => 2,
                (true, true) => continue,
            };
            if best.as_ref().is_none_or(|(known, _)| rank < *known) {
                best = Some((rank, child));
            }
        }
        let (_, child) = best?;
        Some(if child.cache.is_nothing() {
            Child { cache: cache.0, embeddings: cache.1, ..child }
        } else {
            child
        })
    }
}

fn fill_line(
    wire: &Wire<'_>,
    row: &mut RequestRecord,
    shared: &mut Shared,
) -> Result<(), FieldError> {
    if let Some(duration) = fill::span_us(&wire.duration, "latencies.request", fill::MILLIS)? {
        fill::duration(row, duration);
    }
    fill::http_status(row, wire.status.count("response.status")?);
    row.request_bytes = access::bytes(&wire.request_bytes);
    row.response_bytes = access::bytes(&wire.response_bytes);
    row.request_id_hash = shared.hash(Column::Request, &wire.id);
    row.key_hash = shared.hash(Column::Key, &wire.credential);
    row.user_hash = shared.hash(Column::User, &wire.consumer);
    row.tenant_hash = shared.hash(Column::Tenant, &wire.workspace);
    access::session(row, &wire.session, shared);
    let tries = wire.tries.json().and_then(|tries| Loose::of_json(&tries).elements());
    access::attempts(row, tries.and_then(|tries| usize::try_from(tries).ok()).unwrap_or(1));
    let is_stream = |kind: &str| kind.starts_with("text/event-stream");
    row.stream = wire.content_type.text().map(is_stream);
    Ok(())
}

fn fill_headers_time(wire: &Wire<'_>, row: &mut RequestRecord) -> Result<(), FieldError> {
    let headers = fill::span_us(&wire.proxy, "latencies.proxy", fill::MILLIS)?;
    if row.time_to_first_chunk_us.is_none() {
        fill::ttft(row, headers, TtftSource::Headers);
    }
    Ok(())
}

fn fill_child(
    child: &Child<'_>,
    row: &mut RequestRecord,
    shared: &mut Shared,
) -> Result<(), FieldError> {
    row.provider_name = shared.word(&child.provider);
    row.request_model = shared.model(&child.request_model);
    row.response_model = shared.model(&child.response_model);
    match child.mode.text() {
        Some("stream") => row.stream = Some(true),
        Some("oneshot") => row.stream = Some(false),
        _ => {}
    }
    let counts = (
        child.input.count("prompt_tokens")?,
        child.output.count("completion_tokens")?,
        child.total.count("total_tokens")?,
    );
    fill::tokens(row, counts, TokenSource::Logged, fill::Zeros::Unknown);
    let ttft = fill::span_us(&child.ttft, "time_to_first_token", fill::MILLIS)?;
    fill::ttft(row, ttft.filter(|ttft| *ttft > 0), TtftSource::Logged);
    // A cost of 0 is written when prices or usage are not known.
    row.cost = child.cost.float().filter(|cost| *cost > 0.0);
    row.cache_status = match child.cache.text() {
        Some("Hit") if child.embeddings.is_nothing() => Some(CacheStatus::Hit),
        Some("Hit") => Some(CacheStatus::SemanticHit),
        Some("Miss" | "Refresh") => Some(CacheStatus::Miss),
        Some("Bypass") => Some(CacheStatus::Off),
        _ => None,
    };
    if matches!(row.cache_status, Some(CacheStatus::Hit | CacheStatus::SemanticHit)) {
        row.flags.push(Flag::CacheHit);
    }
    Ok(())
}

/// Returns a logged body: a text, or an object where a plugin opened it.
fn body_of<'a>(body: &'a Loose<'_>) -> Option<Cow<'a, str>> {
    body.json().or_else(|| body.text().map(Cow::Borrowed))
}

#[cfg(test)]
mod tests {
    use super::super::trial::{ARRIVAL, row, survives, why_not};
    use super::*;
    use crate::domain::record::{Operation, SessionSource, Status};

    const CALL: &str = r#"{"request":{"id":"k1","uri":"/ask","method":"POST","size":610,
        "headers":{"authorization":"REDACTED","x-session-id":"s1","user-agent":"x/1"}},
        "upstream_uri":"/v1/chat/completions","upstream_status":"200",
        "response":{"status":200,"size":912,"headers":{"content-type":"text/event-stream; charset=utf-8"}},
        "latencies":{"kong":6,"proxy":402,"request":3500},"tries":[{"ip":"192.0.2.1"}],
        "consumer":{"id":"c","username":"invented"},"started_at":1795511702123,
        "ai":{"NAME":{"meta":{"provider_name":"openai","request_model":"gpt-4o-mini",
        "response_model":"gpt-4o-mini-2024-07-18"},"usage":{"prompt_tokens":1320,
        "completion_tokens":160,"total_tokens":1480,"cost":0.0004},"cache":{},
        "payload":{"request":"{\"messages\":[]}"}}}}"#;

    #[test]
    fn a_call_is_read_under_any_name_of_the_plugin() {
        for name in ["proxy", "ai-proxy", "ai-proxy-advanced", "other"] {
            let row = row(Format::KongAi, &CALL.replace("NAME", name));
            assert_eq!(row.arrival_time, Some(ARRIVAL), "{name}");
            assert_eq!((row.duration_us, row.arrival_resolution_us), (Some(3_500_000), 1_000));
            assert_eq!(row.time_to_first_chunk_us, Some(402_000));
            assert_eq!(row.ttft_source, Some(TtftSource::Headers));
            assert_eq!((row.input_tokens, row.output_tokens), (Some(1320), Some(160)));
            assert_eq!((row.request_bytes, row.response_bytes), (Some(610), Some(912)));
            assert_eq!((row.status, row.operation), (Status::Ok, Operation::Chat));
            assert_eq!((row.stream, row.attempt_count), (Some(true), 1));
            assert_eq!(row.session_source, SessionSource::Explicit);
            assert_eq!((row.cost, row.cache_status), (Some(0.0004), None));
            assert!(row.user_hash.is_some());
        }
    }

    #[test]
    fn the_proxys_usage_goes_before_that_of_a_helper() {
        let helper = r#""ai":{"ai-guard":{"usage":{"prompt_tokens":9}},"NAME""#;
        let line = CALL.replace(r#""ai":{"NAME""#, helper);
        assert_eq!(row(Format::KongAi, &line.replace("NAME", "proxy")).input_tokens, Some(1320));
        let old = CALL.replace("prompt_tokens", "prompt_token");
        assert_eq!(row(Format::KongAi, &old).input_tokens, Some(1320));
    }

    #[test]
    fn retries_stand_in_one_line_and_zeros_are_unknown() {
        let line = CALL
            .replace(r#"[{"ip":"192.0.2.1"}]"#, r#"[{"code":429},{"code":429}]"#)
            .replace(r#""status":200"#, r#""status":429"#)
            .replace(":402", ":-1")
            .replace(":1320", ":0")
            .replace(":160,", ":0,")
            .replace(":1480", ":0")
            .replace("0.0004", "0");
        let row = row(Format::KongAi, &line);
        assert_eq!((row.attempt_count, row.status), (2, Status::RateLimited));
        assert_eq!((row.input_tokens, row.output_tokens, row.cost), (None, None, None));
        assert_eq!(row.flags, [Flag::ZeroMeansUnknown]);
        assert_eq!(row.ttft_source, None);
    }

    #[test]
    fn hits_of_the_cache_are_marked() {
        let hit = |cache: &str| row(Format::KongAi, &CALL.replace(r#""cache":{}"#, cache));
        let semantic = hit(r#""cache":{"cache_status":"Hit","embeddings_model":"e-3"}"#);
        assert_eq!(semantic.cache_status, Some(CacheStatus::SemanticHit));
        assert_eq!(semantic.flags, [Flag::CacheHit]);
        let exact = hit(r#""cache":{"cache_status":"Hit"}"#);
        assert_eq!(exact.cache_status, Some(CacheStatus::Hit));
        let miss = hit(r#""cache":{"cache_status":"Miss"}"#);
        assert_eq!((miss.cache_status, miss.flags.len()), (Some(CacheStatus::Miss), 0));
        let off = hit(r#""cache":{"cache_status":"Bypass"}"#);
        assert_eq!(off.cache_status, Some(CacheStatus::Off));
    }

    #[test]
    fn lines_without_a_model_need_a_known_path() {
        let bare = CALL.split_once(",\n        \"ai\"").unwrap().0.to_owned() + "}";
        let record = row(Format::KongAi, &bare);
        assert_eq!((record.input_tokens, record.operation), (None, Operation::Chat));
        let other = bare.replace("/v1/chat/completions", "/login");
        assert_eq!(why_not(Format::KongAi, &other), "not_llm");
        let probe = bare.replace("/ask", "/healthz");
        assert_eq!(why_not(Format::KongAi, &probe), "probe");
        assert_eq!(why_not(Format::KongAi, &CALL.replace("started_at", "at")), "no_time");
        assert_eq!(why_not(Format::KongAi, "[GIN] x"), "not_llm");
        survives(Format::KongAi, CALL);
    }
}
