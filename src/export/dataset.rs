//! One JSON document for notebooks: a header that says what each column is, then every row.
//!
//! `{"format", "source", "columns": [{name, type, unit, meaning}], "counts", "rows": [[…], …]}`;
//! a row is a list in the order of `columns`, null where nothing is known. All rows are there. The
//! document has words, names of models and numbers, no hash: sessions and users are numbered in
//! order of their first row, blocks as in [`super::blocks`] without a fit to the length. Memory
//! grows with the number of sessions, users and blocks, about 50 bytes each.

use crate::domain::record::RequestRecord;
use crate::domain::schedule::{Release, ScheduledRequest};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::hash::Hash;

/// Version of the document's shape.
pub const SCHEMA_VERSION: u32 = 1;

/// A column: name, type, unit, meaning.
type Column = (&'static str, &'static str, &'static str, &'static str);

/// The columns of a trace's document.
const TRACE: &[Column] = &[
    ("row_id", "integer", "", "number of the request, in order of arrival"),
    ("arrival_us", "integer", "us", "arrival since 1970-01-01 UTC, or since an unknown origin"),
    ("offset_us", "integer", "us", "arrival since the first one"),
    ("duration_us", "integer", "us", "arrival to the end of the answer"),
    ("time_to_first_chunk_us", "integer", "us", "arrival to the first chunk"),
    ("input_tokens", "integer", "tokens", "input as billed, cached tokens included"),
    ("output_tokens", "integer", "tokens", "output as billed, reasoning tokens included"),
    ("cache_read_input_tokens", "integer", "tokens", "input read from the provider's cache"),
    ("reasoning_output_tokens", "integer", "tokens", "reasoning among the output"),
    ("max_tokens", "integer", "tokens", "limit the client set on the output"),
    ("request_model", "text", "", "model asked for"),
    ("response_model", "text", "", "model that answered"),
    ("provider", "text", "", "provider"),
    ("operation", "text", "", "what was asked for"),
    ("status", "text", "", "how it ended"),
    ("http_status_code", "integer", "", "HTTP status code"),
    ("finish_reason", "text", "", "why generation stopped, of the first choice"),
    ("stream", "boolean", "", "whether the answer was streamed"),
    ("attempt_count", "integer", "", "attempts merged into the row"),
    ("cache_status", "text", "", "what the gateway's response cache did"),
    ("scenario", "text", "", "kind of request"),
    ("session", "integer", "", "number of the session"),
    ("turn_index", "integer", "", "position in the session, from 0"),
    ("think_time_us", "integer", "us", "arrival minus the end of the turn before"),
    ("user", "integer", "", "number of the end user"),
    ("rag_label", "text", "", "how sure it is that documents were retrieved"),
    ("message_count", "integer", "", "messages in the request"),
    ("tool_definition_count", "integer", "", "tools offered"),
    ("tool_call_count", "integer", "", "tool calls in the answer"),
    ("prefix_block_size", "integer", "tokens", "tokens in a block"),
    ("prefix_blocks", "list of integer", "", "numbers of the prompt's blocks"),
];

/// The columns of a plan's document.
const PLAN: &[Column] = &[
    ("request_id", "integer", "", "number of the request"),
    ("release_kind", "text", "", "when it is released: at, after, when_free"),
    ("offset_us", "integer", "us", "for at: time since the start of the run"),
    ("after_request_id", "integer", "", "for after: the request whose end it waits for"),
    ("delay_us", "integer", "us", "for after: the wait after that end"),
    ("input_tokens", "integer", "tokens", "input at the server"),
    ("max_tokens", "integer", "tokens", "limit on the output"),
    ("scenario", "text", "", "kind of request"),
    ("session", "integer", "", "number of the session"),
    ("turn_index", "integer", "", "position in the session, from 0"),
    ("stream", "boolean", "", "whether the answer is streamed"),
    ("recorded_status", "text", "", "how the recorded request ended"),
    ("repeat_of", "integer", "", "request whose prompt it repeats"),
    ("prefix_blocks", "list of integer", "", "numbers of the prompt's blocks"),
];

/// Writes the document row by row.
#[derive(Debug, Default)]
pub struct Dataset {
    rows: u64,
    origin_us: Option<i64>,
    sessions: Numbers<[u8; 16]>,
    users: Numbers<[u8; 16]>,
    blocks: Numbers<u64>,
}

/// Numbers things in the order in which they are first seen.
#[derive(Debug)]
struct Numbers<T>(HashMap<T, u64>);

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Eq + Hash> Numbers<T> {
    fn of(&mut self, thing: T) -> u64 {
        let next = crate::domain::convert::count(self.0.len());
        *self.0.entry(thing).or_insert(next)
    }
}

impl Dataset {
    /// Returns the document up to its first row.
    pub fn head(source: &str, rows: u64, tool_version: &str) -> String {
        let columns = if source == "plan" { PLAN } else { TRACE };
        let columns: Vec<Value> = columns
            .iter()
            .map(|(name, kind, unit, meaning)| {
                let unit = if unit.is_empty() { Value::Null } else { json!(unit) };
                json!({"name": name, "type": kind, "unit": unit, "meaning": meaning})
            })
            .collect();
        let line = |key: &str, value: Value| format!("  \"{key}\": {value},\n");
        let columns: Vec<String> = columns.iter().map(|column| format!("    {column}")).collect();
        [
            "{\n".to_owned(),
            line("format", json!("tracewright-dataset")),
            line("schema_version", json!(SCHEMA_VERSION)),
            line("tool_version", json!(tool_version)),
            line("source", json!(source)),
            line("counts", json!({"rows": rows})),
            format!("  \"columns\": [\n{}\n  ],\n  \"rows\": [", columns.join(",\n")),
        ]
        .concat()
    }

    /// Returns the end of the document.
    pub const fn tail() -> &'static str {
        "\n  ]\n}\n"
    }

    /// Appends a row of a trace; `row_id` is its place there.
    pub fn trace_row(&mut self, row: &RequestRecord, row_id: u64, out: &mut String) {
        let arrival = row.arrival_time.map(|at| at.0);
        let origin = match arrival {
            Some(at) => *self.origin_us.get_or_insert(at),
            None => 0,
        };
        let blocks: Vec<u64> =
            row.prefix_block_hashes.iter().map(|block| self.blocks.of(*block)).collect();
        let cells = json!([
            row_id,
            arrival,
            arrival.map(|at| at.saturating_sub(origin)),
            row.duration_us,
            row.time_to_first_chunk_us,
            row.input_tokens,
            row.output_tokens,
            row.cache_read_input_tokens,
            row.reasoning_output_tokens,
            row.max_tokens,
            row.request_model.as_deref(),
            row.response_model.as_deref(),
            row.provider_name.as_deref(),
            row.operation,
            row.status,
            row.http_status_code,
            row.finish_reasons.first().map(|reason| &**reason),
            row.stream,
            row.attempt_count,
            row.cache_status,
            row.scenario,
            row.session_id_hash.map(|hash| self.sessions.of(hash.0)),
            row.turn_index,
            row.think_time_us,
            row.user_hash.map(|hash| self.users.of(hash.0)),
            row.rag_label,
            row.message_count,
            row.tool_definition_count,
            row.tool_call_count,
            row.prefix_block_size,
            (!blocks.is_empty()).then_some(blocks),
        ]);
        self.append(&cells, out);
    }

    /// Appends a row of a plan.
    pub fn plan_row(&mut self, row: &ScheduledRequest, out: &mut String) {
        let (after, delay) = match row.release {
            Release::After { request_id, delay } => (Some(request_id), Some(delay.0 / 1_000)),
            Release::At(_) | Release::WhenFree => (None, None),
        };
        let cells = json!([
            row.request_id,
            row.release.kind(),
            row.release.at().map(|at| at.0 / 1_000),
            after,
            delay,
            row.input_tokens,
            row.max_tokens,
            row.scenario,
            row.session_id,
            row.turn_index,
            row.stream,
            row.recorded_status,
            row.repeat_of,
            (!row.prefix_block_ids.is_empty()).then_some(&row.prefix_block_ids),
        ]);
        self.append(&cells, out);
    }

    fn append(&mut self, cells: &Value, out: &mut String) {
        out.push_str(if self.rows == 0 { "\n    " } else { ",\n    " });
        out.push_str(&cells.to_string());
        self.rows += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::record::Hash128;
    use crate::domain::scenario::Scenario;
    use crate::domain::schedule::CountKind;
    use crate::domain::time::{Nanos, WallTime};

    fn document(rows: &[RequestRecord]) -> Value {
        let mut dataset = Dataset::default();
        let mut text = Dataset::head("trace", crate::domain::convert::count(rows.len()), "1.2.3");
        for (row_id, row) in (0..).zip(rows) {
            dataset.trace_row(row, row_id, &mut text);
        }
        text.push_str(Dataset::tail());
        serde_json::from_str(&text).expect("JSON")
    }

    fn cell<'a>(document: &'a Value, row: usize, name: &str) -> &'a Value {
        let columns = document["columns"].as_array().unwrap();
        let place = columns.iter().position(|column| column["name"] == name).expect("a column");
        &document["rows"][row][place]
    }

    #[test]
    fn a_document_without_rows_is_one() {
        let document = document(&[]);
        assert_eq!(document["rows"], json!([]));
        assert_eq!(document["counts"]["rows"], 0);
    }

    #[test]
    fn rows_have_a_cell_for_each_column_and_no_hash() {
        let mut rows = vec![RequestRecord::unknown("test".into(), 0, 1); 3];
        rows[1].arrival_time = Some(WallTime(5_000_000));
        rows[2].arrival_time = Some(WallTime(5_000_007));
        rows[2].request_model = Some("m\"1".into());
        for (row, hash) in rows.iter_mut().zip([9, 8, 9]) {
            row.session_id_hash = Some(Hash128([hash; 16]));
            row.prefix_block_hashes = vec![u64::MAX, u64::from(hash)];
        }
        let document = document(&rows);
        for row in document["rows"].as_array().unwrap() {
            assert_eq!(row.as_array().unwrap().len(), TRACE.len());
        }
        let column = |name| [0, 1, 2].map(|row| cell(&document, row, name).clone());
        assert_eq!(column("offset_us"), [json!(null), json!(0), json!(7)]);
        assert_eq!(column("session"), [json!(0), json!(1), json!(0)]);
        assert_eq!(column("prefix_blocks"), [json!([0, 1]), json!([0, 2]), json!([0, 1])]);
        assert_eq!(column("input_tokens"), [json!(null), json!(null), json!(null)]);
        assert_eq!(cell(&document, 2, "request_model"), "m\"1");
        assert!(!document.to_string().contains(&u64::MAX.to_string()));
    }

    #[test]
    fn a_plan_row_fits_its_columns() {
        let row = ScheduledRequest {
            request_id: 4,
            scenario: Scenario::Single,
            session_id: None,
            turn_index: None,
            release: Release::After { request_id: 3, delay: Nanos(2_500_999) },
            prompt_parts: Vec::new(),
            input_tokens: 40,
            count_kind: CountKind::Raw,
            content_tokens: 40,
            template_tokens: None,
            max_tokens: 9,
            min_tokens: None,
            stream: true,
            prefix_block_ids: vec![7],
            recorded_status: None,
            repeat_of: None,
        };
        let mut out = String::new();
        Dataset::default().plan_row(&row, &mut out);
        let want = r#"[4,"after",null,3,2500,40,9,"single",null,null,true,null,null,[7]]"#;
        assert_eq!(out.trim(), want);
        let cells: Vec<Value> = serde_json::from_str(want).unwrap();
        assert_eq!(cells.len(), PLAN.len());
    }
}
