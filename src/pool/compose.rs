//! Joins parts of a pool into the text of a prompt.
//!
//! In: prompt parts `(entry_id, cut_tokens)`. Out: the text; its tokens are the sum of the parts'
//! `cut_tokens` (see `fragment` for why). The text begins with one space, since every entry does;
//! as raw content that is harmless, and it is part of the count.

use super::error::PoolError;
use crate::domain::pool_index::PoolText;
use crate::domain::schedule::PromptPart;

/// The texts of a pool, found by entry id.
#[derive(Clone, Debug)]
pub struct Texts {
    texts: Vec<PoolText>,
}

impl Texts {
    /// Takes the texts of a pool, in any order.
    ///
    /// # Errors
    /// [`PoolError::BrokenEntry`] when the entry ids are not `0, 1, 2 …`.
    pub fn new(mut texts: Vec<PoolText>) -> Result<Self, PoolError> {
        texts.sort_by_key(|text| text.entry.entry_id);
        for (expected, text) in (0_u32..).zip(&texts) {
            if text.entry.entry_id != expected {
                let what = format!("ids are not dense, expected {expected} here");
                return Err(PoolError::BrokenEntry { entry_id: text.entry.entry_id, what });
            }
        }
        Ok(Self { texts })
    }

    /// Returns the texts, by entry id.
    pub fn all(&self) -> &[PoolText] {
        &self.texts
    }

    /// Returns the text of a prompt; see [`compose`].
    ///
    /// # Errors
    /// As [`compose`].
    pub fn compose(&self, parts: &[PromptPart]) -> Result<String, PoolError> {
        compose(&self.texts, parts)
    }
}

/// Returns the text of a prompt, empty for no parts. `texts` is in order of entry id, from 0.
///
/// # Errors
/// [`PoolError::UnknownEntry`], [`PoolError::NotACut`] when the parts belong to another pool;
/// [`PoolError::BrokenEntry`] when the pool itself is damaged.
pub fn compose(texts: &[PoolText], parts: &[PromptPart]) -> Result<String, PoolError> {
    let mut slices = Vec::with_capacity(parts.len());
    for part in parts {
        slices.push(part_text(texts, *part)?);
    }
    Ok(slices.concat())
}

fn part_text(texts: &[PoolText], part: PromptPart) -> Result<&str, PoolError> {
    let PromptPart { entry_id, cut_tokens } = part;
    let text = usize::try_from(entry_id)
        .ok()
        .and_then(|at| texts.get(at))
        .filter(|text| text.entry.entry_id == entry_id)
        .ok_or(PoolError::UnknownEntry { entry_id, entries: texts.len() })?;
    let at = text
        .entry
        .cut_tokens
        .binary_search(&cut_tokens)
        .map_err(|_| PoolError::NotACut { entry_id, cut_tokens })?;
    prefix(text, at).ok_or_else(|| PoolError::BrokenEntry {
        entry_id,
        what: format!("the cut at {cut_tokens} tokens is outside the text"),
    })
}

/// Returns the text up to cut number `at`; `None` when the cut table does not fit the text.
pub(super) fn prefix(text: &PoolText, at: usize) -> Option<&str> {
    let bytes = usize::try_from(*text.cut_bytes.get(at)?).ok()?;
    text.text.get(..bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::pool_index::PoolEntry;

    fn entry(entry_id: u32, text: &str, cuts: &[(u32, u32)]) -> PoolText {
        let cut_tokens: Vec<u32> = cuts.iter().map(|cut| cut.0).collect();
        let tokens = *cut_tokens.last().unwrap();
        let entry = PoolEntry { entry_id, tokens, kind: "en".into(), cut_tokens };
        PoolText { entry, text: text.into(), cut_bytes: cuts.iter().map(|cut| cut.1).collect() }
    }

    fn part(entry_id: u32, cut_tokens: u32) -> PromptPart {
        PromptPart { entry_id, cut_tokens }
    }

    #[test]
    fn parts_are_cut_and_joined_in_order() {
        let texts = Texts::new(vec![
            entry(1, " 你好", &[(2, 4), (3, 7)]),
            entry(0, " one two", &[(1, 4), (2, 8)]),
        ])
        .unwrap();
        assert_eq!(texts.compose(&[]).unwrap(), "");
        assert_eq!(texts.compose(&[part(1, 2), part(0, 1), part(1, 3)]).unwrap(), " 你 one 你好");
        assert_eq!(texts.all().len(), 2);
    }

    #[test]
    fn parts_of_another_pool_are_refused() {
        let texts = [entry(0, " one two", &[(1, 4), (2, 8)])];
        let refused = |parts: &[PromptPart]| compose(&texts, parts).unwrap_err().to_string();
        insta::assert_snapshot!(refused(&[part(4, 1)]), @"prompt part: entry 4 is not in the pool of 1 entries");
        insta::assert_snapshot!(refused(&[part(0, 9)]), @"prompt part: entry 0 has no cut at 9 tokens");
        let broken = [entry(0, " 你", &[(1, 2)])];
        insta::assert_snapshot!(compose(&broken, &[part(0, 1)]).unwrap_err(), @"pool entry 0: the cut at 1 tokens is outside the text");
        let gap = Texts::new(vec![entry(3, " a", &[(1, 2)])]).unwrap_err();
        insta::assert_snapshot!(gap, @"pool entry 3: ids are not dense, expected 0 here");
    }
}
