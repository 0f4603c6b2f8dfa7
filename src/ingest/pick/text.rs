//! Strings and scalars of JSON: escapes are decoded, and what is no escape is kept.
//!
//! Access logs write bytes as `\xC3`, which JSON does not know; they are decoded. A half of a
//! surrogate pair becomes U+FFFD. Any other unknown escape stays as it stands.

/// Returns whether a byte may be part of a number or of a word such as `true` or `-Infinity`.
#[inline]
pub(super) fn is_scalar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

/// Returns the text of a string, given without its quotes.
pub(in crate::ingest) fn unescaped(raw: &str) -> String {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw.as_bytes();
    while let Some(slash) = memchr::memchr(b'\\', rest) {
        let (plain, escape) = rest.split_at_checked(slash).unwrap_or((rest, b""));
        out.extend_from_slice(plain);
        rest = decode(escape, &mut out);
    }
    out.extend_from_slice(rest);
    String::from_utf8(out)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Decodes one escape, which begins with its backslash; returns what follows.
fn decode<'a>(escape: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let (byte, rest) = match escape {
        [_, b'n', rest @ ..] => (b'\n', rest),
        [_, b't', rest @ ..] => (b'\t', rest),
        [_, b'r', rest @ ..] => (b'\r', rest),
        [_, b'b', rest @ ..] => (0x08, rest),
        [_, b'f', rest @ ..] => (0x0C, rest),
        [_, byte @ (b'"' | b'\\' | b'/'), rest @ ..] => (*byte, rest),
        [_, b'x', high, low, rest @ ..] => match (hex(*high), hex(*low)) {
            (Some(high), Some(low)) => (high << 4 | low, rest),
            _ => return keep(escape, out),
        },
        [_, b'u', rest @ ..] => {
            let Some((unit, rest)) = unit(rest) else { return keep(escape, out) };
            let (letter, rest) = letter(unit, rest);
            out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            return rest;
        }
        _ => return keep(escape, out),
    };
    out.push(byte);
    rest
}

/// Keeps the backslash of what is no escape.
fn keep<'a>(escape: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let Some((slash, rest)) = escape.split_first() else { return escape };
    out.push(*slash);
    rest
}

/// Returns the letter of a code unit, together with a second half that follows.
fn letter(unit_: u16, rest: &[u8]) -> (char, &[u8]) {
    let mut after = rest;
    let mut units = vec![unit_];
    if let Some(second) = rest.strip_prefix(b"\\u")
        && let Some((low, behind)) = unit(second)
        && (0xD800..0xDC00).contains(&unit_)
        && (0xDC00..0xE000).contains(&low)
    {
        units.push(low);
        after = behind;
    }
    let letter = char::decode_utf16(units).next().and_then(Result::ok);
    (letter.unwrap_or(char::REPLACEMENT_CHARACTER), after)
}

/// Returns the code unit of four hexadecimal digits, and what follows.
fn unit(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (digits, rest) = bytes.split_first_chunk::<4>()?;
    let unit = digits.iter().try_fold(0_u16, |sum, digit| Some(sum << 4 | u16::from(hex(*digit)?)));
    Some((unit?, rest))
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_escape_is_kept() {
        for (raw, text) in [
            (r"a\x22b\xC3\xBC", "a\"b\u{fc}"),
            (r"\q\", r"\q\"),
            (r"\xZ1\u12", r"\xZ1\u12"),
            (r"\ud83d\ude00", "\u{1f600}"),
            (r"\ud83d.", "\u{fffd}."),
            (r"\ude00\ud83d\u0041", "\u{fffd}\u{fffd}A"),
            (r"\xFF", "\u{fffd}"),
            (r"\\x22", r"\x22"),
        ] {
            assert_eq!(unescaped(raw), text, "{raw}");
        }
    }

    proptest! {
        #[test]
        fn texts_are_those_of_serde(text: String) {
            let json = serde_json::to_string(&text).unwrap();
            let raw = json.strip_prefix('"').unwrap().strip_suffix('"').unwrap();
            prop_assert_eq!(unescaped(raw), text);
        }
    }
}
