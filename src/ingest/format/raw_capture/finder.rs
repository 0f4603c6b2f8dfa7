//! Finds bodies and the fields around them in a captured record, by keys of whatever name.
//!
//! Record text -> request, answer and usage as texts, and times, spans, status and ids as values.
//! Objects and texts that hold objects are followed down to three levels; bodies themselves are
//! not. Of headers only the id of a session is taken. It judges keys, not values.

use crate::ingest::content::scan::Cursor;
use crate::ingest::loose::Loose;
use crate::ingest::stamp::Unit;

/// How deep bodies are looked for.
const MAX_DEPTH: u32 = 3;

/// Names of times, best first, in lower case without marks; and whether the name says "start".
pub(super) const TIMES: &[(&str, bool)] = &[
    ("starttime", true),
    ("startedat", true),
    ("requeststarttime", true),
    ("requesttimestamp", true),
    ("receivedat", true),
    ("timestamp", false),
    ("time", false),
    ("ts", false),
    ("date", false),
    ("createdat", true),
    ("requesttime", true),
    ("datetimeutc", false),
    ("datetime", false),
    ("eventtime", false),
    ("created", true),
];
/// Names of ends.
const ENDS: &[&str] =
    &["endtime", "endedat", "finishedat", "completedat", "responsetimestamp", "responsetime"];
/// Names of durations, before their unit.
pub(super) const DURATIONS: &[&str] = &[
    "duration",
    "latency",
    "responsetime",
    "elapsed",
    "elapsedtime",
    "totaltime",
    "totallatency",
    "totalduration",
    "requestduration",
    "requestlatency",
    "e2elatency",
    "timetaken",
    "took",
];
/// Names of the time to the first token, before their unit.
pub(super) const FIRSTS: &[&str] =
    &["ttft", "timetofirsttoken", "firsttokenlatency", "timetofirstchunk"];
/// Ends of names and their units.
pub(super) const UNITS: &[(&str, Unit)] = &[
    ("milliseconds", Unit::Millis),
    ("millis", Unit::Millis),
    ("msec", Unit::Millis),
    ("ms", Unit::Millis),
    ("microseconds", Unit::Micros),
    ("micros", Unit::Micros),
    ("us", Unit::Micros),
    ("nanoseconds", Unit::Nanos),
    ("nanos", Unit::Nanos),
    ("ns", Unit::Nanos),
    ("seconds", Unit::Seconds),
    ("secs", Unit::Seconds),
    ("sec", Unit::Seconds),
    ("s", Unit::Seconds),
];

/// Fields around the bodies that have one slot each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Status,
    User,
    Session,
    Request,
    Trace,
    Response,
    Model,
    Stream,
    Provider,
    Path,
    Method,
}

impl Slot {
    fn of(plain: &str) -> Option<Self> {
        Some(match plain {
            "status" | "statuscode" | "responsestatus" | "responsestatuscode" | "httpstatus"
            | "httpstatuscode" | "responsecode" => Self::Status,
            "user" | "userid" | "enduser" | "enduserid" | "username" => Self::User,
            "sessionid" | "conversationid" | "threadid" | "chatid" => Self::Session,
            "requestid" | "id" | "logid" | "callid" => Self::Request,
            "traceid" => Self::Trace,
            "responseid" | "openairesponseid" => Self::Response,
            "model" | "modelname" | "requestmodel" => Self::Model,
            "stream" | "isstream" | "isstreaming" | "streaming" => Self::Stream,
            "provider" | "providername" => Self::Provider,
            "path" | "uri" | "url" | "endpoint" | "requestpath" | "requesturi" | "requesturl" => {
                Self::Path
            }
            "method" | "requestmethod" => Self::Method,
            _ => return None,
        })
    }
}

/// What a record holds.
#[derive(Default)]
pub(super) struct Found {
    pub(super) request: Option<String>,
    pub(super) response: Option<String>,
    pub(super) usage: Option<String>,
    /// Whether the record itself is the request, the answer, or has the counts.
    pub(super) is_request: bool,
    pub(super) is_response: bool,
    pub(super) is_usage: bool,
    pub(super) times: Vec<(usize, Loose<'static>)>,
    pub(super) end: Option<Loose<'static>>,
    pub(super) duration: Option<(String, Loose<'static>)>,
    pub(super) first: Option<(String, Loose<'static>)>,
    pub(super) slots: Vec<(Slot, Loose<'static>)>,
    pub(super) session: Option<String>,
}

/// How the name of a span ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// With nothing that tells the unit.
    Bare,
    /// With a unit.
    Unit(Unit),
}

impl Ending {
    /// Returns the unit, if there is one.
    pub(super) fn unit(self) -> Option<Unit> {
        match self {
            Self::Bare => None,
            Self::Unit(unit) => Some(unit),
        }
    }
}

/// What an object is, by its keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kind {
    request: bool,
    response: bool,
    error: bool,
}

impl Kind {
    fn of(text: &str) -> Self {
        let mut kind = Self::default();
        let (mut content, mut usage, mut message, mut done) = (false, false, false, false);
        let mut cursor = Cursor::new(text);
        let mut look = |cursor: &mut Cursor<'_>| {
            cursor.members(|key, cursor| match key {
                "messages" | "prompt" | "input" | "contents" | "inputs" => kind.request = true,
                "choices" | "output" | "candidates" | "generated_text" => kind.response = true,
                "error" => kind.error = matches!(cursor.peek(), Some(b'{' | b'"')),
                "content" => content = true,
                "usage" => usage = true,
                "message" => message = true,
                "done" => done = true,
                _ => {}
            });
        };
        if cursor.peek() == Some(b'[') {
            cursor.elements(look);
        } else {
            look(&mut cursor);
        }
        kind.response |= (content && usage) || (message && done);
        kind
    }
}

impl Found {
    /// Looks through the members of an object; `in_answer` is whether a name around it says so.
    /// Returns whether it was read to its end.
    pub(super) fn walk(&mut self, text: &str, depth: u32, in_answer: bool) -> bool {
        let mut cursor = Cursor::new(text);
        if cursor.peek() != Some(b'{') {
            return false;
        }
        cursor.members(|key, cursor| {
            let plain = plain(key);
            if depth == 0 {
                self.root(&plain, cursor);
            }
            let in_answer = in_answer || names_answer(&plain);
            match cursor.peek() {
                Some(b'{' | b'[') => self.part(&plain, cursor.raw(), (depth, in_answer)),
                Some(b'"') => {
                    let Some(text) = cursor.string() else { return };
                    if is_body(text.inside) {
                        self.part(&plain, text.text().trim_start(), (depth, in_answer));
                    } else {
                        self.scalar(key, &plain, &text.loose());
                    }
                }
                _ => self.scalar(key, &plain, &cursor.loose()),
            }
        });
        !cursor.failed()
    }

    /// Notes what a key of the record itself says of it.
    fn root(&mut self, plain: &str, cursor: &mut Cursor<'_>) {
        let first = cursor.peek();
        let filled = !matches!(first, None | Some(b'n'));
        match plain {
            "messages" | "contents" | "prompt" => self.is_request |= filled,
            "input" => self.is_request |= matches!(first, Some(b'"' | b'[')),
            "choices" | "candidates" => self.is_response |= filled,
            "output" | "response" => self.is_response |= matches!(first, Some(b'"' | b'[')),
            "error" => self.is_response |= matches!(first, Some(b'{')),
            "prompttokens" | "completiontokens" | "inputtokens" | "outputtokens" => {
                self.is_usage |= filled;
            }
            _ => {}
        }
    }

    /// Judges a value that has parts.
    fn part(&mut self, plain: &str, text: &str, (depth, in_answer): (u32, bool)) {
        if text.starts_with(['d', 'e']) {
            self.response.get_or_insert_with(|| text.to_owned());
            return;
        }
        if plain.ends_with("headers") {
            return self.headers(text);
        }
        if plain == "usage" || plain == "usagemetadata" || plain == "tokenusage" {
            self.usage.get_or_insert_with(|| text.to_owned());
            return;
        }
        if matches!(plain, "messages" | "contents" | "choices" | "candidates" | "tools") {
            return;
        }
        let kind = Kind::of(text);
        let is_list = text.starts_with('[');
        if kind.request && !is_list {
            self.request.get_or_insert_with(|| text.to_owned());
        }
        let is_response = kind.response || (kind.error && in_answer);
        if is_response && !(kind.request && self.response.is_some()) {
            self.response.get_or_insert_with(|| text.to_owned());
        }
        if !kind.request && !is_response && !is_list && depth + 1 < MAX_DEPTH {
            self.walk(text, depth + 1, in_answer);
        }
    }

    /// Takes the id of a session from headers: an object, pairs, or objects of name and value.
    fn headers(&mut self, text: &str) {
        let mut cursor = Cursor::new(text);
        let mut take = |name: &str, value: &Loose<'_>| {
            if is_session_header(name)
                && let Some(id) = value.id()
            {
                self.session.get_or_insert_with(|| id.into_owned());
            }
        };
        if cursor.peek() == Some(b'{') {
            return cursor.members(|name, cursor| {
                let mut value = Loose::Null;
                if cursor.peek() == Some(b'[') {
                    cursor.elements(|cursor| value = cursor.loose());
                } else {
                    value = cursor.loose();
                }
                take(name, &value);
            });
        }
        cursor.elements(|cursor| {
            let (mut name, mut value) = (Loose::Null, Loose::Null);
            if cursor.peek() == Some(b'[') {
                cursor.elements(|cursor| {
                    name = std::mem::replace(&mut value, cursor.loose());
                });
            } else {
                cursor.members(|key, cursor| match key {
                    "name" | "key" => name = cursor.loose(),
                    "value" => value = cursor.loose(),
                    _ => {}
                });
            }
            take(name.text().unwrap_or_default(), &value);
        });
    }

    fn scalar(&mut self, key: &str, plain: &str, value: &Loose<'_>) {
        if value.is_nothing() {
            return;
        }
        if let Some(rank) = TIMES.iter().position(|(name, _)| *name == plain) {
            self.times.push((rank, owned(value)));
        }
        if ENDS.contains(&plain) {
            self.end.get_or_insert_with(|| owned(value));
        }
        for (stems, slot) in [(DURATIONS, &mut self.duration), (FIRSTS, &mut self.first)] {
            if stem_and_unit(key, plain, stems).is_some() {
                slot.get_or_insert_with(|| (key.to_owned(), owned(value)));
            }
        }
        if let Some(slot) = Slot::of(plain)
            && !self.slots.iter().any(|known| known.0 == slot)
        {
            self.slots.push((slot, owned(value)));
        }
    }

    pub(super) fn slot(&self, slot: Slot) -> &Loose<'static> {
        const NOTHING: &Loose<'static> = &Loose::Null;
        self.slots.iter().find(|known| known.0 == slot).map_or(NOTHING, |known| &known.1)
    }
}

/// Returns a name in lower case, without marks: `date_time_utc` and `dateTimeUTC` are one.
pub(super) fn plain(key: &str) -> String {
    let kept = key.chars().filter(char::is_ascii_alphanumeric).take(64);
    kept.map(|c| c.to_ascii_lowercase()).collect()
}

fn names_answer(plain: &str) -> bool {
    ["resp", "output", "completion", "answer", "result"]
        .into_iter()
        .any(|part| plain.contains(part))
}

/// Returns whether a text holds JSON with parts, or server-sent events.
fn is_body(inside: &str) -> bool {
    let start = inside.trim_start_matches([' ', '\n', '\\']).trim_start_matches('n');
    start.starts_with(['{', '[']) || start.starts_with("data:") || start.starts_with("event:")
}

/// Returns whether a header carries the id of a session, and no secret of one.
fn is_session_header(name: &str) -> bool {
    let name = plain(name);
    let about = ["session", "conversation", "thread"].into_iter().any(|part| name.contains(part));
    about && (name.ends_with("id") || name == "xsession") && !name.contains("cookie")
}

fn owned(value: &Loose<'_>) -> Loose<'static> {
    match value {
        Loose::Bool(truth) => Loose::Bool(*truth),
        Loose::Int(number) => Loose::Int(*number),
        Loose::Float(number) => Loose::Float(*number),
        Loose::Text(text) => Loose::Text(text.clone().into_owned().into()),
        Loose::Null | Loose::Json(_) => Loose::Null,
    }
}

/// Returns the unit that a name of one of these stems ends with, if any: `latency_ms`,
/// `durationMs`; `None` for other names.
pub(super) fn stem_and_unit(key: &str, plain: &str, stems: &[&str]) -> Option<Ending> {
    if stems.contains(&plain) {
        return Some(Ending::Bare);
    }
    let of = |(end, unit): &(&str, Unit)| {
        let stem = plain.strip_suffix(end)?;
        // One letter more can be a plural.
        let apart = *end != "s" || key.ends_with("_s") || key.ends_with("-s") || key.ends_with('S');
        (apart && stems.contains(&stem)).then_some(*unit)
    };
    UNITS.iter().find_map(of).map(Ending::Unit)
}
