//! Planned requests for the tests of `replay`.

use crate::domain::scenario::Scenario;
use crate::domain::schedule::{CountKind, PromptPart, Release, ScheduledRequest};
use crate::domain::time::Nanos;

/// Returns a planned request that is due at `due_ns`.
pub(super) fn request(request_id: u64, due_ns: u64) -> ScheduledRequest {
    ScheduledRequest {
        request_id,
        scenario: Scenario::Single,
        session_id: None,
        turn_index: None,
        release: Release::At(Nanos(due_ns)),
        prompt_parts: vec![PromptPart { entry_id: 0, cut_tokens: 5 }],
        input_tokens: 5,
        count_kind: CountKind::Raw,
        content_tokens: 5,
        template_tokens: None,
        max_tokens: 7,
        min_tokens: None,
        stream: true,
        prefix_block_ids: Vec::new(),
        recorded_status: None,
        repeat_of: None,
    }
}
