//! Tokens planned against tokens counted, connections, and streams that came in one burst.
//!
//! Succeeded outcomes in, counts out. Input is compared only where the *server* counted; a share
//! or mean over nothing is `None`.

use super::latency::Distribution;
use crate::domain::convert;
use crate::domain::limits;
use crate::domain::metric;
use crate::domain::outcome::{RequestOutcome, UsageSource};
use serde::{Deserialize, Serialize};

/// Input tokens: the plan's against the server's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InputTokens {
    /// Succeeded requests with a server count.
    pub compared: u64,
    /// Those of them whose count is the planned one.
    pub equal: u64,
    /// Those whose count is another.
    pub different: u64,
    /// Mean of server − planned, in tokens.
    pub mean_difference: Option<f64>,
    /// Smallest server − planned, in tokens.
    pub smallest_difference: Option<i64>,
    /// Largest server − planned, in tokens.
    pub largest_difference: Option<i64>,
    /// Input tokens taken from the server's prefix cache, where it says so.
    pub cached: Option<u64>,
    /// `cached` as a share of the input tokens of the same requests.
    pub cached_share: Option<f64>,
}

/// Output tokens: the plan's limit against what came.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutputTokens {
    /// Succeeded requests with an output count.
    pub compared: u64,
    /// Those that gave exactly the planned number.
    pub reached: u64,
    /// Those that gave fewer.
    pub short: u64,
    /// Those that gave more.
    pub over: u64,
    /// Planned tokens of the compared requests.
    pub planned: u64,
    /// Tokens that came.
    pub received: u64,
    /// Missing tokens of the short requests as a share of `planned`.
    pub shortfall_share: Option<f64>,
    /// Reasoning tokens, which are part of `received`, where the server says so.
    pub reasoning: Option<u64>,
}

/// Who counted the tokens of the succeeded requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsageSources {
    /// The server.
    pub server: u64,
    /// This program's tokenizer.
    pub local: u64,
    /// Nobody.
    pub none: u64,
}

/// Everything about tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tokens {
    /// Input.
    pub input: InputTokens,
    /// Output.
    pub output: OutputTokens,
    /// Who counted.
    pub usage_sources: UsageSources,
    /// Output tokens per chunk with text, over all requests with both.
    pub tokens_per_chunk: Option<f64>,
}

/// How connections were used, over all requests that reached one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Connections {
    /// Requests on a new connection.
    pub new: u64,
    /// Requests on a connection used before.
    pub reused: u64,
    /// Requests of which it is not known.
    pub unknown: u64,
    /// Time of a new connection, TLS included.
    pub connect_time: Distribution,
}

/// Streams whose text came nearly all in one read: their chunk gaps and TPOT say little.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OneBurstStreams {
    /// Succeeded streams of at least two output tokens, or of an unknown number.
    pub streams: u64,
    /// Those where one read brought more than [`limits::ONE_READ_SHARE`] of the text.
    pub one_burst: u64,
    /// `one_burst / streams`.
    pub share: Option<f64>,
}

/// Folds counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    tokens: Tokens,
    bursts: OneBurstStreams,
    connections: Connections,
    connect_nanos: Vec<u64>,
    difference_sum: i64,
    missing: u64,
    cacheable: u64,
    chunked_tokens: u64,
    chunks: u64,
}

/// Returns `part / whole`; `None` when the whole is 0.
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| convert::float(part) / convert::float(whole))
}

impl Counts {
    /// Takes what a tried request says of its connection.
    pub(super) fn add_tried(&mut self, outcome: &RequestOutcome) {
        match outcome.connection_reused {
            Some(true) => self.connections.reused += 1,
            Some(false) => self.connections.new += 1,
            None => self.connections.unknown += 1,
        }
        self.connect_nanos.extend(metric::connect_time(&outcome.at).map(|span| span.0));
    }

    /// Takes the tokens of a succeeded request.
    pub(super) fn add_success(&mut self, outcome: &RequestOutcome) {
        match outcome.usage_source {
            Some(UsageSource::Server) => self.tokens.usage_sources.server += 1,
            Some(UsageSource::Local) => self.tokens.usage_sources.local += 1,
            None => self.tokens.usage_sources.none += 1,
        }
        self.add_input(outcome);
        self.add_output(outcome);
        self.add_burst(outcome);
    }

    fn add_input(&mut self, outcome: &RequestOutcome) {
        let input = &mut self.tokens.input;
        let Some(counted) = outcome.input_tokens else { return };
        if let Some(cached) = outcome.cached_input_tokens {
            input.cached = Some(input.cached.unwrap_or(0) + u64::from(cached));
            self.cacheable += u64::from(counted);
        }
        if outcome.usage_source != Some(UsageSource::Server) {
            return;
        }
        let difference = i64::from(counted) - i64::from(outcome.planned_input_tokens);
        input.compared += 1;
        input.equal += u64::from(difference == 0);
        input.different += u64::from(difference != 0);
        input.smallest_difference =
            Some(input.smallest_difference.map_or(difference, |least| least.min(difference)));
        input.largest_difference =
            Some(input.largest_difference.map_or(difference, |most| most.max(difference)));
        self.difference_sum += difference;
    }

    fn add_output(&mut self, outcome: &RequestOutcome) {
        let output = &mut self.tokens.output;
        let Some(received) = outcome.output_tokens else { return };
        let (received, planned) = (u64::from(received), u64::from(outcome.planned_max_tokens));
        output.compared += 1;
        output.reached += u64::from(received == planned);
        output.short += u64::from(received < planned);
        output.over += u64::from(received > planned);
        output.planned += planned;
        output.received += received;
        self.missing += planned.saturating_sub(received);
        if let Some(reasoning) = outcome.reasoning_tokens {
            output.reasoning = Some(output.reasoning.unwrap_or(0) + u64::from(reasoning));
        }
        if !outcome.chunks.is_empty() {
            self.chunked_tokens += received;
            self.chunks += convert::count(outcome.chunks.len());
        }
    }

    fn add_burst(&mut self, outcome: &RequestOutcome) {
        let is_stream = outcome.at.first_event.is_some() && outcome.text_bytes > 0;
        if !is_stream || outcome.output_tokens.is_some_and(|tokens| tokens < 2) {
            return;
        }
        self.bursts.streams += 1;
        let in_one_read = share(outcome.largest_read_text_bytes, outcome.text_bytes);
        let is_burst = in_one_read.is_some_and(|share| share > limits::ONE_READ_SHARE);
        self.bursts.one_burst += u64::from(is_burst);
    }

    /// Returns the numbers.
    pub(super) fn finish(mut self) -> (Tokens, Connections, OneBurstStreams) {
        let input = &mut self.tokens.input;
        input.mean_difference = (input.compared > 0)
            .then(|| convert::float_signed(self.difference_sum) / convert::float(input.compared));
        input.cached_share = input.cached.and_then(|cached| share(cached, self.cacheable));
        let output = &mut self.tokens.output;
        output.shortfall_share = share(self.missing, output.planned);
        self.tokens.tokens_per_chunk = share(self.chunked_tokens, self.chunks);
        self.bursts.share = share(self.bursts.one_burst, self.bursts.streams);
        self.connections.connect_time = Distribution::of_nanos(&mut self.connect_nanos);
        (self.tokens, self.connections, self.bursts)
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::ok;
    use super::*;
    use crate::domain::time::Nanos;

    #[test]
    fn nothing_has_no_shares() {
        let (tokens, connections, bursts) = Counts::default().finish();
        assert_eq!(tokens, Tokens::default());
        assert_eq!(connections, Connections::default());
        assert_eq!(bursts.share, None);
    }

    #[test]
    fn planned_and_counted_are_compared_where_the_server_counted() {
        let mut counts = Counts::default();
        let more = RequestOutcome { input_tokens: Some(57), ..ok(1) };
        let fewer = RequestOutcome { input_tokens: Some(49), output_tokens: Some(4), ..ok(2) };
        let local = RequestOutcome {
            input_tokens: Some(1),
            usage_source: Some(UsageSource::Local),
            cached_input_tokens: None,
            ..ok(3)
        };
        for outcome in [ok(0), more, fewer, local] {
            counts.add_success(&outcome);
        }
        let (tokens, _, _) = counts.finish();
        let input = tokens.input;
        assert_eq!((input.compared, input.equal, input.different), (3, 1, 2));
        assert_eq!((input.smallest_difference, input.largest_difference), (Some(-1), Some(7)));
        assert_eq!(input.mean_difference, Some(2.0));
        let output = tokens.output;
        assert_eq!((output.reached, output.short, output.over), (3, 1, 0));
        assert_eq!(output.shortfall_share, Some(6.0 / 40.0));
        assert_eq!((tokens.usage_sources.server, tokens.usage_sources.local), (3, 1));
        assert_eq!(tokens.tokens_per_chunk, Some(34.0 / 40.0));
    }

    #[test]
    fn one_read_with_all_the_text_is_a_burst_unless_it_is_one_token() {
        let burst = RequestOutcome { largest_read_text_bytes: 91, text_bytes: 100, ..ok(0) };
        let edge = RequestOutcome { largest_read_text_bytes: 90, text_bytes: 100, ..ok(1) };
        let single = RequestOutcome { output_tokens: Some(1), ..burst.clone() };
        let mut counts = Counts::default();
        for outcome in [burst, edge, single] {
            counts.add_success(&outcome);
        }
        let (_, _, bursts) = counts.finish();
        assert_eq!((bursts.streams, bursts.one_burst, bursts.share), (2, 1, Some(0.5)));
    }

    #[test]
    fn connections() {
        let mut counts = Counts::default();
        let mut new = ok(0);
        new.connection_reused = Some(false);
        new.at.connect_start = Some(Nanos(0));
        new.at.connected = Some(Nanos(3_000_000));
        for outcome in [new, ok(1), ok(2)] {
            counts.add_tried(&outcome);
        }
        let (_, connections, _) = counts.finish();
        assert_eq!((connections.new, connections.reused), (1, 2));
        assert_eq!(connections.connect_time.p50_ms, Some(3.0));
    }
}
