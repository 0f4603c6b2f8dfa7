//! Shares of kinds of requests, each with its denominator in words and a Wilson interval.
//!
//! Rows go in, `MixModel` comes out. What a trace cannot show is unknown: null, never 0 %.
//! Intervals are Wilson's (1927) at 95 % and take requests as independent; requests of one session
//! are not, so intervals of request shares are too narrow for long sessions. Memory: one small
//! entry (about 50 bytes) per session, nothing per request.

use crate::domain::convert;
use crate::domain::proportion;
use crate::domain::record::{Hash128, RagLabel, RequestRecord, SessionSource, Status};
use crate::domain::scenario::Scenario;
use crate::domain::workload::{MixModel, Share, ShareBasis};
use std::collections::BTreeMap;

/// What is known of one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Session {
    requests: u64,
    /// A turn after the first was seen, so that earlier turns exist even outside the trace.
    later_turn: bool,
}

impl Session {
    const fn is_multi_turn(self) -> bool {
        self.requests > 1 || self.later_turn
    }
}

/// Counts behind the shares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MixCounts {
    total: u64,
    sessions: BTreeMap<Hash128, Session>,
    /// Rows whose session rests on a guess.
    guessed_sessions: u64,
    explicit_rag: u64,
    strong_rag: u64,
    heuristic_rag: u64,
    judged_rag: u64,
    known_input: u64,
    long_context: u64,
    failed: u64,
    unknown_end: u64,
    /// Rows whose output is known, or that failed and have none.
    known_output: u64,
    known_tools: u64,
    scenarios: BTreeMap<Scenario, u64>,
}

impl MixCounts {
    /// Counts one row; an input above `long_context_tokens` is a long context.
    pub(super) fn add(&mut self, record: &RequestRecord, long_context_tokens: u32) {
        self.total += 1;
        if let Some(hash) = record.session_id_hash {
            let session = self.sessions.entry(hash).or_default();
            session.requests += 1;
            session.later_turn |= record.turn_index.is_some_and(|turn| turn > 0);
            let guess = matches!(
                record.session_source,
                SessionSource::KeyGap | SessionSource::LastExchange
            );
            self.guessed_sessions += u64::from(guess);
        }
        let label = record.rag_label;
        self.explicit_rag += u64::from(label == RagLabel::Explicit);
        self.strong_rag += u64::from(label == RagLabel::Strong);
        self.heuristic_rag += u64::from(label == RagLabel::Heuristic);
        self.judged_rag += u64::from(label != RagLabel::Unknowable);
        self.known_input += u64::from(record.input_tokens.is_some());
        let long = record.input_tokens.is_some_and(|tokens| tokens > long_context_tokens);
        self.long_context += u64::from(long);
        self.failed += u64::from(record.status.is_failure());
        self.unknown_end += u64::from(record.status == Status::Unknown);
        let output = record.output_tokens.is_some() || record.status.is_failure();
        self.known_output += u64::from(output);
        let tools = record.tool_definition_count.is_some() || record.tool_call_count.is_some();
        self.known_tools += u64::from(tools);
        *self.scenarios.entry(record.scenario).or_default() += 1;
    }

    /// Adds all counts of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        for (&hash, theirs) in &other.sessions {
            let mine = self.sessions.entry(hash).or_default();
            mine.requests += theirs.requests;
            mine.later_turn |= theirs.later_turn;
        }
        for (&scenario, &count) in &other.scenarios {
            *self.scenarios.entry(scenario).or_default() += count;
        }
        self.total += other.total;
        self.guessed_sessions += other.guessed_sessions;
        self.explicit_rag += other.explicit_rag;
        self.strong_rag += other.strong_rag;
        self.heuristic_rag += other.heuristic_rag;
        self.judged_rag += other.judged_rag;
        self.known_input += other.known_input;
        self.long_context += other.long_context;
        self.failed += other.failed;
        self.unknown_end += other.unknown_end;
        self.known_output += other.known_output;
        self.known_tools += other.known_tools;
    }

    /// Returns the requests that a rule of thumb, and no better sign, calls RAG.
    pub(super) const fn heuristic_rag(&self) -> u64 {
        self.heuristic_rag
    }

    /// Returns the shares.
    pub(super) fn finish(&self, long_context_tokens: u32) -> MixModel {
        let multi = self.sessions.values().filter(|session| session.is_multi_turn());
        let multi_sessions = convert::count(multi.clone().count());
        let multi_requests = multi.map(|session| session.requests).sum();
        let share = |what: &str, denominator: &str, counts, basis| {
            make_share((what.to_owned(), denominator.to_owned()), counts, basis)
        };
        let alone = self.alone();
        let basis = self.session_basis();
        let (sessions, requests) = if alone == 0 {
            ("sessions".to_owned(), "requests with a session".to_owned())
        } else {
            (
                format!("sessions, {alone} requests without one taken as sessions of one turn"),
                format!("requests, {alone} without a session taken as single turns"),
            )
        };
        MixModel {
            multi_turn_sessions: share(
                "sessions of two or more turns",
                &sessions,
                (multi_sessions, convert::count(self.sessions.len()) + alone),
                basis,
            ),
            multi_turn_requests: share(
                "requests in sessions of two or more turns",
                &requests,
                (multi_requests, self.with_session() + alone),
                basis,
            ),
            rag_requests: share(
                "requests with retrieved documents (explicit or strong sign)",
                &self.rag_denominator(),
                (self.explicit_rag + self.strong_rag, self.judged_rag),
                self.rag_basis(),
            ),
            long_context_requests: share(
                &format!("requests of more than {long_context_tokens} input tokens"),
                "requests with a known input length",
                (self.long_context, self.known_input),
                ShareBasis::Measured,
            ),
            long_context_tokens,
            failed_requests: self.failed_share(),
            scenarios: Scenario::ALL.iter().map(|&scenario| self.scenario(scenario)).collect(),
        }
    }

    /// Returns the requests with a session.
    fn with_session(&self) -> u64 {
        self.sessions.values().map(|session| session.requests).sum()
    }

    /// Returns the requests without a session beside others that have one.
    ///
    /// An id that stands on one row is no session in a trace. Left out of the denominator, such
    /// rows would make every session one of several turns; so each counts as a session of its own.
    fn alone(&self) -> u64 {
        if self.sessions.is_empty() { 0 } else { self.total - self.with_session() }
    }

    fn session_basis(&self) -> ShareBasis {
        let stated = self.guessed_sessions == 0 && self.alone() == 0;
        if stated { ShareBasis::Measured } else { ShareBasis::Assumed }
    }

    fn rag_denominator(&self) -> String {
        let words = "requests that show whether they carry documents";
        if self.judged_rag == self.total {
            words.to_owned()
        } else {
            format!("{words}, {} do not", self.total - self.judged_rag)
        }
    }

    /// Only a log that states it of every request is a measurement; "no rule fired" is a rule too.
    const fn rag_basis(&self) -> ShareBasis {
        let stated = self.explicit_rag > 0
            && self.strong_rag == 0
            && self.heuristic_rag == 0
            && self.judged_rag == self.total;
        if stated { ShareBasis::Measured } else { ShareBasis::Assumed }
    }

    fn failed_share(&self) -> Share {
        let what = "failed requests".to_owned();
        let (denominator, basis) = if self.unknown_end == 0 {
            ("all requests".to_owned(), ShareBasis::Measured)
        } else if self.unknown_end < self.total {
            let words = format!("all requests, {} of unknown end taken as good", self.unknown_end);
            (words, ShareBasis::Assumed)
        } else {
            ("all requests".to_owned(), ShareBasis::Unknown)
        };
        make_share((what, denominator), (self.failed, self.total), basis)
    }

    /// A kind that the trace cannot show is unknown; the kinds that remain are then assumed, and so
    /// is every kind where some requests do not show what decides it.
    fn scenario(&self, scenario: Scenario) -> Share {
        let count = self.scenarios.get(&scenario).copied().unwrap_or(0);
        let visible = [
            (Scenario::Agent, self.known_tools),
            (Scenario::Rag, self.judged_rag),
            (Scenario::MultiTurn, if self.sessions.is_empty() { 0 } else { self.total }),
            (Scenario::LongOutput, self.known_output),
        ];
        let hidden = visible.iter().any(|&(kind, seen)| kind == scenario && seen == 0);
        let basis = if hidden && count == 0 {
            ShareBasis::Unknown
        } else if visible.iter().all(|&(_, seen)| seen == self.total) {
            self.session_basis()
        } else {
            ShareBasis::Assumed
        };
        let what = format!("requests of scenario `{scenario}`");
        make_share((what, self.scenario_denominator()), (count, self.total), basis)
    }

    /// Returns the denominator of scenarios with what only some of the requests show.
    fn scenario_denominator(&self) -> String {
        let parts = [
            ("tools", self.known_tools),
            ("documents", self.judged_rag),
            ("outputs", self.known_output),
        ];
        let partly: Vec<String> = parts
            .iter()
            .filter(|(_, seen)| *seen < self.total)
            .map(|(what, seen)| format!("{what} {seen}"))
            .collect();
        if partly.is_empty() {
            return "all requests".to_owned();
        }
        format!("all requests; visible: {}", partly.join(", "))
    }
}

/// Returns a share; unknown when there is nothing to count.
fn make_share(
    (what, denominator): (String, String),
    (count, of): (u64, u64),
    basis: ShareBasis,
) -> Share {
    let interval = proportion::wilson(count, of).filter(|_| basis != ShareBasis::Unknown);
    Share {
        what,
        denominator,
        count,
        of,
        share: interval.map(|interval| interval.share),
        low: interval.map(|interval| interval.lower),
        high: interval.map(|interval| interval.upper),
        basis: if interval.is_some() { basis } else { ShareBasis::Unknown },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_meet_published_values() {
        let cases = [
            (3, 200, 0.0051, 0.0432, 5e-5),
            (0, 500, 0.0, 0.0076, 5e-5),
            (12, 10_000, 0.00069, 0.00210, 5e-6),
        ];
        for (count, of, want_low, want_high, tolerance) in cases {
            let what = (String::new(), String::new());
            let share = make_share(what, (count, of), ShareBasis::Measured);
            let (low, high) = (share.low.unwrap(), share.high.unwrap());
            assert!((low - want_low).abs() <= tolerance, "{count}/{of}: {low}");
            assert!((high - want_high).abs() <= tolerance, "{count}/{of}: {high}");
        }
        let nothing = make_share((String::new(), String::new()), (0, 0), ShareBasis::Measured);
        assert_eq!((nothing.basis, nothing.high), (ShareBasis::Unknown, None));
    }

    fn row(session: Option<u8>) -> RequestRecord {
        let mut record = RequestRecord::unknown("test".into(), 0, 1);
        record.session_id_hash = session.map(|id| Hash128([id; 16]));
        record.session_source = SessionSource::Explicit;
        record
    }

    fn counted(rows: &[RequestRecord]) -> MixCounts {
        let mut counts = MixCounts::default();
        for row in rows {
            counts.add(row, 4_000);
        }
        counts
    }

    #[test]
    fn what_a_trace_cannot_show_is_unknown() {
        let mix = counted(&[row(None), row(None)]).finish(4_000);
        for share in [
            &mix.multi_turn_sessions,
            &mix.multi_turn_requests,
            &mix.rag_requests,
            &mix.long_context_requests,
            &mix.failed_requests,
        ] {
            assert_eq!(share.basis, ShareBasis::Unknown, "{share:?}");
            assert_eq!((share.share, share.low, share.high), (None, None, None), "{share:?}");
        }
        let bases: Vec<_> = mix.scenarios.iter().map(|s| (s.basis, s.share)).collect();
        assert_eq!(bases[0], (ShareBasis::Assumed, Some(1.0)), "single is what remains");
        assert!(bases[1..].iter().all(|&basis| basis == (ShareBasis::Unknown, None)), "{bases:?}");
    }

    #[test]
    fn sessions_and_requests_have_their_own_denominators() {
        let mut late = row(Some(3));
        late.turn_index = Some(4);
        let mut rows = vec![row(Some(1)), row(Some(1)), row(Some(2)), late];
        let mix = counted(&rows).finish(4_000);
        let sessions = &mix.multi_turn_sessions;
        assert_eq!((sessions.count, sessions.of, sessions.basis), (2, 3, ShareBasis::Measured));
        assert_eq!((mix.multi_turn_requests.count, mix.multi_turn_requests.of), (3, 4));
        // Traces keep no session of one row: what has none beside others counts as one.
        rows.push(row(None));
        let mix = counted(&rows).finish(4_000);
        let sessions = &mix.multi_turn_sessions;
        assert_eq!((sessions.count, sessions.of, sessions.basis), (2, 4, ShareBasis::Assumed));
        assert_eq!((mix.multi_turn_requests.count, mix.multi_turn_requests.of), (3, 5));
        let words = "sessions, 1 requests without one taken as sessions of one turn";
        assert_eq!(sessions.denominator, words);
        let mut guess = row(Some(4));
        guess.session_source = SessionSource::KeyGap;
        let mix = counted(&[guess]).finish(4_000);
        assert_eq!(mix.multi_turn_sessions.basis, ShareBasis::Assumed);
    }

    #[test]
    fn rag_is_a_share_of_what_can_be_judged() {
        let labelled = |label| RequestRecord { rag_label: label, ..row(None) };
        let mut rows =
            vec![labelled(RagLabel::Explicit), labelled(RagLabel::NoEvidence), row(None)];
        let rag = counted(&rows).finish(1).rag_requests;
        assert_eq!((rag.count, rag.of, rag.basis), (1, 2, ShareBasis::Assumed));
        assert_eq!(rag.denominator, "requests that show whether they carry documents, 1 do not");
        let rag = counted(&rows[..2]).finish(1).rag_requests;
        assert_eq!((rag.count, rag.of, rag.basis), (1, 2, ShareBasis::Measured));
        rows.extend([labelled(RagLabel::Strong), labelled(RagLabel::Heuristic)]);
        let counts = counted(&rows);
        let rag = counts.finish(1).rag_requests;
        assert_eq!((rag.count, rag.of, rag.basis), (2, 4, ShareBasis::Assumed));
        assert_eq!(counts.heuristic_rag(), 1);
    }

    #[test]
    fn long_context_is_above_the_threshold() {
        let sized = |tokens| RequestRecord { input_tokens: Some(tokens), ..row(None) };
        let rows = [sized(4_000), sized(4_001), row(None)];
        let long = counted(&rows).finish(4_000).long_context_requests;
        assert_eq!((long.count, long.of, long.basis), (1, 2, ShareBasis::Measured));
        assert_eq!(long.what, "requests of more than 4000 input tokens");
    }

    #[test]
    fn failures_of_all_with_unknown_ends_named() {
        let ended = |status| RequestRecord { status, ..row(None) };
        let rows = [ended(Status::Ok), ended(Status::Timeout), ended(Status::Cancelled)];
        let failed = counted(&rows).finish(1).failed_requests;
        assert_eq!((failed.count, failed.of, failed.basis), (1, 3, ShareBasis::Measured));
        let rows = [ended(Status::Ok), ended(Status::Unknown)];
        let failed = counted(&rows).finish(1).failed_requests;
        assert_eq!((failed.share, failed.basis), (Some(0.0), ShareBasis::Assumed));
        assert_eq!(failed.denominator, "all requests, 1 of unknown end taken as good");
    }

    #[test]
    fn parts_merge_to_the_whole() {
        let mut rows: Vec<_> = (0..20u8).map(|i| row(Some(i % 7))).collect();
        rows[3].scenario = Scenario::Agent;
        rows[4].rag_label = RagLabel::Strong;
        rows[5].input_tokens = Some(9_000);
        for cut in 0..=rows.len() {
            let mut merged = counted(&rows[..cut]);
            merged.merge(&counted(&rows[cut..]));
            assert_eq!(merged, counted(&rows), "cut at {cut}");
        }
    }
}
