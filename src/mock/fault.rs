//! Stated faults: which kinds there are, and which request gets one.
//!
//! The choice depends on the seed and the request's number alone, so that a run with the same
//! order of arrivals meets the same faults.

use super::MockError;
use crate::domain::seed::Seed;
use crate::domain::word::word_enum;
use rand::RngExt;

word_enum! {
    /// A way to go wrong.
    pub enum FaultKind {
        /// Status 500 with an error body, at once.
        Http500 = "http_500",
        /// Status 429 with `Retry-After: 1`, at once.
        Http429 = "http_429",
        /// Status 200; an error object after half of the tokens.
        StreamError = "stream_error",
        /// Status 200; the connection closes after half of the tokens, without a finish reason.
        Truncated = "truncated",
        /// Status 200; a complete answer without any text.
        Empty = "empty",
        /// The response headers, and all that follows, come later.
        SlowHeaders = "slow_headers",
    }
}

/// A fault and the share of requests that get it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// The way to go wrong.
    pub kind: FaultKind,
    /// The share of requests, 0 to 1.
    pub share: f64,
}

impl std::str::FromStr for Fault {
    type Err = MockError;

    /// Reads `KIND:SHARE`, for example `http_500:0.05`.
    fn from_str(text: &str) -> Result<Self, MockError> {
        let parsed = text.split_once(':').and_then(|(kind, share)| {
            Some(Self { kind: FaultKind::parse(kind)?, share: share.parse().ok()? })
        });
        parsed.ok_or_else(|| MockError::FaultSyntax { found: text.to_owned() })
    }
}

/// Checks that the shares are shares.
pub(super) fn validate(faults: &[Fault]) -> Result<(), MockError> {
    if let Some(bad) = faults.iter().find(|fault| !(0.0..=1.0).contains(&fault.share)) {
        return Err(MockError::FaultShare { kind: bad.kind.as_str(), found: bad.share });
    }
    let sum: f64 = faults.iter().map(|fault| fault.share).sum();
    // Ten times 0.1 is not quite 1.
    if sum > 1.0 + 1e-9 { Err(MockError::FaultSum { found: sum }) } else { Ok(()) }
}

/// Returns the fault of request `number`, if it gets one.
pub(super) fn of_request(faults: &[Fault], seed: Seed, number: u64) -> Option<FaultKind> {
    if faults.is_empty() {
        return None;
    }
    let mut at: f64 = seed.stream_of("mock.fault", number).random();
    for fault in faults {
        if at < fault.share {
            return Some(fault.kind);
        }
        at -= fault.share;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_kind_and_share() {
        let fault: Fault = "truncated:0.25".parse().unwrap();
        assert_eq!(fault, Fault { kind: FaultKind::Truncated, share: 0.25 });
        for bad in ["", "truncated", "truncated:", "truncated:x", "nonsense:0.1"] {
            assert!(bad.parse::<Fault>().is_err(), "{bad}");
        }
        for (share, good) in [(0.0, true), (1.0, true), (-0.1, false), (1.1, false)] {
            assert_eq!(validate(&[Fault { share, ..fault }]).is_ok(), good, "{share}");
        }
        assert!(validate(&[Fault { share: f64::NAN, ..fault }]).is_err());
        assert!(validate(&[Fault { share: 0.6, ..fault }; 2]).is_err());
        assert!(validate(&[Fault { share: 0.1, ..fault }; 10]).is_ok());
    }

    #[test]
    fn shares_are_kept_and_depend_on_the_seed_and_the_number_alone() {
        let faults: Vec<Fault> =
            ["http_500:0.1", "empty:0.3"].map(|text| text.parse().unwrap()).into();
        let draw = |seed| -> Vec<Option<FaultKind>> {
            (0..4_000).map(|number| of_request(&faults, Seed(seed), number)).collect()
        };
        let kinds = draw(1);
        assert_eq!(kinds, draw(1));
        assert_ne!(kinds, draw(2));
        let count = |kind| kinds.iter().filter(|found| **found == kind).count();
        // 4 standard errors of a binomial share at n = 4,000: 0.019 at 0.1, 0.029 at 0.3.
        assert!((324..=476).contains(&count(Some(FaultKind::Http500))));
        assert!((1_084..=1_316).contains(&count(Some(FaultKind::Empty))));
        let certain = [Fault { kind: FaultKind::Http429, share: 1.0 }];
        assert!((0..100).all(|n| of_request(&certain, Seed(1), n) == Some(FaultKind::Http429)));
    }
}
