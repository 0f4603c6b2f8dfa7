//! In how many requests a block was lately, from a table of fixed size.
//!
//! Hashes in, counts out, saturating at 255. A count-min sketch of two rows with conservative
//! update: it never says too few of what it still knows, and rarely too many. Two generations of
//! 8 MiB: when one has filled, the older one goes, so a block that nobody asked for since then
//! counts as new. Taken only once blocks are seen.

use crate::domain::convert;

/// Cells of a row; a power of two.
const CELLS: usize = 1 << 22;
/// Different blocks after which a generation is full.
const FULL: usize = CELLS / 2;

/// Counts blocks.
#[derive(Debug, Default)]
pub(super) struct Sketch {
    now: [Vec<u8>; 2],
    before: [Vec<u8>; 2],
    /// Different blocks in `now`, about.
    filled: usize,
}

/// Returns the cells of a block in the two rows.
fn cells(block: u64) -> [usize; 2] {
    let mask = convert::count(CELLS - 1);
    let second = block.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    [block & mask, second & mask].map(|cell| convert::index(cell).unwrap_or(0))
}

fn count_in(rows: &[Vec<u8>; 2], places: [usize; 2]) -> u8 {
    rows.iter()
        .zip(places)
        .map(|(row, place)| row.get(place).copied().unwrap_or(0))
        .min()
        .unwrap_or(0)
}

impl Sketch {
    /// Returns in how many requests a block was.
    pub(super) fn count(&self, block: u64) -> u8 {
        let places = cells(block);
        count_in(&self.now, places).saturating_add(count_in(&self.before, places))
    }

    /// Counts a request with a block.
    pub(super) fn add(&mut self, block: u64) {
        if self.filled >= FULL {
            std::mem::swap(&mut self.now, &mut self.before);
            self.now.iter_mut().for_each(|row| row.fill(0));
            self.filled = 0;
        }
        let places = cells(block);
        let known = count_in(&self.now, places);
        self.filled += usize::from(known == 0);
        for (row, place) in self.now.iter_mut().zip(places) {
            if row.is_empty() {
                row.resize(CELLS, 0);
            }
            if let Some(cell) = row.get_mut(place) {
                // Only as far as the smaller of the two: the other counts further blocks.
                *cell = (*cell).max(known.saturating_add(1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(block: u64) -> u64 {
        block.wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ (block << 17)
    }

    #[test]
    fn counts_are_never_too_small_and_end_at_255() {
        let mut sketch = Sketch::default();
        assert_eq!(sketch.count(hash(1)), 0);
        for block in 0..2_000 {
            for _ in 0..=block % 3 {
                sketch.add(hash(block));
            }
        }
        for _ in 0..300 {
            sketch.add(hash(7_000));
        }
        assert_eq!(sketch.count(hash(7_000)), 255);
        let counts = |block: u64| u64::from(sketch.count(hash(block)));
        assert!((0..2_000).all(|block| counts(block) > block % 3));
        let too_many = (0..2_000).filter(|block| counts(*block) > block % 3 + 1).count();
        assert!(too_many < 10, "{too_many}");
    }

    #[test]
    fn generations_go() {
        let mut sketch = Sketch::default();
        sketch.add(hash(1));
        sketch.filled = FULL;
        sketch.add(hash(2));
        assert_eq!((sketch.count(hash(1)), sketch.count(hash(2))), (1, 1), "the one before counts");
        sketch.filled = FULL;
        sketch.add(hash(3));
        assert_eq!((sketch.count(hash(1)), sketch.count(hash(2))), (0, 1));
    }
}
