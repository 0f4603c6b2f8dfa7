//! Checks that joins of cut entries add up: the ground on which `plan` does sums.
//!
//! In: the texts of a pool. Draws random joins of two to six entries, each cut somewhere, joins
//! their texts, and counts the whole again with both tokenizers. Out: how many were checked, how
//! many failed. Nothing is assumed of the texts; the argument why none fails is in `fragment`.

use super::compose::compose;
use super::error::PoolError;
use super::fillers;
use super::tokenizer::Tokenizer;
use crate::domain::count::CountTokens;
use crate::domain::pool_index::PoolText;
use crate::domain::schedule::PromptPart;
use crate::domain::seed::{Seed, Stream};
use rand::RngExt;
use rand::seq::IndexedRandom;

/// What the check of the joints found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Joins checked.
    pub checked: u64,
    /// Joins whose tokens did not add up.
    pub failed: u64,
    /// The first of them, without text.
    pub first_failure: Option<String>,
}

/// Checks `joins` random joins; none for an empty pool.
///
/// # Errors
/// [`PoolError::BrokenEntry`] when an entry cannot be cut as its table says.
pub fn prove_joints(
    tokenizer: &Tokenizer,
    texts: &[PoolText],
    seed: Seed,
    joins: u64,
) -> Result<Proof, PoolError> {
    let mut proof = Proof::default();
    let (fillers, entries): (Vec<_>, Vec<_>) =
        texts.iter().partition(|text| text.entry.kind == fillers::KIND);
    for join in 0..joins {
        let mut stream = seed.stream_of("pool/joins", join);
        let parts = draw_parts(&entries, &fillers, &mut stream);
        if parts.is_empty() {
            break;
        }
        let expected: u32 = parts.iter().map(|part| part.cut_tokens).sum();
        let text = compose(texts, &parts)?;
        let (engine, reference) = (tokenizer.count_tokens(&text), tokenizer.reference_count(&text));
        proof.checked += 1;
        if (engine, reference) != (expected, expected) {
            proof.failed += 1;
            proof.first_failure.get_or_insert_with(|| {
                format!("{parts:?}: {engine} and {reference} tokens, expected {expected}")
            });
        }
    }
    Ok(proof)
}

/// Draws two to six parts; one in four is a filler, as at the end of a prompt.
fn draw_parts(
    entries: &[&PoolText],
    fillers: &[&PoolText],
    stream: &mut Stream,
) -> Vec<PromptPart> {
    let wanted = stream.random_range(2..=6);
    (0..wanted)
        .filter_map(|_| {
            let from =
                if stream.random_bool(0.25) && !fillers.is_empty() { fillers } else { entries };
            let text = from.choose(stream)?;
            let cut_tokens = *text.entry.cut_tokens.choose(stream)?;
            Some(PromptPart { entry_id: text.entry.entry_id, cut_tokens })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::pool_index::PoolEntry;

    fn entry(entry_id: u32, text: &str, tokens: u32) -> PoolText {
        let entry = PoolEntry { entry_id, tokens, kind: "file".into(), cut_tokens: vec![tokens] };
        PoolText { entry, text: text.into(), cut_bytes: vec![u32::try_from(text.len()).unwrap()] }
    }

    #[test]
    fn joins_that_break_the_rule_are_found() {
        let tokenizer = Tokenizer::named("o200k_base").unwrap();
        let prove = |texts: &[PoolText]| prove_joints(&tokenizer, texts, Seed(1), 50).unwrap();
        let good = prove(&[entry(0, " one", 1), entry(1, " two", 1)]);
        assert_eq!((good.checked, good.failed), (50, 0));
        // Without the space the words melt together: `oneone` is not two tokens of `one`.
        let bad = prove(&[entry(0, "the", 1), entry(1, "re", 1)]);
        assert_eq!(bad.checked, 50);
        assert!(bad.failed > 25, "{bad:?}");
        assert!(bad.first_failure.unwrap().contains("expected"));
        assert_eq!(prove(&[]), Proof::default());
    }
}
