//! What access logs share: the request line, times at the end, lists of attempts, probes, bytes.
//!
//! A text line or the values of a JSON one -> the request, and its fields in a row. Bytes are bytes
//! on the wire, times whatever the gateway's format says. It does not know where in a line a
//! gateway writes what. Sources: nginx (`ngx_http_log_module`, `ngx_http_upstream_module`) and
//! Envoy's access log documentation.

use super::text::iso_of_common;
use super::{Naive, Shared, fill};
use crate::domain::convert;
use crate::domain::record::{Flag, Operation, RequestRecord, SessionSource, Status};
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::privacy::Column;
use crate::ingest::stamp::Stamp;
use std::borrow::Cow;

/// Length of `24/Nov/2026:10:15:05 +0100`.
const TIME_LENGTH: usize = 26;

/// What was requested, and by whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Request<'a> {
    /// The method; empty when not logged.
    pub(super) method: &'a str,
    /// The path, with its query.
    pub(super) path: &'a str,
    /// The user agent; empty when not logged.
    pub(super) agent: &'a str,
}

impl<'a> Request<'a> {
    /// Reads `POST /v1/completions HTTP/1.1`; `None` for anything else, as for the bytes of TLS.
    pub(super) fn of_line(line: &'a str, agent: &'a str) -> Option<Self> {
        let mut words = line.split(' ');
        let (method, target) = (words.next()?, words.next()?);
        let is_method = !method.is_empty() && method.bytes().all(|b| b.is_ascii_uppercase());
        let path = path_of(target)?;
        is_method.then_some(Self { method, path, agent })
    }

    /// Returns why this is no call of a model; `None` when it is one, by its path or because the
    /// log shows a model or tokens.
    pub(super) fn drop_reason(&self, shows_model: bool) -> Option<&'static str> {
        let is_post = self.method.eq_ignore_ascii_case("POST");
        // A route for health questions is not a probe when a model answered.
        let path = if shows_model && is_post { "" } else { self.path };
        if fill::is_probe(self.method, path, self.agent) {
            return Some("probe");
        }
        let may_be_call = self.method.is_empty() || is_post;
        let is_call = may_be_call && fill::operation_of(self.path).is_some();
        (!shows_model && !is_call).then_some("not_llm")
    }

    /// Sets what the path says.
    pub(super) fn fill(&self, row: &mut RequestRecord, shared: &mut Shared) {
        if row.operation == Operation::Unknown {
            row.operation = fill::operation_of(self.path).unwrap_or(Operation::Unknown);
        }
        if row.endpoint_family.is_none() {
            row.endpoint_family = shared.endpoint(&Loose::cell(Some(self.path)));
        }
    }
}

/// Returns the path of a path or of a whole address.
pub(super) fn path_of(target: &str) -> Option<&str> {
    let rest = match target.split_once("://") {
        Some(("http" | "https", rest)) => rest.split_at_checked(rest.find('/')?)?.1,
        _ => target,
    };
    rest.starts_with('/').then_some(rest)
}

/// A line `ADDRESS - USER [TIME] HOST? "REQUEST" STATUS BYTES ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Who signed in; none for `-`.
    user: Option<&'a str>,
    /// The time, as ISO date.
    time: String,
    /// The texts in quotes, each with the values after it.
    pub(super) parts: Vec<Part<'a>>,
    /// Whether the line ends inside quotes.
    pub(super) is_cut: bool,
}

/// A text in quotes and the values up to the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Part<'a> {
    /// The text, with its escapes.
    pub(super) quoted: &'a str,
    /// The values; each has several elements after retries.
    pub(super) after: Vec<Vec<&'a str>>,
}

impl<'a> Line<'a> {
    /// Splits a line; `None` when it has no time in brackets.
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        let (head, time, tail) = line.match_indices('[').find_map(|(at, _)| {
            let (head, rest) = line.split_at_checked(at)?;
            let (time, tail) = rest.strip_prefix('[')?.split_at_checked(TIME_LENGTH)?;
            Some((head, iso_of_common(time)?, tail.strip_prefix(']')?))
        })?;
        let user = head.splitn(3, ' ').nth(2).map(str::trim);
        let (parts, is_cut) = parts(tail);
        Some(Self { user: user.filter(|user| !user.is_empty()), time, parts, is_cut })
    }

    /// Returns the request and the user agent.
    pub(super) fn request(&self) -> Option<Request<'a>> {
        let agent = self.parts.get(2).map_or("", |part| part.quoted);
        Request::of_line(self.parts.first()?.quoted, agent)
    }

    /// Returns the last element of a value behind a quoted text, both by number.
    pub(super) fn value(&self, part: usize, place: usize) -> Loose<'a> {
        let list = self.parts.get(part).and_then(|part| part.after.get(place));
        Loose::cell(list.and_then(|list| list.last()).copied())
    }

    /// Returns a quoted text, by number.
    pub(super) fn quoted(&self, part: usize) -> Loose<'a> {
        Loose::cell(self.parts.get(part).map(|part| part.quoted))
    }

    /// Reads the time.
    ///
    /// # Errors
    ///
    /// If it is none.
    pub(super) fn time(&self, shared: &mut Shared) -> Result<Option<Stamp>, FieldError> {
        shared.time(&Loose::Text(Cow::Borrowed(&self.time)), "time", Naive::Local)
    }

    /// Sets what all such lines have in common: user, status, bytes of the answer, the path's
    /// meaning.
    ///
    /// # Errors
    ///
    /// If the line ends before its status, or the status is none.
    pub(super) fn fill(
        &self,
        request: &Request<'_>,
        row: &mut RequestRecord,
        shared: &mut Shared,
    ) -> Result<(), FieldError> {
        let status = self.value(0, 0);
        if self.is_cut || status == Loose::Null {
            return Err(FieldError::new("", "ends in the middle of the line"));
        }
        fill::http_status(row, status.count("status")?);
        row.response_bytes = bytes(&self.value(0, 1));
        row.user_hash = shared.hash(Column::User, &Loose::cell(self.user));
        request.fill(row, shared);
        Ok(())
    }
}

/// Splits what follows the time into quoted texts and values; true when quotes stay open.
fn parts(tail: &str) -> (Vec<Part<'_>>, bool) {
    let mut parts: Vec<Part<'_>> = Vec::new();
    let mut rest = tail;
    // Whether the next value goes on with the list before it.
    let mut goes_on = false;
    loop {
        rest = rest.trim_start();
        if let Some(open) = rest.strip_prefix('"') {
            let Some(end) = closing_quote(open) else { return (parts, true) };
            let Some((quoted, after)) = open.split_at_checked(end) else { return (parts, true) };
            parts.push(Part { quoted, after: Vec::new() });
            rest = after.strip_prefix('"').unwrap_or_default();
            goes_on = false;
            continue;
        }
        let (word, after) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
        if word.is_empty() {
            return (parts, false);
        }
        rest = after;
        // Values before the first quotes name the host.
        let Some(part) = parts.last_mut() else { continue };
        if word == ":" {
            goes_on = true;
            continue;
        }
        let value = word.strip_suffix(',').unwrap_or(word);
        match part.after.last_mut().filter(|_| goes_on) {
            Some(list) => list.push(value),
            None => part.after.push(vec![value]),
        }
        goes_on = word.ends_with(',');
    }
}

/// Returns the place of the quote that is not escaped.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at),
            _ => {}
        }
    }
    None
}

/// Splits `a, b : c`, as nginx writes values of several upstreams; `-` alone is no attempt.
pub(super) fn list(text: &str) -> Vec<&str> {
    let elements = text.split(',').flat_map(|group| group.split(" : ")).map(str::trim);
    let found: Vec<&str> = elements.collect();
    if matches!(found.as_slice(), ["-" | ""]) { Vec::new() } else { found }
}

/// Sets the number of attempts; at least 1, and at most what the trace's column holds.
pub(super) fn attempts(row: &mut RequestRecord, attempts: usize) {
    let most = i16::MAX.unsigned_abs();
    row.attempt_count = u16::try_from(attempts.max(1)).map_or(most, |attempts| attempts.min(most));
}

/// Returns a number of bytes; `None` when missing or no such number.
pub(super) fn bytes(value: &Loose<'_>) -> Option<u64> {
    let number = value.float()?;
    convert::whole(number).and_then(|bytes| u64::try_from(bytes).ok())
}

/// Sets the session that the client named.
pub(super) fn session(row: &mut RequestRecord, id: &Loose<'_>, shared: &Shared) {
    row.session_id_hash = shared.hash(Column::Session, id);
    if row.session_id_hash.is_some() {
        row.session_source = SessionSource::Explicit;
    }
}

/// Refines the status by Envoy's response flags, a list such as `UT` or `DC,UC`.
///
/// The code was sent with the headers; the flags also tell what became of the answer after them.
pub(super) fn envoy_flags(row: &mut RequestRecord, flags: &Loose<'_>) {
    let Some(flags) = flags.text() else { return };
    let has = |wanted: &[&str]| flags.split(',').any(|flag| wanted.contains(&flag.trim()));
    if row.status.is_failure() {
        return;
    }
    if has(&["DC", "DR"]) {
        if row.status == Status::Ok {
            row.flags.push(Flag::ClientHangUp);
        }
        row.status = Status::Cancelled;
    } else if has(&["UT", "SI", "DT", "UMSDR"]) {
        row.status = Status::Timeout;
    } else if has(&["RL"]) {
        row.status = Status::RateLimited;
    } else if has(&["UC", "UR", "UF", "UH", "UO", "UPE", "LR", "NR", "URX", "OM"]) {
        row.status = Status::Error;
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial;
    use super::*;

    fn row() -> RequestRecord {
        RequestRecord::unknown("test".into(), 0, 1)
    }

    #[test]
    fn attempts_fit_the_column() {
        let count = |found: usize| {
            let mut row = row();
            attempts(&mut row, found);
            row.attempt_count
        };
        assert_eq!([0, 1, 32_767, 32_768, 70_000].map(count), [1, 1, 32_767, 32_767, 32_767]);
    }

    #[test]
    fn lines_split_into_quotes_and_lists() {
        let text = r#"h - a b [24/Nov/2026:10:15:05 +0100] gw "P \"q\" x" 200 7  "-" "a" a:1, b:2 1 : 2 -"#;
        let line = Line::parse(text).unwrap();
        assert_eq!(line.user, Some("a b"));
        assert_eq!(line.parts.len(), 3);
        assert_eq!(line.quoted(0).text(), Some(r#"P \"q\" x"#));
        assert_eq!(line.parts[0].after, [["200"], ["7"]]);
        assert_eq!(line.parts[2].after, [vec!["a:1", "b:2"], vec!["1", "2"], vec!["-"]]);
        assert!(!line.is_cut);
        assert!(Line::parse(r#"h - - [24/Nov/2026:10:15:05 +0100] "open"#).unwrap().is_cut);
        assert!(Line::parse("[x] [24/Nov/2026:10:15:05 +0100]").unwrap().parts.is_empty());
        for other in ["", "[", "time=2026", "[24/Nov/2026:10:15:05 +010\u{e9}] x", "[[[[[["] {
            assert_eq!(Line::parse(other), None, "{other}");
        }
    }

    #[test]
    fn only_calls_of_models_are_kept() {
        let reason = |line: &str, shows| Request::of_line(line, "").map(|r| r.drop_reason(shows));
        assert_eq!(reason("POST /v1/chat/completions HTTP/1.1", false), Some(None));
        assert_eq!(reason("POST http://h:1/v1/embeddings HTTP/1.1", false), Some(None));
        assert_eq!(reason("OPTIONS /v1/chat/completions HTTP/1.1", false), Some(Some("not_llm")));
        assert_eq!(reason("POST /login HTTP/1.1", false), Some(Some("not_llm")));
        assert_eq!(reason("POST /anything HTTP/1.1", true), Some(None));
        assert_eq!(reason("POST /healthy-food HTTP/1.1", true), Some(None));
        assert_eq!(reason("GET /healthz HTTP/1.1", false), Some(Some("probe")));
        for other in
            ["", "-", r"\x16\x03\x01", "POST", "post /x", "GET x", "CONNECT h:443 HTTP/1.1"]
        {
            assert_eq!(reason(other, true), None, "{other}");
        }
    }

    #[test]
    fn lists_of_upstreams() {
        assert_eq!(list("502, 200"), ["502", "200"]);
        assert_eq!(list("10.0.0.7:80, 10.0.0.8:80 : 10.0.0.9:80").len(), 3);
        assert_eq!(list("-, 0.4"), ["-", "0.4"]);
        assert!(list("-").is_empty());
        assert!(list("").is_empty());
        let mut record = row();
        attempts(&mut record, 0);
        assert_eq!(record.attempt_count, 1);
        attempts(&mut record, usize::MAX);
        assert_eq!(record.attempt_count, i16::MAX.unsigned_abs());
    }

    #[test]
    fn flags_tell_what_became_of_the_answer() {
        for (code, flags, status) in [
            (200, "-", Status::Ok),
            (200, "DC", Status::Cancelled),
            (0, "DC", Status::Cancelled),
            (200, "SI", Status::Timeout),
            (503, "DC", Status::Error),
            (504, "UT", Status::Timeout),
            (200, "UC,URX", Status::Error),
            (0, "RL", Status::RateLimited),
        ] {
            let mut record = row();
            fill::http_status(&mut record, Some(code));
            envoy_flags(&mut record, &Loose::cell(Some(flags)));
            assert_eq!(record.status, status, "{code} {flags}");
        }
    }

    #[test]
    fn bytes_and_sessions() {
        for (text, expected) in [("6120", Some(6120)), ("-", None), ("-1", None), ("1.5", None)] {
            assert_eq!(bytes(&Loose::cell(Some(text))), expected, "{text}");
        }
        assert_eq!(bytes(&Loose::cell(Some("99999999999999999999999"))), None);
        let mut record = row();
        session(&mut record, &Loose::cell(Some("-")), &trial::shared());
        assert_eq!(record.session_source, SessionSource::None);
        session(&mut record, &Loose::cell(Some("s")), &trial::shared());
        assert_eq!(record.session_source, SessionSource::Explicit);
    }
}
