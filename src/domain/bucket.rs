//! Log2 buckets of token counts: bucket `b` holds `[2^b, 2^(b+1))`.

/// Returns the log2 bucket of a token count: 1 → 0, 2..=3 → 1, 4..=7 → 2; `None` for zero.
pub const fn log2_bucket(tokens: u32) -> Option<u32> {
    tokens.checked_ilog2()
}

/// Returns the half-open range of token counts that `bucket` holds.
pub const fn bucket_range(bucket: u32) -> (u64, u64) {
    (1 << bucket, 1 << (bucket + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges() {
        assert_eq!(log2_bucket(0), None);
        for (tokens, bucket) in [(1, 0), (2, 1), (3, 1), (4, 2), (1023, 9), (1024, 10)] {
            assert_eq!(log2_bucket(tokens), Some(bucket));
            let (low, high) = bucket_range(bucket);
            assert!(low <= u64::from(tokens) && u64::from(tokens) < high);
        }
    }
}
