//! Bitmaps of JSON text, 64 bytes at a time: where quotes, backslashes and brackets stand.
//!
//! Text -> one 64-bit word per kind and block, a bit per byte, the first byte lowest. A quote behind
//! an odd number of backslashes is none. Blocks are looked at in order and once. Judges nothing.
//! The escape arithmetic is that of `simdjson/simdjson` (`json_escape_scanner.h`).

use wide::u8x16;

/// Bytes in a block.
pub(super) const BLOCK: usize = 64;
/// Every second bit.
const ODD: u64 = 0xAAAA_AAAA_AAAA_AAAA;

/// The block of a text that is looked at.
#[derive(Debug)]
pub(super) struct Blocks<'a> {
    bytes: &'a [u8],
    /// Where the block begins.
    pub(super) base: usize,
    /// Quotes that no backslash escapes.
    pub(super) quotes: u64,
    /// Backslashes.
    pub(super) slashes: u64,
    /// 1 when the first byte of the next block is escaped.
    carry: u64,
}

impl<'a> Blocks<'a> {
    /// Looks at the first block.
    #[inline]
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let mut blocks = Self { bytes, base: 0, quotes: 0, slashes: 0, carry: 0 };
        blocks.look();
        blocks
    }

    /// Goes on to the next block; false at the end of the text.
    #[inline]
    pub(super) fn advance(&mut self) -> bool {
        if self.bytes.len() - self.base <= BLOCK {
            return false;
        }
        self.base += BLOCK;
        self.look();
        true
    }

    /// Returns the brackets of the block that open and those that close, in strings too.
    #[inline]
    pub(super) fn brackets(&self) -> (u64, u64) {
        let (mut opens, mut closes) = (0, 0);
        for (at, lane) in (0..).step_by(16).zip(&self.lanes()) {
            // `[` and `{`, `]` and `}` differ in this bit alone.
            let either = *lane | u8x16::splat(0x20);
            opens |= bits(either, b'{') << at;
            closes |= bits(either, b'}') << at;
        }
        (opens, closes)
    }

    #[inline]
    fn look(&mut self) {
        let (mut quotes, mut slashes) = (0, 0);
        for (at, lane) in (0..).step_by(16).zip(&self.lanes()) {
            quotes |= bits(*lane, b'"') << at;
            slashes |= bits(*lane, b'\\') << at;
        }
        self.slashes = slashes;
        self.quotes = if slashes | self.carry == 0 { quotes } else { quotes & !self.escaped() };
    }

    /// Returns the bytes that a backslash escapes.
    fn escaped(&mut self) -> u64 {
        let starts = self.slashes & !self.carry;
        let code_or_escape = ((starts << 1) | ODD).wrapping_sub(starts) ^ ODD;
        let escaped = code_or_escape ^ (self.slashes | self.carry);
        self.carry = (code_or_escape & self.slashes) >> 63;
        escaped
    }

    /// Returns the bytes of the block, spaces after the end of the text.
    #[inline]
    fn lanes(&self) -> [u8x16; 4] {
        let rest = self.bytes.get(self.base..).unwrap_or_default();
        if let Some(block) = rest.first_chunk::<BLOCK>() {
            return split(block);
        }
        let mut padded = [b' '; BLOCK];
        padded.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        split(&padded)
    }
}

#[inline]
fn split(block: &[u8; BLOCK]) -> [u8x16; 4] {
    let (lanes, _) = block.as_chunks::<16>();
    let [a, b, c, d] = lanes else { return [u8x16::splat(b' '); 4] };
    // Written out: a `map` over the array is not inlined, which costs more than the comparisons.
    [u8x16::new(*a), u8x16::new(*b), u8x16::new(*c), u8x16::new(*d)]
}

#[inline]
fn bits(lane: u8x16, byte: u8) -> u64 {
    u64::from(lane.simd_eq(u8x16::splat(byte)).to_bitmask())
}

/// Returns for each bit whether an odd number of bits is set up to and with it.
#[inline]
pub(super) fn odd_so_far(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same by the byte.
    fn slowly(text: &[u8], wanted: fn(u8) -> bool, escapes: bool) -> Vec<usize> {
        let mut escaped = false;
        let mut found = Vec::new();
        for (at, byte) in text.iter().enumerate() {
            if wanted(*byte) && !(escapes && escaped) {
                found.push(at);
            }
            escaped = !escaped && *byte == b'\\';
        }
        found
    }

    fn places(base: usize, mut bits: u64) -> Vec<usize> {
        let mut found = Vec::new();
        while bits != 0 {
            found.push(base + usize::try_from(bits.trailing_zeros()).unwrap());
            bits &= bits - 1;
        }
        found
    }

    proptest! {
        #[test]
        fn every_block_is_seen_as_it_is(text in "[\\\\\"\\[\\]{}a ]{0,200}") {
            let mut blocks = Blocks::new(text.as_bytes());
            let (mut quotes, mut opens, mut closes) = (Vec::new(), Vec::new(), Vec::new());
            loop {
                quotes.extend(places(blocks.base, blocks.quotes));
                opens.extend(places(blocks.base, blocks.brackets().0));
                closes.extend(places(blocks.base, blocks.brackets().1));
                if !blocks.advance() {
                    break;
                }
            }
            prop_assert_eq!(quotes, slowly(text.as_bytes(), |b| b == b'"', true));
            prop_assert_eq!(opens, slowly(text.as_bytes(), |b| matches!(b, b'[' | b'{'), false));
            prop_assert_eq!(closes, slowly(text.as_bytes(), |b| matches!(b, b']' | b'}'), false));
        }

        #[test]
        fn parity_is_that_of_the_bits_below(bits: u64, at in 0_u32..64) {
            let below = bits & (u64::MAX >> (63 - at));
            prop_assert_eq!((odd_so_far(bits) >> at) & 1, u64::from(below.count_ones() % 2));
        }
    }
}
