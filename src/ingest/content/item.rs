//! One element of a list of messages: a message of any API, or an item of the Responses API.
//!
//! Used for requests and for answers alike, so that an answer's items have the same hashes when
//! the client sends them back. Shapes: the public API references of OpenAI, Anthropic and Gemini.

use super::message::{Call, Message, Role};
use super::scan::{Cursor, Raw};
use crate::ingest::loose::Loose;

/// What an element is, member by member.
#[derive(Debug, Default)]
struct Item<'a> {
    role: Option<Raw<'a>>,
    kind: Option<Raw<'a>>,
    name: Option<Raw<'a>>,
    id: Option<Raw<'a>>,
    arguments: Option<Loose<'a>>,
}

/// Reads an element into `message`, which is empty before. Returns whether it is a message:
/// reasoning, references and the provider's own searches are none.
pub(super) fn read<'a>(message: &mut Message<'a>, cursor: &mut Cursor<'a>) -> bool {
    if cursor.peek() != Some(b'{') {
        cursor.skip();
        return false;
    }
    let mut item = Item::default();
    cursor.members(|key, cursor| match key {
        // LangChain's messages, as dumped.
        "kwargs" | "data" => cursor.members(|key, cursor| member(message, &mut item, key, cursor)),
        _ => member(message, &mut item, key, cursor),
    });
    !cursor.failed() && judge(message, item)
}

fn member<'a>(message: &mut Message<'a>, item: &mut Item<'a>, key: &str, cursor: &mut Cursor<'a>) {
    match key {
        "role" | "from" => item.role = cursor.string().or(item.role),
        "type" => item.kind = cursor.string().or(item.kind),
        "content" | "parts" | "output" | "value" => message.content(cursor, 0),
        "tool_calls" => message.tool_calls(cursor),
        "function_call" => message.call(cursor),
        "annotations" => message.searched |= names_sources(cursor),
        "tool_call_id" | "call_id" => item.id = cursor.string(),
        "name" | "tool_name" => item.name = cursor.string(),
        "arguments" | "input" => item.arguments = Some(cursor.loose()),
        "images" => message.pictures(cursor),
        _ => {}
    }
}

/// Decides by the type what an item is.
fn judge<'a>(message: &mut Message<'a>, item: Item<'a>) -> bool {
    let Item { role, kind, name, id, arguments } = item;
    let kind = kind.map_or("", |kind| kind.inside);
    match kind {
        "reasoning" | "item_reference" | "compaction" => return false,
        "file_search_call" | "web_search_call" => {
            message.searched = true;
            return false;
        }
        _ if kind.ends_with("_call_output") => message.role = Role::Tool,
        _ if kind.ends_with("_call") => {
            message.role = Role::Assistant;
            let name = name.or(Some(Raw { inside: kind, escaped: false }));
            message.take_call(Call { id, name, arguments });
            return true;
        }
        _ => {
            message.role = match (role, Role::of(kind)) {
                (Some(role), _) => Role::of(role.inside),
                (None, Role::Other) => Role::User,
                (None, by_kind) => by_kind,
            };
        }
    }
    if message.results > 0 && message.role == Role::User {
        message.role = Role::Tool;
    }
    if message.role == Role::Tool {
        message.answers.extend(id.map(|id| id.inside));
        message.from_lookup |= name.is_some_and(|name| super::rag::is_lookup(name.inside));
    }
    true
}

/// Returns whether a list of annotations cites a page of the web or a file.
pub(super) fn names_sources(cursor: &mut Cursor<'_>) -> bool {
    let mut found = false;
    cursor.elements(|cursor| {
        cursor.members(|key, cursor| {
            if key == "type" {
                let kind = cursor.string().map_or("", |kind| kind.inside);
                found |= matches!(kind, "url_citation" | "file_citation");
            }
        });
    });
    found
}
