//! Counts entries and cuts of a finished pool again, with the reference tokenizer.
//!
//! In: pool texts. Out: what was counted and what was wrong. Every cut is counted from its text,
//! not read off the tokens of the whole entry. To keep that from growing with the square of the
//! length, the count starts at the last *anchor*: a place where the text up to it was itself
//! counted in full, and where a piece surely begins (see `fragment`).

use super::compose::prefix;
use super::error::PoolError;
use super::fragment::{HEAD_TOKENS, is_chinese};
use super::parallel::in_order;
use super::tokenizer::Tokenizer;
use crate::domain::pool_index::PoolText;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;

/// Bytes between two anchors, at least: about the square root of a long entry's cuts, in tokens,
/// where counting to the anchors and counting from them cost the same.
const ANCHOR_BYTES: usize = 200;

/// What a verification counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Entries checked.
    pub entries: u64,
    /// Cuts checked.
    pub cuts: u64,
    /// Tokens of all entries.
    pub tokens: u64,
    /// Entries with anything wrong.
    pub wrong: u64,
    /// The first thing wrong, without text.
    pub first_wrong: Option<String>,
    /// Entries whose first 16 tokens are those of an earlier entry.
    pub repeated_starts: u64,
}

/// Checks every entry: the shape of its cut table, the rule of joints, the count at every cut, and
/// that no two entries begin with the same tokens. Calls `progress` after each entry.
pub fn verify(
    tokenizer: &Tokenizer,
    texts: &[PoolText],
    threads: NonZeroUsize,
    progress: &(dyn Fn() + Sync),
) -> Verified {
    let checked = in_order(texts, threads, |text| {
        let checked = (verify_entry(tokenizer, text).err(), start(tokenizer, &text.text));
        progress();
        checked
    });
    let mut verified = Verified::default();
    let mut starts = BTreeSet::new();
    for (text, (fault, start)) in texts.iter().zip(checked) {
        verified.repeated_starts += u64::from(!starts.insert(start));
        verified.entries += 1;
        verified.cuts += crate::domain::convert::count(text.entry.cut_tokens.len());
        verified.tokens += u64::from(text.entry.tokens);
        if let Some(fault) = fault {
            verified.wrong += 1;
            verified.first_wrong.get_or_insert(fault.to_string());
        }
    }
    verified
}

/// Checks that a pool was built with the vocabulary this program has under that name.
///
/// # Errors
/// [`PoolError::OtherVocabulary`].
pub fn check_vocabulary(tokenizer: &Tokenizer, digest: &str) -> Result<(), PoolError> {
    let expected = tokenizer.digest();
    if digest == expected {
        return Ok(());
    }
    let tokenizer = tokenizer.name().to_owned();
    Err(PoolError::OtherVocabulary { tokenizer, found: digest.to_owned(), expected })
}

fn start(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    let mut ids = tokenizer.reference_ids(text);
    ids.truncate(usize::try_from(HEAD_TOKENS).unwrap_or(usize::MAX));
    ids
}

/// Checks one entry.
///
/// # Errors
/// [`PoolError::BrokenEntry`], naming the first fault.
pub fn verify_entry(tokenizer: &Tokenizer, text: &PoolText) -> Result<(), PoolError> {
    check_shape(text)
        .and_then(|()| check_counts(tokenizer, text))
        .map_err(|what| PoolError::BrokenEntry { entry_id: text.entry.entry_id, what })
}

fn check_shape(text: &PoolText) -> Result<(), String> {
    let (tokens, bytes) = (&text.entry.cut_tokens, &text.cut_bytes);
    if tokens.len() != bytes.len() {
        return Err(format!("{} cuts, {} byte offsets", tokens.len(), bytes.len()));
    }
    if tokens.last() != Some(&text.entry.tokens) {
        return Err("the last cut is not the whole entry".to_owned());
    }
    if tokens.first() == Some(&0) || !tokens.is_sorted_by(|a, b| a < b) {
        return Err("the cut table is not ascending from 1".to_owned());
    }
    if !bytes.is_sorted_by(|a, b| a < b) || prefix(text, bytes.len() - 1) != Some(&text.text) {
        return Err("the byte offsets do not ascend to the end of the text".to_owned());
    }
    let mut start = text.text.chars();
    if start.next() != Some(' ') || start.next().is_none_or(char::is_whitespace) {
        return Err("the text does not begin with one space".to_owned());
    }
    Ok(())
}

fn check_counts(tokenizer: &Tokenizer, text: &PoolText) -> Result<(), String> {
    let (mut anchor_bytes, mut anchor_tokens) = (0_usize, 0_u32);
    for (at, &tokens) in text.entry.cut_tokens.iter().enumerate() {
        let part = prefix(text, at).ok_or("a cut is outside the text")?;
        if part.ends_with(char::is_whitespace) {
            return Err(format!("the cut at {tokens} tokens follows white space"));
        }
        let since = part.get(anchor_bytes..).ok_or("a cut is outside the text")?;
        let found = anchor_tokens + tokenizer.reference_count(since);
        if found != tokens {
            return Err(format!("the cut at {tokens} tokens has {found}"));
        }
        if since.len() >= ANCHOR_BYTES && starts_a_piece(&text.text, part.len()) {
            let found = tokenizer.reference_count(part);
            if found != tokens {
                return Err(format!("the cut at {tokens} tokens has {found}"));
            }
            (anchor_bytes, anchor_tokens) = (part.len(), tokens);
        }
    }
    let whole = tokenizer.reference_count(&text.text);
    if whole == text.entry.tokens {
        Ok(())
    } else {
        Err(format!("{whole} tokens, expected {}", text.entry.tokens))
    }
}

/// Returns whether a piece surely begins at `at`: a space behind a non-space, or Chinese
/// punctuation behind an ideograph.
fn starts_a_piece(text: &str, at: usize) -> bool {
    let before = text.get(..at).and_then(|text| text.chars().next_back());
    let after = text.get(at..).and_then(|text| text.chars().next());
    match (before, after) {
        (Some(before), Some(' ')) => !before.is_whitespace(),
        (Some(before), Some('，' | '。' | '、' | '；' | '：')) => {
            is_chinese(before) && before.is_alphabetic()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::fragment::cut_fragment;

    fn good() -> (Tokenizer, PoolText) {
        let tokenizer = Tokenizer::named("cl100k_base").unwrap();
        let source = "合同第三条规定，乙方应在收到货款后十日内交付全部设备，并提供安装服务。 \
                      The supplier shall deliver within ten days. "
            .repeat(12);
        let (fragment, _) = cut_fragment(&tokenizer, &source, 8, 4000).unwrap();
        (tokenizer, fragment.into_entry(0, "file"))
    }

    #[test]
    fn a_good_entry_passes_and_is_counted() {
        let (tokenizer, text) = good();
        let cuts = text.cut_bytes.len() as u64;
        let tokens = u64::from(text.entry.tokens);
        let verified = verify(&tokenizer, std::slice::from_ref(&text), NonZeroUsize::MIN, &|| ());
        let expected = Verified { entries: 1, cuts, tokens, ..Verified::default() };
        assert_eq!(verified, expected);
        assert_eq!(
            verify(&tokenizer, &[text.clone(), text], NonZeroUsize::MIN, &|| ()).repeated_starts,
            1
        );
        assert_eq!(verify(&tokenizer, &[], NonZeroUsize::MIN, &|| ()), Verified::default());
    }

    #[test]
    fn another_vocabulary_is_refused() {
        let tokenizer = Tokenizer::named("o200k_base").unwrap();
        assert!(check_vocabulary(&tokenizer, &tokenizer.digest()).is_ok());
        assert!(check_vocabulary(&tokenizer, "00").is_err());
    }

    #[test]
    fn each_fault_is_found() {
        let fault = |spoil: &dyn Fn(&mut PoolText)| {
            let (tokenizer, mut text) = good();
            spoil(&mut text);
            verify(&tokenizer, &[text], NonZeroUsize::MIN, &|| ()).first_wrong.unwrap()
        };
        insta::assert_snapshot!(fault(&|text| text.entry.cut_tokens[5] += 1), @"pool entry 0: the cut table is not ascending from 1");
        insta::assert_snapshot!(fault(&|text| { text.cut_bytes.pop(); }), @"pool entry 0: 468 cuts, 467 byte offsets");
        insta::assert_snapshot!(fault(&|text| text.entry.tokens += 1), @"pool entry 0: the last cut is not the whole entry");
        insta::assert_snapshot!(fault(&|text| text.text.insert(0, ' ')), @"pool entry 0: the byte offsets do not ascend to the end of the text");
        insta::assert_snapshot!(fault(&|text| { text.entry.cut_tokens.remove(0); text.cut_bytes.remove(1); }), @"pool entry 0: the cut at 3 tokens has 2");
        insta::assert_snapshot!(fault(&|text| text.text.replace_range(..1, "x")), @"pool entry 0: the text does not begin with one space");
    }
}
