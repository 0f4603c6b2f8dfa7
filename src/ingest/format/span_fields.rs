//! Attributes of spans of LLM calls under all their names, and what they say of a request.
//!
//! One table of aliases: OpenTelemetry's names of today, its earlier ones, those of
//! `OpenLLMetry`, `OpenInference`, vLLM and `SGLang`. Of several names the first one's value counts; token counts
//! that differ are flagged (`usage_differs`). Latencies are seconds; values above 1e6 s are
//! nanoseconds of a fork and are ignored. Sources: open-telemetry/semantic-conventions-genai,
//! traceloop/openllmetry, Arize-ai/openinference, vllm-project/vllm `vllm/tracing`.

use super::parts::{add_cached, count, session};
use super::{Shared, fill};
use crate::domain::record::{Flag, Operation, RequestRecord, Status, TokenSource, TtftSource};
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::privacy::Column;
use std::sync::Arc;

/// A value and the rank of the name it came under; names in front count.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot<'a> {
    rank: usize,
    pub(super) value: Loose<'a>,
    /// Whether another name had another number.
    differs: bool,
}

impl<'a> Slot<'a> {
    fn offer(&mut self, rank: usize, value: Loose<'a>) {
        if value.is_nothing() {
            return;
        }
        if self.value.is_nothing() {
            (self.rank, self.value) = (rank, value);
            return;
        }
        self.differs |= self.value.float() != value.float();
        if rank < self.rank {
            (self.rank, self.value) = (rank, value);
        }
    }
}

/// Declares the fields, each with its names, the best one first.
macro_rules! fields {
    ($($field:ident = $($name:literal)|+),+ $(,)?) => {
        /// The attributes of one span that are read.
        #[derive(Clone, Debug, Default)]
        pub(super) struct Fields<'a> { $(pub(super) $field: Slot<'a>),+ }

        impl<'a> Fields<'a> {
            /// Returns whether an attribute is one that is read.
            pub(super) fn knows(key: &str) -> bool {
                matches!(key, $($($name)|+)|+)
            }

            /// Takes an attribute; others are ignored.
            pub(super) fn offer(&mut self, key: &str, value: Loose<'a>) {
                $(if let Some(rank) = [$($name),+].iter().position(|name| *name == key) {
                    self.$field.offer(rank, value);
                    return;
                })+
            }
        }
    };
}

fields! {
    operation = "gen_ai.operation.name" | "openinference.span.kind" | "traceloop.span.kind" | "llm.request.type",
    provider = "gen_ai.provider.name" | "gen_ai.system" | "llm.provider" | "llm.system",
    request_model = "gen_ai.request.model" | "llm.request.model_name" | "llm.model_name" | "embedding.model_name",
    response_model = "gen_ai.response.model" | "llm.response.model_name",
    response_id = "gen_ai.response.id" | "gen_ai.request.id",
    previous = "gen_ai.request.previous_response.id",
    session = "gen_ai.conversation.id" | "session.id" | "traceloop.association.properties.session_id",
    user = "user.id" | "enduser.id" | "traceloop.association.properties.user_id",
    stream = "gen_ai.request.stream" | "llm.is_streaming" | "gen_ai.is_streaming",
    limit = "gen_ai.request.max_tokens" | "llm.request.max_tokens",
    temperature = "gen_ai.request.temperature",
    top_p = "gen_ai.request.top_p",
    choices = "gen_ai.request.choice.count" | "gen_ai.request.n",
    reasons = "gen_ai.response.finish_reasons" | "gen_ai.completion.0.finish_reason",
    ttft = "gen_ai.response.time_to_first_chunk" | "gen_ai.latency.time_to_first_token",
    queue = "gen_ai.latency.time_in_queue",
    prefill = "gen_ai.latency.time_in_model_prefill",
    decode = "gen_ai.latency.time_in_model_decode",
    input = "gen_ai.usage.input_tokens" | "gen_ai.usage.prompt_tokens" | "llm.token_count.prompt" | "llm.usage.prompt_tokens",
    output = "gen_ai.usage.output_tokens" | "gen_ai.usage.completion_tokens" | "llm.token_count.completion" | "llm.usage.completion_tokens",
    total = "gen_ai.usage.total_tokens" | "llm.usage.total_tokens" | "llm.token_count.total",
    read = "gen_ai.usage.cache_read.input_tokens" | "gen_ai.usage.cache_read_input_tokens" | "gen_ai.usage.input_tokens.cached" | "llm.token_count.prompt_details.cache_read",
    write = "gen_ai.usage.cache_write.input_tokens" | "gen_ai.usage.cache_creation.input_tokens" | "gen_ai.usage.cache_creation_input_tokens" | "llm.token_count.prompt_details.cache_write",
    reasoning = "gen_ai.usage.reasoning.output_tokens" | "llm.token_count.completion_details.reasoning",
    error = "error.type",
    code = "http.response.status_code" | "http.status_code",
    asked = "gen_ai.input.messages",
    answered = "gen_ai.output.messages",
    answer_text = "gen_ai.output.text",
    system = "gen_ai.system_instructions",
    tools = "gen_ai.tool.definitions",
}

/// What a span is to a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A call of a model.
    Call(Operation),
    /// A retrieval or a reranking of its results.
    Retrieval,
    /// A call of a tool.
    Tool,
    /// An agent, a chain or a workflow: it repeats the sums of its children.
    Sum,
    /// Nothing of these.
    Other,
}

/// Words of the operation and the span's kind.
const KINDS: &[(&str, Kind)] = &[
    ("chat", Kind::Call(Operation::Chat)),
    ("generate_content", Kind::Call(Operation::GenerateContent)),
    ("text_completion", Kind::Call(Operation::TextCompletion)),
    ("completion", Kind::Call(Operation::TextCompletion)),
    ("embeddings", Kind::Call(Operation::Embeddings)),
    ("embedding", Kind::Call(Operation::Embeddings)),
    ("rerank", Kind::Call(Operation::Rerank)),
    ("llm", Kind::Call(Operation::Unknown)),
    ("retrieval", Kind::Retrieval),
    ("retriever", Kind::Retrieval),
    ("reranker", Kind::Retrieval),
    ("execute_tool", Kind::Tool),
    ("tool", Kind::Tool),
    ("invoke_agent", Kind::Sum),
    ("invoke_workflow", Kind::Sum),
    ("plan", Kind::Sum),
    ("agent", Kind::Sum),
    ("chain", Kind::Sum),
    ("workflow", Kind::Sum),
    ("task", Kind::Sum),
];

/// Providers whose names have dots; others must be one word.
const DOTTED_PROVIDERS: &[&str] = &[
    "aws.bedrock",
    "azure.ai.inference",
    "azure.ai.openai",
    "gcp.gemini",
    "gcp.gen_ai",
    "gcp.vertex_ai",
    "ibm.watsonx.ai",
];

/// Seconds above which a latency is no latency in seconds.
const MAX_LATENCY_S: f64 = 1e6;

impl Fields<'_> {
    /// Returns what the span is. One without a word for it is a call when it has counts, a model,
    /// or an engine's latencies.
    pub(super) fn kind(&self) -> Kind {
        if let Some(word) = self.operation.value.text() {
            let known = KINDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word));
            return known.map_or(Kind::Other, |(_, kind)| *kind);
        }
        let signs = [&self.input, &self.output, &self.request_model, &self.queue, &self.prefill];
        let is_call = signs.into_iter().any(|slot| !slot.value.is_nothing());
        if is_call { Kind::Call(Operation::Unknown) } else { Kind::Other }
    }

    /// Returns whether an inference engine wrote the span.
    pub(super) fn is_engine(&self) -> bool {
        [&self.queue, &self.prefill, &self.decode].into_iter().any(|slot| !slot.value.is_nothing())
    }

    /// Fills a row whose times are set; `failed` is the span's own word.
    ///
    /// # Errors
    ///
    /// If a count is none.
    pub(super) fn fill(
        &self,
        row: &mut RequestRecord,
        failed: Option<bool>,
        shared: &mut Shared,
    ) -> Result<(), FieldError> {
        self.fill_names(row, shared);
        self.fill_status(row, failed, shared);
        self.fill_tokens(row)?;
        self.fill_latencies(row, shared);
        row.stream = self.stream.value.truth();
        row.max_tokens = count(&self.limit.value);
        row.temperature = self.temperature.value.float();
        row.top_p = self.top_p.value.float();
        row.choice_count = count(&self.choices.value);
        row.tool_definition_count = self.tools.value.json().and_then(|text| elements(&text));
        Ok(())
    }

    fn fill_names(&self, row: &mut RequestRecord, shared: &mut Shared) {
        row.provider_name = provider(&self.provider.value, shared);
        row.request_model = shared.model(&self.request_model.value);
        row.response_model = shared.model(&self.response_model.value);
        row.response_id_hash = shared.hash(Column::Request, &self.response_id.value);
        row.user_hash = shared.hash(Column::User, &self.user.value);
        let own = shared.hash(Column::Session, &self.session.value);
        session(row, own);
    }

    /// Sets the status: an HTTP code first, then the class of the error, then the span's word. An
    /// ended span that says nothing of an error went well.
    fn fill_status(&self, row: &mut RequestRecord, failed: Option<bool>, shared: &mut Shared) {
        let error = &self.error.value;
        let code = count(&self.code.value).or_else(|| count(error).filter(|code| *code >= 400));
        fill::http_status(row, code);
        let word = error.text().unwrap_or_default().to_ascii_lowercase();
        let has = |part: &str| word.contains(part);
        if count(error).is_none() {
            row.error_type = shared.error_type(error);
        }
        if row.http_status_code.is_some_and(|code| code >= 400) {
            return;
        }
        row.status = if has("timeout") || has("timed_out") {
            Status::Timeout
        } else if has("ratelimit") || has("rate_limit") || has("toomanyrequests") {
            Status::RateLimited
        } else if has("cancel") {
            Status::Cancelled
        } else if !word.is_empty() || failed == Some(true) {
            Status::Error
        } else if failed == Some(false) || row.end_time.is_some() {
            Status::Ok
        } else {
            Status::Unknown
        };
    }

    fn fill_tokens(&self, row: &mut RequestRecord) -> Result<(), FieldError> {
        let of = |slot: &Slot<'_>, field| slot.value.count(field);
        let source = if self.is_engine() { TokenSource::Engine } else { TokenSource::Provider };
        let output = of(&self.output, "output_tokens")?
            // Embeddings and rerankings have no output: some write it as 0.
            .filter(|count| *count > 0 || row.is_generation());
        let counts = (of(&self.input, "input_tokens")?, output, of(&self.total, "total_tokens")?);
        fill::tokens(row, counts, source, fill::Zeros::Unknown);
        row.cache_read_input_tokens = of(&self.read, "cache_read.input_tokens")?;
        row.cache_write_input_tokens = of(&self.write, "cache_write.input_tokens")?;
        row.reasoning_output_tokens = of(&self.reasoning, "reasoning.output_tokens")?;
        let counted =
            [&self.input, &self.output, &self.total, &self.read, &self.write, &self.reasoning];
        if counted.into_iter().any(|slot| slot.differs) {
            row.flags.push(Flag::UsageDiffers);
        }
        // More cached than input tokens: the instrumentation left the cached ones out.
        if row.input_tokens.is_some() && row.cache_read_input_tokens > row.input_tokens {
            let is_anthropic = [&self.provider, &self.request_model].into_iter().any(|slot| {
                let name = slot.value.text().unwrap_or_default().to_ascii_lowercase();
                name.contains("anthropic") || name.contains("claude") || name.contains("bedrock")
            });
            if is_anthropic {
                add_cached(row);
            }
        }
        row.drop_impossible_parts();
        Ok(())
    }

    fn fill_latencies(&self, row: &mut RequestRecord, shared: &mut Shared) {
        let mut micros = |slot: &Slot<'_>| {
            let seconds = slot.value.float().filter(|seconds| *seconds >= 0.0)?;
            if seconds > MAX_LATENCY_S {
                shared.remark("latencies above 1e6 s ignored");
                return None;
            }
            fill::span_us(&Loose::Float(seconds), "", fill::SECONDS).ok().flatten()
        };
        row.queue_time_us = micros(&self.queue);
        row.prefill_time_us = micros(&self.prefill);
        row.decode_time_us = micros(&self.decode);
        let ttft = micros(&self.ttft);
        fill::ttft(row, ttft, TtftSource::Logged);
    }
}

/// Returns the name of a provider.
fn provider(value: &Loose<'_>, shared: &mut Shared) -> Option<Arc<str>> {
    let word = value.text()?;
    match DOTTED_PROVIDERS.iter().find(|known| known.eq_ignore_ascii_case(word)) {
        Some(known) => Some(shared.name(known)),
        None => shared.word(&Loose::Text(word.to_ascii_lowercase().into())),
    }
}

/// Returns how many elements a JSON text has.
fn elements(text: &str) -> Option<u32> {
    Loose::Json(text).elements()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::WallTime;
    use crate::ingest::format::Zone;
    use crate::ingest::privacy::Hasher;

    fn filled(
        attributes: &[(&'static str, Loose<'static>)],
        failed: Option<bool>,
    ) -> RequestRecord {
        let mut fields = Fields::default();
        for (key, value) in attributes {
            assert!(Fields::knows(key), "{key}");
            fields.offer(key, value.clone());
        }
        let mut shared = Shared::new(Hasher::new(b"a salt for tests"), Zone::utc());
        let mut row = RequestRecord::unknown("test".into(), 0, 1);
        row.end_time = Some(WallTime(1));
        fields.fill(&mut row, failed, &mut shared).unwrap();
        row
    }

    fn text(text: &'static str) -> Loose<'static> {
        Loose::Text(text.into())
    }

    #[test]
    fn the_newer_name_counts_and_a_difference_is_flagged() {
        let old = ("gen_ai.usage.prompt_tokens", Loose::Int(7));
        let new = ("gen_ai.usage.input_tokens", text("8"));
        for both in [[old.clone(), new.clone()], [new.clone(), old]] {
            let row = filled(&both, None);
            assert_eq!((row.input_tokens, &row.flags[..]), (Some(8), &[Flag::UsageDiffers][..]));
        }
        let same = ("llm.token_count.prompt", Loose::Int(8));
        assert!(filled(&[new.clone(), same], None).flags.is_empty());
        let nothing = ("llm.token_count.prompt", Loose::Null);
        assert_eq!(filled(&[nothing, new], None).input_tokens, Some(8));
    }

    #[test]
    fn latencies_of_a_fork_are_ignored() {
        let row = filled(
            &[
                ("gen_ai.latency.time_in_queue", Loose::Float(12_000_000.0)),
                ("gen_ai.latency.time_in_model_prefill", Loose::Float(0.4)),
                ("gen_ai.latency.time_in_model_decode", Loose::Float(-1.0)),
            ],
            None,
        );
        assert_eq!((row.queue_time_us, row.prefill_time_us), (None, Some(400_000)));
        assert_eq!(row.decode_time_us, None);
    }

    #[test]
    fn the_code_comes_before_the_class_and_the_class_before_the_word() {
        let status = |attributes: &[(&'static str, Loose<'static>)], failed| {
            filled(attributes, failed).status
        };
        let error = |word| ("error.type", text(word));
        let code = |code| ("http.response.status_code", Loose::Int(code));
        assert_eq!(status(&[code(429), error("timeout")], Some(true)), Status::RateLimited);
        assert_eq!(status(&[error("504")], Some(true)), Status::Timeout);
        assert_eq!(status(&[error("timeout")], Some(true)), Status::Timeout);
        assert_eq!(status(&[code(200), error("RateLimitError")], None), Status::RateLimited);
        assert_eq!(status(&[code(200)], Some(true)), Status::Error);
        assert_eq!(status(&[], None), Status::Ok);
        assert_eq!(filled(&[error("canary person")], None).error_type.as_deref(), Some("other"));
    }

    #[test]
    fn cached_tokens_left_out_of_the_input() {
        let of = |provider| {
            let row = filled(
                &[
                    ("gen_ai.provider.name", text(provider)),
                    ("gen_ai.usage.input_tokens", Loose::Int(296)),
                    ("gen_ai.usage.cache_read.input_tokens", Loose::Int(1_024)),
                ],
                None,
            );
            (row.input_tokens, row.cache_read_input_tokens)
        };
        assert_eq!(of("anthropic"), (Some(1_320), Some(1_024)));
        assert_eq!(of("openai"), (Some(296), None));
    }

    #[test]
    fn kinds_and_providers() {
        let kind = |key, word| {
            let mut fields = Fields::default();
            fields.offer(key, text(word));
            fields.kind()
        };
        assert_eq!(kind("openinference.span.kind", "LLM"), Kind::Call(Operation::Unknown));
        assert_eq!(kind("traceloop.span.kind", "workflow"), Kind::Sum);
        assert_eq!(kind("gen_ai.operation.name", "create_agent"), Kind::Other);
        assert_eq!(kind("gen_ai.request.model", "m"), Kind::Call(Operation::Unknown));
        assert_eq!(kind("user.id", "u"), Kind::Other);
        let provider = |word| filled(&[("gen_ai.system", text(word))], None).provider_name.unwrap();
        assert_eq!(&*provider("OpenAI"), "openai");
        assert_eq!(&*provider("aws.bedrock"), "aws.bedrock");
        assert_eq!(&*provider("canary.person"), "other");
    }
}
