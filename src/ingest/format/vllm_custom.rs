//! Custom datasets of vLLM's benchmark: `{"prompt", "output_tokens"?}`, JSONL.
//!
//! There are no times at all, no model and no outcome. Prompts are texts: their tokens are not
//! counted here, and characters are no tokens. `output_tokens` is the wanted length, where given.
//! Source: `vllm-project/vllm`, `vllm/benchmarks/datasets.py`.

use super::{At, Draft, Format, Hints, Made, ObjectAdapter, Origin, Out, Refusal, Shared, fill};
use crate::domain::record::{RequestRecord, TokenSource};
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::pick::{Picker, wire};
use crate::ingest::sample::Sample;

wire! {
    /// One request.
    Wire { prompt = "prompt", output = "output_tokens" }
}

struct VllmCustom {
    wire: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    Ok((Box::new(VllmCustom { wire: Wire::picker() }), Vec::new()))
}

impl ObjectAdapter for VllmCustom {
    fn decode_object(
        &self,
        text: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let wire = Wire::read(&self.wire, text)?;
        if wire.prompt.is_nothing() {
            out.drop("not_llm");
            return Ok(());
        }
        let format = shared.name(Format::VllmCustom.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        let output = wire.output.count("output_tokens")?;
        fill::tokens(&mut row, (None, output, None), TokenSource::Logged, fill::Zeros::Unknown);
        let mut draft = Draft::from(row);
        content::fill_request(text, &mut draft, shared);
        out.keep(draft);
        Ok(())
    }

    fn origin(&self) -> Origin {
        Origin::Missing
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, trial};
    use crate::domain::record::{ArrivalSource, Status};

    const FORMAT: Format = Format::VllmCustom;
    #[test]
    fn characters_are_no_tokens_and_there_is_no_time() {
        let row = trial::row(FORMAT, r#"{"prompt":"Where is it?","output_tokens":64}"#);
        assert_eq!((row.input_tokens, row.output_tokens), (None, Some(64)));
        assert_eq!((row.arrival_time, row.arrival_source), (None, ArrivalSource::None));
        assert_eq!(row.status, Status::Unknown);
    }

    #[test]
    fn a_length_may_be_missing() {
        for record in [r#"{"prompt":"a","output_tokens":null}"#, r#"{"prompt":"a"}"#] {
            let row = trial::row(FORMAT, record);
            assert_eq!((row.output_tokens, row.flags.len()), (None, 0), "{record}");
        }
        assert_eq!(trial::dropped(FORMAT, r#"{"prompt":null}"#), "not_llm");
        let bad = r#"{"prompt":"a","output_tokens":1.5}"#;
        assert_eq!(trial::refused(FORMAT, bad).field, "output_tokens");
    }
}
