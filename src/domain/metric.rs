//! Latency metrics of one streamed request; the only place that defines them.
//!
//! Every quantity is a [`Nanos`]. Nothing here reads a clock, draws a random number or does I/O.
//! "From" is one of two anchors: the *intended* send (`scheduled`) or the *actual* one (`sent`).
//! Latency from the intended send holds the wait that a late client or a full queue caused
//! (coordinated omission: wrk2's rule); latency from the actual send is the service time.

use super::convert;
use super::outcome::Instants;
use super::time::Nanos;
use super::word::word_enum;

word_enum! {
    /// The instant a latency starts from.
    pub enum Anchor {
        /// When the request was due.
        Intended = "intended",
        /// When its first byte was handed to the socket.
        Actual = "actual",
    }
}

impl Anchor {
    /// Returns the anchor's instant.
    pub const fn of(self, at: &Instants) -> Option<Nanos> {
        match self {
            Self::Intended => at.scheduled,
            Self::Actual => at.sent,
        }
    }
}

/// Returns the span from `anchor` to `end`; `None` when either is missing or out of order.
fn span(at: &Instants, anchor: Anchor, end: Option<Nanos>) -> Option<Nanos> {
    end?.since(anchor.of(at)?)
}

/// Returns the time to the first token: anchor to the first non-empty generated text of any kind.
pub fn ttft(at: &Instants, anchor: Anchor) -> Option<Nanos> {
    span(at, anchor, at.first_text)
}

/// Returns the time to the first *visible* text, which reasoning does not count for.
pub fn ttft_content(at: &Instants, anchor: Anchor) -> Option<Nanos> {
    span(at, anchor, at.first_content)
}

/// Returns the end-to-end latency: anchor to the end of the answer.
pub fn e2e(at: &Instants, anchor: Anchor) -> Option<Nanos> {
    span(at, anchor, at.closed)
}

/// Returns the schedule delay: actual minus intended send.
pub fn schedule_delay(at: &Instants) -> Option<Nanos> {
    at.sent?.since(at.scheduled?)
}

/// Returns the time per output token: `(last_text - first_text) / (output_tokens - 1)`.
///
/// The definition of `vllm bench serve`, with the last text in place of the stream's end. AIPerf
/// prints the same quantity as "Inter Token Latency". `None` below two tokens: one token has no
/// gap after it, and a zero in its place would pull every percentile down.
pub fn tpot(at: &Instants, output_tokens: Option<u32>) -> Option<Nanos> {
    let gaps = u64::from(output_tokens?.saturating_sub(1));
    at.last_text?.since(at.first_text?)?.0.checked_div(gaps).map(Nanos)
}

/// Returns the mean gap between chunks with text; `None` below two chunks.
///
/// A chunk is what the server sent in one event; it may hold several tokens.
pub fn mean_chunk_gap(chunks: &[Nanos]) -> Option<Nanos> {
    let (first, last) = (chunks.first()?, chunks.last()?);
    last.since(*first)?.0.checked_div(convert::count(chunks.len() - 1)).map(Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> Instants {
        Instants {
            scheduled: Some(Nanos(100)),
            sent: Some(Nanos(130)),
            first_text: Some(Nanos(330)),
            first_content: Some(Nanos(430)),
            last_text: Some(Nanos(730)),
            closed: Some(Nanos(800)),
            ..Instants::default()
        }
    }

    #[test]
    fn both_anchors() {
        let at = stream();
        assert_eq!(ttft(&at, Anchor::Intended), Some(Nanos(230)));
        assert_eq!(ttft(&at, Anchor::Actual), Some(Nanos(200)));
        assert_eq!(ttft_content(&at, Anchor::Actual), Some(Nanos(300)));
        assert_eq!(e2e(&at, Anchor::Intended), Some(Nanos(700)));
        assert_eq!(e2e(&at, Anchor::Actual), Some(Nanos(670)));
        assert_eq!(schedule_delay(&at), Some(Nanos(30)));
    }

    #[test]
    fn tpot_needs_two_tokens() {
        let at = stream();
        assert_eq!(tpot(&at, None), None);
        assert_eq!(tpot(&at, Some(0)), None);
        assert_eq!(tpot(&at, Some(1)), None);
        assert_eq!(tpot(&at, Some(5)), Some(Nanos(100)));
    }

    #[test]
    fn no_text_no_sample() {
        let at = Instants { first_text: None, last_text: None, ..stream() };
        assert_eq!(ttft(&at, Anchor::Actual), None);
        assert_eq!(tpot(&at, Some(9)), None);
    }

    #[test]
    fn chunk_gaps() {
        assert_eq!(mean_chunk_gap(&[]), None);
        assert_eq!(mean_chunk_gap(&[Nanos(5)]), None);
        assert_eq!(mean_chunk_gap(&[Nanos(5), Nanos(9), Nanos(25)]), Some(Nanos(10)));
    }
}
