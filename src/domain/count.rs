//! Counting tokens: the one trait that lets other stages count without a tokenizer of their own.

/// Counts the tokens of a text.
///
/// Implemented by `pool`, handed to other stages by `cli`.
pub trait CountTokens: Send + Sync {
    /// Returns the number of tokens of `text`; text that looks like a control token is plain text.
    fn count_tokens(&self, text: &str) -> u32;

    /// Returns the name of the tokenizer, for example `o200k_base`.
    fn tokenizer_name(&self) -> &str;
}
