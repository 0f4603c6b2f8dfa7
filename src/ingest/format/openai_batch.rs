//! Output files of the OpenAI Batch API, one line a request, with the answer as the body.
//!
//! Batch work has no arrival: `created` in a body is when the service got to it, in whole seconds,
//! and the order of lines is not that of the input. Rows are `offline`, their times missing; lines
//! with an error are kept. Counts are the body's `usage`. Lines of the input file hold no answer
//! and are left out (`side_object`). Source: OpenAI's batch guide and `openai/openai-openapi`.

use super::bodies::{self, Answer};
use super::{At, Draft, Format, Hints, Made, ObjectAdapter, Origin, Out, Refusal, Shared, fill};
use crate::domain::record::{Operation, RequestRecord, Status, WorkloadClass};
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;

wire! {
    /// One line.
    Wire {
        id = "id",
        request_id = "response.request_id",
        code = "response.status_code",
        body = "response.body",
        response = "response",
        error = "error.code",
        method = "method",
    }
}

struct OpenaiBatch {
    wire: Picker,
    answer: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    let adapter = OpenaiBatch { wire: Wire::picker(), answer: Answer::picker() };
    Ok((Box::new(adapter), Vec::new()))
}

impl ObjectAdapter for OpenaiBatch {
    fn decode_object(
        &self,
        text: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let wire = Wire::read(&self.wire, text)?;
        if !wire.method.is_nothing() && wire.response.is_nothing() && wire.error.is_nothing() {
            out.drop("side_object");
            return Ok(());
        }
        let format = shared.name(Format::OpenaiBatchOutput.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        row.workload_class = WorkloadClass::Offline;
        row.request_id_hash = shared
            .hash(Column::Request, &wire.request_id)
            .or_else(|| shared.hash(Column::Request, &wire.id));
        fill::http_status(&mut row, wire.code.count("status_code")?);
        if let Some(code) = wire.error.text() {
            row.status = match code {
                "batch_expired" => Status::Timeout,
                "batch_cancelled" => Status::Cancelled,
                _ => Status::Error,
            };
            row.error_type = match code {
                "batch_expired" | "batch_cancelled" => Some(shared.name(code)),
                _ => shared.error_type(&wire.error),
            };
        }
        let mut draft = Draft::from(row);
        if let Some(body) = wire.body.json() {
            self.fill_body(&body, &mut draft, shared);
        }
        out.keep(draft);
        Ok(())
    }

    fn origin(&self) -> Origin {
        Origin::Missing
    }
}

impl OpenaiBatch {
    fn fill_body(&self, body: &str, draft: &mut Draft, shared: &mut Shared) {
        let row = &mut draft.row;
        let answer = Answer::read(&self.answer, body).unwrap_or_default();
        row.response_model = shared.model(&answer.model);
        row.operation = match answer.object.text() {
            Some("chat.completion" | "response") => Operation::Chat,
            Some("text_completion") => Operation::TextCompletion,
            Some("list") => Operation::Embeddings,
            _ => Operation::Unknown,
        };
        bodies::fill_counts(row, &answer.counts());
        if row.status != Status::Ok && row.error_type.is_none() {
            bodies::fill_error(row, &[answer.error_type, answer.error_code], shared);
        }
        content::fill_response(body, draft, shared);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, trial};
    use super::*;
    use crate::domain::record::ArrivalSource;

    const FORMAT: Format = Format::OpenaiBatchOutput;
    const CALL: &str = r#"{"id":"b-1","custom_id":"job-1","response":{"status_code":200,"request_id":"r-1","body":{"object":"response","created_at":1795511739,"model":"gpt-4o-mini","output":[],"usage":{"input_tokens":1320,"input_tokens_details":{"cached_tokens":1024},"output_tokens":160,"output_tokens_details":{"reasoning_tokens":96},"total_tokens":1480}}},"error":null}"#;

    #[test]
    fn a_body_of_the_responses_api_without_a_time() {
        let row = trial::row(FORMAT, CALL);
        assert_eq!(
            trial::facts(&row),
            (None, None, None, Some(1320), Some(1024), Some(160)),
            "`created_at` is no arrival"
        );
        assert_eq!(
            (row.arrival_source, row.workload_class),
            (ArrivalSource::None, WorkloadClass::Offline)
        );
        assert_eq!((row.status, row.operation), (Status::Ok, Operation::Chat));
        assert_eq!(row.reasoning_output_tokens, Some(96));
        let sample = Sample::new("f".into(), crate::ingest::sample::Records::Text(vec![]));
        let hints = Hints::none();
        assert_eq!(make(&sample, &hints).unwrap().0.origin(), Origin::Missing);
    }

    #[test]
    fn a_body_of_a_chat() {
        let chat = r#"{"id":"b","custom_id":"j","response":{"status_code":200,"request_id":"r","body":{"object":"chat.completion","usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}},"error":null}"#;
        let row = trial::row(FORMAT, chat);
        assert_eq!((row.input_tokens, row.output_tokens), (Some(5), Some(2)));
        assert_eq!(row.flags, []);
    }

    #[test]
    fn errors_are_kept() {
        let refused = r#"{"id":"b","custom_id":"j","response":{"status_code":429,"request_id":"r","body":{"error":{"type":"rate_limit_error","code":"canary","message":"canary"}}},"error":null}"#;
        let row = trial::row(FORMAT, refused);
        assert_eq!((row.status, row.input_tokens), (Status::RateLimited, None));
        assert_eq!(row.error_type.as_deref(), Some("rate_limit_error"));
        let expired = r#"{"id":"b","custom_id":"j","response":null,"error":{"code":"batch_expired","message":"canary"}}"#;
        let row = trial::row(FORMAT, expired);
        assert_eq!(
            (row.status, row.error_type.as_deref()),
            (Status::Timeout, Some("batch_expired"))
        );
        assert!(row.request_id_hash.is_some());
        let other = trial::row(FORMAT, &expired.replace("batch_expired", "canary"));
        assert_eq!((other.status, other.error_type.as_deref()), (Status::Error, Some("other")));
    }

    #[test]
    fn lines_of_the_input_hold_no_answer() {
        let input = r#"{"custom_id":"j","method":"POST","url":"/v1/responses","body":{}}"#;
        assert_eq!(trial::dropped(FORMAT, input), "side_object");
    }
}
