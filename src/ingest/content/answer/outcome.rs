//! What an answer gives its row once it is read: names, errors, usage, and the chain's end.
//!
//! Only what the row lacks is filled. The hash of the conversation with its answer needs a request
//! that was read whole and an answer that was neither cut nor redacted nor an error. Words of
//! errors are classes; their messages are never looked at.

use super::super::evidence;
use super::super::message::Role;
use super::super::scan::Raw;
use super::Answer;
use crate::domain::record::{Operation, RagLabel, RequestRecord, Status};
use crate::ingest::format::{Draft, Shared, fill};
use crate::ingest::loose::Loose;
use crate::ingest::privacy::Column;

impl Answer<'_> {
    /// Puts what was read into the draft; `is_whole` is whether the body was not cut.
    pub(super) fn finish(mut self, draft: &mut Draft, shared: &mut Shared, is_whole: bool) {
        self.is_redacted |= self.message.is_redacted();
        self.searched |= self.message.searched || self.usage.searched;
        self.fill_names(draft, shared);
        let row = &mut draft.row;
        self.fill_error(row, shared);
        if self.was_stream {
            row.stream = row.stream.or(Some(true));
        }
        if row.operation == Operation::Unknown {
            row.operation = self.operation.unwrap_or(Operation::Unknown);
        }
        if !row.is_generation() {
            draft.chain = None;
        }
        for (_, name, arguments) in std::mem::take(&mut self.pieces) {
            self.message.add_call(&name, &arguments);
        }
        self.usage.fill(row);
        if self.is_shown && is_whole && !self.is_redacted {
            let calls = self.message.calls.saturating_add(self.item_calls);
            let calls = calls.saturating_add(self.other_calls);
            row.tool_call_count = row.tool_call_count.or(Some(calls));
        }
        if self.searched {
            evidence(row, shared, "vector_store_meta", RagLabel::Explicit);
        }
        if is_whole && !self.is_redacted && self.error.is_none() {
            self.link(draft, shared);
        }
    }

    fn fill_names(&mut self, draft: &mut Draft, shared: &mut Shared) {
        let row = &mut draft.row;
        if let Some(id) = self.id.map(Raw::loose) {
            let hash = shared.hash(Column::Request, &id);
            row.response_id_hash = row.response_id_hash.or(hash);
            if let Some(chain) = &mut draft.chain {
                chain.own = chain.own.or(hash);
            }
        }
        if row.response_model.is_none()
            && let Some(model) = self.model.map(Raw::loose)
        {
            row.response_model = shared.model(&model);
        }
        self.finish.sort_by_key(|(index, _)| *index);
        if row.finish_reasons.is_empty() {
            let words = self.finish.iter().map(|(_, why)| Loose::cell(Some(why)));
            row.finish_reasons = words.filter_map(|why| shared.finish_reason(&why)).collect();
        }
    }

    fn fill_error(&self, row: &mut RequestRecord, shared: &mut Shared) {
        let Some(error) = &self.error else { return };
        let word = error.kind.or(error.status).map(Raw::loose);
        if row.error_type.is_none() {
            let code = Some(&error.code).filter(|code| code.float().is_none());
            row.error_type = word.as_ref().or(code).and_then(|word| shared.error_type(word));
        }
        if row.status != Status::Unknown {
            return;
        }
        let code = error.code.count("").ok().flatten().filter(|code| *code >= 400);
        fill::http_status(row, code);
        if row.status == Status::Unknown {
            let words = [word.as_ref(), Some(&error.code)];
            let has = |part: &str| {
                let mut texts = words.iter().flatten().filter_map(|word| word.text());
                texts.any(|text| text.to_ascii_lowercase().contains(part))
            };
            row.status = if has("rate_limit") || has("ratelimit") || has("exhausted") {
                Status::RateLimited
            } else if has("timeout") || has("deadline") {
                Status::Timeout
            } else {
                Status::Error
            };
        }
    }

    /// Continues the chain of the request by the answer.
    fn link(&mut self, draft: &mut Draft, shared: &Shared) {
        let Some(chain) = &mut draft.chain else { return };
        let Some(mut all) = chain.prefixes.last().copied() else { return };
        if chain.is_incomplete {
            return;
        }
        if !self.message.is_empty() {
            self.message.role = Role::Assistant;
            let hash = self.message.digest(&shared.hasher);
            self.items.push(hash);
        }
        let Some(last) = self.items.last() else { return };
        let mut no_system = chain.prefixes_no_system.last().copied();
        for hash in &self.items {
            all = shared.hasher.roll(all, &hash.0);
            no_system = no_system.map(|before| shared.hasher.roll(before, &hash.0));
        }
        chain.with_answer = Some(all);
        chain.with_answer_no_system = no_system;
        chain.last_exchange = chain.last_user.map(|user| shared.hasher.roll(user, &last.0));
    }
}
