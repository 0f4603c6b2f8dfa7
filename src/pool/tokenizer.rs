//! The built-in tokenizers: one engine for counting, one reference for checking.
//!
//! In: text. Out: tokens. `bpe-openai` counts (about twice as fast), `tiktoken-rs` checks what is
//! stored in a pool. Both encode *ordinary* text: what looks like a control token (`<|endoftext|>`)
//! is plain text. Vocabularies are compiled in and loaded at first use (0.1-0.2 s each). What a
//! server's chat template adds is not counted here.

use super::error::PoolError;
use crate::domain::count::CountTokens;
use tiktoken_rs::CoreBPE;

/// An encoding this program can count with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    O200kBase,
    Cl100kBase,
}

const ENCODINGS: [(&str, Encoding); 2] =
    [("o200k_base", Encoding::O200kBase), ("cl100k_base", Encoding::Cl100kBase)];

/// A tokenizer by name. Cheap to copy; the vocabularies are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tokenizer {
    name: &'static str,
    encoding: Encoding,
}

impl Tokenizer {
    /// Returns the tokenizer called `name`.
    ///
    /// # Errors
    /// [`PoolError::UnknownTokenizer`], listing the known names.
    pub fn named(name: &str) -> Result<Self, PoolError> {
        ENCODINGS
            .iter()
            .find(|(known, _)| *known == name)
            .map(|&(name, encoding)| Self { name, encoding })
            .ok_or_else(|| PoolError::UnknownTokenizer {
                name: name.to_owned(),
                known: Self::names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
            })
    }

    /// Returns the known names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ENCODINGS.iter().map(|(name, _)| *name)
    }

    /// Returns the tokenizer's name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns a digest of the vocabulary.
    ///
    /// It covers the name, the number of tokens, and the length and bytes of each token in order
    /// of its id (BLAKE3, hex). It does not cover the pre-tokenizer's pattern, which the name
    /// stands for, nor the control tokens, which are never used here.
    pub fn digest(&self) -> String {
        let vocabulary = &self.engine().bpe;
        let tokens = narrow(vocabulary.num_tokens());
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.name.as_bytes());
        hasher.update(&tokens.to_le_bytes());
        for id in 0..tokens {
            let bytes = vocabulary.token_bytes(id);
            hasher.update(&narrow(bytes.len()).to_le_bytes());
            hasher.update(bytes);
        }
        hasher.finalize().to_hex().to_string()
    }

    /// Returns the pieces that the pre-tokenizer makes of `text`; no token crosses two of them.
    pub(super) fn pieces<'a>(&self, text: &'a str) -> impl Iterator<Item = &'a str> {
        self.engine().split(text)
    }

    /// Returns the tokens of one piece.
    pub(super) fn piece_ids(&self, piece: &str) -> Vec<u32> {
        self.engine().bpe.encode_via_backtracking(piece.as_bytes())
    }

    /// Returns the number of tokens of one piece.
    pub(super) fn piece_count(&self, piece: &str) -> u32 {
        narrow(self.engine().bpe.count(piece.as_bytes()))
    }

    /// Returns the tokens of `text` by the reference implementation, `tiktoken-rs`.
    pub fn reference_ids(&self, text: &str) -> Vec<u32> {
        self.reference().encode_ordinary(text)
    }

    /// Returns the number of tokens of `text` by the reference implementation, `tiktoken-rs`.
    pub fn reference_count(&self, text: &str) -> u32 {
        narrow(self.reference_ids(text).len())
    }

    fn engine(&self) -> &'static bpe_openai::Tokenizer {
        match self.encoding {
            Encoding::O200kBase => bpe_openai::o200k_base(),
            Encoding::Cl100kBase => bpe_openai::cl100k_base(),
        }
    }

    fn reference(&self) -> &'static CoreBPE {
        match self.encoding {
            Encoding::O200kBase => tiktoken_rs::o200k_base_singleton(),
            Encoding::Cl100kBase => tiktoken_rs::cl100k_base_singleton(),
        }
    }
}

impl CountTokens for Tokenizer {
    fn count_tokens(&self, text: &str) -> u32 {
        narrow(self.engine().count(text))
    }

    fn tokenizer_name(&self) -> &str {
        self.name
    }
}

/// Returns a count or a length as `u32`; texts of 4 GiB and more are refused long before.
pub(super) fn narrow(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = Tokenizer::named("p50k").unwrap_err();
        insta::assert_snapshot!(error, @"tokenizer `p50k`: not known, expected one of `o200k_base`, `cl100k_base`");
    }

    #[test]
    fn engine_and_reference_agree_on_awkward_texts() {
        let texts = [
            "",
            " ",
            "a",
            " hello world",
            "  two  spaces  \n\n\tand tabs ",
            "it's we'RE I'll don't 12345678",
            "今天上午，张三在北京市签了合同。\n“好的！”",
            "naïve café e\u{301} \u{200b} 🙂🇨🇳 ﷽",
            "path/to//file \r\n\r\n/x ...\n/",
            "<|endoftext|><|im_start|>user",
        ];
        for name in Tokenizer::names() {
            let tokenizer = Tokenizer::named(name).unwrap();
            for text in texts {
                let ids: Vec<u32> =
                    tokenizer.pieces(text).flat_map(|piece| tokenizer.piece_ids(piece)).collect();
                assert_eq!(ids, tokenizer.reference_ids(text), "{name}: {text:?}");
                assert_eq!(tokenizer.count_tokens(text), tokenizer.reference_count(text));
            }
        }
    }

    #[test]
    fn a_control_token_is_plain_text() {
        let tokenizer = Tokenizer::named("o200k_base").unwrap();
        assert_eq!(tokenizer.count_tokens("<|endoftext|>"), 7);
        assert_eq!(tokenizer.reference_count("<|endoftext|>"), 7);
        assert_eq!(tokenizer.tokenizer_name(), "o200k_base");
    }

    #[test]
    fn digests_are_fixed_and_differ() {
        let digests: Vec<String> =
            Tokenizer::names().map(|name| Tokenizer::named(name).unwrap().digest()).collect();
        assert_ne!(digests[0], digests[1]);
        insta::assert_snapshot!(digests.join("\n"), @r#"
        94f3e2cca66b14bc6ab5b3c995e5e7296406d4eea49ae77e2993f0ecca306b9f
        6f8fa6cb8514d9b022441583a82eb22b2fdeaab9e1ec7b0fd6294189ee364157
        "#);
    }
}
