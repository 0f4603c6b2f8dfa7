//! Latency metrics of one streamed request; the only place that defines them.
//!
//! Every quantity is a [`Nanos`]. Nothing here reads a clock, draws a random number or does I/O.
//! "From" is one of two anchors: the *intended* send (`scheduled`) or the *actual* one (`sent`).
//! Latency from the intended send holds the wait that a late client or a full queue caused
//! (coordinated omission: wrk2's rule); latency from the actual send is the service time.

use super::convert;
use super::outcome::{Instants, RequestOutcome};
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

/// Returns the end-to-end latency up to the last text: anchor to the last non-empty generated text.
pub fn e2e_text(at: &Instants, anchor: Anchor) -> Option<Nanos> {
    span(at, anchor, at.last_text)
}

/// Returns the time a new connection took, TLS included; `None` on a reused connection.
pub fn connect_time(at: &Instants) -> Option<Nanos> {
    at.tls_done.or(at.connected)?.since(at.connect_start?)
}

/// Returns the dispatcher's own delay: let go minus due. The connection's set-up is not in it.
pub fn dispatch_delay(at: &Instants) -> Option<Nanos> {
    at.dispatched?.since(at.scheduled?)
}

/// Returns the client's own delay: the schedule delay less the set-up of a new connection, which
/// takes as long as the network and the server make it.
pub fn own_delay(at: &Instants) -> Option<Nanos> {
    let delay = schedule_delay(at)?;
    Some(Nanos(delay.0.saturating_sub(connect_time(at).map_or(0, |set_up| set_up.0))))
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

/// Returns the gaps between neighbouring chunks with text, one per gap; none below two chunks.
///
/// Chunks that came in one read share their instant, so their gap is zero: that is what the
/// client saw.
pub fn chunk_gaps(chunks: &[Nanos]) -> impl Iterator<Item = Nanos> {
    chunks.iter().zip(chunks.iter().skip(1)).filter_map(|(earlier, later)| later.since(*earlier))
}

word_enum! {
    /// The latencies of a report, in the order they are printed.
    pub enum Latency {
        /// [`ttft`] from the actual send.
        TtftFromActual = "ttft_from_actual",
        /// [`ttft`] from the intended send.
        TtftFromIntended = "ttft_from_intended",
        /// [`ttft_content`] from the actual send.
        TtftContentFromActual = "ttft_content_from_actual",
        /// [`ttft_content`] from the intended send.
        TtftContentFromIntended = "ttft_content_from_intended",
        /// [`tpot`].
        Tpot = "tpot",
        /// [`chunk_gaps`] of all requests together, one sample per gap.
        ChunkGap = "chunk_gap",
        /// [`mean_chunk_gap`], one sample per request.
        MeanChunkGap = "mean_chunk_gap",
        /// [`e2e`] from the actual send.
        E2eFromActual = "e2e_from_actual",
        /// [`e2e`] from the intended send.
        E2eFromIntended = "e2e_from_intended",
        /// [`e2e_text`] from the actual send.
        E2eTextFromActual = "e2e_text_from_actual",
        /// [`e2e_text`] from the intended send.
        E2eTextFromIntended = "e2e_text_from_intended",
    }
}

impl Latency {
    /// Returns this latency's one sample of `outcome`, if it has one.
    ///
    /// Always `None` for [`Latency::ChunkGap`], of which a request has many: see [`chunk_gaps`].
    /// Whether the request succeeded is not looked at.
    pub fn of(self, outcome: &RequestOutcome) -> Option<Nanos> {
        let at = &outcome.at;
        match self {
            Self::TtftFromActual => ttft(at, Anchor::Actual),
            Self::TtftFromIntended => ttft(at, Anchor::Intended),
            Self::TtftContentFromActual => ttft_content(at, Anchor::Actual),
            Self::TtftContentFromIntended => ttft_content(at, Anchor::Intended),
            Self::Tpot => tpot(at, outcome.output_tokens),
            Self::ChunkGap => None,
            Self::MeanChunkGap => mean_chunk_gap(&outcome.chunks),
            Self::E2eFromActual => e2e(at, Anchor::Actual),
            Self::E2eFromIntended => e2e(at, Anchor::Intended),
            Self::E2eTextFromActual => e2e_text(at, Anchor::Actual),
            Self::E2eTextFromIntended => e2e_text(at, Anchor::Intended),
        }
    }
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
        assert_eq!(e2e_text(&at, Anchor::Intended), Some(Nanos(630)));
        assert_eq!(e2e_text(&at, Anchor::Actual), Some(Nanos(600)));
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
    fn mean_gap_of_chunks() {
        assert_eq!(mean_chunk_gap(&[]), None);
        assert_eq!(mean_chunk_gap(&[Nanos(5)]), None);
        assert_eq!(mean_chunk_gap(&[Nanos(5), Nanos(9), Nanos(25)]), Some(Nanos(10)));
    }

    #[test]
    fn every_gap_is_a_sample_and_one_read_has_no_gap() {
        let gaps: Vec<Nanos> = chunk_gaps(&[Nanos(5), Nanos(5), Nanos(9)]).collect();
        assert_eq!(gaps, [Nanos(0), Nanos(4)]);
        assert_eq!(chunk_gaps(&[Nanos(5)]).count(), 0);
        assert_eq!(chunk_gaps(&[]).count(), 0);
    }

    #[test]
    fn the_set_up_of_a_connection_is_not_the_clients_own_delay() {
        let reused =
            Instants { scheduled: Some(Nanos(100)), sent: Some(Nanos(160)), ..Instants::default() };
        assert_eq!(own_delay(&reused), Some(Nanos(60)));
        let fresh =
            Instants { connect_start: Some(Nanos(110)), connected: Some(Nanos(150)), ..reused };
        assert_eq!((schedule_delay(&fresh), own_delay(&fresh)), (Some(Nanos(60)), Some(Nanos(20))));
        assert_eq!(own_delay(&Instants::default()), None);
    }

    #[test]
    fn connect_time_ends_with_tls_where_there_is_tls() {
        let plain = Instants {
            connect_start: Some(Nanos(10)),
            connected: Some(Nanos(14)),
            ..Instants::default()
        };
        assert_eq!(connect_time(&plain), Some(Nanos(4)));
        let tls = Instants { tls_done: Some(Nanos(30)), ..plain };
        assert_eq!(connect_time(&tls), Some(Nanos(20)));
        assert_eq!(connect_time(&Instants::default()), None);
    }
}
