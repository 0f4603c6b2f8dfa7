//! Access logs of nginx: JSON with the variables' names as keys, ingress-nginx, and combined.
//!
//! The time of a line is the end of its request; `$request_time` (s) leads back to the arrival. The
//! combined format has no duration, so its end stands for the arrival. Values of several upstreams
//! are lists (`a, b` after a retry, `a : b` after a redirect): each element is an attempt, and the
//! last `$upstream_header_time` (s) is the time to the headers. Bytes stay bytes; there are no
//! tokens. Only calls by known paths are rows. Sources: nginx.org, `ngx_http_log_module` and
//! `ngx_http_upstream_module`; `kubernetes/ingress-nginx`, page log-format.

use super::access::{self, Line, Request};
use super::text::iso_of_common;
use super::{
    Adapter, At, Draft, Format, Hints, Input, Made, Naive, ObjectAdapter, Out, Refusal, Shared,
    fill,
};
use crate::domain::record::{RequestRecord, TtftSource};
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;
use crate::ingest::stamp::Stamp;
use std::borrow::Cow;

/// The clock behind `$msec` and `$request_time`, in microseconds.
const MILLISECOND_US: i64 = 1_000;

wire! {
    /// A line of JSON.
    Wire {
        msec = "msec",
        time = "time_iso8601" | "time_local" | "time" | "@timestamp" | "timestamp" | "ts",
        line = "request",
        method = "request_method" | "method",
        path = "request_uri" | "uri" | "path",
        agent = "http_user_agent" | "user_agent",
        status = "status",
        duration = "request_time",
        addresses = "upstream_addr",
        statuses = "upstream_status",
        header_times = "upstream_header_time",
        times = "upstream_response_time",
        request_bytes = "request_length",
        response_bytes = "bytes_sent" | "body_bytes_sent",
        request_id = "request_id" | "req_id",
        user = "remote_user",
        body = "request_body",
    }
}

struct Json {
    picker: Picker,
}

struct Ingress;

struct Combined;

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(format: Format, _: &Sample, _: &Hints) -> Result<Made, IngestError> {
    let adapter: Box<dyn Adapter> = match format {
        Format::NginxIngress => Box::new(Ingress),
        Format::NginxCombined => Box::new(Combined),
        _ => Box::new(Json { picker: Wire::picker() }),
    };
    Ok((adapter, Vec::new()))
}

impl ObjectAdapter for Json {
    fn decode_object(
        &self,
        line: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let repaired;
        let wire = match Wire::read(&self.picker, line) {
            Ok(wire) => wire,
            Err(error) => {
                repaired = without_bare_dashes(line).ok_or(error)?;
                Wire::read(&self.picker, &repaired)?
            }
        };
        let agent = wire.agent.text().unwrap_or_default();
        let of_line = wire.line.text().and_then(|line| Request::of_line(line, agent));
        let request = of_line.unwrap_or_else(|| Request {
            method: wire.method.text().unwrap_or_default(),
            path: wire.path.text().unwrap_or_default(),
            agent,
        });
        if let Some(reason) = request.drop_reason(false) {
            out.drop(reason);
            return Ok(());
        }
        let Some(end) = end_of(&wire, shared)? else {
            out.drop("no_time");
            return Ok(());
        };
        let format = shared.name(Format::NginxJson.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        let duration = fill::span_us(&wire.duration, "request_time", fill::SECONDS)?;
        fill::arrival_from_end(&mut row, end, duration);
        request.fill(&mut row, shared);
        fill_json(&wire, &mut row, shared)?;
        let mut draft = Draft::from(row);
        if let Some(body) = wire.body.text() {
            content::fill_request(&body_of(body), &mut draft, shared);
        }
        out.keep(draft);
        Ok(())
    }
}

/// Reads the end: to the millisecond where it is logged so.
fn end_of(wire: &Wire<'_>, shared: &mut Shared) -> Result<Option<Stamp>, FieldError> {
    if let Some(mut end) = shared.time(&wire.msec, "msec", Naive::Utc)? {
        end.quantum_us = end.quantum_us.max(MILLISECOND_US);
        return Ok(Some(end));
    }
    match wire.time.text().and_then(iso_of_common) {
        Some(iso) => shared.time(&Loose::Text(Cow::Owned(iso)), "time", Naive::Local),
        None => shared.time(&wire.time, "time", Naive::Local),
    }
}

fn fill_json(
    wire: &Wire<'_>,
    row: &mut RequestRecord,
    shared: &mut Shared,
) -> Result<(), FieldError> {
    fill::http_status(row, wire.status.count("status")?);
    row.request_bytes = access::bytes(&wire.request_bytes);
    row.response_bytes = access::bytes(&wire.response_bytes);
    row.request_id_hash = shared.hash(Column::Request, &wire.request_id);
    row.user_hash = shared.hash(Column::User, &wire.user);
    let lists = [&wire.addresses, &wire.statuses, &wire.times];
    let lengths = lists.map(|list| list.text().map_or(0, |text| access::list(text).len()));
    access::attempts(row, lengths.into_iter().max().unwrap_or(1));
    let headers = headers_us(wire, usize::from(row.attempt_count))?;
    fill::ttft(row, headers, TtftSource::Headers);
    Ok(())
}

/// Returns the time to the last attempt's headers since the first attempt: each attempt's times
/// count from its own start. `None` where the times of the earlier ones are not all known.
fn headers_us(wire: &Wire<'_>, attempts: usize) -> Result<Option<i64>, FieldError> {
    // One upstream's time may be a bare number.
    let last = wire.header_times.text().and_then(|text| access::list(text).pop());
    let last = last.map_or_else(|| wire.header_times.clone(), |last| Loose::cell(Some(last)));
    let Some(own) = fill::span_us(&last, "upstream_header_time", fill::SECONDS)? else {
        return Ok(None);
    };
    let times = wire.times.text().map(access::list).unwrap_or_default();
    let earlier = attempts.saturating_sub(1);
    if earlier > 0 && times.len() != attempts {
        return Ok(None);
    }
    let mut since_arrival = own;
    for time in times.into_iter().take(earlier) {
        let time = Loose::cell(Some(time));
        match fill::span_us(&time, "upstream_response_time", fill::SECONDS)? {
            Some(time) => since_arrival = since_arrival.saturating_add(time),
            None => return Ok(None),
        }
    }
    Ok(Some(since_arrival))
}

/// Returns the line with a null for every `-` that stands where JSON wants a value; `None` when
/// there is none.
fn without_bare_dashes(line: &str) -> Option<String> {
    let mut repaired = String::with_capacity(line.len() + 16);
    let (mut in_text, mut escaped, mut found) = (false, false, false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if in_text {
            in_text = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else if c == '"' {
            in_text = true;
        } else if c == '-' && matches!(chars.peek(), Some(',' | '}' | ' ')) {
            repaired.push_str("null");
            found = true;
            continue;
        }
        repaired.push(c);
    }
    found.then_some(repaired)
}

/// Returns a body without nginx' own escapes (`\x22`), which stand where JSON has quotes.
fn body_of(body: &str) -> Cow<'_, str> {
    let inner = body.strip_prefix('"').and_then(|body| body.strip_suffix('"')).unwrap_or(body);
    if !inner.contains("\\x") {
        return Cow::Borrowed(inner);
    }
    let mut bytes = Vec::with_capacity(inner.len());
    let mut parts = inner.split("\\x");
    bytes.extend(parts.next().unwrap_or_default().bytes());
    for part in parts {
        let code = part
            .split_at_checked(2)
            .filter(|(code, _)| code.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match code.and_then(|(code, rest)| Some((u8::from_str_radix(code, 16).ok()?, rest))) {
            Some((byte, rest)) => {
                bytes.push(byte);
                bytes.extend(rest.bytes());
            }
            None => bytes.extend(b"\\x".iter().copied().chain(part.bytes())),
        }
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads what ingress and combined lines share; `None` when the line is dropped.
fn row_of<'a>(
    input: Input<'a>,
    (format, at): (Format, At),
    duration_at: Option<(usize, usize)>,
    shared: &mut Shared,
    out: &mut Out,
) -> Result<Option<(RequestRecord, Line<'a>)>, Refusal> {
    let line = match input {
        Input::Text(line) => Line::parse(line),
        _ => None,
    };
    let Some(line) = line else {
        out.drop("not_llm");
        return Ok(None);
    };
    let Some(request) = line.request() else {
        out.drop("not_llm");
        return Ok(None);
    };
    if let Some(reason) = request.drop_reason(false) {
        out.drop(reason);
        return Ok(None);
    }
    let Some(end) = line.time(shared)? else {
        out.drop("no_time");
        return Ok(None);
    };
    let mut row = RequestRecord::unknown(shared.name(format.as_str()), at.file_id, at.line);
    let duration = match duration_at {
        Some((part, place)) => {
            fill::span_us(&line.value(part, place), "request_time", fill::SECONDS)?
        }
        None => None,
    };
    fill::arrival_from_end(&mut row, end, duration);
    line.fill(&request, &mut row, shared)?;
    Ok(Some((row, line)))
}

impl Adapter for Ingress {
    fn decode(
        &self,
        input: Input<'_>,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        // Behind the user agent: length, seconds, service, other service, and lists of addresses,
        // lengths, seconds and statuses of the upstreams; then the request's id.
        let format = Format::NginxIngress;
        let Some((mut row, line)) = row_of(input, (format, at), Some((2, 1)), shared, out)? else {
            return Ok(());
        };
        row.request_bytes = access::bytes(&line.value(2, 0));
        let tail = line.parts.get(2).map_or(&[][..], |part| part.after.as_slice());
        access::attempts(&mut row, tail.get(4).map_or(1, Vec::len));
        row.request_id_hash = shared.hash(Column::Request, &line.value(2, 8));
        out.keep(row);
        Ok(())
    }
}

impl Adapter for Combined {
    fn decode(
        &self,
        input: Input<'_>,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let format = Format::NginxCombined;
        if let Some((row, _)) = row_of(input, (format, at), None, shared, out)? {
            out.keep(row);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::{ARRIVAL, row, survives, why_not};
    use super::*;
    use crate::domain::record::{ArrivalSource, Operation, Status};

    const JSON: &str = r#"{"time":"2026-11-24T09:15:05+00:00","msec":"1795511705.623",
        "request_method":"POST","request_uri":"/v1/chat/completions","status":"200",
        "request_time":"3.500","upstream_addr":"192.0.2.1:80","upstream_status":"200",
        "upstream_header_time":"0.418","upstream_response_time":"3.499","request_length":"610",
        "body_bytes_sent":"912","request_id":"r1","http_user_agent":"x/1","request_body":"-"}"#;
    const INGRESS: &str = r#"192.0.2.9 - - [24/Nov/2026:10:15:05 +0100] "POST /v1/chat/completions HTTP/2.0" 200 912 "-" "x/1" 610 3.500 [llm-80] [] 192.0.2.1:80 912 3.499 200 r1"#;
    const COMBINED: &str = r#"192.0.2.9 - bob [24/Nov/2026:10:15:05 +0100] "POST /v1/embeddings HTTP/1.1" 200 912 "-" "a \x22b\x22/1""#;

    #[test]
    fn a_json_line_is_read() {
        let row = row(Format::NginxJson, JSON);
        assert_eq!(row.arrival_time, Some(ARRIVAL));
        assert_eq!(row.arrival_source, ArrivalSource::EndMinusDuration);
        assert_eq!((row.arrival_resolution_us, row.duration_us), (1_000, Some(3_500_000)));
        assert_eq!(row.time_to_first_chunk_us, Some(418_000));
        assert_eq!(row.ttft_source, Some(TtftSource::Headers));
        assert_eq!((row.request_bytes, row.response_bytes), (Some(610), Some(912)));
        assert_eq!((row.input_tokens, row.output_tokens), (None, None));
        assert_eq!((row.status, row.operation), (Status::Ok, Operation::Chat));
        assert_eq!((row.attempt_count, row.user_hash), (1, None));
    }

    #[test]
    fn lists_are_attempts_and_the_last_one_answered() {
        let line = JSON
            .replace("192.0.2.1:80", "192.0.2.1:80, 192.0.2.2:80 : 192.0.2.3:80")
            .replace("\"0.418\"", "\"-, - : 0.402\"");
        let record = row(Format::NginxJson, &line);
        // How long the first two took is not known.
        assert_eq!((record.attempt_count, record.time_to_first_chunk_us), (3, None));
        let timed = line.replace("\"3.499\"", "\"0.100, 2.000 : 1.399\"");
        assert_eq!(row(Format::NginxJson, &timed).time_to_first_chunk_us, Some(2_502_000));
        let unknown = line.replace("\"3.499\"", "\"0.100, - : 1.399\"");
        assert_eq!(row(Format::NginxJson, &unknown).ttft_source, None);
        let number = JSON.replace("\"0.418\"", "0.418").replace("\"3.500\"", "3.5");
        assert_eq!(row(Format::NginxJson, &number).time_to_first_chunk_us, Some(418_000));
        let gone = JSON.replace("\"200\"", "\"499\"").replace("0.418", "-");
        let record = row(Format::NginxJson, &gone);
        assert_eq!((record.status, record.ttft_source), (Status::Cancelled, None));
    }

    #[test]
    fn bare_dashes_and_other_names_of_keys_are_read() {
        let line = JSON.replace("\"0.418\"", "-").replace("\"-\"", "\"a-,b\"");
        assert_eq!(row(Format::NginxJson, &line).ttft_source, None);
        let line = r#"{"time_local":"24/Nov/2026:10:15:05 +0100","status":200,"request_time":3.5,
            "request":"POST /v1/completions HTTP/1.1","bytes_sent":7}"#;
        let record = row(Format::NginxJson, line);
        assert_eq!((record.operation, record.response_bytes), (Operation::TextCompletion, Some(7)));
        assert_eq!(record.arrival_resolution_us, 1_000_000);
        assert_eq!(record.end_time.unwrap().micros_since(ARRIVAL), 2_877_000);
    }

    #[test]
    fn bodies_lose_the_escapes_of_the_log() {
        assert_eq!(body_of(r"{\x22a\x22:\x22\xC3\xA9\x22}"), "{\"a\":\"\u{e9}\"}");
        assert_eq!(body_of(r#""{\x22a\x22:1}""#), "{\"a\":1}");
        assert_eq!(body_of(r"cut \x2"), r"cut \x2");
        assert_eq!(body_of(r"odd \x+1"), r"odd \x+1");
        assert_eq!(body_of("{}"), "{}");
        assert_eq!(
            without_bare_dashes(r#"{"a":-,"b":"-,\"-,","c":-1,"d":-}"#).as_deref(),
            Some(r#"{"a":null,"b":"-,\"-,","c":-1,"d":null}"#)
        );
        assert_eq!(without_bare_dashes(r#"{"a":"-","#), None);
    }

    #[test]
    fn an_ingress_line_is_read() {
        let record = row(Format::NginxIngress, INGRESS);
        assert_eq!(record.arrival_time.unwrap().micros_since(ARRIVAL), -623_000);
        assert_eq!(record.arrival_source, ArrivalSource::EndMinusDuration);
        assert_eq!((record.arrival_resolution_us, record.zone_assumed), (1_000_000, false));
        assert_eq!((record.request_bytes, record.response_bytes), (Some(610), Some(912)));
        assert_eq!((record.duration_us, record.attempt_count), (Some(3_500_000), 1));
        assert_eq!((record.status, record.ttft_source), (Status::Ok, None));
        assert!(record.request_id_hash.is_some());
        let tail = "192.0.2.1:80, 192.0.2.2:80 0, 912 0.004, 3.090 502, 200 r1";
        let retried =
            row(Format::NginxIngress, &INGRESS.replace("192.0.2.1:80 912 3.499 200 r1", tail));
        assert_eq!(retried.attempt_count, 2);
        assert_eq!(retried.request_id_hash, record.request_id_hash);
    }

    #[test]
    fn a_combined_line_has_only_its_end() {
        let row = row(Format::NginxCombined, COMBINED);
        assert_eq!((row.arrival_source, row.duration_us), (ArrivalSource::EndOnly, None));
        assert_eq!(row.arrival_time, row.end_time);
        assert_eq!(row.arrival_time.unwrap().micros_since(ARRIVAL), 2_877_000);
        assert_eq!((row.operation, row.response_bytes), (Operation::Embeddings, Some(912)));
        assert!(row.user_hash.is_some());
    }

    #[test]
    fn other_lines_are_left_out_and_cut_ones_refused() {
        let tls = r#"192.0.2.7 - - [24/Nov/2026:10:16:42 +0100] "\x16\x03\x01" 400 150 "-" "-" 0 0.010 [] [] - - - - r4"#;
        assert_eq!(why_not(Format::NginxIngress, tls), "not_llm");
        let probe = INGRESS.replace("POST /v1/chat/completions", "GET /health");
        assert_eq!(why_not(Format::NginxIngress, &probe), "probe");
        let probe = JSON.replace("/v1/chat/completions", "/metrics");
        assert_eq!(why_not(Format::NginxJson, &probe), "probe");
        let page = COMBINED.replace("/v1/embeddings", "/index.html");
        assert_eq!(why_not(Format::NginxCombined, &page), "not_llm");
        assert_eq!(why_not(Format::NginxCombined, "I1124 controller.go:1 reload"), "not_llm");
        let cut = COMBINED.split_once(" 200").unwrap().0;
        assert_eq!(why_not(Format::NginxCombined, cut), " ends in the middle of the line");
        let bad = INGRESS.replace("/2.0\" 200", "/2.0\" okay");
        assert_eq!(why_not(Format::NginxIngress, &bad), "status is not a number");
        for (format, line) in [
            (Format::NginxJson, JSON),
            (Format::NginxIngress, INGRESS),
            (Format::NginxCombined, COMBINED),
        ] {
            survives(format, line);
        }
    }
}
