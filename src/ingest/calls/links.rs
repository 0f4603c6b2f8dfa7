//! What ties a record to an earlier one of its call, and for how long.
//!
//! Times in microseconds. By the key of a source (`Join`):
//!
//! - Attempts: a failure is continued by what starts up to 60 s after its end. Sources with coarse
//!   clocks, or that measure every attempt from the start of the call, may let attempts overlap by
//!   the resolution, or start together.
//! - Parts overlap or touch within 2 s; one without an end waits an hour for it.
//! - Versions of a row start together.
//!
//! Without a key, LiteLLM's trace id links a failure to what starts up to 60 s after its end: another
//! model is a fallback, the same model must have got the same input. Its session id does it within
//! 5 s for one model and input, since it is the id of a call when the client names no session. Where
//! both show their messages, these must be the same. A success ends a call, and so does a hang-up.

use crate::domain::record::{Hash128, RequestRecord};
use crate::ingest::format::{Draft, Format, Role};

/// Longest pause between two attempts with one key or trace id.
const MAX_PAUSE_US: i64 = 60_000_000;
/// The same where only the session id links them.
const MAX_SESSION_PAUSE_US: i64 = 5_000_000;
/// Time that clocks of two machines may differ by, and writers may lag.
const PART_SLACK_US: i64 = 2_000_000;
/// How long the part without an end waits for it.
const MAX_CALL_US: i64 = 3_600_000_000;
/// How far apart the starts of two versions may be.
const VERSION_SLACK_US: i64 = 2_000_000;
/// The formats whose trace ids stand for calls; elsewhere a trace holds many of them.
const TRACE_LINKS_IN: [&str; 2] =
    [Format::LitellmSpendlogs.as_str(), Format::LitellmStandardLogging.as_str()];
/// The format whose session ids may stand for calls.
const SESSION_LINKS_IN: &str = Format::LitellmSpendlogs.as_str();

/// What ties two records to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Link {
    Attempt(Hash128),
    Part(Hash128),
    Version(Hash128),
    Trace(Hash128),
    Session(Hash128),
}

impl Link {
    /// Returns the links of a record, the strongest one first.
    pub(super) fn all_of(draft: &Draft) -> [Option<Self>; 3] {
        let row = &draft.row;
        let session = row.session_id_hash.filter(|_| *row.source_format == *SESSION_LINKS_IN);
        let joined = draft.join.and_then(|join| match join.role {
            Role::Attempt => Some(Self::Attempt(join.key)),
            Role::Part(_) => Some(Self::Part(join.key)),
            Role::Version(_) => Some(Self::Version(join.key)),
            Role::Retrieval | Role::Tool => None,
        });
        let trace = row.trace_id_hash.filter(|_| TRACE_LINKS_IN.contains(&&*row.source_format));
        [joined, trace.map(Self::Trace), session.map(Self::Session)]
    }

    /// Returns until when a record may be continued by this link; `None` when it may not.
    fn open_until(self, row: &RequestRecord) -> Option<i64> {
        let failed = row.status.is_failure();
        let Some(arrival) = row.arrival_time else {
            // Complete as soon as records with times come.
            return matches!(self, Self::Part(_) | Self::Version(_)).then_some(i64::MIN);
        };
        let end = row.end_time.unwrap_or(arrival).max(arrival);
        let until = match self {
            Self::Attempt(_) | Self::Trace(_) if failed => end.0.saturating_add(MAX_PAUSE_US),
            Self::Attempt(_) => arrival.0.saturating_add(rounding(row)),
            Self::Part(_) if row.end_time.is_none() => arrival.0.saturating_add(MAX_CALL_US),
            Self::Part(_) => end.0.saturating_add(PART_SLACK_US + row.arrival_resolution_us),
            Self::Version(_) => arrival.0.saturating_add(VERSION_SLACK_US),
            Self::Session(_) if failed => end.0.saturating_add(MAX_SESSION_PAUSE_US),
            Self::Trace(_) | Self::Session(_) => return None,
        };
        Some(until)
    }
}

/// Returns by how much the difference of two rounded instants may be off.
const fn rounding(row: &RequestRecord) -> i64 {
    if row.arrival_resolution_us > 1 { 2 * row.arrival_resolution_us } else { 0 }
}

/// Returns until when a later record may continue this one.
pub(super) fn open_until(draft: &Draft) -> Option<i64> {
    let links = Link::all_of(draft).into_iter().flatten();
    links.filter_map(|link| link.open_until(&draft.row)).max()
}

/// Returns whether `later` is a record of the call of `earlier`, by a link that both have.
pub(super) fn continues(earlier: &Draft, later: &Draft, link: Link) -> bool {
    let (first, second) = (&earlier.row, &later.row);
    let starts = match (first.arrival_time, second.arrival_time) {
        (Some(_), Some(at)) => at,
        (None, None) => return matches!(link, Link::Part(_) | Link::Version(_)),
        _ => return false,
    };
    let in_time = link.open_until(first).is_some_and(|until| starts.0 <= until);
    in_time
        && match link {
            Link::Attempt(_) => is_next_attempt(first, second),
            Link::Part(_) | Link::Version(_) => true,
            Link::Trace(_) | Link::Session(_) => {
                same_messages(earlier, later) && is_retry(first, second, link)
            }
        }
}

fn is_next_attempt(first: &RequestRecord, second: &RequestRecord) -> bool {
    let (Some(begins), Some(starts)) = (first.arrival_time, second.arrival_time) else {
        return false;
    };
    let rounding = rounding(first).max(rounding(second));
    let end = first.end_time.unwrap_or(begins);
    let ends = second.end_time.unwrap_or(starts);
    let together = starts.micros_since(begins) <= rounding;
    if first.status.is_failure() {
        starts.micros_since(end) >= -rounding || together
    } else {
        // Each attempt measured from the start of the call: the failure may stand second.
        second.status.is_failure() && together && ends.micros_since(end) <= rounding
    }
}

/// Returns whether two records may be of the same messages: where both show them, they must.
fn same_messages(earlier: &Draft, later: &Draft) -> bool {
    let last =
        |draft: &Draft| draft.chain.as_deref().and_then(|chain| chain.prefixes.last().copied());
    match (last(earlier), last(later)) {
        (Some(earlier), Some(later)) => earlier == later,
        _ => true,
    }
}

fn is_retry(first: &RequestRecord, second: &RequestRecord, link: Link) -> bool {
    let end = first.end_time.or(first.arrival_time);
    let Some((starts, end)) = second.arrival_time.zip(end) else { return false };
    let resolution = first.arrival_resolution_us.max(second.arrival_resolution_us);
    let follows = starts.micros_since(end) > -resolution.max(1);
    let same_model = first.request_model == second.request_model;
    let same_input = match (first.input_tokens, second.input_tokens) {
        (Some(first), Some(second)) => first == second,
        _ => true,
    };
    let same_call = if matches!(link, Link::Session(_)) {
        let apart = first.trace_id_hash.is_some() && second.trace_id_hash.is_some();
        same_model && same_input && !apart
    } else {
        // Another model counts with another tokenizer.
        !same_model || same_input
    };
    first.status.is_failure() && follows && same_call
}
