//! One pass over a JSON object: wanted values are put into their slots, everything else is skipped.
//!
//! Text and wanted paths -> values by slot. Strings are left by the bitmap of quotes, unwanted
//! objects and arrays by the balance of their brackets, without a look at what is inside. Checked
//! are: keys, colons, commas and scalars of every object that is entered, closed strings, balanced
//! brackets, nothing after the object. Not checked is what is skipped, nor the texts of strings.

use super::blocks::{BLOCK, Blocks, odd_so_far};
use super::paths::{Entry, Paths};
use super::text;
use crate::ingest::loose::{FieldError, Loose};
use std::borrow::Cow;

/// Deepest nesting.
const MAX_DEPTH: usize = 128;

/// Why a text is no JSON object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It ends too early.
    Cut,
    /// This byte may not stand there.
    Syntax(usize),
    /// At this byte it is nested too deeply.
    Deep(usize),
    /// It is another value.
    NotAnObject,
}

impl Fault {
    /// Returns the refusal of a text of this length; it quotes nothing.
    pub(super) fn refusal(self, length: usize) -> FieldError {
        let reason = match self {
            Self::Cut => format!("{} its JSON, at byte {length}", super::CUT),
            Self::Syntax(at) => format!("is not JSON, at byte {}", at + 1),
            Self::Deep(at) => {
                format!("is nested deeper than {MAX_DEPTH} levels, at byte {}", at + 1)
            }
            Self::NotAnObject => "is not a JSON object".to_owned(),
        };
        FieldError::new("", reason)
    }
}

/// Where values go: the slots, and the rank of the name that filled each.
#[derive(Debug)]
pub(super) struct Slots<'s, 'a> {
    /// The values.
    pub(super) values: &'s mut [Loose<'a>],
    /// Their ranks.
    pub(super) ranks: &'s mut [u16],
}

impl<'a> Slots<'_, 'a> {
    #[inline]
    fn put(&mut self, entry: &Entry, value: Loose<'a>) {
        if value.is_nothing() {
            return;
        }
        let Some(((slot, rank), more)) = entry.targets.split_first() else { return };
        for (slot, rank) in more {
            self.put_one(*slot, *rank, value.clone());
        }
        self.put_one(*slot, *rank, value);
    }

    #[inline]
    fn put_one(&mut self, slot: usize, rank: u16, value: Loose<'a>) {
        if let (Some(held), Some(to)) = (self.ranks.get_mut(slot), self.values.get_mut(slot))
            && rank <= *held
        {
            *held = rank;
            *to = value;
        }
    }
}

/// A walk over one text.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    text: &'a str,
    blocks: Blocks<'a>,
}

impl<'a> Walk<'a> {
    /// Stands before the first byte.
    #[inline]
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, blocks: Blocks::new(text.as_bytes()) }
    }

    /// Reads a text that is one object.
    pub(super) fn record(&mut self, paths: &Paths, slots: &mut Slots<'_, 'a>) -> Result<(), Fault> {
        let start = self.space(0);
        if self.byte(start) != b'{' {
            return Err(if start < self.text.len() { Fault::NotAnObject } else { Fault::Cut });
        }
        let end = self.object(start, (paths, super::paths::ROOT), 1, slots)?;
        self.ends(end)
    }

    /// Calls `each` with the text of every value of an array or object that is the whole text.
    pub(super) fn items(&mut self, mut each: impl FnMut(&'a str)) -> Result<(), Fault> {
        let start = self.space(0);
        let is_object = match self.byte(start) {
            b'{' => true,
            b'[' => false,
            _ => return Err(self.unexpected(start)),
        };
        let close = if is_object { b'}' } else { b']' };
        let mut at = self.space(start + 1);
        if self.byte(at) == close {
            return self.ends(at + 1);
        }
        loop {
            if is_object {
                at = self.key(at)?.2;
            }
            let end = self.skip(at, 1)?;
            each(self.text.get(at..end).unwrap_or_default());
            at = self.space(end);
            match self.byte(at) {
                b',' => at = self.space(at + 1),
                byte if byte == close => return self.ends(at + 1),
                _ => return Err(self.unexpected(at)),
            }
        }
    }

    /// Reads the object that begins at `at`; returns where it ends.
    fn object(
        &mut self,
        at: usize,
        (paths, node): (&Paths, usize),
        depth: usize,
        slots: &mut Slots<'_, 'a>,
    ) -> Result<usize, Fault> {
        if depth > MAX_DEPTH {
            return Err(Fault::Deep(at));
        }
        let mut at = self.space(at + 1);
        if self.byte(at) == b'}' {
            return Ok(at + 1);
        }
        loop {
            let (key, has_escapes, value) = self.key(at)?;
            let entry = if has_escapes {
                paths.find(node, text::unescaped(key).as_bytes())
            } else {
                paths.find(node, key.as_bytes())
            };
            let end = match entry {
                None => self.skip(value, depth)?,
                Some(entry) => self.wanted(value, (paths, entry), depth, slots)?,
            };
            at = self.space(end);
            match self.byte(at) {
                b',' => at = self.space(at + 1),
                b'}' => return Ok(at + 1),
                _ => return Err(self.unexpected(at)),
            }
        }
    }

    /// Reads a key; returns it, whether it has escapes, and where its value begins.
    #[inline]
    fn key(&mut self, at: usize) -> Result<(&'a str, bool, usize), Fault> {
        if self.byte(at) != b'"' {
            return Err(self.unexpected(at));
        }
        let (end, has_escapes) = self.string(at)?;
        let key = self.text.get(at + 1..end - 1).unwrap_or_default();
        let colon = self.space(end);
        if self.byte(colon) != b':' {
            return Err(self.unexpected(colon));
        }
        Ok((key, has_escapes, self.space(colon + 1)))
    }

    /// Puts a value into its slots, and what is wanted inside of it; returns where it ends.
    #[inline]
    fn wanted(
        &mut self,
        at: usize,
        (paths, entry): (&Paths, &Entry),
        depth: usize,
        slots: &mut Slots<'_, 'a>,
    ) -> Result<usize, Fault> {
        let text = self.text;
        let between = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
        match (self.byte(at), entry.child) {
            (b'"', _) => {
                let (end, has_escapes) = self.string(at)?;
                let inside = between(at + 1, end - 1);
                if !entry.targets.is_empty() {
                    let text = if has_escapes {
                        Cow::Owned(text::unescaped(inside))
                    } else {
                        Cow::Borrowed(inside)
                    };
                    slots.put(entry, Loose::Text(text));
                }
                Ok(end)
            }
            (b'{', Some(node)) => {
                let end = self.object(at, (paths, node), depth + 1, slots)?;
                slots.put(entry, Loose::Json(between(at, end)));
                Ok(end)
            }
            (b'{' | b'[', _) => {
                let end = self.container(at, depth)?;
                slots.put(entry, Loose::Json(between(at, end)));
                Ok(end)
            }
            _ => {
                let end = self.scalar(at)?;
                if end == text.len() {
                    return Err(Fault::Cut);
                }
                slots.put(entry, Loose::scalar(between(at, end)).ok_or(Fault::Syntax(at))?);
                Ok(end)
            }
        }
    }

    /// Returns where the value that begins at `at` ends.
    #[inline]
    fn skip(&mut self, at: usize, depth: usize) -> Result<usize, Fault> {
        match self.byte(at) {
            b'"' => self.string(at).map(|(end, _)| end),
            b'{' | b'[' => self.container(at, depth),
            _ => self.scalar(at),
        }
    }

    /// Returns where the string that begins at `at` ends, and whether it has escapes.
    #[inline]
    fn string(&mut self, at: usize) -> Result<(usize, bool), Fault> {
        let mut from = self.reach(at + 1)?;
        let mut slashes = 0;
        loop {
            let later = u64::MAX << from;
            let quotes = self.blocks.quotes & later;
            if quotes != 0 {
                let first = quotes & quotes.wrapping_neg();
                slashes |= self.blocks.slashes & later & (first - 1);
                return Ok((self.blocks.base + place(quotes) + 1, slashes != 0));
            }
            slashes |= self.blocks.slashes & later;
            from = 0;
            if !self.blocks.advance() {
                return Err(Fault::Cut);
            }
        }
    }

    /// Returns where the array or object that begins at `at` ends.
    fn container(&mut self, at: usize, outer: usize) -> Result<usize, Fault> {
        let mut later = u64::MAX << self.reach(at)?;
        let mut inside = 0;
        let mut depth = 0;
        loop {
            let strings = odd_so_far(self.blocks.quotes & later) ^ inside;
            inside = (strings >> 63).wrapping_neg();
            let (opens, closes) = self.blocks.brackets();
            let (opens, closes) = (opens & !strings & later, closes & !strings & later);
            if opens | closes != 0 {
                let opened = ones(opens);
                let closed = ones(closes);
                if (outer + depth + opened > MAX_DEPTH || closed >= depth)
                    && let Some(end) = self.close(opens, closes, (depth, outer))?
                {
                    return Ok(end);
                }
                depth = depth + opened - closed;
            }
            later = u64::MAX;
            if !self.blocks.advance() {
                return Err(Fault::Cut);
            }
        }
    }

    /// Returns where in the block the last of `depth` brackets is closed; `None` when in a later one.
    #[inline]
    fn close(
        &self,
        opens: u64,
        closes: u64,
        (mut depth, outer): (usize, usize),
    ) -> Result<Option<usize>, Fault> {
        let mut brackets = opens | closes;
        while brackets != 0 {
            let first = brackets & brackets.wrapping_neg();
            if opens & first != 0 {
                depth += 1;
                if outer + depth > MAX_DEPTH {
                    return Err(Fault::Deep(self.blocks.base + place(first)));
                }
            } else {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(self.blocks.base + place(first) + 1));
                }
            }
            brackets ^= first;
        }
        Ok(None)
    }

    /// Returns where the number or word that begins at `at` ends.
    #[inline]
    fn scalar(&mut self, at: usize) -> Result<usize, Fault> {
        let mut end = at;
        while text::is_scalar(self.byte(end)) {
            end += 1;
        }
        if end == at { Err(self.unexpected(at)) } else { Ok(end) }
    }

    /// Makes the block of a byte the one looked at; returns the byte's place in it.
    #[inline]
    fn reach(&mut self, at: usize) -> Result<usize, Fault> {
        while at - self.blocks.base >= BLOCK {
            if !self.blocks.advance() {
                return Err(Fault::Cut);
            }
        }
        Ok(at - self.blocks.base)
    }

    /// Returns the first byte from `at` on that is no white space.
    #[inline]
    fn space(&self, mut at: usize) -> usize {
        while matches!(self.byte(at), b' ' | b'\n' | b'\t' | b'\r') {
            at += 1;
        }
        at
    }

    /// Returns a byte; 0 behind the end.
    #[inline]
    fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or_default()
    }

    fn ends(&self, at: usize) -> Result<(), Fault> {
        let end = self.space(at);
        if end == self.text.len() { Ok(()) } else { Err(Fault::Syntax(end)) }
    }

    #[cold]
    fn unexpected(&self, at: usize) -> Fault {
        if at >= self.text.len() { Fault::Cut } else { Fault::Syntax(at) }
    }
}

/// Returns the place of the lowest bit.
#[inline]
fn place(bits: u64) -> usize {
    usize::try_from(bits.trailing_zeros()).unwrap_or_default()
}

#[inline]
fn ones(bits: u64) -> usize {
    usize::try_from(bits.count_ones()).unwrap_or_default()
}
