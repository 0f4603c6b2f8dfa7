//! Maps over a slice on several threads, results in input order.

use std::num::NonZeroUsize;

/// Returns `map` of every item, in the order of `items`, whatever the number of threads.
///
/// # Panics
/// When `map` panics, with the same message.
pub(super) fn in_order<T, R, F>(items: &[T], threads: NonZeroUsize, map: F) -> Vec<R>
where
    T: Sync,
    R: Send,
    F: Fn(&T) -> R + Sync,
{
    let share = items.len().div_ceil(threads.get()).max(1);
    std::thread::scope(|scope| {
        let map = &map;
        let workers: Vec<_> = items
            .chunks(share)
            .map(|chunk| scope.spawn(move || chunk.iter().map(map).collect::<Vec<R>>()))
            .collect();
        let mut results = Vec::with_capacity(items.len());
        for worker in workers {
            match worker.join() {
                Ok(part) => results.extend(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_does_not_depend_on_the_threads() {
        let items: Vec<u32> = (0..37).collect();
        for threads in [1, 2, 5, 64] {
            let doubled = in_order(&items, NonZeroUsize::new(threads).unwrap(), |n| n * 2);
            assert_eq!(doubled, items.iter().map(|n| n * 2).collect::<Vec<_>>());
        }
        assert!(in_order(&[] as &[u32], NonZeroUsize::MIN, |n| *n).is_empty());
    }
}
