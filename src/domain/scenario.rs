//! The kind of a request: one classifier for trace, plan and run.

use super::word::word_enum;

word_enum! {
    /// The kind of a request. Long context is a flag with a threshold, not a kind.
    pub enum Scenario {
        /// One question, one answer.
        Single = "single",
        /// A turn of a session with at least two turns.
        MultiTurn = "multi_turn",
        /// The prompt carries retrieved documents.
        Rag = "rag",
        /// The model calls tools.
        Agent = "agent",
        /// A long answer: at least [`LONG_OUTPUT_TOKENS`] output tokens.
        LongOutput = "long_output",
    }
}

/// Output tokens from which a single-turn request counts as `long_output`.
pub const LONG_OUTPUT_TOKENS: u32 = 1_000;

/// What the classifier looks at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence {
    /// Tools are offered or called.
    pub uses_tools: bool,
    /// An explicit or strong sign of retrieved documents.
    pub has_retrieval: bool,
    /// The session has at least two turns.
    pub in_multi_turn_session: bool,
    /// Output tokens, where known.
    pub output_tokens: Option<u32>,
}

/// Returns the kind of a request.
///
/// The first rule that holds decides: tools → `agent`, retrieval → `rag`, a session of two or
/// more turns → `multi_turn`, a long answer → `long_output`, else `single`.
pub fn classify(evidence: Evidence) -> Scenario {
    if evidence.uses_tools {
        Scenario::Agent
    } else if evidence.has_retrieval {
        Scenario::Rag
    } else if evidence.in_multi_turn_session {
        Scenario::MultiTurn
    } else if evidence.output_tokens.is_some_and(|tokens| tokens >= LONG_OUTPUT_TOKENS) {
        Scenario::LongOutput
    } else {
        Scenario::Single
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_decides() {
        let none = Evidence::default();
        assert_eq!(classify(none), Scenario::Single);
        assert_eq!(
            classify(Evidence { output_tokens: Some(999), ..none }),
            Scenario::Single,
            "one below the threshold"
        );
        assert_eq!(classify(Evidence { output_tokens: Some(1_000), ..none }), Scenario::LongOutput);
        let session = Evidence { in_multi_turn_session: true, output_tokens: Some(5_000), ..none };
        assert_eq!(classify(session), Scenario::MultiTurn);
        assert_eq!(classify(Evidence { has_retrieval: true, ..session }), Scenario::Rag);
        assert_eq!(
            classify(Evidence { has_retrieval: true, uses_tools: true, ..session }),
            Scenario::Agent
        );
    }
}
