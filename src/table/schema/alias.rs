//! Short names of the trace's columns for `--map`, from one table.
//!
//! `--map arrival=ts` and `--map arrival_time=ts` mean the same.

/// A column of the trace that `--map` can fill, with its short alias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapField {
    /// The column's name in the trace. A hash column is fed with the plain identifier, which is
    /// hashed on the way.
    pub column: &'static str,
    /// The short alias.
    pub alias: &'static str,
}

/// Every column that `--map` can fill.
pub const MAP_FIELDS: &[MapField] = &[
    MapField { column: "arrival_time", alias: "arrival" },
    MapField { column: "end_time", alias: "end" },
    MapField { column: "duration_us", alias: "duration" },
    MapField { column: "time_to_first_chunk_us", alias: "ttft" },
    MapField { column: "gen_ai_usage_input_tokens", alias: "input_tokens" },
    MapField { column: "gen_ai_usage_output_tokens", alias: "output_tokens" },
    MapField { column: "gen_ai_usage_cache_read_input_tokens", alias: "cached_tokens" },
    MapField { column: "gen_ai_usage_reasoning_output_tokens", alias: "reasoning_tokens" },
    MapField { column: "gen_ai_request_model", alias: "model" },
    MapField { column: "gen_ai_response_model", alias: "response_model" },
    MapField { column: "gen_ai_provider_name", alias: "provider" },
    MapField { column: "gen_ai_operation_name", alias: "operation" },
    MapField { column: "endpoint_family", alias: "endpoint" },
    MapField { column: "gen_ai_request_max_tokens", alias: "max_tokens" },
    MapField { column: "gen_ai_request_temperature", alias: "temperature" },
    MapField { column: "gen_ai_request_top_p", alias: "top_p" },
    MapField { column: "gen_ai_request_stream", alias: "stream" },
    MapField { column: "status", alias: "status" },
    MapField { column: "http_response_status_code", alias: "http_status" },
    MapField { column: "error_type", alias: "error" },
    MapField { column: "gen_ai_response_finish_reasons", alias: "finish_reason" },
    MapField { column: "request_id_hash", alias: "request_id" },
    MapField { column: "trace_id_hash", alias: "trace_id" },
    MapField { column: "session_id_hash", alias: "session" },
    MapField { column: "turn_index", alias: "turn" },
    MapField { column: "user_hash", alias: "user" },
    MapField { column: "key_hash", alias: "key" },
    MapField { column: "tenant_hash", alias: "tenant" },
    MapField { column: "cost", alias: "cost" },
    MapField { column: "scenario", alias: "scenario" },
];

/// Returns the field that `name` stands for: a column's name or its short alias.
pub fn map_field(name: &str) -> Option<&'static MapField> {
    MAP_FIELDS.iter().find(|field| field.column == name || field.alias == name)
}

/// Returns the names that `--map` takes, for messages and help: `arrival, end, …`.
pub fn map_names() -> String {
    MAP_FIELDS.iter().map(|field| field.alias).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::artifacts::TRACE;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_field_is_a_column_and_every_name_has_one_meaning() {
        let mut names = BTreeSet::new();
        for field in MAP_FIELDS {
            assert!(TRACE.column(field.column).is_some(), "{}", field.column);
            assert!(names.insert(field.column), "{}", field.column);
            assert!(field.alias == field.column || names.insert(field.alias), "{}", field.alias);
        }
    }

    #[test]
    fn both_names_lead_to_the_column() {
        let arrival = map_field("arrival").unwrap();
        assert_eq!(arrival.column, "arrival_time");
        assert_eq!(map_field("arrival_time"), Some(arrival));
        assert_eq!(map_field("status").unwrap().column, "status");
        assert_eq!(map_field("request_rate"), None);
        assert!(map_names().starts_with("arrival, end, duration"));
    }
}
