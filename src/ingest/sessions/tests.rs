//! Every rule of sessions, and what just misses it.

use super::synthetic::{Message, chain_of, placed};
use super::*;
use crate::domain::record::{HashScope, RagLabel, RequestRecord, Status};
use crate::domain::scenario::Scenario;
use crate::domain::time::WallTime;
use crate::ingest::format::chain::Chain;

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3_600;

/// A row from one second to another, with the session `session` (0 is none).
fn row(session: u8, seconds: (i64, i64)) -> RequestRecord {
    let mut row = RequestRecord::unknown("test".into(), 0, 1);
    row.session_id_hash = (session > 0).then_some(Hash128([session; 16]));
    if session > 0 {
        row.session_source = SessionSource::Explicit;
    }
    row.arrival_time = Some(WallTime(seconds.0 * SECOND));
    row.end_time = Some(WallTime(seconds.1 * SECOND));
    row
}

/// A request of the key 1 with these messages, whose answer is known by its number.
fn says(messages: &[Message], answer: Option<u64>, seconds: (i64, i64)) -> Draft {
    let mut row = row(0, seconds);
    row.key_hash = Some(Hash128([1; 16]));
    row.status = Status::Ok;
    Draft { row: Box::new(row), join: None, chain: Some(Box::new(chain_of(messages, answer))) }
}

const FIRST: [Message; 2] = [('s', 1), ('u', 2)];
const SECOND_TURN: [Message; 4] = [('s', 1), ('u', 2), ('a', 3), ('u', 4)];

/// Returns the rule and turn of the last row.
fn last(mut drafts: Vec<Draft>) -> (SessionSource, Option<u32>, Option<u64>) {
    placed(&mut drafts);
    let row = &drafts.last().unwrap().row;
    (row.session_source, row.turn_index, row.parent_row_id)
}

const NONE: (SessionSource, Option<u32>, Option<u64>) = (SessionSource::None, None, None);

#[test]
fn a_run_of_this_program_keeps_the_scenario_it_planned() {
    let of = |format: &str| {
        let mut row = row(0, (0, 1));
        row.source_format = format.into();
        row.scenario = Scenario::Rag;
        Draft::from(row)
    };
    let mut drafts = [of("tracewright-run"), of("test")];
    placed(&mut drafts);
    assert_eq!(drafts[0].row.scenario, Scenario::Rag);
    assert_ne!(drafts[1].row.scenario, Scenario::Rag);
}

#[test]
fn turns_of_an_id_follow_each_other() {
    let mut open = row(1, (9, 9));
    open.end_time = None;
    let rows = [row(1, (0, 5)), row(2, (1, 1)), open, row(0, (10, 11)), row(1, (12, 13))];
    let mut drafts = rows.map(Draft::from).to_vec();
    let report = placed(&mut drafts);
    let turns: Vec<_> = drafts
        .iter()
        .map(|draft| (draft.row.turn_index, draft.row.parent_row_id, draft.row.think_time_us))
        .collect();
    assert_eq!(
        turns,
        vec![
            (Some(0), None, None),
            (None, None, None),
            (Some(1), Some(0), Some(4 * SECOND)),
            (None, None, None),
            (Some(2), Some(2), None),
        ]
    );
    assert_eq!(drafts[1].row.session_id_hash, None, "an id on one row is no session");
    assert_eq!(drafts[1].row.session_source, SessionSource::None);
    assert_eq!(drafts[0].row.session_id_hash, Some(Hash128([1; 16])));
    let (multi, single) = (Scenario::MultiTurn, Scenario::Single);
    let kinds: Vec<_> = drafts.iter().map(|draft| draft.row.scenario).collect();
    assert_eq!(kinds, vec![multi, single, multi, single, multi]);
    assert_eq!((report.len(), report[0].value.as_str()), (1, "1"));
    assert_eq!(report[0].why, "ids on one row only are no sessions: 1");
}

#[test]
fn overlapping_turns_have_a_negative_think_time() {
    let mut drafts = [row(1, (0, 50)), row(1, (20, 21))].map(Draft::from).to_vec();
    let report = placed(&mut drafts);
    assert_eq!(drafts[1].row.think_time_us, Some(-30 * SECOND));
    assert_eq!(report[1].what, "overlapping turns");
}

#[test]
fn tools_retrieval_and_long_answers_decide_the_kind() {
    let mut rows = [row(0, (0, 0)), row(0, (1, 1)), row(0, (2, 2)), row(0, (3, 3))];
    rows[0].tool_call_count = Some(1);
    rows[1].rag_label = RagLabel::Explicit;
    rows[2].output_tokens = Some(1_000);
    rows[3].rag_label = RagLabel::Heuristic;
    let mut drafts = rows.map(Draft::from).to_vec();
    placed(&mut drafts);
    let kinds: Vec<_> = drafts.iter().map(|draft| draft.row.scenario).collect();
    let expected = [Scenario::Agent, Scenario::Rag, Scenario::LongOutput, Scenario::Single];
    assert_eq!(kinds, expected);
}

#[test]
fn a_named_response_is_the_parent() {
    let named = |own: Option<u8>, previous: Option<u8>, seconds| {
        let hash = |id: u8| Hash128([id; 16]);
        let chain = Chain { own: own.map(hash), previous: previous.map(hash), ..Chain::default() };
        Draft { row: Box::new(row(0, seconds)), join: None, chain: Some(Box::new(chain)) }
    };
    let found = |previous: u8, seconds| {
        last(vec![named(Some(1), None, (0, 9)), named(None, Some(previous), seconds)])
    };
    assert_eq!(found(1, (10, 11)), (SessionSource::ResponseChain, Some(1), Some(0)));
    assert_eq!(found(1, (5, 11)).0, SessionSource::ResponseChain, "even before its end");
    assert_eq!(found(2, (10, 11)), NONE);
}

#[test]
fn messages_continue_a_request_and_its_answer() {
    let found = |first: Draft, second: Draft| last(vec![first, second]);
    let first = || says(&FIRST, Some(3), (0, 5));
    let second = || says(&SECOND_TURN, Some(5), (9, 10));
    let chained = (SessionSource::MessageChain, Some(1), Some(0));
    assert_eq!(found(first(), second()), chained);
    assert_eq!(found(says(&FIRST, None, (0, 5)), second()), chained, "answers not logged");
    assert_eq!(found(says(&FIRST, Some(9), (0, 5)), second()), NONE, "another answer");
    assert_eq!(found(says(&FIRST, Some(3), (0, 10)), second()), NONE, "had not ended");
    let mut other = second();
    other.row.key_hash = Some(Hash128([2; 16]));
    assert_eq!(found(first(), other), NONE, "another key");
    let mut user = [first(), second()];
    for draft in &mut user {
        draft.row.user_hash = Some(Hash128([9; 16]));
    }
    user[1].row.key_hash = Some(Hash128([2; 16]));
    assert_eq!(last(user.to_vec()), chained, "one user with two keys");
    let mut cut = second();
    cut.chain.as_mut().unwrap().is_incomplete = true;
    assert_eq!(found(first(), cut), NONE, "a cut request is no child");
    let mut cut = first();
    cut.chain.as_mut().unwrap().is_incomplete = true;
    assert_eq!(found(cut, second()), chained, "but a parent");
    let day = |seconds| found(first(), says(&SECOND_TURN, None, (seconds, seconds + 1)));
    assert_eq!(day(24 * HOUR), chained);
    assert_eq!(day(24 * HOUR + 1), NONE, "a day later");
    let mut failed = says(&FIRST, None, (0, 5));
    failed.row.status = Status::Error;
    assert_eq!(found(failed, second()), NONE, "a failure was not answered");
}

#[test]
fn an_answer_lies_between_two_turns() {
    let found = |second: &[Message], first_answer| {
        last(vec![says(&FIRST, first_answer, (0, 5)), says(second, None, (9, 10))]).0
    };
    assert_eq!(found(&[('s', 1), ('u', 2), ('u', 4)], None), SessionSource::None);
    assert_eq!(found(&[('s', 1), ('u', 2), ('a', 3)], None), SessionSource::None);
    assert_eq!(found(&FIRST, Some(3)), SessionSource::None, "the same again is no turn");
    let system_only = says(&[('s', 1)], None, (0, 5));
    let found = last(vec![system_only, says(&SECOND_TURN, None, (9, 10))]);
    assert_eq!(found, NONE, "a system prompt alone ties nothing");
}

#[test]
fn a_changed_system_prompt_is_looked_past() {
    let changed = [('s', 8), ('u', 2), ('a', 3), ('u', 4)];
    let found = last(vec![says(&FIRST, Some(3), (0, 5)), says(&changed, None, (9, 10))]);
    assert_eq!(found, (SessionSource::MessageChainNoSystem, Some(1), Some(0)));
}

#[test]
fn the_last_exchange_ties_cut_histories_for_an_hour() {
    let long = [('s', 1), ('u', 2), ('a', 3), ('u', 4), ('a', 5), ('u', 6)];
    let window = [('s', 1), ('u', 6), ('a', 7), ('u', 8)];
    let found = |at: i64, keyed: bool| {
        let mut drafts = vec![says(&long, Some(7), (0, 5)), says(&window, None, (at, at + 1))];
        for draft in &mut drafts {
            draft.row.key_hash = draft.row.key_hash.filter(|_| keyed);
        }
        last(drafts)
    };
    assert_eq!(found(9, true), (SessionSource::LastExchange, Some(1), Some(0)));
    assert_eq!(found(HOUR, true).0, SessionSource::LastExchange);
    assert_eq!(found(HOUR + 1, true), NONE, "later");
    assert_eq!(found(9, false), NONE, "no key, no telling");
}

#[test]
fn branches_make_a_tree_and_repeats_no_turns() {
    let third = |id| [('s', 1), ('u', 2), ('a', 3), ('u', 4), ('a', 5), ('u', id)];
    let mut failed = says(&third(6), None, (20, 21));
    failed.row.status = Status::Error;
    let mut drafts = vec![
        says(&FIRST, Some(3), (0, 5)),
        says(&SECOND_TURN, Some(5), (10, 15)),
        failed,
        says(&third(6), Some(7), (22, 30)),
        says(&third(8), Some(9), (40, 45)),
        says(&third(6), Some(9), (50, 55)),
    ];
    let report = placed(&mut drafts);
    let rows: Vec<_> = drafts.iter().map(|draft| &draft.row).collect();
    let turns: Vec<_> = rows.iter().map(|row| (row.turn_index, row.parent_row_id)).collect();
    let branch = (Some(2), Some(1));
    assert_eq!(turns, vec![(Some(0), None), (Some(1), Some(0)), branch, branch, branch, branch]);
    assert!(rows.iter().all(|row| row.session_id_hash == rows[0].session_id_hash));
    assert_eq!(rows[3].think_time_us, None, "sent again after an error");
    assert_eq!(rows[4].think_time_us, Some(25 * SECOND));
    assert_eq!(rows[5].think_time_us, Some(35 * SECOND), "asked anew, much later");
    let again = report.iter().find(|line| line.what == "requests sent again").unwrap();
    assert_eq!(again.value, "1");
    assert_eq!(
        report[0].why,
        "0 by ids of the log, 1 inferred; ids on one row only are no sessions: 0"
    );
}

#[test]
fn the_latest_of_several_turns_counts() {
    let drafts = vec![
        says(&FIRST, Some(3), (0, 2)),
        says(&FIRST, Some(3), (20, 22)),
        says(&SECOND_TURN, None, (30, 31)),
    ];
    assert_eq!(last(drafts.clone()), (SessionSource::MessageChain, Some(1), Some(1)));
    let mut drafts = drafts;
    let report = placed(&mut drafts);
    assert_eq!(drafts[0].row.session_id_hash, None, "no turn came after it");
    assert!(report.iter().any(|line| line.what == "links with a choice" && line.value == "1"));
}

#[test]
fn tool_turns_are_steps_of_an_agent() {
    let step = [('s', 1), ('u', 2), ('a', 3), ('t', 4)];
    let mut drafts = vec![says(&FIRST, Some(3), (0, 5)), says(&step, Some(5), (6, 7))];
    let report = placed(&mut drafts);
    assert_eq!(drafts[1].row.scenario, Scenario::Agent);
    assert_eq!(drafts[0].row.scenario, Scenario::MultiTurn);
    assert!(report.iter().any(|line| line.what == "tool turns" && line.value == "1"));
}

/// A request with blocks of 16 tokens.
fn blocks(blocks: &[u64], tokens: u32, seconds: (i64, i64)) -> Draft {
    let mut row = row(0, seconds);
    row.prefix_block_hashes = blocks.to_vec();
    row.prefix_block_size = Some(16);
    row.input_tokens = Some(tokens);
    row.into()
}

#[test]
fn rare_blocks_tie_turns_and_common_ones_do_not() {
    let found = |second: Draft| last(vec![blocks(&[1, 2, 3], 40, (0, 1)), second]);
    let chained = (SessionSource::BlockChain, Some(1), Some(0));
    assert_eq!(found(blocks(&[1, 2, 9, 4], 60, (5, 6))), chained, "its last block was not full");
    assert_eq!(found(blocks(&[1, 9, 3, 4], 60, (5, 6))), NONE, "no prefix");
    assert_eq!(found(blocks(&[1, 2], 32, (5, 6))), NONE, "nothing new");
    assert_eq!(found(blocks(&[1, 2, 9], 39, (5, 6))), NONE, "shorter");
    assert_eq!(found(blocks(&[1, 2, 9, 4], 60, (0, 6))), NONE, "had not ended");
    let mut local = blocks(&[1, 2, 9, 4], 60, (5, 6));
    local.row.prefix_hash_scope = Some(HashScope::Session);
    assert_eq!(found(local), NONE, "numbers of another session");
    let many = |others: u64| {
        let mut drafts = vec![blocks(&[1, 2], 32, (0, 1))];
        // They share the blocks as a system prompt, and end elsewhere.
        drafts.extend((0..others).map(|n| blocks(&[1, 2, 100 + n], 47, (2, 3))));
        drafts.push(blocks(&[1, 2, 9, 4], 64, (5, 6)));
        last(drafts)
    };
    assert_eq!(many(39).0, SessionSource::BlockChain, "in 40 requests");
    assert_eq!(many(40), NONE, "in 41");
}

#[test]
fn ids_of_the_log_come_first_and_measure_the_rules() {
    let with = |mut draft: Draft, session: u8| {
        draft.row.session_id_hash = Some(Hash128([session; 16]));
        draft.row.session_source = SessionSource::Explicit;
        draft
    };
    let third = [('s', 1), ('u', 2), ('a', 3), ('u', 4), ('a', 5), ('u', 6)];
    let mut drafts = vec![
        with(says(&FIRST, Some(3), (0, 5)), 1),
        with(says(&SECOND_TURN, Some(5), (9, 10)), 1),
        with(says(&[('u', 30)], Some(31), (11, 12)), 2),
        with(says(&[('u', 40), ('a', 41), ('u', 42)], Some(43), (13, 14)), 2),
        says(&third, Some(7), (20, 21)),
    ];
    let report = placed(&mut drafts);
    let sources: Vec<_> = drafts.iter().map(|draft| draft.row.session_source).collect();
    let by_id = SessionSource::Explicit;
    assert_eq!(sources, [by_id, by_id, by_id, by_id, SessionSource::MessageChain]);
    assert_eq!(drafts[4].row.session_id_hash, drafts[0].row.session_id_hash, "joins the id's");
    assert_eq!((drafts[4].row.turn_index, drafts[4].row.parent_row_id), (Some(2), Some(1)));
    let line = report.iter().find(|line| line.what == "inferred links against ids").unwrap();
    assert_eq!(line.value, "precision 1.0000 (1 of 1), recall 0.5000 (1 of 2)");
    assert_eq!(report[0].value, "2");
    // An id of its own on every request says nothing, and the rules decide.
    let mut drafts =
        vec![with(says(&FIRST, Some(3), (0, 5)), 1), with(says(&SECOND_TURN, Some(5), (9, 10)), 2)];
    let report = placed(&mut drafts);
    assert_eq!(drafts[1].row.session_source, SessionSource::MessageChain);
    assert_eq!(drafts[0].row.session_source, SessionSource::MessageChain, "the rule of its root");
    assert_eq!(drafts[0].row.session_id_hash, drafts[1].row.session_id_hash);
    assert_ne!(drafts[0].row.session_id_hash, Some(Hash128([1; 16])));
    assert_eq!(
        report[0].why,
        "0 by ids of the log, 1 inferred; ids on one row only are no sessions: 2"
    );
    assert!(report.iter().all(|line| line.what != "inferred links against ids"));
}

#[test]
fn inferred_ids_depend_on_the_request_and_not_on_its_place() {
    let id = |request: u8, before: usize| {
        let mut drafts: Vec<Draft> = vec![Draft::from(row(0, (-9, -8))); before];
        let mut first = says(&FIRST, Some(3), (0, 5));
        first.row.request_id_hash = Some(Hash128([request; 16]));
        drafts.extend([first, says(&SECOND_TURN, None, (9, 10))]);
        placed(&mut drafts);
        drafts.last().unwrap().row.session_id_hash.unwrap()
    };
    assert_eq!(id(1, 0), id(1, 3));
    assert_ne!(id(1, 0), id(2, 0));
}

#[test]
fn a_full_window_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut linker = Linker::with(Hasher::new(b"0123456789abcdef"), false, folder.path());
    linker.chains.limit(2_000);
    for n in 0..100 {
        linker.observe(&says(&FIRST, Some(3), (0, 5)), n).unwrap();
    }
    let sessions = linker.finish().unwrap();
    let report = sessions.placer().unwrap().report();
    assert_eq!(report.len(), 1);
    assert_eq!(report[0].what, "turns forgotten early");
}
