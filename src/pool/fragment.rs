//! Joint-safe fragments: texts whose tokens add up when they are cut and joined.
//!
//! **Rule.** A fragment begins with one space (U+0020) and a character that is no white space, and
//! every cut, the end included, stands right after a character that is no white space.
//!
//! **Why it is exact.** Both encodings first split a text by a pattern, left to right, and no token
//! crosses two pieces. In these patterns a space after a non-space can only *begin* a piece: the
//! alternatives for letters, digits and marks allow white space at most as their first character
//! (behind a mark, line breaks only: hence a space and not a line break), the others match white
//! space alone. So every joint is a boundary of pieces. The patterns look ahead only behind a run
//! of white space (`\s+(?!\S)`, `\s+$`), never at a joint, and never look back, so the pieces on
//! either side are those of each part alone. Counts are sums over pieces, hence they add up. This
//! says nothing of English: it holds for Chinese and any other script.
//!
//! **Cuts** lie at word ends and behind Chinese characters. A cut inside a piece (a Chinese clause
//! is one piece) is *recounted*, never read off the tokens of the longer text: `decode(ids[..n])`
//! need not have n tokens.

use super::tokenizer::{Tokenizer, narrow};
use crate::domain::count::CountTokens;
use crate::domain::pool_index::{PoolEntry, PoolText};

/// Two entries differ within this many tokens from their start.
pub const HEAD_TOKENS: u32 = 16;
/// The shortest fragment; shorter prompts are cut from longer entries.
pub const MIN_TOKENS: u32 = 8;
/// The shortest start that tells entries apart; one of fewer tokens would rule out too many others.
const MIN_HEAD_TOKENS: usize = 4;
/// Most cuts tried inside one piece. A run of Chinese without punctuation can be one huge piece,
/// and each cut recounts it from its start.
const MAX_CUTS_IN_PIECE: usize = 96;
/// Bytes of source looked at per token wanted: English and Chinese take 3 to 6.
const BYTES_PER_TOKEN: usize = 12;

/// A joint-safe fragment and its cut table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The text, its leading space included.
    pub text: String,
    /// Token counts at which it can be cut, ascending; the last is the whole fragment.
    pub cut_tokens: Vec<u32>,
    /// The byte offset of each cut.
    pub cut_bytes: Vec<u32>,
    /// The tokens up to the last cut within the first [`HEAD_TOKENS`] tokens that ends a piece.
    /// Every prompt that begins with this fragment, cut at [`HEAD_TOKENS`] or more, begins with
    /// exactly these tokens, whatever follows.
    pub head: Vec<u32>,
}

impl Fragment {
    /// Returns the tokens of the whole fragment.
    pub fn tokens(&self) -> u32 {
        self.cut_tokens.last().copied().unwrap_or(0)
    }

    /// Returns the fragment as an entry of a pool.
    pub fn into_entry(self, entry_id: u32, kind: &str) -> PoolText {
        let entry = PoolEntry {
            entry_id,
            tokens: self.tokens(),
            kind: kind.to_owned(),
            cut_tokens: self.cut_tokens,
        };
        PoolText { entry, text: self.text, cut_bytes: self.cut_bytes }
    }
}

/// Cuts a fragment of `low..=high` tokens from the start of `source`, at the end of a sentence
/// where one is in reach. Returns it with the bytes of `source` it took.
///
/// `None` when `source` is too short for `low` tokens, or has no word boundary that ends a start
/// of `MIN_HEAD_TOKENS` to `HEAD_TOKENS` tokens.
pub fn cut_fragment(
    tokenizer: &Tokenizer,
    source: &str,
    low: u32,
    high: u32,
) -> Option<(Fragment, usize)> {
    let body = source.trim_start();
    let skipped = source.len() - body.len();
    let limit = usize::try_from(high).ok()?.saturating_mul(BYTES_PER_TOKEN);
    let body = body.get(..body.floor_char_boundary(limit))?;
    let Walk { mut text, mut cuts, head } = walk(tokenizer, format!(" {body}"), high);
    let end = best_end(&text, &cuts, low)?;
    let bytes = usize::try_from(*cuts.bytes.get(end)?).ok()?;
    cuts.tokens.truncate(end + 1);
    cuts.bytes.truncate(end + 1);
    text.truncate(bytes);
    let head = head.within(bytes)?;
    let fragment = Fragment { text, cut_tokens: cuts.tokens, cut_bytes: cuts.bytes, head };
    Some((fragment, skipped + bytes - 1))
}

/// A walked text.
struct Walk {
    text: String,
    cuts: Cuts,
    head: Head,
}

/// The first tokens of a text, and where cuts end pieces among them: `(bytes, tokens)`.
#[derive(Default)]
struct Head {
    ids: Vec<u32>,
    ends: Vec<(usize, usize)>,
}

impl Head {
    /// Returns the tokens up to the last end within `bytes`, if they are enough.
    fn within(mut self, bytes: usize) -> Option<Vec<u32>> {
        let (_, tokens) = self.ends.into_iter().rfind(|&(end, _)| end <= bytes)?;
        self.ids.truncate(tokens);
        (tokens >= MIN_HEAD_TOKENS).then_some(self.ids)
    }
}

/// Walks the pieces of `text` once, up to `high` tokens, and notes every cut.
fn walk(tokenizer: &Tokenizer, text: String, high: u32) -> Walk {
    let (mut cuts, mut head) = (Cuts::default(), Head::default());
    let (mut offset, mut tokens) = (0_usize, 0_u32);
    for piece in tokenizer.pieces(&text) {
        let in_head = tokens < HEAD_TOKENS;
        let count = if in_head {
            let ids = tokenizer.piece_ids(piece);
            head.ids.extend(&ids);
            narrow(ids.len())
        } else {
            tokenizer.piece_count(piece)
        };
        let next = text.get(offset + piece.len()..).and_then(|rest| rest.chars().next());
        for (bytes, whole) in cuts_in_piece(piece, next) {
            let inside = if whole {
                count
            } else {
                tokenizer.count_tokens(piece.get(..bytes).unwrap_or_default())
            };
            if tokens + inside <= high {
                cuts.push(tokens + inside, narrow(offset + bytes));
            }
            if whole && in_head && tokens + count <= HEAD_TOKENS {
                head.ends.push((offset + bytes, head.ids.len()));
            }
        }
        tokens += count;
        offset += piece.len();
        if tokens >= high {
            break;
        }
    }
    Walk { text, cuts, head }
}

/// Returns the places in `piece` where a text may be cut, in bytes, and whether each is the
/// piece's end.
fn cuts_in_piece(piece: &str, next: Option<char>) -> Vec<(usize, bool)> {
    let mut places = Vec::new();
    let mut chars = piece.char_indices().peekable();
    while let Some((at, before)) = chars.next() {
        let after = chars.peek().map(|&(_, after)| after).or(next);
        let end = at + before.len_utf8();
        let whole = end == piece.len();
        if is_cut(before, after) && (whole || places.len() < MAX_CUTS_IN_PIECE) {
            places.push((end, whole));
        }
    }
    places
}

/// Returns whether a text may be cut between two characters: behind a word or a Chinese character.
fn is_cut(before: char, after: Option<char>) -> bool {
    !before.is_whitespace() && (after.is_none_or(char::is_whitespace) || is_chinese(before))
}

/// Returns whether a character is an ideograph, or punctuation of Chinese and Japanese.
pub(super) const fn is_chinese(c: char) -> bool {
    matches!(c, '\u{3001}'..='\u{3002}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{ff01}' | '\u{ff0c}' | '\u{ff1a}' | '\u{ff1b}' | '\u{ff1f}' | '\u{20000}'..='\u{323af}')
}

/// Returns the cut to end at: the last end of a sentence with at least `low` tokens, or else the
/// last cut.
fn best_end(text: &str, cuts: &Cuts, low: u32) -> Option<usize> {
    let first = cuts.tokens.partition_point(|&tokens| tokens < low);
    let last = cuts.tokens.len().checked_sub(1)?;
    if first > last {
        return None;
    }
    let ends_sentence = |at: &usize| {
        let bytes = cuts.bytes.get(*at).and_then(|&bytes| usize::try_from(bytes).ok());
        bytes
            .and_then(|bytes| text.get(..bytes))
            .is_some_and(|text| text.ends_with(['.', '!', '?', '。', '！', '？']))
    };
    (first..=last).rev().find(ends_sentence).or(Some(last))
}

/// A cut table under construction: tokens and bytes both strictly ascending.
#[derive(Default)]
struct Cuts {
    tokens: Vec<u32>,
    bytes: Vec<u32>,
}

impl Cuts {
    /// Adds a cut behind the others. Counts are not monotone in the text (a longer one can have
    /// fewer tokens), so earlier cuts of as many tokens or more give way.
    fn push(&mut self, tokens: u32, bytes: u32) {
        while self.tokens.last().is_some_and(|&last| last >= tokens) {
            self.tokens.pop();
            self.bytes.pop();
        }
        self.tokens.push(tokens);
        self.bytes.push(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn o200k() -> Tokenizer {
        Tokenizer::named("o200k_base").unwrap()
    }

    fn cut(source: &str, low: u32, high: u32) -> Option<(Fragment, usize)> {
        cut_fragment(&o200k(), source, low, high)
    }

    /// Counts every prefix from its text; the slow way that needs no argument.
    fn assert_exact(fragment: &Fragment) {
        assert_eq!(fragment.cut_tokens.len(), fragment.cut_bytes.len());
        for (&tokens, &bytes) in fragment.cut_tokens.iter().zip(&fragment.cut_bytes) {
            let prefix = fragment.text.get(..bytes as usize).unwrap();
            assert_eq!(o200k().reference_count(prefix), tokens, "{prefix:?}");
            assert!(!prefix.ends_with(char::is_whitespace));
        }
        assert_eq!(fragment.text.len(), *fragment.cut_bytes.last().unwrap() as usize);
        let ids = o200k().reference_ids(&fragment.text);
        assert!(ids.starts_with(&fragment.head));
    }

    #[test]
    fn too_short_or_without_words_gives_nothing() {
        for source in ["", "   \n", "one two", &"x".repeat(400)] {
            assert_eq!(cut(source, 8, 64), None, "{source:?}");
        }
    }

    #[test]
    fn ends_at_a_sentence_and_says_what_it_took() {
        let source =
            "\n  The parcel left on Monday, a day late. The driver called twice. Nobody was in";
        let (fragment, used) = cut(source, 8, 13).unwrap();
        assert_eq!(fragment.text, " The parcel left on Monday, a day late.");
        assert!(source.get(..used).unwrap().ends_with("late."));
        assert_exact(&fragment);
        let (longer, _) = cut(source, 8, 20).unwrap();
        assert_eq!(longer.text, " The parcel left on Monday, a day late. The driver called twice.");
        let (tight, _) = cut(source, 8, 9).unwrap();
        assert_eq!(tight.text, " The parcel left on Monday, a day");
        assert_eq!(tight.tokens(), 8);
    }

    #[test]
    fn a_chinese_clause_is_cut_between_characters() {
        let source =
            "昨天下午三点，李明在上海市中山路签收了一批仪器，发现外箱有轻微破损，于是拍照留存。";
        let (fragment, _) = cut(source, 8, 64).unwrap();
        assert_exact(&fragment);
        assert!(fragment.text.ends_with('。'));
        assert!(fragment.cut_tokens.len() >= 20, "{:?}", fragment.cut_tokens);
    }

    #[test]
    fn awkward_texts_stay_exact() {
        let sources = [
            "it's \"quoted\" (twice); see path/to/file.rs:12:3 -- 1234567 items...\n\n/next line!",
            "<|endoftext|> is plain text here, <|im_start|>user and so on <|endoftext|>",
            "混合 text 中英文 mixed，价格为 ￥1,299.00 元/台\n\n\n  下一段 starts here 🙂🙂 e\u{301}tude",
            "ALL CAPS WORDS AND I'LL SEE YOU'RE HERE DON'T 'quote' 'S 'RE  double  spaces\t\ttabs",
        ];
        for source in sources {
            let (fragment, _) = cut(source, 8, 200).unwrap();
            assert_exact(&fragment);
        }
    }

    #[test]
    fn a_longer_text_with_fewer_tokens_replaces_a_shorter_one() {
        let mut cuts = Cuts::default();
        for (tokens, bytes) in [(1, 3), (3, 5), (4, 8), (3, 9), (5, 12)] {
            cuts.push(tokens, bytes);
        }
        assert_eq!((cuts.tokens, cuts.bytes), (vec![1, 3, 5], vec![3, 9, 12]));
    }
}
