//! Prefix blocks → dense numbers, one list per request that fits its input length.
//!
//! A block's number depends on the whole prompt before it, so that a number never stands after
//! two different prefixes (readers build a trie of them). Readers also demand exactly
//! `ceil(input_tokens / block_size)` numbers: longer lists are cut, shorter ones get fresh numbers
//! that nobody shares. Memory grows with the number of different blocks, about 50 bytes each.

use super::request::Request;
use crate::domain::convert;
use std::collections::HashMap;

/// Numbers blocks.
#[derive(Debug)]
pub struct Blocks {
    block_size: u32,
    /// By the number of the block before and what tells the block apart.
    known: HashMap<(u64, u64), u64>,
    /// Where the blocks of a session begin that mean something only within it.
    roots: HashMap<u128, u64>,
    next: u64,
    /// Requests whose list was cut or filled up.
    pub fitted: u64,
    /// Requests whose blocks have another size, so that they share nothing.
    pub other_size: u64,
}

/// Stands before the first block of a prompt.
const ROOT: u64 = u64::MAX;

impl Blocks {
    /// Starts with no block known; `block_size` is in tokens and at least 1.
    pub fn new(block_size: u32) -> Self {
        Self {
            block_size: block_size.max(1),
            known: HashMap::new(),
            roots: HashMap::new(),
            next: 0,
            fitted: 0,
            other_size: 0,
        }
    }

    /// Returns the tokens in a block.
    pub const fn block_size(&self) -> u32 {
        self.block_size
    }

    /// Returns the numbers of a request of `input_tokens`.
    pub fn number(&mut self, request: &Request<'_>, input_tokens: u32) -> Vec<u64> {
        let wanted = input_tokens.div_ceil(self.block_size);
        let wanted = convert::index(u64::from(wanted)).unwrap_or(usize::MAX);
        let fits = request.block_size.is_none_or(|size| size == self.block_size);
        let blocks = if fits { request.blocks } else { &[] };
        self.other_size += u64::from(!fits && !request.blocks.is_empty());
        self.fitted += u64::from(!blocks.is_empty() && blocks.len() != wanted);
        let mut before = self.root(request);
        let mut numbers = Vec::with_capacity(wanted);
        for block in blocks.iter().take(wanted) {
            let next = self.next;
            let number = *self.known.entry((before, *block)).or_insert(next);
            self.next += u64::from(number == next);
            numbers.push(number);
            before = number;
        }
        while numbers.len() < wanted {
            numbers.push(self.next);
            self.next += 1;
        }
        numbers
    }

    /// Returns what stands before a request's first block.
    fn root(&mut self, request: &Request<'_>) -> u64 {
        match request.session.filter(|_| request.blocks_are_local) {
            None => ROOT,
            Some(session) => {
                let fresh = ROOT - 1 - convert::count(self.roots.len());
                *self.roots.entry(session).or_insert(fresh)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::record::RequestRecord;

    fn row(blocks: &[u64], size: Option<u32>) -> RequestRecord {
        let mut row = RequestRecord::unknown("test".into(), 0, 1);
        row.prefix_block_hashes = blocks.to_vec();
        row.prefix_block_size = size;
        row
    }

    fn number(blocks: &mut Blocks, row: &RequestRecord, input: u32) -> Vec<u64> {
        blocks.number(&Request::of_trace(row, 0), input)
    }

    #[test]
    fn numbers_are_dense_and_shared_with_the_prefix() {
        let mut blocks = Blocks::new(512);
        assert_eq!(number(&mut blocks, &row(&[900, 800, 700], None), 1_320), [0, 1, 2]);
        assert_eq!(number(&mut blocks, &row(&[900, 800, 600], None), 1_500), [0, 1, 3]);
        // The same block after another prefix is another one.
        assert_eq!(number(&mut blocks, &row(&[800, 700], None), 1_000), [4, 5]);
        assert_eq!((blocks.fitted, blocks.other_size), (0, 0));
    }

    #[test]
    fn lists_fit_the_input_length() {
        let mut blocks = Blocks::new(512);
        assert_eq!(number(&mut blocks, &row(&[7], None), 1_025), [0, 1, 2], "filled up");
        assert_eq!(number(&mut blocks, &row(&[7, 8, 9], None), 512), [0], "cut");
        assert_eq!(number(&mut blocks, &row(&[], None), 513), [3, 4], "nothing shared");
        assert_eq!(number(&mut blocks, &row(&[7], None), 0), [0_u64; 0]);
        assert_eq!(blocks.fitted, 3);
    }

    #[test]
    fn blocks_of_another_size_share_nothing() {
        let mut blocks = Blocks::new(512);
        assert_eq!(number(&mut blocks, &row(&[7], Some(512)), 512), [0]);
        assert_eq!(number(&mut blocks, &row(&[7], Some(16)), 512), [1]);
        assert_eq!(number(&mut blocks, &row(&[7], None), 512), [0]);
        assert_eq!(blocks.other_size, 1);
    }

    #[test]
    fn local_blocks_are_shared_within_their_session_only() {
        let mut blocks = Blocks::new(16);
        let row = row(&[7], None);
        let local = |session| Request {
            session: Some(session),
            blocks_are_local: true,
            ..Request::of_trace(&row, 0)
        };
        let numbers = [1, 2, 1].map(|session| blocks.number(&local(session), 16));
        assert_eq!(numbers, [[0], [1], [0]]);
    }
}
