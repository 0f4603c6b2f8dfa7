//! Walks over JSON text once, without a tree, a stack or a copy.
//!
//! A cursor stands before a value; its reader takes the value apart or leaves it, and what is left
//! is skipped. Text that ends in the middle or breaks off ends the walk with a fault, and what was
//! read before stays: bodies in logs are often cut. It does not check JSON: wrong types are
//! skipped, stray commas forgiven. Depth costs no stack.

use crate::ingest::loose::Loose;
use std::borrow::Cow;

/// Why a walk ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ingest) enum Fault {
    /// The text ends in the middle of a value.
    Cut,
    /// The text is no JSON from some byte on.
    Broken,
}

/// A JSON string as it stands between its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ingest) struct Raw<'a> {
    /// The text, escapes and all.
    pub(in crate::ingest) inside: &'a str,
    /// Whether there are escapes.
    pub(in crate::ingest) escaped: bool,
}

impl<'a> Raw<'a> {
    /// Appends the text without escapes; an escape that is none is kept as it stands.
    pub(in crate::ingest) fn push_to(self, out: &mut String) {
        if !self.escaped {
            out.push_str(self.inside);
            return;
        }
        let mut rest = self.inside;
        while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
            let Some((plain, tail)) = rest.split_at_checked(at) else { break };
            out.push_str(plain);
            rest = unescape(tail, out);
        }
        out.push_str(rest);
    }

    /// Returns the text without escapes.
    pub(in crate::ingest) fn text(self) -> Cow<'a, str> {
        if !self.escaped {
            return Cow::Borrowed(self.inside);
        }
        let mut out = String::with_capacity(self.inside.len());
        self.push_to(&mut out);
        Cow::Owned(out)
    }

    /// Returns the text as a value.
    pub(in crate::ingest) fn loose(self) -> Loose<'a> {
        Loose::Text(self.text())
    }
}

/// Decodes the escape that `tail` begins with, and returns what follows it.
fn unescape<'a>(tail: &'a str, out: &mut String) -> &'a str {
    let after = |length: usize| tail.get(length..).unwrap_or_default();
    let plain = match tail.as_bytes().get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(quoted @ (b'"' | b'\\' | b'/')) => char::from(*quoted),
        Some(b'u') => return unescape_unit(tail, out),
        _ => {
            out.push('\\');
            return after(1);
        }
    };
    out.push(plain);
    after(2)
}

/// Decodes `\u0041`, also of two halves; half a character alone becomes the replacement character.
fn unescape_unit<'a>(tail: &'a str, out: &mut String) -> &'a str {
    let unit = |at: usize| {
        let escape = tail.get(at..at + 6)?;
        u32::from_str_radix(escape.strip_prefix("\\u")?, 16).ok()
    };
    let Some(first) = unit(0) else {
        out.push('\\');
        return tail.get(1..).unwrap_or_default();
    };
    if (0xd800..0xdc00).contains(&first)
        && let Some(second) = unit(6).filter(|second| (0xdc00..0xe000).contains(second))
    {
        let both = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        out.push(char::from_u32(both).unwrap_or(char::REPLACEMENT_CHARACTER));
        return tail.get(12..).unwrap_or_default();
    }
    out.push(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
    tail.get(6..).unwrap_or_default()
}

/// A place in JSON text.
#[derive(Clone, Debug)]
pub(in crate::ingest) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    fault: Option<Fault>,
}

impl<'a> Cursor<'a> {
    /// Stands before the first value of a text.
    pub(in crate::ingest) fn new(text: &'a str) -> Self {
        Self { text, at: 0, fault: None }
    }

    /// Returns why the walk ended early; `None` when it did not.
    pub(in crate::ingest) fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Returns whether the walk ended early.
    pub(in crate::ingest) fn failed(&self) -> bool {
        self.fault.is_some()
    }

    /// Moves past white space and returns the byte that the next value begins with.
    pub(in crate::ingest) fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Reads an object member by member; a value that `each` leaves is skipped. Anything else is
    /// skipped as a whole.
    pub(in crate::ingest) fn members(&mut self, mut each: impl FnMut(&str, &mut Self)) {
        if self.peek() != Some(b'{') {
            return self.skip();
        }
        self.at += 1;
        while self.fault.is_none() {
            match self.peek() {
                Some(b'}') => {
                    self.at += 1;
                    return;
                }
                Some(b',') => self.at += 1,
                Some(b'"') => {
                    let Some(key) = self.string() else { return };
                    match self.peek() {
                        Some(b':') => self.at += 1,
                        other => return self.fail(other),
                    }
                    self.peek();
                    let before = self.at;
                    if key.escaped {
                        each(&key.text(), self);
                    } else {
                        each(key.inside, self);
                    }
                    if self.at == before {
                        self.skip();
                    }
                }
                other => return self.fail(other),
            }
        }
    }

    /// Reads an array element by element; as [`Cursor::members`].
    pub(in crate::ingest) fn elements(&mut self, mut each: impl FnMut(&mut Self)) {
        if self.peek() != Some(b'[') {
            return self.skip();
        }
        self.at += 1;
        while self.fault.is_none() {
            match self.peek() {
                Some(b']') => {
                    self.at += 1;
                    return;
                }
                Some(b',') => self.at += 1,
                None => return self.fail(None),
                Some(_) => {
                    let before = self.at;
                    each(self);
                    if self.at == before {
                        self.skip();
                    }
                }
            }
        }
    }

    /// Reads a string; `None` for anything else, which is left.
    pub(in crate::ingest) fn string(&mut self) -> Option<Raw<'a>> {
        if self.peek() != Some(b'"') {
            return None;
        }
        let from = self.at + 1;
        let mut at = from;
        let mut escaped = false;
        let bytes = self.text.as_bytes();
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            match memchr::memchr2(b'"', b'\\', rest) {
                Some(found) if rest.get(found) == Some(&b'"') => {
                    let inside = self.text.get(from..at + found).unwrap_or_default();
                    self.at = at + found + 1;
                    return Some(Raw { inside, escaped });
                }
                Some(found) => {
                    escaped = true;
                    at += found + 2;
                }
                None => {
                    self.fail(None);
                    return None;
                }
            }
        }
    }

    /// Reads a string without its escapes into `out`, in one pass; returns whether there was one.
    pub(in crate::ingest) fn string_into(&mut self, out: &mut String) -> bool {
        if self.peek() != Some(b'"') {
            return false;
        }
        let before = out.len();
        let mut rest = self.text.get(self.at + 1..).unwrap_or_default();
        while let Some(found) = memchr::memchr2(b'"', b'\\', rest.as_bytes()) {
            let Some((plain, tail)) = rest.split_at_checked(found) else { break };
            out.push_str(plain);
            if let Some(after) = tail.strip_prefix('"') {
                self.at = self.text.len() - after.len();
                return true;
            }
            rest = unescape(tail, out);
        }
        out.truncate(before);
        self.fail(None);
        false
    }

    /// Reads a value as it is.
    pub(in crate::ingest) fn loose(&mut self) -> Loose<'a> {
        match self.string() {
            Some(raw) => raw.loose(),
            None => Loose::of_json(self.raw()),
        }
    }

    /// Reads a count; `None` for what is none.
    pub(in crate::ingest) fn count(&mut self) -> Option<u32> {
        self.loose().count("").ok().flatten()
    }

    /// Reads a value and returns its text; empty when the walk ends in it.
    pub(in crate::ingest) fn raw(&mut self) -> &'a str {
        self.peek();
        let from = self.at;
        self.skip();
        if self.failed() { "" } else { self.text.get(from..self.at).unwrap_or_default() }
    }

    /// Moves past a value of whatever type and depth.
    pub(in crate::ingest) fn skip(&mut self) {
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                Some(b'"') => {
                    if self.string().is_none() {
                        return;
                    }
                }
                Some(b'{' | b'[') => {
                    self.at += 1;
                    depth += 1;
                }
                Some(b'}' | b']') if depth > 0 => {
                    self.at += 1;
                    depth -= 1;
                }
                Some(b',' | b':') if depth > 0 => self.at += 1,
                Some(b't' | b'f' | b'n' | b'-' | b'N' | b'I' | b'0'..=b'9') => self.skip_word(),
                other => return self.fail(other),
            }
            if depth == 0 || self.failed() {
                return;
            }
        }
    }

    /// Moves past a number or a word such as `true`.
    fn skip_word(&mut self) {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let in_word =
            |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
        self.at += rest.iter().take_while(in_word).count();
    }

    /// Ends the walk: at the end of the text it was cut, elsewhere it is no JSON.
    fn fail(&mut self, found: Option<u8>) {
        self.fault = Some(if found.is_some() { Fault::Broken } else { Fault::Cut });
        self.at = self.text.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists keys and raw values of an object.
    fn listed(text: &str) -> (Vec<String>, Option<Fault>) {
        let mut cursor = Cursor::new(text);
        let mut found = Vec::new();
        cursor.members(|key, cursor| found.push(format!("{key}={}", cursor.raw())));
        (found, cursor.fault())
    }

    #[test]
    fn members_of_all_types() {
        let text = r#" {"a": 1, "b\n": "x\"}", "c": [1,{"d":[]}], "e": null, "f": -1.5e3} "#;
        let (found, fault) = listed(text);
        assert_eq!(found, ["a=1", "b\n=\"x\\\"}\"", "c=[1,{\"d\":[]}]", "e=null", "f=-1.5e3"]);
        assert_eq!(fault, None);
    }

    #[test]
    fn cut_text_keeps_what_was_read() {
        let whole = r#"{"a":"one","b":{"c":[1,2]},"d":3}"#;
        for length in 1..whole.len() {
            let (found, fault) = listed(whole.get(..length).unwrap());
            assert_eq!(fault, Some(Fault::Cut), "{length}");
            assert_eq!(found.first().is_some_and(|first| first == "a=\"one\""), length >= 10);
        }
        assert_eq!(listed("{'a': 1}").1, Some(Fault::Broken));
        assert_eq!(listed("{\"a\": }").1, Some(Fault::Broken));
        assert_eq!(listed("[1]"), (vec![], None));
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = format!("{{\"a\":{}{},\"b\":1}}", "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(listed(&deep).0.last().map(String::as_str), Some("b=1"));
        assert_eq!(listed(&"{\"a\":".repeat(200_000)).1, Some(Fault::Cut));
    }

    #[test]
    fn escapes_are_decoded_and_bad_ones_kept() {
        let text = |inside| Raw { inside, escaped: true }.text().into_owned();
        assert_eq!(text(r#"a\n\t\"\\\/\u00e9\ud83d\ude00b"#), "a\n\t\"\\/\u{e9}\u{1f600}b");
        assert_eq!(text(r"\ud83d-"), "\u{fffd}-");
        assert_eq!(text(r"\x41 \u12"), r"\x41 \u12");
        assert_eq!(text("\\u12\u{20ac}"), "\\u12\u{20ac}");
        assert_eq!(text("\\"), "\\");
    }

    #[test]
    fn both_ways_to_read_a_string_agree() {
        for text in
            [r#""a" b"#, r#""\n\u00e9\"\\" x"#, r#""\x\u12" 1"#, "\"\u{20ac}\\", "\"", "1", ""]
        {
            let (mut one, mut other) = (Cursor::new(text), Cursor::new(text));
            let mut out = "kept".to_owned();
            let whole = one.string().map(|raw| format!("kept{}", raw.text()));
            assert_eq!(other.string_into(&mut out), whole.is_some(), "{text}");
            assert_eq!(out, whole.unwrap_or_else(|| "kept".to_owned()));
            assert_eq!((one.at, one.fault), (other.at, other.fault), "{text}");
        }
    }

    #[test]
    fn what_a_reader_leaves_is_skipped() {
        let mut cursor = Cursor::new(r#"[{"a":1},"b",[2],3] tail"#);
        let mut strings = 0;
        cursor.elements(|cursor| strings += u32::from(cursor.string().is_some()));
        assert_eq!(strings, 1);
        assert_eq!((cursor.peek(), cursor.fault()), (Some(b't'), None));
        assert_eq!(Cursor::new("\"12\"").count(), Some(12));
        assert_eq!(Cursor::new("-1").count(), None);
    }
}
