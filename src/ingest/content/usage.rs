//! Token counts of providers, in the words of each, as counts of the trace.
//!
//! Usage object -> input (cached tokens included), output (reasoning included), and their parts.
//! Only what the row lacks is filled. Anthropic and Bedrock count cached tokens apart; they are
//! added. Gemini counts thoughts apart from the answer; they are added too. A 0 for input or
//! output stands for "unknown". Sources: the public API references.

use super::flag;
use super::scan::Cursor;
use crate::domain::record::{Flag, RequestRecord, TokenSource};

/// Counts as the provider names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Input with all its parts.
    prompt: Option<u32>,
    /// Input that may lack the cached parts, as Anthropic counts.
    input: Option<u32>,
    output: Option<u32>,
    /// Gemini: the answer without thoughts.
    candidates: Option<u32>,
    thoughts: Option<u32>,
    tool_prompt: Option<u32>,
    total: Option<u32>,
    /// A part of the input, in all families that say `cached`.
    cached: Option<u32>,
    cache_read: Option<u32>,
    cache_write: Option<u32>,
    reasoning: Option<u32>,
    /// Whether searches of the provider's own were counted.
    pub(super) searched: bool,
}

/// Returns the cached tokens, read and written, that are counted apart from the `input`: none
/// where the total shows that the input has them already.
pub(in crate::ingest) fn cached_apart(
    input: u32,
    (output, total): (Option<u32>, Option<u32>),
    (read, written): (Option<u32>, Option<u32>),
) -> u32 {
    let with_output = u64::from(input) + u64::from(output.unwrap_or(0));
    if total.is_some_and(|total| u64::from(total) == with_output) {
        return 0;
    }
    read.unwrap_or(0).saturating_add(written.unwrap_or(0))
}

impl Usage {
    /// Reads a usage object; later ones of a stream replace what they repeat.
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>) {
        cursor.members(|key, cursor| self.member(key, cursor));
    }

    /// Reads one member of a usage object.
    pub(super) fn member(&mut self, key: &str, cursor: &mut Cursor<'_>) {
        let slot = match key {
            "prompt_tokens"
            | "promptTokenCount"
            | "prompt_token_count"
            | "prompt_eval_count"
            | "promptTokens"
            | "inputTextTokenCount" => &mut self.prompt,
            "input_tokens" | "inputTokens" => &mut self.input,
            "completion_tokens"
            | "output_tokens"
            | "outputTokens"
            | "eval_count"
            | "completionTokens"
            | "generated_tokens"
            | "generation_token_count" => &mut self.output,
            "candidatesTokenCount" | "candidates_token_count" => &mut self.candidates,
            "thoughtsTokenCount" | "thoughts_token_count" => &mut self.thoughts,
            "toolUsePromptTokenCount" => &mut self.tool_prompt,
            "total_tokens" | "totalTokens" | "totalTokenCount" | "total_token_count" => {
                &mut self.total
            }
            "cachedContentTokenCount"
            | "cached_content_token_count"
            | "prompt_cache_hit_tokens"
            | "cached_tokens" => &mut self.cached,
            "cache_read_input_tokens" | "cacheReadInputTokens" | "cacheReadInputTokenCount" => {
                &mut self.cache_read
            }
            "cache_creation_input_tokens"
            | "cacheWriteInputTokens"
            | "cacheWriteInputTokenCount"
            | "cache_write_tokens" => &mut self.cache_write,
            "reasoning_tokens" => &mut self.reasoning,
            "prompt_tokens_details"
            | "input_tokens_details"
            | "completion_tokens_details"
            | "output_tokens_details" => return self.details(cursor),
            "server_tool_use" => return self.searches(cursor),
            _ => return,
        };
        if let Some(count) = cursor.count() {
            *slot = Some(count);
        }
    }

    fn details(&mut self, cursor: &mut Cursor<'_>) {
        cursor.members(|key, cursor| {
            let slot = match key {
                "cached_tokens" => &mut self.cached,
                "reasoning_tokens" => &mut self.reasoning,
                "cache_write_tokens" | "cache_creation_tokens" => &mut self.cache_write,
                _ => return,
            };
            if let Some(count) = cursor.count() {
                *slot = Some(count);
            }
        });
    }

    fn searches(&mut self, cursor: &mut Cursor<'_>) {
        cursor.members(|key, cursor| {
            if matches!(key, "web_search_requests" | "web_fetch_requests") {
                self.searched |= cursor.count().is_some_and(|count| count > 0);
            }
        });
    }

    /// Returns the input with its cached parts, and whether they had to be added.
    fn whole_input(&self) -> (Option<u32>, bool) {
        if let Some(prompt) = self.prompt {
            return (Some(prompt.saturating_add(self.tool_prompt.unwrap_or(0))), false);
        }
        let Some(input) = self.input else { return (None, false) };
        let cached = (self.cache_read, self.cache_write);
        let apart = match self.cached {
            None => cached_apart(input, (self.output, self.total), cached),
            // Counted as a part of the input.
            Some(_) => 0,
        };
        (Some(input.saturating_add(apart)), apart > 0)
    }

    fn whole_output(&self) -> Option<u32> {
        let thoughts = self.thoughts.unwrap_or(0);
        self.output.or_else(|| Some(self.candidates?.saturating_add(thoughts)))
    }

    /// Fills what the row lacks.
    pub(super) fn fill(&self, row: &mut RequestRecord) {
        let (input, added) = self.whole_input();
        let output = self.whole_output();
        let lacks = (row.input_tokens.is_none(), row.output_tokens.is_none());
        let known = |count: Option<u32>| count.filter(|count| *count > 0);
        if lacks.0
            && let Some(input) = known(input)
        {
            row.input_tokens = Some(input);
            row.input_token_source = TokenSource::Provider;
            if added {
                flag(row, Flag::AnthropicCachedAdded);
            }
        }
        if lacks.1
            && let Some(output) = known(output)
        {
            row.output_tokens = Some(output);
            row.output_token_source = TokenSource::Provider;
        }
        let zero =
            (lacks.0 && input == Some(0)) || (lacks.1 && output == Some(0) && row.is_generation());
        if zero {
            flag(row, Flag::ZeroMeansUnknown);
        }
        if let (true, Some(input), Some(output), Some(total)) =
            (lacks == (true, true), input, output, self.total)
            && u64::from(input) + u64::from(output) != u64::from(total)
        {
            flag(row, Flag::TokenSumMismatch);
        }
        let cached = self.cached.or(self.cache_read);
        row.cache_read_input_tokens = row.cache_read_input_tokens.or(cached);
        row.cache_write_input_tokens = row.cache_write_input_tokens.or(self.cache_write);
        let reasoning = self.reasoning.or(self.thoughts);
        row.reasoning_output_tokens = row.reasoning_output_tokens.or(reasoning);
        row.drop_impossible_parts();
    }
}

#[cfg(test)]
mod tests {
    use super::super::fill_usage;
    use super::*;

    fn row(usage: &str) -> RequestRecord {
        let mut row = RequestRecord::unknown("test".into(), 0, 1);
        fill_usage(usage, &mut row);
        row
    }

    #[test]
    fn cached_tokens_are_added_where_they_are_counted_apart() {
        let anthropic = r#"{"input_tokens":296,"cache_read_input_tokens":1000,
            "cache_creation_input_tokens":24,"output_tokens":160}"#;
        assert_eq!(row(anthropic).input_tokens, Some(1320));
        assert_eq!(row(anthropic).flags, [Flag::AnthropicCachedAdded]);
        // The total shows that the input has them already.
        let inclusive = r#"{"input_tokens":1320,"cache_read_input_tokens":1024,"output_tokens":160,
            "total_tokens":1480}"#;
        assert_eq!((row(inclusive).input_tokens, row(inclusive).flags.len()), (Some(1320), 0));
        // Details are parts of the input, also where the total is missing.
        let details = r#"{"input_tokens":1320,"output_tokens":160,
            "input_tokens_details":{"cached_tokens":1000,"cache_write_tokens":24}}"#;
        assert_eq!((row(details).input_tokens, row(details).flags.len()), (Some(1320), 0));
        let translated = r#"{"prompt_tokens":1320,"cache_read_input_tokens":1024}"#;
        assert_eq!(row(translated).input_tokens, Some(1320));
    }

    #[test]
    fn zero_is_unknown_and_sums_are_checked() {
        let zero = row(r#"{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}"#);
        assert_eq!((zero.input_tokens, zero.output_tokens), (None, None));
        assert_eq!(zero.flags, [Flag::ZeroMeansUnknown]);
        assert_eq!(zero.input_token_source, TokenSource::Missing);
        let off = row(r#"{"prompt_tokens":"10","completion_tokens":5.0,"total_tokens":16}"#);
        assert_eq!((off.input_tokens, off.output_tokens), (Some(10), Some(5)));
        assert_eq!(off.flags, [Flag::TokenSumMismatch]);
        assert_eq!(off.input_token_source, TokenSource::Provider);
    }

    #[test]
    fn impossible_parts_and_wrong_types_fill_nothing() {
        let odd = row(r#"{"prompt_tokens":-1,"completion_tokens":[3],"cached_tokens":"x"}"#);
        assert_eq!((odd.input_tokens, odd.output_tokens), (None, None));
        assert!(odd.flags.is_empty());
        let more = row(r#"{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":6}}"#);
        assert_eq!(more.cache_read_input_tokens, None);
        assert_eq!(more.flags, [Flag::CachedExceedsInput]);
        let large = r#"{"input_tokens":2147483647,"cache_read_input_tokens":2147483647,
            "cache_creation_input_tokens":2147483647}"#;
        assert_eq!(row(large).input_tokens, Some(u32::MAX));
    }
}
