//! One observed request: what a log line becomes.
//!
//! The fields mirror the trace's columns (`docs/formats.md`), which use OpenTelemetry's terms. An
//! unknown is `None`, never 0 or an empty string.

use super::scenario::Scenario;
use super::time::WallTime;
use super::word::word_enum;
use std::sync::Arc;

/// A keyed 128-bit hash of an identifier; the identifier itself is never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash128(pub [u8; 16]);

word_enum! {
    /// How the arrival time was obtained.
    pub enum ArrivalSource {
        /// The log states when the request arrived.
        Logged = "logged",
        /// End of the request minus its duration.
        EndMinusDuration = "end_minus_duration",
        /// Only the end is known; it stands in for the arrival.
        EndOnly = "end_only",
        /// An offset from an unknown origin; the origin is put at the Unix epoch.
        RelativeOrigin = "relative_origin",
        /// A delay after the previous turn.
        DelayAfterParent = "delay_after_parent",
        /// The log does not say whether its time is the start or the end.
        UnknownStartOrEnd = "unknown_start_or_end",
        /// Drawn by this program.
        Synthetic = "synthetic",
        /// The whole file has no times.
        None = "none",
    }
}

word_enum! {
    /// Where a time to the first chunk comes from.
    pub enum TtftSource {
        /// The log states it.
        Logged = "logged",
        /// Computed from two logged instants.
        Derived = "derived",
        /// Time to the response headers only.
        Headers = "headers",
        /// The response was not streamed: time to the whole response.
        WholeResponse = "whole_response",
    }
}

word_enum! {
    /// What was asked of the service (OpenTelemetry's `gen_ai.operation.name`, and `rerank`).
    pub enum Operation {
        /// A chat completion.
        Chat = "chat",
        /// A plain text completion.
        TextCompletion = "text_completion",
        /// Embeddings.
        Embeddings = "embeddings",
        /// Reranking.
        Rerank = "rerank",
        /// Content of any kind.
        GenerateContent = "generate_content",
        /// The log does not say.
        Unknown = "unknown",
    }
}

word_enum! {
    /// Which kind of traffic a row belongs to.
    pub enum WorkloadClass {
        /// A user waited for it.
        Online = "online",
        /// Batch work.
        Offline = "offline",
        /// A health check.
        Probe = "probe",
        /// A test row.
        Test = "test",
    }
}

word_enum! {
    /// Who counted the tokens.
    pub enum TokenSource {
        /// The model provider.
        Provider = "provider",
        /// The log states it, and not who counted.
        Logged = "logged",
        /// The inference engine.
        Engine = "engine",
        /// The gateway's own estimate.
        GatewayEstimate = "gateway_estimate",
        /// This program, with a tokenizer.
        Tokenized = "tokenized",
        /// Computed from other counts.
        Derived = "derived",
        /// Estimated from bytes.
        BytesEstimate = "bytes_estimate",
        /// Nobody: the count is null.
        Missing = "missing",
    }
}

word_enum! {
    /// How the request ended.
    pub enum Status {
        /// With a complete answer.
        Ok = "ok",
        /// With an error.
        Error = "error",
        /// The client hung up.
        Cancelled = "cancelled",
        /// A time limit passed.
        Timeout = "timeout",
        /// The service refused it as too much.
        RateLimited = "rate_limited",
        /// The log does not say.
        Unknown = "unknown",
    }
}

word_enum! {
    /// What the gateway's response cache did.
    pub enum CacheStatus {
        /// Answered from the cache; no engine saw it.
        Hit = "hit",
        /// Answered from a similar request.
        SemanticHit = "semantic_hit",
        /// Not in the cache.
        Miss = "miss",
        /// No cache in use.
        Off = "off",
    }
}

word_enum! {
    /// By which rule a row got its session.
    pub enum SessionSource {
        /// The log names the session.
        Explicit = "explicit",
        /// The request names the response it continues.
        ResponseChain = "response_chain",
        /// The messages continue an earlier request's messages.
        MessageChain = "message_chain",
        /// The same without the system message.
        MessageChainNoSystem = "message_chain_nosystem",
        /// Only the last exchange matches.
        LastExchange = "last_exchange",
        /// The prefix blocks continue an earlier request's blocks.
        BlockChain = "block_chain",
        /// Same key, short gap: a guess.
        KeyGap = "key_gap",
        /// No session known.
        None = "none",
    }
}

word_enum! {
    /// How sure it is that a request carries retrieved documents.
    pub enum RagLabel {
        /// The log says so.
        Explicit = "explicit",
        /// A rule with high precision fired.
        Strong = "strong",
        /// A rule of thumb fired.
        Heuristic = "heuristic",
        /// Content was visible and no rule fired.
        NoEvidence = "no_evidence",
        /// Nothing to judge by; never to be read as "not RAG".
        Unknowable = "unknowable",
    }
}

word_enum! {
    /// What a tool is for, by its name.
    pub enum ToolClass {
        /// Looks documents up.
        Retrieval = "retrieval",
        /// Searches the web.
        WebSearch = "web_search",
        /// Runs code.
        Code = "code",
        /// Anything else.
        Other = "other",
    }
}

word_enum! {
    /// Where equal block hashes mean equal blocks.
    pub enum HashScope {
        /// In the whole trace.
        Dataset = "dataset",
        /// Within one session only.
        Session = "session",
    }
}

word_enum! {
    /// Repairs and oddities; every repair leaves a mark.
    pub enum Flag {
        /// A logged 0 stood for an unknown count and became null.
        ZeroMeansUnknown = "zero_means_unknown",
        /// The end was before the start; the duration became null.
        NegativeDuration = "negative_duration",
        /// Start and end are the same instant.
        StartEqualsEnd = "start_equals_end",
        /// A body was cut by the logger.
        TruncatedBody = "truncated_body",
        /// Rows of one call were merged.
        AttemptsMerged = "attempts_merged",
        /// The total is not the sum of its parts.
        TokenSumMismatch = "token_sum_mismatch",
        /// Logged as a success, but the client had hung up.
        ClientHangUp = "client_hang_up",
        /// An answer from the gateway's cache.
        CacheHit = "cache_hit",
        /// More cached than input tokens; the cached count became null.
        CachedExceedsInput = "cached_exceeds_input",
        /// More reasoning than output tokens; the reasoning count became null.
        ReasoningExceedsOutput = "reasoning_exceeds_output",
        /// The first chunk was later than the end; the time to it became null.
        TtftExceedsDuration = "ttft_exceeds_duration",
        /// Rows of one long record were put together.
        SplitRowsMerged = "split_rows_merged",
        /// Older versions of the row were left out.
        Deduplicated = "deduplicated",
        /// The source counts cached tokens apart; they were added to the input.
        AnthropicCachedAdded = "anthropic_cached_added",
        /// Two names of one count were there and differed; the newer name's value was taken.
        UsageDiffers = "usage_differs",
    }
}

impl Status {
    /// Returns whether a request of this end counts as failed; a client that hung up is none, and
    /// an unknown end is taken as good.
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Error | Self::Timeout | Self::RateLimited)
    }
}

/// About how many bytes of memory a record without blocks takes.
pub const ROW_BYTES: usize = 700;

/// One request as the client experienced it, after merging attempts.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestRecord {
    /// The adapter that read it, for example `litellm-spendlogs`.
    pub source_format: Arc<str>,
    /// Index into the file list of the trace's metadata.
    pub source_file_id: u32,
    /// 1-based line or row in that file.
    pub source_line: Option<u64>,
    /// Keyed hash of the gateway's request id.
    pub request_id_hash: Option<Hash128>,
    /// Keyed hash of the trace id that links attempts and spans.
    pub trace_id_hash: Option<Hash128>,
    /// Keyed hash of the provider's response id.
    pub response_id_hash: Option<Hash128>,
    /// Keyed hash of the span id.
    pub span_id_hash: Option<Hash128>,
    /// Keyed hash of the parent span's id.
    pub parent_span_id_hash: Option<Hash128>,
    /// When the request reached the logging component; `None` only with `ArrivalSource::None`.
    pub arrival_time: Option<WallTime>,
    /// How `arrival_time` was obtained.
    pub arrival_source: ArrivalSource,
    /// The quantum of the source's clock, in microseconds.
    pub arrival_resolution_us: i64,
    /// Whether the source gave no zone, so that one was assumed.
    pub zone_assumed: bool,
    /// Last byte of the answer.
    pub end_time: Option<WallTime>,
    /// Arrival to end in microseconds, at least 0.
    pub duration_us: Option<i64>,
    /// Arrival to first chunk in microseconds.
    pub time_to_first_chunk_us: Option<i64>,
    /// Where `time_to_first_chunk_us` comes from.
    pub ttft_source: Option<TtftSource>,
    /// Wait in the engine's queue, in microseconds.
    pub queue_time_us: Option<i64>,
    /// Prefill in the engine, in microseconds.
    pub prefill_time_us: Option<i64>,
    /// Decode in the engine, in microseconds.
    pub decode_time_us: Option<i64>,
    /// What was asked for.
    pub operation: Operation,
    /// The provider's name.
    pub provider_name: Option<Arc<str>>,
    /// The model the client asked for.
    pub request_model: Option<Arc<str>>,
    /// The model that answered.
    pub response_model: Option<Arc<str>>,
    /// The family of the path, one of the common APIs'.
    pub endpoint_family: Option<Arc<str>>,
    /// Which kind of traffic it is.
    pub workload_class: WorkloadClass,
    /// Input tokens as billed, cached ones included.
    pub input_tokens: Option<u32>,
    /// Output tokens as billed, reasoning ones included.
    pub output_tokens: Option<u32>,
    /// Input tokens read from the provider's cache; at most `input_tokens`.
    pub cache_read_input_tokens: Option<u32>,
    /// Input tokens written to the provider's cache.
    pub cache_write_input_tokens: Option<u32>,
    /// Reasoning tokens; at most `output_tokens`.
    pub reasoning_output_tokens: Option<u32>,
    /// Who counted the input tokens.
    pub input_token_source: TokenSource,
    /// Who counted the output tokens.
    pub output_token_source: TokenSource,
    /// Length of the request on the wire.
    pub request_bytes: Option<u64>,
    /// Length of the answer on the wire.
    pub response_bytes: Option<u64>,
    /// The limit the client set on output tokens.
    pub max_tokens: Option<u32>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling share.
    pub top_p: Option<f64>,
    /// Answers asked for.
    pub choice_count: Option<u32>,
    /// Whether the answer was streamed.
    pub stream: Option<bool>,
    /// How it ended.
    pub status: Status,
    /// The HTTP status code.
    pub http_status_code: Option<u16>,
    /// The error's class, never its message.
    pub error_type: Option<Arc<str>>,
    /// Why generation stopped, one per choice.
    pub finish_reasons: Vec<Arc<str>>,
    /// Attempts merged into this row, at least 1.
    pub attempt_count: u16,
    /// What the gateway's cache did.
    pub cache_status: Option<CacheStatus>,
    /// Cost in the source's currency unit.
    pub cost: Option<f64>,
    /// Currency of the cost.
    pub cost_currency: Option<Arc<str>>,
    /// Keyed hash of the session id.
    pub session_id_hash: Option<Hash128>,
    /// The rule that gave the session.
    pub session_source: SessionSource,
    /// 0-based position in the session.
    pub turn_index: Option<u32>,
    /// `row_id` of the previous turn.
    pub parent_row_id: Option<u64>,
    /// Arrival minus the end of the previous turn, in microseconds; negative when turns overlap.
    pub think_time_us: Option<i64>,
    /// Keyed hash of the end user.
    pub user_hash: Option<Hash128>,
    /// Keyed hash of the API key.
    pub key_hash: Option<Hash128>,
    /// Keyed hash of the tenant or team.
    pub tenant_hash: Option<Hash128>,
    /// Messages in the request.
    pub message_count: Option<u32>,
    /// System messages.
    pub system_count: Option<u32>,
    /// User messages.
    pub user_count: Option<u32>,
    /// Assistant messages.
    pub assistant_count: Option<u32>,
    /// Tool messages.
    pub tool_count: Option<u32>,
    /// Tools offered in the request.
    pub tool_definition_count: Option<u32>,
    /// Tool calls in the answer.
    pub tool_call_count: Option<u32>,
    /// Class of each tool offered.
    pub tool_class: Vec<ToolClass>,
    /// Images in the request.
    pub image_count: Option<u32>,
    /// Audio parts in the request.
    pub audio_count: Option<u32>,
    /// Files in the request.
    pub file_count: Option<u32>,
    /// Whether retrieved documents are in the prompt.
    pub rag_label: RagLabel,
    /// Ids of the rules that fired.
    pub rag_evidence: Vec<Arc<str>>,
    /// Tokens of the retrieved part of the prompt.
    pub context_tokens: Option<u32>,
    /// Tokens of the question in the prompt.
    pub question_tokens: Option<u32>,
    /// Keyed rolling hashes of the prompt's blocks.
    pub prefix_block_hashes: Vec<u64>,
    /// Tokens in a block.
    pub prefix_block_size: Option<u32>,
    /// Where equal block hashes mean equal blocks.
    pub prefix_hash_scope: Option<HashScope>,
    /// The kind of request, by `domain::scenario`.
    pub scenario: Scenario,
    /// Repairs and oddities.
    pub flags: Vec<Flag>,
}

impl RequestRecord {
    /// Returns a record of which nothing is known but where it came from.
    #[expect(clippy::too_many_lines, reason = "one line a field, and no field forgotten")]
    pub fn unknown(source_format: Arc<str>, source_file_id: u32, source_line: u64) -> Self {
        Self {
            source_format,
            source_file_id,
            source_line: Some(source_line),
            request_id_hash: None,
            trace_id_hash: None,
            response_id_hash: None,
            span_id_hash: None,
            parent_span_id_hash: None,
            arrival_time: None,
            arrival_source: ArrivalSource::None,
            arrival_resolution_us: 1,
            zone_assumed: false,
            end_time: None,
            duration_us: None,
            time_to_first_chunk_us: None,
            ttft_source: None,
            queue_time_us: None,
            prefill_time_us: None,
            decode_time_us: None,
            operation: Operation::Unknown,
            provider_name: None,
            request_model: None,
            response_model: None,
            endpoint_family: None,
            workload_class: WorkloadClass::Online,
            input_tokens: None,
            output_tokens: None,
            cache_read_input_tokens: None,
            cache_write_input_tokens: None,
            reasoning_output_tokens: None,
            input_token_source: TokenSource::Missing,
            output_token_source: TokenSource::Missing,
            request_bytes: None,
            response_bytes: None,
            max_tokens: None,
            temperature: None,
            top_p: None,
            choice_count: None,
            stream: None,
            status: Status::Unknown,
            http_status_code: None,
            error_type: None,
            finish_reasons: Vec::new(),
            attempt_count: 1,
            cache_status: None,
            cost: None,
            cost_currency: None,
            session_id_hash: None,
            session_source: SessionSource::None,
            turn_index: None,
            parent_row_id: None,
            think_time_us: None,
            user_hash: None,
            key_hash: None,
            tenant_hash: None,
            message_count: None,
            system_count: None,
            user_count: None,
            assistant_count: None,
            tool_count: None,
            tool_definition_count: None,
            tool_call_count: None,
            tool_class: Vec::new(),
            image_count: None,
            audio_count: None,
            file_count: None,
            rag_label: RagLabel::Unknowable,
            rag_evidence: Vec::new(),
            context_tokens: None,
            question_tokens: None,
            prefix_block_hashes: Vec::new(),
            prefix_block_size: None,
            prefix_hash_scope: None,
            scenario: Scenario::Single,
            flags: Vec::new(),
        }
    }

    /// Makes parts of token counts null that are larger than their whole, with a flag.
    ///
    /// Where the whole is not known, nothing contradicts the part and it stays.
    pub fn drop_impossible_parts(&mut self) {
        let exceeds = |part: Option<u32>, whole: Option<u32>| whole.is_some() && part > whole;
        if exceeds(self.cache_read_input_tokens, self.input_tokens) {
            self.cache_read_input_tokens = None;
            self.flags.push(Flag::CachedExceedsInput);
        }
        if exceeds(self.reasoning_output_tokens, self.output_tokens) {
            self.reasoning_output_tokens = None;
            self.flags.push(Flag::ReasoningExceedsOutput);
        }
    }

    /// Returns about how many bytes of memory the record takes.
    ///
    /// Its lists of blocks can be thousands long; everything else is small.
    pub fn weight_bytes(&self) -> usize {
        ROW_BYTES + 8 * self.prefix_block_hashes.len()
    }

    /// Returns whether the output length was cut before the model chose to stop.
    ///
    /// True for a finish reason that says so, for an output as long as its limit, and for client
    /// hang-ups: the natural length is longer than the logged one (right-censored).
    pub fn output_is_censored(&self) -> bool {
        let cut = |reason: &Arc<str>| matches!(&**reason, "length" | "max_tokens" | "incomplete");
        let at_limit = self.max_tokens.zip(self.output_tokens);
        self.status == Status::Cancelled
            || at_limit.is_some_and(|(limit, output)| limit > 0 && output >= limit)
            || self.finish_reasons.iter().any(cut)
    }

    /// Returns whether the row shows if its output was cut: a finish reason, a limit beside a
    /// count, or a client that hung up.
    pub fn shows_if_cut(&self) -> bool {
        self.status == Status::Cancelled
            || !self.finish_reasons.is_empty()
            || self.max_tokens.is_some()
    }

    /// Returns whether text was asked for; embeddings and rerankings have no output tokens.
    pub const fn is_generation(&self) -> bool {
        !matches!(self.operation, Operation::Embeddings | Operation::Rerank)
    }
}
