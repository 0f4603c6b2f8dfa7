//! The rules that every plan keeps, checked while it is written.
//!
//! Ids are dense from 0; offsets never fall; the parts sum to `content_tokens`, which is at least
//! 1; a forced output is the limit; a repeat names an earlier request. O(parts), no memory.

use super::error::PlanError;
use crate::domain::schedule::{Release, ScheduledRequest};
use crate::domain::time::Nanos;

/// Checks a plan, batch by batch.
#[derive(Clone, Debug, Default)]
pub struct Checker {
    next_id: u64,
    last: Nanos,
}

impl Checker {
    /// Checks the next requests of the plan.
    ///
    /// # Errors
    ///
    /// The first rule that is broken; this program has a bug then.
    pub fn check(&mut self, requests: &[ScheduledRequest]) -> Result<(), PlanError> {
        for request in requests {
            if let Some(what) = self.broken(request) {
                return Err(PlanError::Invariant { request_id: request.request_id, what });
            }
            self.next_id += 1;
        }
        Ok(())
    }

    fn broken(&mut self, request: &ScheduledRequest) -> Option<&'static str> {
        let sum: u64 = request.prompt_parts.iter().map(|part| u64::from(part.cut_tokens)).sum();
        let template = request.template_tokens.unwrap_or(0);
        if request.request_id != self.next_id {
            return Some("ids are not dense");
        }
        if let Release::At(at) = request.release {
            if at < self.last {
                return Some("it is released before the request above it");
            }
            self.last = at;
        }
        if sum != u64::from(request.content_tokens) || sum == 0 {
            return Some("the parts of its prompt do not sum to `content_tokens`");
        }
        if request.input_tokens != request.content_tokens.saturating_add(template) {
            return Some("`input_tokens` is not content plus template");
        }
        if request.max_tokens == 0 || request.min_tokens.is_some_and(|min| min > request.max_tokens)
        {
            return Some("its output limits contradict each other");
        }
        let repeats_later = request.repeat_of.is_some_and(|first| first >= request.request_id);
        repeats_later.then_some("it repeats a request that is not before it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::scenario::Scenario;
    use crate::domain::schedule::{CountKind, PromptPart};

    fn request(request_id: u64, at: u64) -> ScheduledRequest {
        ScheduledRequest {
            request_id,
            scenario: Scenario::Single,
            session_id: None,
            turn_index: None,
            release: Release::At(Nanos(at)),
            prompt_parts: vec![PromptPart { entry_id: 0, cut_tokens: 3 }],
            input_tokens: 3,
            count_kind: CountKind::Raw,
            content_tokens: 3,
            template_tokens: None,
            max_tokens: 1,
            min_tokens: Some(1),
            stream: true,
            prefix_block_ids: Vec::new(),
            recorded_status: None,
            repeat_of: None,
        }
    }

    #[test]
    fn every_broken_rule_is_seen() {
        let mut checker = Checker::default();
        assert_eq!(checker.check(&[request(0, 5), request(1, 5)]), Ok(()));
        let good = request(2, 5);
        let broken = [
            request(3, 5),
            request(2, 4),
            ScheduledRequest { content_tokens: 4, ..good.clone() },
            ScheduledRequest { prompt_parts: Vec::new(), content_tokens: 0, ..good.clone() },
            ScheduledRequest { input_tokens: 4, ..good.clone() },
            ScheduledRequest { min_tokens: Some(2), ..good.clone() },
            ScheduledRequest { max_tokens: 0, min_tokens: None, ..good.clone() },
            ScheduledRequest { repeat_of: Some(2), ..good.clone() },
        ];
        for request in broken {
            let found = checker.clone().check(std::slice::from_ref(&request));
            assert!(matches!(found, Err(PlanError::Invariant { .. })), "{request:?}");
        }
        assert_eq!(checker.check(&[good]), Ok(()));
    }
}
