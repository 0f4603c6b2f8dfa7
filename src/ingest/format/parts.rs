//! Small readers that cloud logs, spans and trace formats share.
//!
//! Values of a log -> lengths, block hashes, paths out of URLs, names out of resource ids, and the
//! repairs of counts. Pure functions beside the row they fill; unknown stays unknown.

use super::Shared;
use crate::domain::record::{Flag, Hash128, RagLabel, RequestRecord, SessionSource};
use crate::ingest::loose::{Loose, Number};
use crate::ingest::privacy::{Column, Hasher};
use serde_json::value::RawValue;

/// Returns the elements of a JSON array; none for anything else.
pub(super) fn array(text: &str) -> Vec<&RawValue> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Returns a count where a wrong one says no more than a missing one.
pub(super) fn count(value: &Loose<'_>) -> Option<u32> {
    value.count("").ok().flatten()
}

/// Returns a length in bytes; 0 and less are unknown.
pub(super) fn bytes(value: &Loose<'_>) -> Option<u64> {
    let whole = match value.number("").ok()?? {
        Number::Int(number) => number,
        Number::Float(number) => crate::domain::convert::whole(number)?,
    };
    u64::try_from(whole).ok().filter(|bytes| *bytes > 0)
}

/// Returns the keyed hashes of a list of block ids; all 64 bits of an id count, so it never passes
/// through a float. A list with anything else in it gives none.
pub(super) fn blocks(value: &Loose<'_>, hasher: &Hasher) -> Vec<u64> {
    let Some(text) = value.json() else { return Vec::new() };
    let ids: Vec<serde_json::Number> = serde_json::from_str(&text).unwrap_or_default();
    let whole = |id: &serde_json::Number| id.as_u64().or(id.as_i64().map(i64::cast_unsigned));
    let ids: Option<Vec<u64>> = ids.iter().map(whole).collect();
    ids.unwrap_or_default().into_iter().map(|id| hasher.block(id)).collect()
}

/// Sets a flag once.
pub(super) fn flag(row: &mut RequestRecord, flag: Flag) {
    if !row.flags.contains(&flag) {
        row.flags.push(flag);
    }
}

/// Adds cached tokens to an input count that leaves them out.
pub(super) fn add_cached(row: &mut RequestRecord) {
    let Some(input) = row.input_tokens else { return };
    let cached = [row.cache_read_input_tokens, row.cache_write_input_tokens];
    let sum = cached.into_iter().flatten().fold(input, u32::saturating_add);
    if sum > input {
        row.input_tokens = Some(sum);
        flag(row, Flag::AnthropicCachedAdded);
    }
}

/// Labels a row as retrieval that the log itself states, by some rule.
pub(super) fn explicit_rag(row: &mut RequestRecord, rule: &str, shared: &mut Shared) {
    row.rag_label = RagLabel::Explicit;
    if !row.rag_evidence.iter().any(|known| **known == *rule) {
        row.rag_evidence.push(shared.name(rule));
    }
}

/// Sets a session that the client named.
pub(super) fn session(row: &mut RequestRecord, hash: Option<Hash128>) {
    if hash.is_some() {
        row.session_id_hash = hash;
        row.session_source = SessionSource::Explicit;
    }
}

/// Returns the hash of several identifiers together; a length in front of each keeps them apart.
pub(super) fn joined(shared: &Shared, ids: &[&str]) -> Option<Hash128> {
    let text: Vec<String> = ids.iter().map(|id| format!("{}:{id}", id.len())).collect();
    shared.hasher.hash(Column::Request, &text.concat())
}

/// Returns the path of a URL, or of a path, without its query.
pub(super) fn path_of(url: &str) -> &str {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.split_once("://") {
        Some((_, rest)) => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or_default(),
        None => url,
    }
}

/// Returns the family of a path by its end: a gateway puts deployments and versions in front.
pub(super) fn family_of(path: &str) -> Option<&'static str> {
    let path = path.trim_end_matches('/');
    [
        ("chat/completions", "/v1/chat/completions"),
        ("completions", "/v1/completions"),
        ("embeddings", "/v1/embeddings"),
        ("responses", "/v1/responses"),
        ("messages", "/v1/messages"),
        ("rerank", "/v1/rerank"),
    ]
    .into_iter()
    .find(|(end, _)| {
        path.strip_suffix(end).is_some_and(|head| head.is_empty() || head.ends_with('/'))
    })
    .map(|(_, family)| family)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::format::Zone;

    #[test]
    fn block_ids_keep_all_their_bits() {
        let hasher = Hasher::new(b"a salt for tests");
        let of = |text: &'static str| blocks(&Loose::of_json(text), &hasher);
        let near = of("[9007199254740992,9007199254740993,17446744073709551557]");
        let [first, second, third] = near[..] else { panic!("three blocks") };
        assert_ne!(first, second);
        assert_eq!(third, hasher.block(17_446_744_073_709_551_557));
        assert_eq!(of("[-1]"), [hasher.block(u64::MAX)]);
        for none in ["[1.5]", "[\"1\"]", "7", "null", "[1", "[]"] {
            assert_eq!(of(none), Vec::<u64>::new(), "{none}");
        }
    }

    #[test]
    fn cached_tokens_are_added_once_and_only_where_there_are_some() {
        let mut row = RequestRecord::unknown("test".into(), 0, 1);
        row.cache_read_input_tokens = Some(5);
        add_cached(&mut row);
        assert_eq!((row.input_tokens, row.flags.len()), (None, 0));
        row.input_tokens = Some(1);
        row.cache_write_input_tokens = Some(3);
        add_cached(&mut row);
        assert_eq!(
            (row.input_tokens, &row.flags[..]),
            (Some(9), &[Flag::AnthropicCachedAdded][..])
        );
    }

    #[test]
    fn paths_and_families() {
        assert_eq!(path_of("https://host.test/a/b?c#d"), "/a/b");
        assert_eq!(path_of("https://host.test"), "");
        assert_eq!(path_of("/a?x=https://y"), "/a");
        assert_eq!(
            family_of("/openai/deployments/x/chat/completions/"),
            Some("/v1/chat/completions")
        );
        assert_eq!(family_of("chat/completions"), Some("/v1/chat/completions"));
        assert_eq!(family_of("/v1/mycompletions"), None);
        assert_eq!(bytes(&Loose::Int(0)), None);
        assert_eq!(bytes(&Loose::cell(Some("5000000000"))), Some(5_000_000_000));
    }

    #[test]
    fn joined_ids_are_kept_apart() {
        let shared = Shared::new(Hasher::new(b"a salt for tests"), Zone::utc());
        assert_ne!(joined(&shared, &["ab", "c"]), joined(&shared, &["a", "bc"]));
        assert_eq!(joined(&shared, &["a", "b"]), joined(&shared, &["a", "b"]));
    }
}
