//! Which texts of a log may stand in a trace as they are: names of models, providers, classes of
//! errors and endpoints.
//!
//! Gateways put anything into these columns: addresses, keys, names of people. A text is kept only
//! when its form is that of a name; the rules refuse rather than guess. Pure functions, and a memory of what they said.

use crate::domain::convert;
use std::hash::BuildHasher as _;
use std::sync::Arc;

/// By which rule a text was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Not at all: it is one of our own words.
    Own,
    /// As the name of a model.
    Model,
    /// As a word.
    Word,
    /// As the class of an error.
    Error,
}

/// What was made of the texts seen last: a log has few names, on millions of rows.
#[derive(Debug)]
pub(super) struct Judged {
    places: Vec<Option<Verdict>>,
    mix: foldhash::fast::FixedState,
}

#[derive(Clone, Debug)]
struct Verdict {
    rule: Rule,
    text: Box<str>,
    name: Arc<str>,
    is_hidden: bool,
}

/// Texts kept; each is at most [`MAX_NAME`] bytes long.
const PLACES: usize = 512;

impl Default for Judged {
    fn default() -> Self {
        Self { places: vec![None; PLACES], mix: foldhash::fast::FixedState::default() }
    }
}

impl Judged {
    /// Returns the name that was made of a text before, and whether it hides the text.
    #[inline]
    pub(super) fn before(&self, rule: Rule, text: &str) -> Option<(Arc<str>, bool)> {
        let verdict = self.places.get(self.place(text)?)?.as_ref()?;
        let same = verdict.rule == rule && *verdict.text == *text;
        same.then(|| (verdict.name.clone(), verdict.is_hidden))
    }

    /// Remembers what was made of a text.
    pub(super) fn keep(&mut self, rule: Rule, text: &str, (name, is_hidden): (Arc<str>, bool)) {
        let place = self.place(text).filter(|_| text.len() <= MAX_NAME);
        if let Some(place) = place.and_then(|place| self.places.get_mut(place)) {
            *place = Some(Verdict { rule, text: text.into(), name, is_hidden });
        }
    }

    #[inline]
    fn place(&self, text: &str) -> Option<usize> {
        convert::index(self.mix.hash_one(text.as_bytes()) % convert::count(PLACES))
    }
}

/// Longest name of a model, in bytes.
const MAX_NAME: usize = 200;
/// Longest word, in bytes.
const MAX_WORD: usize = 64;
/// Digits in a row from which on a number is an account, a telephone or a key.
const MAX_DIGITS: usize = 11;
/// Hexadecimal characters from which on a text is a hash or a key.
const MAX_HEX: usize = 15;

/// Endpoints of the common APIs; another path may carry names of people or projects.
const ENDPOINTS: &[&str] = &[
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/v1/messages",
    "/v1/rerank",
];

/// Parts of the names of classes of errors.
const ERROR_PARTS: &[&str] = &[
    "error",
    "exception",
    "timeout",
    "limit",
    "disconnect",
    "unavailable",
    "denied",
    "overloaded",
];

/// Modules in front of classes of errors, as Python prints them.
const ERROR_MODULES: &[&str] = &["litellm.exceptions.", "litellm.", "openai.", "httpx."];

/// Returns whether a text has the form of a model's name, as in `org/model-v1.5:free@2024`.
pub(super) fn is_model(name: &str) -> bool {
    let allowed = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'.' | b'_' | b':' | b'/' | b'@' | b'+' | b'-')
    };
    // A person or a host: words and dots, and nothing of a version or a vendor's path.
    let dotted = name.contains('.') && name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'.');
    // A version after it has digits, as in `claude@20240229`.
    let address = name
        .split_once('@')
        .is_some_and(|(_, host)| host.contains('.') || !host.bytes().any(|b| b.is_ascii_digit()));
    !name.is_empty()
        && name.len() <= MAX_NAME
        && name.bytes().all(allowed)
        && name.bytes().any(|byte| byte.is_ascii_alphabetic())
        && !(dotted || address || name.contains("://") || is_key(name) || has_ip(name))
        && longest_run(name, |byte| byte.is_ascii_digit()) <= MAX_DIGITS
        && longest_run(name, |byte| byte.is_ascii_hexdigit()) < 2 * MAX_HEX
}

/// Returns whether a text is one word, as in `hosted_vllm`.
pub(super) fn is_word(word: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    word.len() <= MAX_WORD
        && word.bytes().all(allowed)
        && word.bytes().next().is_some_and(|first| first.is_ascii_alphabetic())
        && !is_key(word)
        && word.bytes().filter(u8::is_ascii_digit).count() <= 4
        && longest_run(word, |byte| byte.is_ascii_hexdigit()) <= MAX_HEX
}

/// Returns the class of an error without its module; `None` when it does not look like one.
pub(super) fn error_class(text: &str) -> Option<&str> {
    let class = ERROR_MODULES.iter().find_map(|module| text.strip_prefix(module)).unwrap_or(text);
    let lower = class.to_ascii_lowercase();
    let known = ERROR_PARTS.iter().any(|part| lower.contains(part));
    (known && is_word(class) && !class.contains('-')).then_some(class)
}

/// Returns the family of a path; `None` for one that is not known.
pub(super) fn endpoint(path: &str) -> Option<&'static str> {
    let path = path.split(['?', '#']).next()?.trim_end_matches('/');
    ENDPOINTS.iter().copied().find(|known| *known == path)
}

/// Returns whether a text begins as secret keys do.
fn is_key(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    KEY_PREFIXES.iter().any(|prefix| lower.starts_with(prefix))
        || ["/sk-", "/sk_", ":sk-", ":sk_"].iter().any(|part| lower.contains(part))
        || text.split(|c: char| !c.is_ascii_alphanumeric()).any(is_random)
}

/// How the keys of common services begin, in lower case.
const KEY_PREFIXES: &[&str] = &[
    "sk-",
    "sk_",
    "pk-",
    "pk_",
    "rk_",
    "bearer",
    "akia",
    "asia",
    "aiza",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "hf_",
    "gsk_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat",
    "glpat-",
    "eyj",
    "r8_",
    "nvapi-",
    "pplx-",
    "tgp_v1",
];

/// Returns whether a word is long and mixes capitals, small letters and digits as keys do.
fn is_random(word: &str) -> bool {
    let changes = |bytes: &[u8]| {
        let kind = |byte: u8| (byte.is_ascii_uppercase(), byte.is_ascii_digit());
        bytes.windows(2).filter(|pair| matches!(pair, [a, b] if kind(*a) != kind(*b))).count()
    };
    let has = |wanted: fn(&u8) -> bool| word.bytes().any(|byte| wanted(&byte));
    word.len() >= 20
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_digit)
        && changes(word.as_bytes()) >= 5
}

/// Returns whether a name of a key or column could be data: a secret or an address.
pub(in crate::ingest) fn could_be_data(name: &str) -> bool {
    is_key(name)
        || has_ip(name)
        || name.contains('@')
        || longest_run(name, |byte| byte.is_ascii_digit()) > MAX_DIGITS
        || longest_run(name, |byte| byte.is_ascii_hexdigit()) >= 2 * MAX_HEX
}

/// Returns whether four numbers with dots between them are in a text.
fn has_ip(text: &str) -> bool {
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    text.split(|c: char| !(c.is_ascii_digit() || c == '.'))
        .any(|run| run.split('.').filter(is_number).count() >= 4)
}

fn longest_run(text: &str, wanted: impl Fn(u8) -> bool) -> usize {
    let (mut longest, mut run) = (0, 0);
    for byte in text.bytes() {
        run = if wanted(byte) { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_models_are_kept() {
        for name in [
            "gpt-4o-mini",
            "qwen2.5-72b-instruct",
            "meta-llama/Llama-3.3-70B-Instruct",
            "anthropic.claude-3-5-sonnet-20240620-v1:0",
            "claude-3-opus@20240229",
            "ft:gpt-4o:org::abc123",
            "deepseek/deepseek-r1:free",
        ] {
            assert!(is_model(name), "{name}");
        }
    }

    #[test]
    fn what_could_be_a_person_a_key_or_an_address_is_no_model() {
        for name in [
            "",
            "sk_live_canary7f3a",
            "sk-proj-abc",
            "openai/sk-abc",
            "canary.person",
            "canary.person@mail.test",
            "10.66.66.66",
            "10.66.66.66:8000",
            "vllm-10.66.66.66",
            "https://host/v1",
            "my model",
            "m\u{fc}ller",
            "tel-004912345678901",
            "d41d8cd98f00b204e9800998ecf8427e",
        ] {
            assert!(!is_model(name), "{name}");
        }
    }

    #[test]
    fn verdicts_are_kept_by_rule() {
        let mut judged = Judged::default();
        assert_eq!(judged.before(Rule::Model, "a"), None);
        judged.keep(Rule::Model, "a", ("other".into(), true));
        assert_eq!(judged.before(Rule::Model, "a"), Some(("other".into(), true)));
        assert_eq!((judged.before(Rule::Word, "a"), judged.before(Rule::Model, "b")), (None, None));
        judged.keep(Rule::Word, "a", ("a".into(), false));
        assert_eq!(judged.before(Rule::Word, "a"), Some(("a".into(), false)));
    }

    #[test]
    fn words_and_classes_of_errors() {
        for word in ["openai", "hosted_vllm", "ai21", "vertex_ai-beta"] {
            assert!(is_word(word), "{word}");
        }
        for word in ["", "7f", "canary.person", "10.66.66.66", "sk_live_x", "deadbeefdeadbeef"] {
            assert!(!is_word(word), "{word}");
        }
        assert_eq!(error_class("RateLimitError"), Some("RateLimitError"));
        assert_eq!(error_class("litellm.exceptions.Timeout"), Some("Timeout"));
        assert_eq!(error_class("permission_denied"), Some("permission_denied"));
        for other in ["Alice", "canary.personError", "sk_live_Error", "an error of alice"] {
            assert_eq!(error_class(other), None, "{other}");
        }
    }

    #[test]
    fn only_known_endpoints_are_kept() {
        assert_eq!(endpoint("/v1/chat/completions?user=x"), Some("/v1/chat/completions"));
        assert_eq!(endpoint("/v1/messages/"), Some("/v1/messages"));
        for path in ["/v1/users/canary.person", "/v1/chat/completions/7", "chat", ""] {
            assert_eq!(endpoint(path), None, "{path}");
        }
    }
}
