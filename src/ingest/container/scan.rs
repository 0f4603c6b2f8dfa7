//! Finds where JSON values end, without reading them.
//!
//! Bytes in, ends of values out. Follows strings, escapes, brackets and what may stand next to
//! what, so that damage shows where it is and not at the end of the file: a raw line end in a
//! string, a bracket of the wrong kind, an object where a key is due. It does not look at numbers,
//! words or keys; the decoder does.

/// Follows one JSON value over as many blocks as it takes.
#[derive(Clone, Debug, Default)]
pub struct ValueScan {
    open: Vec<u8>,
    inside: Inside,
    /// The kind of the token before: 0 at the start, `s` for a number or word.
    before: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Inside {
    #[default]
    Plain,
    Text,
    Escape,
}

/// What a block did to the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scanned {
    /// The value ends before this place of the block.
    Done(usize),
    /// The value goes on.
    More,
    /// Here stands what no JSON value has there.
    Broken(usize),
}

impl ValueScan {
    /// Goes on with the next block; the first one begins with the value.
    pub fn feed(&mut self, block: &[u8]) -> Scanned {
        let mut at = 0;
        while let Some(byte) = block.get(at) {
            match self.inside {
                Inside::Text => {
                    let rest = block.get(at..).unwrap_or_default();
                    let Some(found) = memchr::memchr3(b'"', b'\\', b'\n', rest) else {
                        return Scanned::More;
                    };
                    at += found;
                    match rest.get(found) {
                        Some(b'"') => {
                            self.inside = Inside::Plain;
                            self.before = b'"';
                            if self.open.is_empty() {
                                return Scanned::Done(at + 1);
                            }
                        }
                        Some(b'\\') => self.inside = Inside::Escape,
                        _ => return Scanned::Broken(at),
                    }
                }
                Inside::Escape if *byte == b'\n' => return Scanned::Broken(at),
                Inside::Escape => self.inside = Inside::Text,
                Inside::Plain => {
                    if let Some(end) = self.token(*byte, at) {
                        return end;
                    }
                }
            }
            at += 1;
        }
        Scanned::More
    }

    /// Returns whether the end of the input ends the value: a number or word.
    pub fn ends_here(&self) -> bool {
        self.open.is_empty() && self.before == b's'
    }

    /// Takes one byte outside texts.
    fn token(&mut self, byte: u8, at: usize) -> Option<Scanned> {
        let scalar_is_over = self.ends_here();
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' | b']' | b'}' if scalar_is_over => {
                return Some(Scanned::Done(at));
            }
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b'{' | b'[' | b'"' => {
                let in_array = self.open.last() == Some(&b'[');
                let fits = match self.before {
                    0 | b':' | b'[' => true,
                    b',' => in_array || byte == b'"',
                    b'{' => byte == b'"',
                    _ => false,
                };
                if !fits {
                    return Some(Scanned::Broken(at));
                }
                if byte == b'"' {
                    self.inside = Inside::Text;
                } else {
                    self.open.push(byte);
                    self.before = byte;
                }
            }
            b'}' | b']' => {
                let opening = if byte == b'}' { b'{' } else { b'[' };
                if self.open.pop() != Some(opening) {
                    return Some(Scanned::Broken(at));
                }
                self.before = byte;
                if self.open.is_empty() {
                    return Some(Scanned::Done(at + 1));
                }
            }
            b',' | b':' if self.open.is_empty() => return Some(Scanned::Broken(at)),
            b',' | b':' => self.before = byte,
            _ => self.before = b's',
        }
        None
    }
}

/// Returns the length of the value that `text` begins with; `None` when it does not end.
pub fn value_length(text: &[u8]) -> Option<usize> {
    let mut scan = ValueScan::default();
    match scan.feed(text) {
        Scanned::Done(length) => Some(length),
        Scanned::More if scan.ends_here() => Some(text.len()),
        Scanned::More | Scanned::Broken(_) => None,
    }
}

/// Returns whether a text is one JSON object from its first to its last byte, but for white space.
pub fn is_object(text: &str) -> bool {
    let text = text.trim();
    text.starts_with('{') && value_length(text.as_bytes()) == Some(text.len())
}

/// Returns the members of an object: key without quotes (escapes as they stand), and the text of
/// the value. Ends at the first thing that is no member.
pub fn members(object: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = object.trim_start().strip_prefix('{').unwrap_or_default();
    std::iter::from_fn(move || {
        let text = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == ',');
        let (key, after) = text.split_at_checked(value_length(text.as_bytes())?)?;
        let key = key.strip_prefix('"')?.strip_suffix('"')?;
        let value = after.trim_start().strip_prefix(':')?.trim_start();
        let (value, after) = value.split_at_checked(value_length(value.as_bytes())?)?;
        rest = after;
        Some((key, value))
    })
}

/// Returns the elements of an array, as texts; an element that does not end is the last.
pub fn elements(array: &str) -> impl Iterator<Item = &str> {
    let mut rest = array.trim_start().strip_prefix('[').unwrap_or_default();
    std::iter::from_fn(move || {
        let text = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == ',');
        if text.is_empty() || text.starts_with(']') {
            return None;
        }
        let (value, after) =
            text.split_at_checked(value_length(text.as_bytes()).unwrap_or(text.len()))?;
        rest = after;
        Some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_end_where_they_end_in_blocks_of_any_size() {
        for (text, end) in [
            (r#"{"a":"}\"]","b":[1,{"c":null}]} x"#, 31),
            ("[]]", 2),
            (r#""a\\"b"#, 5),
            ("12 ", 2),
            ("true,", 4),
            ("-1.5e3}", 6),
            ("{ }\n", 3),
            ("[1,]", 4),
        ] {
            for size in [1, 2, 5, 100] {
                let mut scan = ValueScan::default();
                let mut found = None;
                for (number, block) in text.as_bytes().chunks(size).enumerate() {
                    match scan.feed(block) {
                        Scanned::Done(at) => {
                            found = Some(number * size + at);
                            break;
                        }
                        Scanned::More => {}
                        Scanned::Broken(at) => panic!("{text} broken at {at}"),
                    }
                }
                assert_eq!(found, Some(end), "{text} by {size}");
            }
        }
        assert_eq!(value_length(b"12"), Some(2));
        assert_eq!(value_length(b"{\"a\":12"), None);
    }

    #[test]
    fn damage_shows_where_it_is() {
        for (text, at) in [
            ("{\"a\":1,\n{\"b\":2}", 8),
            ("{\"a\":\"x\n\"}", 7),
            ("{\"a\":[1}", 7),
            ("{\"a\":{\"b\":1}\n{\"c\"", 13),
            ("]", 0),
            ("{\"a\":1 \"b\":2}", 7),
        ] {
            assert_eq!(ValueScan::default().feed(text.as_bytes()), Scanned::Broken(at), "{text}");
        }
    }

    #[test]
    fn members_and_elements_come_in_order() {
        let object = r#" {"a":1, "b c" : {"d":[2]} ,"e":"x\"","f":"#;
        let found: Vec<_> = members(object).collect();
        assert_eq!(found, [("a", "1"), ("b c", "{\"d\":[2]}"), ("e", "\"x\\\"\"")]);
        assert_eq!(members("no").count(), 0);
        let found: Vec<_> = elements(r#"[{"a":1}, [2] ,"x",{"b":"#).collect();
        assert_eq!(found, ["{\"a\":1}", "[2]", "\"x\"", "{\"b\":"]);
        assert_eq!(elements("[]").count() + elements("[ , ]").count(), 0);
        assert!(is_object(" {\"a\":1}\r") && !is_object("{} {}") && !is_object("{\"a\""));
    }
}
