//! The column tables of trace, plan, requests, chunks and pool.
//!
//! A line is: name, type, `null` or `full`, unit, meaning. A column that nothing feeds yet is
//! written all the same, as null, so that files of later versions have the same columns.

use super::{Artifact, Column, Kind};

/// Turns the lines of a table into columns.
macro_rules! columns {
    ($($name:literal $kind:ident $null:ident $unit:literal $meaning:literal;)+) => {
        &[$(Column {
            name: $name,
            kind: Kind::$kind,
            nullable: columns!(@ $null),
            unit: $unit,
            meaning: $meaning,
        }),+]
    };
    (@ null) => { true };
    (@ full) => { false };
}

/// The observed requests.
pub const TRACE: Artifact = Artifact {
    name: "trace",
    file: "trace.parquet",
    version: 1,
    row: "One request as the client experienced it, attempts merged; in order of arrival.",
    columns: columns! {
        "row_id" U64 full "" "dense number of the row, in order of arrival";
        "source_format" Text full "" "adapter that read the row";
        "source_file_id" U32 full "" "index into the list of files in the metadata";
        "source_line" U64 null "" "1-based line or row in that file";
        "request_id_hash" Hash null "" "keyed hash of the gateway's request id";
        "gen_ai_response_id_hash" Hash null "" "keyed hash of the provider's response id";
        "trace_id_hash" Hash null "" "keyed hash of the trace id";
        "span_id_hash" Hash null "" "keyed hash of the span id";
        "parent_span_id_hash" Hash null "" "keyed hash of the parent span's id";
        "arrival_time" Time null "" "when the request reached the logging component; null only for sources without times";
        "arrival_source" Text full "" "how the arrival was obtained: logged, end_minus_duration, end_only, relative_origin, delay_after_parent, unknown_start_or_end, synthetic, none";
        "arrival_resolution_us" I64 full "us" "quantum of the source's clock";
        "zone_assumed" Bool full "" "true if the source gave no time zone";
        "end_time" Time null "" "last byte of the answer";
        "duration_us" I64 null "us" "arrival to end, at least 0";
        "time_to_first_chunk_us" I64 null "us" "arrival to the first chunk";
        "ttft_source" Text null "" "where time_to_first_chunk_us comes from: logged, derived, headers, whole_response";
        "queue_time_us" I64 null "us" "wait in the engine's queue";
        "prefill_time_us" I64 null "us" "prefill in the engine";
        "decode_time_us" I64 null "us" "decode in the engine";
        "gen_ai_operation_name" Text full "" "what was asked for: chat, text_completion, embeddings, rerank, generate_content, unknown";
        "gen_ai_provider_name" Text null "" "provider; `other` for what could be no name of one";
        "gen_ai_request_model" Text null "" "model the client asked for first; `other` for what could be no name of one";
        "gen_ai_response_model" Text null "" "model that answered";
        "endpoint_family" Text null "" "family of the path, one of the common APIs' (others are null)";
        "workload_class" Text full "" "kind of traffic: online, offline, probe, test";
        "gen_ai_usage_input_tokens" I64 null "tokens" "input tokens as billed, cached ones included";
        "gen_ai_usage_output_tokens" I64 null "tokens" "output tokens as billed, reasoning ones included";
        "gen_ai_usage_cache_read_input_tokens" I64 null "tokens" "input tokens read from the provider's cache, at most the input tokens";
        "gen_ai_usage_cache_write_input_tokens" I64 null "tokens" "input tokens written to the provider's cache";
        "gen_ai_usage_reasoning_output_tokens" I64 null "tokens" "reasoning tokens, at most the output tokens";
        "input_token_source" Text full "" "who counted the input: provider, logged (a log that does not say who), engine, gateway_estimate, tokenized, derived, bytes_estimate, missing";
        "output_token_source" Text full "" "who counted the output, same words";
        "request_bytes" I64 null "bytes" "length of the request on the wire";
        "response_bytes" I64 null "bytes" "length of the answer on the wire";
        "gen_ai_request_max_tokens" I64 null "tokens" "limit the client set on output tokens";
        "gen_ai_request_temperature" F64 null "" "sampling temperature";
        "gen_ai_request_top_p" F64 null "" "nucleus sampling share";
        "gen_ai_request_choice_count" I32 null "" "answers asked for (n)";
        "gen_ai_request_stream" Bool null "" "whether the answer was streamed";
        "status" Text full "" "how it ended: ok, error, cancelled, timeout, rate_limited, unknown";
        "http_response_status_code" I16 null "" "HTTP status code";
        "error_type" Text null "" "class of the error, never its message; `other` for what could be no class";
        "gen_ai_response_finish_reasons" Texts null "" "why generation stopped, one per choice";
        "attempt_count" I16 full "" "attempts merged into the row, at least 1";
        "cache_status" Text null "" "the gateway's response cache: hit, semantic_hit, miss, off";
        "cost" F64 null "currency unit" "cost of the request";
        "cost_currency" Text null "" "currency of the cost";
        "session_id_hash" Hash null "" "keyed hash of the session id";
        "session_source" Text full "" "rule that gave the session: explicit, response_chain, message_chain, message_chain_nosystem, last_exchange, block_chain, key_gap, none";
        "turn_index" I32 null "" "0-based position in the session";
        "parent_row_id" U64 null "" "row_id of the previous turn";
        "think_time_us" I64 null "us" "arrival minus the end of the previous turn; negative when turns overlap";
        "user_hash" Hash null "" "keyed hash of the end user";
        "key_hash" Hash null "" "keyed hash of the API key";
        "tenant_hash" Hash null "" "keyed hash of the tenant or team";
        "message_count" I32 null "" "messages in the request";
        "system_count" I32 null "" "system messages";
        "user_count" I32 null "" "user messages";
        "assistant_count" I32 null "" "assistant messages";
        "tool_count" I32 null "" "tool messages";
        "tool_definition_count" I32 null "" "tools offered in the request";
        "tool_call_count" I32 null "" "tool calls in the answer";
        "tool_names_hash" Hashes null "" "keyed hashes of the tools' names";
        "tool_class" Texts null "" "class of each tool: retrieval, web_search, code, other";
        "image_count" I32 null "" "images in the request";
        "audio_count" I32 null "" "audio parts in the request";
        "file_count" I32 null "" "files in the request";
        "rag_label" Text full "" "how sure it is that documents were retrieved: explicit, strong, heuristic, no_evidence, unknowable";
        "rag_evidence" Texts null "" "ids of the rules that fired";
        "context_tokens" I64 null "tokens" "retrieved part of the prompt";
        "question_tokens" I64 null "tokens" "question part of the prompt";
        "prefix_block_hashes" U64s null "" "keyed rolling hashes of the prompt's blocks";
        "prefix_block_size" I32 null "tokens" "tokens in a block";
        "prefix_hash_scope" Text null "" "where equal hashes mean equal blocks: dataset, session";
        "flags" Texts full "" "repairs and oddities; every repair leaves a mark";
        "scenario" Text full "" "kind of request: single, multi_turn, rag, agent, long_output";
    },
};

/// The planned requests.
pub const PLAN: Artifact = Artifact {
    name: "plan",
    file: "plan.parquet",
    version: 1,
    row: "One planned request; request_id ascends.",
    columns: columns! {
        "request_id" U64 full "" "number of the request, ascending";
        "scenario" Text full "" "kind of request: single, multi_turn, rag, agent, long_output";
        "session_id" U64 null "" "dense number of the session, not a hash";
        "turn_index" U32 null "" "0-based turn within the session";
        "release_kind" Text full "" "when it is released: at, after, when_free";
        "scheduled_ns" I64 null "ns" "offset from the start of the run; for at";
        "after_request_id" U64 null "" "request whose end is waited for; for after";
        "delay_ns" I64 null "ns" "wait after that end; for after";
        "prompt_parts" Parts full "" "the prompt: pool entries, each cut to cut_tokens, in order";
        "input_tokens" U32 full "tokens" "target of input tokens at the server";
        "count_kind" Text full "" "what input_tokens counts: raw, templated, partial";
        "content_tokens" U32 full "tokens" "tokens of the content, the sum over prompt_parts";
        "template_tokens" U32 null "tokens" "tokens the chat template adds";
        "max_tokens" U32 full "tokens" "limit on output tokens";
        "min_tokens" U32 null "tokens" "forced minimum of output tokens";
        "stream" Bool full "" "whether the answer is streamed";
        "shape" Text null "" "tools, response format and sampling parameters as JSON";
        "prefix_block_ids" U64s null "" "densely renumbered prefix blocks, no hashes";
        "recorded_status" Text null "" "how the recorded request ended, words of the trace's status";
        "repeat_of" U64 null "" "request whose prompt this one repeats";
    },
};

/// The measured requests.
pub const REQUESTS: Artifact = Artifact {
    name: "requests",
    file: "requests.parquet",
    version: 1,
    row: "One planned request and what became of it, unsent ones included; request_id ascends. Instants are offsets from the start of the run on its monotonic clock.",
    columns: columns! {
        "request_id" U64 full "" "the plan's request_id";
        "scenario" Text full "" "kind of request";
        "session_id" U64 null "" "the plan's session number";
        "turn_index" U32 null "" "the plan's turn";
        "planned_input_tokens" U32 full "tokens" "input tokens as planned";
        "planned_max_tokens" U32 full "tokens" "limit on output tokens as planned";
        "was_sent" Bool full "" "whether the request is known to have been handed to a socket";
        "scheduled_ns" I64 null "ns" "when it was due";
        "dispatched_ns" I64 null "ns" "when the dispatcher let it go";
        "connect_start_ns" I64 null "ns" "a new connection was begun; null on a reused one";
        "connected_ns" I64 null "ns" "the TCP connection stood";
        "tls_done_ns" I64 null "ns" "the TLS handshake was done";
        "sent_ns" I64 null "ns" "first byte of the request handed to the socket: the actual send";
        "request_written_ns" I64 null "ns" "last byte of the request handed to the socket";
        "first_byte_ns" I64 null "ns" "first byte of the answer read";
        "headers_ns" I64 null "ns" "response headers complete";
        "first_event_ns" I64 null "ns" "first SSE event with data";
        "first_reasoning_ns" I64 null "ns" "first non-empty reasoning text";
        "first_content_ns" I64 null "ns" "first non-empty visible text";
        "first_tool_ns" I64 null "ns" "first tool-call delta";
        "first_text_ns" I64 null "ns" "first non-empty generated text of any kind";
        "last_text_ns" I64 null "ns" "last non-empty generated text";
        "done_marker_ns" I64 null "ns" "the end marker";
        "closed_ns" I64 null "ns" "the answer's body was complete, or the request failed";
        "ttft_ns" I64 null "ns" "time to first token: first_text_ns - sent_ns";
        "ttft_from_intended_ns" I64 null "ns" "first_text_ns - scheduled_ns";
        "ttft_content_ns" I64 null "ns" "first_content_ns - sent_ns";
        "ttft_content_from_intended_ns" I64 null "ns" "first_content_ns - scheduled_ns";
        "tpot_ns" I64 null "ns" "time per output token: (last_text_ns - first_text_ns) / (output_tokens - 1), rounded down; null below two tokens";
        "e2e_ns" I64 null "ns" "closed_ns - sent_ns";
        "e2e_from_intended_ns" I64 null "ns" "closed_ns - scheduled_ns";
        "schedule_delay_ns" I64 null "ns" "sent_ns - scheduled_ns";
        "mean_chunk_gap_ns" I64 null "ns" "mean gap between chunks with text, rounded down; null below two chunks";
        "http_status_code" I32 null "" "HTTP status code";
        "failure" Text null "" "why it failed; null when the answer was complete";
        "failure_message" Text null "" "the server's or system's words, one line, keys masked";
        "input_tokens" U32 null "tokens" "input tokens as counted by usage_source";
        "cached_input_tokens" U32 null "tokens" "input tokens the server took from its cache";
        "output_tokens" U32 null "tokens" "output tokens as counted by usage_source";
        "reasoning_tokens" U32 null "tokens" "reasoning tokens among the output tokens";
        "usage_source" Text null "" "who counted: server, local";
        "finish_reason" Text null "" "why generation stopped";
        "connection_reused" Bool null "" "whether a connection was used again";
        "text_bytes" U64 full "bytes" "generated text";
        "largest_read_text_bytes" U64 full "bytes" "generated text that came in one read, at most";
        "in_flight" U32 null "" "requests in flight when this one was sent, this one included";
    },
};

/// The instants of the chunks.
pub const CHUNKS: Artifact = Artifact {
    name: "chunks",
    file: "chunks.parquet",
    version: 1,
    row: "The chunks with text of one request; request_id ascends; requests without any are absent.",
    columns: columns! {
        "request_id" U64 full "" "the plan's request_id";
        "chunk_deltas_ns" I64s full "ns" "first value: instant of the first chunk; then the gap before each further chunk; a running sum gives the instants";
    },
};

/// The texts of a prompt pool.
pub const POOL: Artifact = Artifact {
    name: "pool",
    file: "pool.parquet",
    version: 1,
    row: "One joint-safe text; in order of entry_id.",
    columns: columns! {
        "entry_id" U32 full "" "dense number of the entry, from 0";
        "kind" Text full "" "language or kind of the text: en, zh, filler, file";
        "tokens" U32 full "tokens" "tokens of the whole entry";
        "bucket" U32 null "" "log2 bucket: b holds 2^b up to 2^(b+1) tokens; null for an empty entry";
        "text" Text full "" "the text";
        "cut_tokens" U32s full "tokens" "token counts at which the entry can be cut, ascending";
        "cut_bytes" U32s full "bytes" "byte offset in the text of each value of cut_tokens";
    },
};
