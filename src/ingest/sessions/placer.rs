//! The second pass: what was found about sessions goes into the rows.
//!
//! Drafts in the order of the first pass -> the same with session, turn, parent, think time and
//! kind. Where a row has both an id of the log and an inferred parent, the id counts and the link
//! is measured: right when both turns have one id. Rows without an id that continue a row with one
//! join its session. Counts become lines for the user at the end.

use super::place::{EXPLICIT, Place};
use super::{LinkCounts, Sessions};
use crate::domain::convert;
use crate::domain::record::{Hash128, RagLabel, RequestRecord, SessionSource};
use crate::domain::scenario::{Evidence, classify};
use crate::domain::trace::Decision;
use crate::ingest::error::IngestError;
use crate::ingest::external::MergedBytes;
use crate::ingest::format::{Draft, Format};
use std::collections::{HashMap, VecDeque};
use std::path::Path;

/// Rows with an id and a link whose sessions are remembered.
const MAX_KNOWN: usize = 250_000;

/// Completes the rows in the order of the first pass.
#[derive(Debug)]
pub struct Placer<'a> {
    places: MergedBytes<'a>,
    folder: &'a Path,
    next: Option<([u64; 3], Place)>,
    row_id: u64,
    keep_scenario: bool,
    known: Known,
    links: LinkCounts,
    shared_ids: u64,
    single_ids: u64,
    counts: Counts,
}

/// What was placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    inferred_sessions: u64,
    /// Links by rule, in the order of [`SessionSource::ALL`].
    rules: [u64; SessionSource::ALL.len()],
    overlaps: u64,
    /// Turns of the log's sessions that show enough to be linked.
    could_link: u64,
    /// Links between rows with ids.
    measured: u64,
    /// Those of one id.
    right: u64,
}

/// Sessions of the rows that later ones may have been linked to, the oldest ones forgotten.
#[derive(Debug, Default)]
struct Known {
    rows: HashMap<u64, KnownRow, foldhash::fast::FixedState>,
    order: VecDeque<u64>,
}

#[derive(Clone, Copy, Debug)]
struct KnownRow {
    session: Hash128,
    turn: u32,
    is_explicit: bool,
}

impl Known {
    fn add(&mut self, row_id: u64, row: KnownRow) {
        if self.order.len() >= MAX_KNOWN
            && let Some(oldest) = self.order.pop_front()
        {
            self.rows.remove(&oldest);
        }
        self.order.push_back(row_id);
        self.rows.insert(row_id, row);
    }
}

impl<'a> Placer<'a> {
    pub(super) fn new(found: &'a Sessions) -> Result<Self, IngestError> {
        let mut placer = Self {
            places: found.places.entries()?,
            folder: &found.folder,
            next: None,
            row_id: 0,
            keep_scenario: found.keep_scenario,
            known: Known::default(),
            links: found.counts,
            shared_ids: found.shared_ids,
            single_ids: found.single_ids,
            counts: Counts::default(),
        };
        placer.advance()?;
        Ok(placer)
    }

    fn advance(&mut self) -> Result<(), IngestError> {
        self.next = match self.places.next()? {
            Some((key, bytes)) => {
                let place = Place::decode(bytes).ok_or_else(|| super::damaged(self.folder))?;
                Some((key, place))
            }
            None => None,
        };
        Ok(())
    }

    /// Completes the next row.
    ///
    /// # Errors
    ///
    /// If what was found cannot be read back.
    pub fn place(&mut self, draft: &mut Draft) -> Result<(), IngestError> {
        let (mut explicit, mut inferred) = (None, None);
        while let Some(([row_id, kind, _], place)) = self.next {
            if row_id != self.row_id {
                break;
            }
            if kind == EXPLICIT {
                explicit = Some(place);
            } else {
                inferred = Some(place);
            }
            self.advance()?;
        }
        let place = match (explicit, inferred) {
            (Some(explicit), inferred) => Some(self.by_id(draft, explicit, inferred)),
            (None, Some(inferred)) => Some(self.by_link(inferred)),
            (None, None) => None,
        };
        self.row_id += 1;
        self.write(draft, place);
        Ok(())
    }

    /// Returns the place of a row with an id of the log, and measures its link.
    fn by_id(&mut self, draft: &Draft, explicit: Place, inferred: Option<Place>) -> Place {
        let shows = draft.chain.as_deref().is_some_and(|chain| !chain.prefixes.is_empty())
            || !draft.row.prefix_block_hashes.is_empty();
        self.counts.could_link += u64::from(shows && explicit.parent.is_some());
        let Some(inferred) = inferred else { return explicit };
        let row = KnownRow { session: explicit.session, turn: explicit.turn, is_explicit: true };
        self.known.add(self.row_id, row);
        let parent = inferred.parent.and_then(|parent| self.known.rows.get(&parent).copied());
        let Some(parent) = parent.filter(|parent| parent.is_explicit) else { return explicit };
        let is_right = parent.session == explicit.session;
        if inferred.source != SessionSource::ResponseChain {
            self.counts.measured += 1;
            self.counts.right += u64::from(is_right);
        } else if is_right {
            // A named response is the parent for certain; the row before need not be.
            return Place { parent: inferred.parent, think_us: inferred.think_us, ..explicit };
        }
        // A parent of another session is that of an agent that started this one.
        explicit
    }

    /// Returns the place of a row without an id.
    fn by_link(&mut self, inferred: Place) -> Place {
        let Some(parent) = inferred.parent else {
            self.counts.inferred_sessions += 1;
            return inferred;
        };
        let rule = SessionSource::ALL.iter().position(|rule| *rule == inferred.source);
        if let Some(count) = rule.and_then(|rule| self.counts.rules.get_mut(rule)) {
            *count += 1;
        }
        let Some(parent) = self.known.rows.get(&parent).copied() else { return inferred };
        let turn = parent.turn.saturating_add(1);
        self.known.add(self.row_id, KnownRow { turn, is_explicit: false, ..parent });
        Place { session: parent.session, turn, ..inferred }
    }

    fn write(&mut self, draft: &mut Draft, place: Option<Place>) {
        let row = &mut draft.row;
        if let Some(place) = place {
            if place.source == SessionSource::Explicit {
                // An adapter may know the turn, and by which rule the log has its session.
                row.turn_index = row.turn_index.or(Some(place.turn));
                if row.session_source == SessionSource::None {
                    row.session_source = SessionSource::Explicit;
                }
            } else {
                row.turn_index = Some(place.turn);
                row.session_source = place.source;
            }
            row.session_id_hash = Some(place.session);
            row.parent_row_id = place.parent;
            row.think_time_us = place.think_us;
            self.counts.overlaps += u64::from(place.think_us.is_some_and(|think| think < 0));
        } else {
            row.session_id_hash = None;
            row.session_source = SessionSource::None;
            row.turn_index = None;
        }
        // A run of this program logs the scenario that it planned.
        if !self.keep_scenario && *row.source_format != *Format::TracewrightRun.as_str() {
            let is_tool_turn = draft.chain.as_deref().is_some_and(|chain| chain.is_tool_turn);
            row.scenario = classify(evidence(row, is_tool_turn));
        }
    }

    /// Returns what deserves a line at the end.
    pub fn report(&self) -> Vec<Decision> {
        let line =
            |what: &str, value: String, why: String| Decision { what: what.to_owned(), value, why };
        let mut lines = Vec::new();
        let counts = &self.counts;
        if self.shared_ids + self.single_ids + counts.inferred_sessions > 0 {
            let single = format!("ids on one row only are no sessions: {}", self.single_ids);
            let why = match counts.inferred_sessions {
                0 => single,
                inferred => {
                    format!("{} by ids of the log, {inferred} inferred; {single}", self.shared_ids)
                }
            };
            let value = (self.shared_ids + counts.inferred_sessions).to_string();
            lines.push(line("sessions", value, why));
        }
        let linked: u64 = counts.rules.iter().sum();
        if linked > 0 {
            let rules = SessionSource::ALL.iter().zip(counts.rules).filter(|(_, count)| *count > 0);
            let rules: Vec<_> = rules.map(|(rule, count)| format!("{rule} {count}")).collect();
            lines.push(line("turns linked by inference", linked.to_string(), rules.join(", ")));
        }
        lines.extend(self.remarks());
        if counts.could_link > 0 && counts.measured > 0 {
            let share = |part: u64, whole: u64| {
                let share = convert::float(part) / convert::float(whole);
                format!("{share:.4} ({part} of {whole})")
            };
            let precision = share(counts.right, counts.measured);
            let recall = share(counts.right, counts.could_link);
            let value = format!("precision {precision}, recall {recall}");
            let why = "the log's own ids, hidden from the rules and compared with their links";
            lines.push(line("inferred links against ids", value, why.to_owned()));
        }
        lines
    }

    fn remarks(&self) -> impl Iterator<Item = Decision> {
        let links = &self.links;
        let remarks = [
            (links.tool_turns, "tool turns", "they bring results of tools: no one thought"),
            (links.retries, "requests sent again", "same messages, no answer yet: not a turn"),
            (links.several, "links with a choice", "several turns fit; the latest was taken"),
            (self.counts.overlaps, "overlapping turns", "begun before the turn before had ended"),
            (links.forgotten, "turns forgotten early", "more than memory allows for one day"),
        ];
        let line = |(count, what, why): (u64, &str, &str)| {
            let decision =
                Decision { what: what.to_owned(), value: count.to_string(), why: why.to_owned() };
            (count > 0).then_some(decision)
        };
        remarks.into_iter().filter_map(line)
    }
}

fn evidence(row: &RequestRecord, is_tool_turn: bool) -> Evidence {
    Evidence {
        uses_tools: is_tool_turn
            || row.tool_definition_count.is_some_and(|tools| tools > 0)
            || row.tool_call_count.is_some_and(|calls| calls > 0),
        has_retrieval: matches!(row.rag_label, RagLabel::Explicit | RagLabel::Strong),
        in_multi_turn_session: row.session_id_hash.is_some(),
        output_tokens: row.output_tokens,
    }
}
