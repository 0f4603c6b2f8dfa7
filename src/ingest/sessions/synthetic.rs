//! A made-up workload of conversations: how many links are right, and how many are found.
//!
//! As in real logs: common openers and canned answers, requests sent again, system prompts that
//! change, histories that are cut. Seeded, so every run sees the same one. Shares are of links
//! between rows: right when both rows are turns of one conversation, in order.

use super::*;
use crate::domain::record::{RequestRecord, Status};
use crate::domain::seed::{Seed, Stream};
use crate::domain::time::WallTime;
use crate::ingest::format::chain::Chain;
use rand::RngExt as _;

const SECOND: i64 = 1_000_000;

/// A message: `s`, `u`, `a` or `t` for its role, and which one it is.
pub(super) type Message = (char, u64);

fn roll(before: u128, parts: &[u64]) -> u128 {
    let mut text = before.to_be_bytes().to_vec();
    for part in parts {
        text.extend(part.to_be_bytes());
    }
    let digest = blake3::hash(&text);
    digest.as_bytes().iter().take(16).fold(0, |sum, byte| (sum << 8) | u128::from(*byte))
}

fn rolling(messages: impl Iterator<Item = Message>) -> Vec<Hash128> {
    let mut hash = 0;
    let mut next = |(role, id): Message| {
        hash = roll(hash, &[u64::from(u32::from(role)), id]);
        Hash128(hash.to_be_bytes())
    };
    messages.map(&mut next).collect()
}

fn exchange(user: Message, answer: Message) -> Hash128 {
    Hash128(roll(1, &[user.1, answer.1]).to_be_bytes())
}

/// Returns what the messages of a request and its answer look like to the rules.
pub(super) fn chain_of(messages: &[Message], answer: Option<u64>) -> Chain {
    let answer = answer.map(|id| ('a', id));
    let plain = |message: &Message| message.0 != 's';
    let whole = || messages.iter().copied().chain(answer);
    let exchanges = |all: &[Message]| -> Vec<Hash128> {
        let mut user = None;
        let mut found = Vec::new();
        for message in all {
            match message.0 {
                'u' => user = Some(*message),
                'a' => found.extend(user.take().map(|user| exchange(user, *message))),
                _ => {}
            }
        }
        found
    };
    let tail: Vec<_> = messages.iter().rev().take_while(|message| message.0 != 'a').collect();
    let last_user = messages.iter().rev().find(|message| message.0 == 'u');
    Chain {
        prefixes: rolling(messages.iter().copied()),
        prefixes_no_system: rolling(messages.iter().copied().filter(plain)),
        exchanges: exchanges(messages),
        with_answer: answer.and_then(|_| rolling(whole()).pop()),
        with_answer_no_system: answer.and_then(|_| rolling(whole().filter(plain)).pop()),
        last_exchange: last_user.zip(answer).map(|(user, answer)| exchange(*user, answer)),
        is_tool_turn: tail.len() < messages.len() && tail.iter().all(|message| message.0 == 't'),
        ..Chain::default()
    }
}

/// What a workload is like.
#[derive(Clone, Copy)]
struct Workload {
    sessions: u64,
    keys: u8,
    /// Whether rows show their key.
    keys_shown: bool,
    shown: Shown,
    /// Answers of a hundred that are canned.
    canned: u32,
    openers: u64,
}

/// What the log shows of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// Messages and answers.
    Answers,
    Messages,
    /// Hashes of the prompt's blocks.
    Blocks,
}

const USUAL: Workload = Workload {
    sessions: 3_000,
    keys: 20,
    keys_shown: true,
    shown: Shown::Answers,
    canned: 30,
    openers: 200,
};

/// The conversation of a request, and whether it is not its first turn.
type Truth = (u64, bool);

/// One conversation on its way.
struct Talk {
    session: u64,
    key: u8,
    system: u64,
    history: Vec<Message>,
    slides: bool,
    now: i64,
    rng: Stream,
}

impl Workload {
    /// Returns the requests in order of arrival, each with its conversation and whether it is a
    /// later turn of it.
    fn rows(self) -> Vec<(Truth, Draft)> {
        let mut rows = Vec::new();
        for session in 0..self.sessions {
            let mut rng = Seed(7).stream_of("conversations", session);
            let key = rng.random_range(0..self.keys);
            let mut talk = Talk {
                session,
                key,
                system: u64::from(key % 10),
                history: Vec::new(),
                slides: rng.random_ratio(5, 100),
                now: rng.random_range(0..DAY_SECONDS * SECOND),
                rng,
            };
            let mut turn = 0;
            loop {
                self.turn(&mut talk, turn, &mut rows);
                turn += 1;
                if talk.rng.random_ratio(345, 1_000) {
                    break;
                }
            }
        }
        rows.sort_by_key(|(_, draft): &(Truth, Draft)| draft.row.arrival_time);
        rows
    }

    fn turn(self, talk: &mut Talk, turn: u64, rows: &mut Vec<(Truth, Draft)>) {
        let unique = 1_000_000 + talk.session * 1_000 + turn;
        if talk.rng.random_ratio(3, 100) {
            talk.system = unique;
        }
        let asked = if turn == 0 && talk.rng.random_ratio(1, 2) {
            // The square makes the first ones common.
            let draw = talk.rng.random_range(0..self.openers);
            draw * draw / self.openers
        } else if turn > 0 && talk.rng.random_ratio(1, 5) {
            500 + talk.rng.random_range(0..20_u64)
        } else {
            unique
        };
        talk.history.push(('u', asked));
        let kept = if talk.slides { talk.history.len().saturating_sub(5) } else { 0 };
        let mut messages = vec![('s', talk.system)];
        messages.extend(&talk.history[kept..]);
        if talk.rng.random_ratio(3, 100) {
            rows.push(((talk.session, turn > 0), self.row(talk, &messages, None)));
            talk.now += talk.rng.random_range(SECOND..3 * SECOND);
        }
        let canned = talk.rng.random_ratio(self.canned, 100);
        let answer = if canned { 900 + talk.rng.random_range(0..10_u64) } else { unique };
        rows.push(((talk.session, turn > 0), self.row(talk, &messages, Some(answer))));
        talk.history.push(('a', answer));
        talk.now += talk.rng.random_range(3 * SECOND..120 * SECOND);
    }

    /// Makes a request, and moves the conversation to its end; a failure has no answer.
    fn row(self, talk: &mut Talk, messages: &[Message], answer: Option<u64>) -> Draft {
        let duration = talk.rng.random_range(SECOND..15 * SECOND);
        let mut row = RequestRecord::unknown("test".into(), 0, 1);
        row.arrival_time = Some(WallTime(talk.now));
        row.end_time = Some(WallTime(talk.now + duration));
        row.key_hash = self.keys_shown.then_some(Hash128([talk.key; 16]));
        row.status = if answer.is_some() { Status::Ok } else { Status::Error };
        talk.now += duration;
        if self.shown == Shown::Blocks {
            show_blocks(&mut row, messages);
            return row.into();
        }
        let chain = chain_of(messages, answer.filter(|_| self.shown == Shown::Answers));
        Draft { row: Box::new(row), join: None, chain: Some(Box::new(chain)) }
    }
}

const DAY_SECONDS: i64 = 86_400;

/// Shows blocks of 16 tokens in place of the messages: a system prompt has 400 tokens, other
/// messages 10 to 150. The last block may not be full.
fn show_blocks(row: &mut RequestRecord, messages: &[Message]) {
    let mut tokens = Vec::new();
    for (role, id) in messages {
        let length = if *role == 's' { 400 } else { 10 + id.wrapping_mul(7_919) % 140 };
        tokens.extend((0..length).map(|place| (u64::from(u32::from(*role)), *id, place)));
    }
    let mut hash = 0;
    for block in tokens.chunks(16) {
        let parts: Vec<u64> =
            block.iter().flat_map(|(role, id, place)| [*role, *id, *place]).collect();
        hash = roll(hash, &parts);
        row.prefix_block_hashes.push(halves(Hash128(hash.to_be_bytes()))[0]);
    }
    row.input_tokens = u32::try_from(tokens.len()).ok();
    row.prefix_block_size = Some(16);
}

/// Runs both passes over rows in order.
pub(super) fn placed(drafts: &mut [Draft]) -> Vec<crate::domain::trace::Decision> {
    let folder = tempfile::tempdir().unwrap();
    let hasher = Hasher::new(b"0123456789abcdef");
    let mut linker = Linker::with(hasher, false, folder.path());
    for (row_id, draft) in (0..).zip(drafts.iter()) {
        linker.observe(draft, row_id).unwrap();
    }
    let sessions = linker.finish().unwrap();
    let mut placer = sessions.placer().unwrap();
    for draft in drafts.iter_mut() {
        placer.place(draft).unwrap();
    }
    placer.report()
}

/// Precision and recall, over all links or those of one rule.
fn measure(workload: Workload, rule: Option<SessionSource>) -> (f64, f64) {
    let (truth, mut drafts): (Vec<Truth>, Vec<Draft>) = workload.rows().into_iter().unzip();
    placed(&mut drafts);
    let (mut links, mut right, mut could) = (0, 0, 0);
    for ((session, is_later), draft) in truth.iter().zip(&drafts) {
        could += u32::from(*is_later);
        let Some(parent) = draft.row.parent_row_id else { continue };
        if rule.is_none_or(|rule| rule == draft.row.session_source) {
            links += 1;
            right += u32::from(truth[usize::try_from(parent).unwrap()].0 == *session);
        }
    }
    (f64::from(right) / f64::from(links), f64::from(right) / f64::from(could))
}

#[track_caller]
fn assert_at_least(found: (f64, f64), precision: f64, recall: f64) {
    assert!(found.0 >= precision && found.1 >= recall, "precision and recall {found:?}");
}

#[test]
fn keys_and_answers_make_links_nearly_sure() {
    assert_at_least(measure(USUAL, Some(SessionSource::MessageChain)), 0.999, 0.93);
    assert_at_least(measure(USUAL, None), 0.999, 0.99);
}

#[test]
fn answers_need_not_be_logged() {
    let silent = Workload { shown: Shown::Messages, ..USUAL };
    assert_at_least(measure(silent, Some(SessionSource::MessageChain)), 0.99, 0.93);
}

#[test]
fn without_keys_links_are_less_sure() {
    let nameless = Workload { keys_shown: false, ..USUAL };
    assert_at_least(measure(nameless, None), 0.98, 0.95);
    let canned = Workload { canned: 90, openers: 10, keys: 200, ..USUAL };
    assert_at_least(measure(canned, None), 0.99, 0.98);
}

#[test]
fn blocks_find_three_links_of_four() {
    let blocks = Workload { shown: Shown::Blocks, ..USUAL };
    assert_at_least(measure(blocks, None), 0.99, 0.7);
    let nameless = Workload { keys_shown: false, ..blocks };
    assert_at_least(measure(nameless, None), 0.98, 0.7);
}

#[test]
fn the_report_measures_the_same_with_the_ids_of_the_log() {
    let rows = Workload { sessions: 500, ..USUAL }.rows();
    let mut drafts: Vec<Draft> = rows
        .into_iter()
        .map(|((session, _), mut draft)| {
            draft.row.session_id_hash = Some(Hash128(u128::from(session + 1).to_be_bytes()));
            draft.row.session_source = SessionSource::Explicit;
            draft
        })
        .collect();
    let report = placed(&mut drafts);
    let line = report.iter().find(|line| line.what == "inferred links against ids").unwrap();
    insta::assert_snapshot!(line.value, @"precision 1.0000 (1054 of 1054), recall 0.9850 (1054 of 1070)");
    let by_ids = |draft: &Draft| draft.row.session_source == SessionSource::Explicit;
    assert!(drafts.iter().filter(|draft| draft.row.session_id_hash.is_some()).all(by_ids));
}
