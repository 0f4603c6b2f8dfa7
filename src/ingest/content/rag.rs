//! Signs of retrieval: names of tools, and texts in the shape of retrieved passages.
//!
//! Names and texts -> yes or no, and classes of tools. Rules `tool_result` and `context_tags` of
//! the design; long documents with such tags and coding agents that search are their known false
//! signs. Pure functions; no text is kept.

use crate::domain::record::ToolClass;
use memchr::memmem::Finder;
use std::sync::LazyLock;

/// Tags that templates put around passages; `<doc` also begins `<document index="1">`.
const TAGS: &[&str] = &["<context", "<documents", "<doc", "<source", "<search_results", "<passage"];
/// Words in front of passages and of the question, by language; made ready once.
static TEMPLATES: LazyLock<[(Finder<'static>, Finder<'static>); 7]> = LazyLock::new(|| {
    [
        ("Context:", "Question:"),
        ("CONTEXT:", "QUESTION:"),
        ("Kontext:", "Frage:"),
        ("Contexte", "Question"),
        ("Contexto:", "Pregunta:"),
        ("Contexto:", "Pergunta:"),
        ("\u{4e0a}\u{4e0b}\u{6587}", "\u{95ee}\u{9898}"),
    ]
    .map(|(context, question)| (Finder::new(context), Finder::new(question)))
});
/// Words of names of tools that look things up, besides those that begin with `retriev`.
const LOOKUP: &[&str] = &[
    "search",
    "query",
    "lookup",
    "knowledge",
    "kb",
    "rag",
    "doc",
    "docs",
    "wiki",
    "vector",
    "web",
];
/// Words of names of tools that search the web.
const WEB: &[&str] = &["web", "google", "bing", "brave", "tavily", "internet", "browser", "browse"];
/// Words of names of tools that run code.
const CODE: &[&str] = &[
    "python",
    "code",
    "interpreter",
    "bash",
    "shell",
    "exec",
    "execute",
    "terminal",
    "sandbox",
    "repl",
    "execution",
];

/// Returns whether a word of a name is wanted: `webSearch_v2` has `web`, `search` and `v2`.
fn any_word(name: &str, wanted: impl Fn(&str) -> bool) -> bool {
    let mut word = String::with_capacity(16);
    let mut was_lower = false;
    for c in name.chars().take(200) {
        let starts = c.is_ascii_uppercase() && was_lower;
        if (starts || !c.is_ascii_alphanumeric()) && !word.is_empty() {
            if wanted(&word) {
                return true;
            }
            word.clear();
        }
        if c.is_ascii_alphanumeric() {
            word.push(c.to_ascii_lowercase());
        }
        was_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
    }
    wanted(&word)
}

/// Returns whether a tool of this name looks things up.
pub(super) fn is_lookup(name: &str) -> bool {
    any_word(name, |word| LOOKUP.contains(&word) || word.starts_with("retriev"))
}

/// Returns the class of a tool by its name or type.
pub(super) fn class_of(name: &str) -> ToolClass {
    if any_word(name, |word| WEB.contains(&word) || word == "websearch") {
        ToolClass::WebSearch
    } else if any_word(name, |word| CODE.contains(&word)) {
        ToolClass::Code
    } else if is_lookup(name) || name == "retrieval" {
        ToolClass::Retrieval
    } else {
        ToolClass::Other
    }
}

/// Returns whether a text has passages in tags, numbered passages, or a context before a question.
pub(super) fn has_context(text: &str) -> bool {
    has_tag(text)
        || has_numbers(text)
        || TEMPLATES.iter().any(|(context, question)| {
            let after = context.find(text.as_bytes()).and_then(|at| text.as_bytes().get(at..));
            after.is_some_and(|after| question.find(after).is_some())
        })
}

fn has_tag(text: &str) -> bool {
    memchr::memchr_iter(b'<', text.as_bytes()).any(|at| {
        let rest = text.get(at..).unwrap_or_default();
        TAGS.iter().any(|tag| {
            let end = rest.strip_prefix(tag).and_then(|rest| rest.bytes().next());
            matches!(end, Some(b'>' | b' ' | b'\n' | b'_' | b'-' | b'0'..=b'9'))
                || (*tag == "<doc" && rest.starts_with("<document"))
        })
    })
}

/// Returns whether lines begin with `[1]` and, later, `[2]`.
fn has_numbers(text: &str) -> bool {
    let line = |mark: &str, from: usize| {
        memchr::memmem::find_iter(text.as_bytes(), mark.as_bytes()).find(|at| {
            let before = text.get(..*at).unwrap_or_default().trim_end_matches([' ', '\t']);
            *at >= from && (before.is_empty() || before.ends_with('\n'))
        })
    };
    line("[1]", 0).is_some_and(|first| line("[2]", first).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_word_by_word() {
        for name in ["search_orders", "kb.get", "RetrieverTool", "docSearch", "web_fetch", "wiki"] {
            assert!(is_lookup(name), "{name}");
        }
        for name in ["research", "storage", "docker_run", "webhook", "get_weather", ""] {
            assert!(!is_lookup(name), "{name}");
        }
        assert_eq!(class_of("web_search_20250305"), ToolClass::WebSearch);
        assert_eq!(class_of("googleSearch"), ToolClass::WebSearch);
        assert_eq!(class_of("code_interpreter"), ToolClass::Code);
        assert_eq!(class_of("file_search"), ToolClass::Retrieval);
        assert_eq!(class_of("get_weather"), ToolClass::Other);
    }

    #[test]
    fn passages_have_shapes() {
        for text in [
            "<context>\nx",
            "see <document index=\"1\">",
            "<search_results>",
            "[1] one\n  [2] two",
            "Context: x\nQuestion: y",
            "\u{4e0a}\u{4e0b}\u{6587}\u{ff1a}x\u{95ee}\u{9898}\u{ff1a}y",
        ] {
            assert!(has_context(text), "{text}");
        }
        for text in [
            "",
            "<contextual",
            "a[1] = b[2]",
            "[1][2]",
            "[2] two\n[1] one",
            "Question: x\nContext: y",
            "1 < 2",
            "<docker>",
        ] {
            assert!(!has_context(text), "{text}");
        }
    }
}
