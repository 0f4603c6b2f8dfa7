//! The text the mock answers with: plain sentences, one token a piece.
//!
//! Every piece is one token in `cl100k_base` and in `o200k_base`, also after the piece before it,
//! so that a client that counts for itself comes to the number the mock states.

/// The pieces, in order; an answer goes round and round, starting at a sentence.
const PIECES: &[&str] = &[
    "The", " train", " left", " the", " station", " at", " noon", ",", " and", " the", " mail",
    " came", " with", " it", ".", " A", " small", " boat", " lay", " by", " the", " bridge", ".",
    " We", " read", " the", " letter", " two", " times", " and", " put", " it", " on", " the",
    " table", ".", " Then", " the", " rain", " began", ",", " so", " we", " stayed", " at",
    " home", ".",
];

/// Returns piece `index` (from 0) of every answer; the first one has no space before it.
pub(super) fn piece(index: u32) -> &'static str {
    let at = usize::try_from(index).unwrap_or(0) % PIECES.len();
    match (index, PIECES.get(at).copied()) {
        (0, _) | (_, None) => "The",
        (_, Some("The")) => " The",
        (_, Some(piece)) => piece,
    }
}

/// Returns the text of an answer of `tokens` pieces.
pub(super) fn text(tokens: u32) -> String {
    (0..tokens).map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_the_sum_of_its_pieces() {
        assert_eq!(text(0), "");
        assert_eq!(text(1), "The");
        assert_eq!(text(8), "The train left the station at noon,");
        let round = u32::try_from(PIECES.len()).unwrap();
        assert!(text(round + 2).ends_with("at home. The train"));
        // Pieces are put into JSON as they are.
        assert!(PIECES.iter().all(|piece| !piece.contains(['"', '\\']) && piece.is_ascii()));
    }
}
