//! Limits that decide whether a result may be believed, one constant each.
//!
//! The lateness rules follow wrk2, which counts latency from the time when a request was due: a
//! sender that falls behind its schedule must say so. `docs/metrics.md` states them as formulas.

use super::time::Nanos;

/// Own delay of the client above which one request counts as late.
pub const LATE_REQUEST: Nanos = Nanos::from_millis(50);
/// Largest share of late requests in a valid run.
pub const MAX_LATE_SHARE: f64 = 0.01;
/// The p99 of the own delay in a valid run is at most this, or [`MAX_DELAY_TTFT_SHARE`] of
/// the median TTFT when that is larger.
pub const MAX_DELAY_P99: Nanos = Nanos::from_millis(10);
/// See [`MAX_DELAY_P99`].
pub const MAX_DELAY_TTFT_SHARE: f64 = 0.05;
/// Smallest achieved/planned rate in any window of [`RATE_WINDOW`] with enough planned requests.
pub const MIN_ACHIEVED_SHARE: f64 = 0.99;
/// The window of the achieved-rate rule.
pub const RATE_WINDOW: Nanos = Nanos::from_millis(10_000);
/// Planned requests that a window needs before the achieved-rate rule applies.
pub const RATE_WINDOW_MIN_PLANNED: u64 = 50;
/// Share of each limit at which a warning is given.
pub const WARN_SHARE: f64 = 0.5;
/// A prompt above this many tokens is flagged as long context, unless the user says otherwise.
pub const LONG_CONTEXT_TOKENS: u32 = 4_000;
/// A percentile rests on at least this many samples above it, or a warning says so.
pub const MIN_SAMPLES_ABOVE_PERCENTILE: f64 = 10.0;

/// Largest share of a run's requests overdue by more than [`LATE_REQUEST`] at one time.
pub const MAX_BACKLOG_SHARE: f64 = 0.005;
/// Requests that a run needs before the backlog rule applies: below `1 / MAX_BACKLOG_SHARE` a
/// single request would break it.
pub const BACKLOG_MIN_REQUESTS: u64 = 200;
/// Two-sided significance of a growing schedule delay: the standard normal's 99.95 % point.
pub const TREND_Z: f64 = 3.29;
/// A stream is *one burst* when one read brought more than this share of its text.
pub const ONE_READ_SHARE: f64 = 0.9;
/// Share of one-burst streams above which a warning is given.
pub const WARN_ONE_READ_STREAMS: f64 = 0.01;
/// Share of failed requests above which the notice about them becomes a warning.
pub const WARN_FAILED_SHARE: f64 = 0.01;
/// Share of the planned output tokens that may be missing before a warning is given.
pub const WARN_OUTPUT_SHORTFALL: f64 = 0.01;
/// Share of requests whose input differs at the server before a warning is given.
pub const WARN_INPUT_MISMATCH: f64 = 0.01;
/// The short and the long window in which the peak of sends is looked for.
pub const PEAK_WINDOWS: [Nanos; 2] = [Nanos::from_millis(100), Nanos::from_millis(1_000)];
