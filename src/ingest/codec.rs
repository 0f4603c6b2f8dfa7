//! A draft as few bytes, and back: what waits in the sort between reading and writing.
//!
//! A bit per field says what is there; numbers are variable in length, words one byte, names and
//! hashes as they are. Private to one run of the program: the bytes are never kept, so there is no
//! version. Decoding checks lengths, since the bytes may come back from a disk.

use super::format::chain::Chain;
use super::format::{Draft, Join, Role};
use crate::domain::convert;
use crate::domain::record::{
    ArrivalSource, CacheStatus, Flag, Hash128, HashScope, Operation, RagLabel, RequestRecord,
    SessionSource, Status, TokenSource, ToolClass, TtftSource, WorkloadClass,
};
use crate::domain::scenario::Scenario;
use crate::domain::time::WallTime;
use std::sync::Arc;

/// Bytes of the bits in front.
const BITS: usize = 12;

/// Appends values.
struct Writer<'b> {
    bytes: &'b mut Vec<u8>,
    bits: u128,
    bit: u32,
}

/// Takes values off.
struct Reader<'b, 'n> {
    bytes: &'b [u8],
    bits: u128,
    bit: u32,
    names: &'n mut Names,
    /// Which name of the record is read next.
    place: usize,
}

/// The last name seen at each place of a record: most rows repeat it.
#[derive(Debug, Default)]
pub struct Names {
    last: Vec<[Option<Arc<str>>; 4]>,
}

impl Names {
    fn share(&mut self, place: usize, text: &str) -> Arc<str> {
        if self.last.len() <= place {
            self.last.resize_with(place + 1, Default::default);
        }
        let Some(known) = self.last.get_mut(place) else { return text.into() };
        if let Some(found) = known.iter().position(|name| name.as_deref() == Some(text)) {
            if found > 0 {
                known.swap(found, found - 1);
            }
            let name = known.get(found.saturating_sub(1)).and_then(Clone::clone);
            return name.unwrap_or_else(|| text.into());
        }
        let fresh: Arc<str> = text.into();
        if let Some(slot) = known.last_mut() {
            *slot = Some(fresh.clone());
        }
        known.rotate_right(1);
        fresh
    }
}

/// A type that can be written and read.
trait Packed: Sized {
    fn pack(&self, to: &mut Writer<'_>);
    fn unpack(from: &mut Reader<'_, '_>) -> Option<Self>;
}

impl Writer<'_> {
    #[inline]
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.bytes.push(value.to_le_bytes()[0]);
    }

    #[inline]
    fn mark(&mut self, is_there: bool) {
        self.bits |= u128::from(is_there) << self.bit;
        self.bit += 1;
    }
}

impl<'b> Reader<'b, '_> {
    #[inline]
    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }

    #[inline]
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    #[inline]
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    #[inline]
    fn length(&mut self) -> Option<usize> {
        let length = convert::index(self.varint()?)?;
        // Every element has at least a byte: damage never asks for much memory.
        (length <= self.bytes.len()).then_some(length)
    }

    #[inline]
    fn marked(&mut self) -> bool {
        let is_there = self.bits >> self.bit & 1 == 1;
        self.bit += 1;
        is_there
    }
}

impl Packed for u64 {
    fn pack(&self, to: &mut Writer<'_>) {
        to.varint(*self);
    }

    fn unpack(from: &mut Reader<'_, '_>) -> Option<Self> {
        from.varint()
    }
}

/// Numbers that go through another one.
macro_rules! packed_as {
    ($($kind:ty: $to:expr, $back:expr;)+) => {
        $(impl Packed for $kind {
            fn pack(&self, to: &mut Writer<'_>) {
                let into: fn($kind) -> u64 = $to;
                to.varint(into(*self));
            }

            fn unpack(from: &mut Reader<'_, '_>) -> Option<Self> {
                let back: fn(u64) -> Option<$kind> = $back;
                back(from.varint()?)
            }
        })+
    };
}

packed_as! {
    u32: u64::from, |value| value.try_into().ok();
    u16: u64::from, |value| value.try_into().ok();
    u8: u64::from, |value| value.try_into().ok();
    bool: u64::from, |value| Some(value != 0);
    i64: zigzag, |value| Some(unzigzag(value));
    WallTime: |at| zigzag(at.0), |value| Some(WallTime(unzigzag(value)));
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

impl Packed for f64 {
    fn pack(&self, to: &mut Writer<'_>) {
        to.bytes.extend_from_slice(&self.to_le_bytes());
    }

    fn unpack(from: &mut Reader<'_, '_>) -> Option<Self> {
        from.take(8)?.try_into().ok().map(Self::from_le_bytes)
    }
}

impl Packed for Hash128 {
    fn pack(&self, to: &mut Writer<'_>) {
        to.bytes.extend_from_slice(&self.0);
    }

    fn unpack(from: &mut Reader<'_, '_>) -> Option<Self> {
        from.take(16)?.try_into().ok().map(Self)
    }
}

impl Packed for Arc<str> {
    fn pack(&self, to: &mut Writer<'_>) {
        to.varint(convert::count(self.len()));
        to.bytes.extend_from_slice(self.as_bytes());
    }

    fn unpack(from: &mut Reader<'_, '_>) -> Option<Self> {
        let length = from.length()?;
        let text = simdutf8::basic::from_utf8(from.take(length)?).ok()?;
        let place = from.place;
        from.place += 1;
        Some(from.names.share(place, text))
    }
}

impl<T: Packed> Packed for Option<T> {
    #[inline]
    fn pack(&self, to: &mut Writer<'_>) {
        to.mark(self.is_some());
        if let Some(value) = self {
            value.pack(to);
        }
    }

    #[inline]
    fn unpack(from: &mut Reader<'_, '_>) -> Option<Self> {
        if from.marked() { T::unpack(from).map(Some) } else { Some(None) }
    }
}

impl<T: Packed> Packed for Vec<T> {
    fn pack(&self, to: &mut Writer<'_>) {
        to.mark(!self.is_empty());
        if !self.is_empty() {
            to.varint(convert::count(self.len()));
            for value in self {
                value.pack(to);
            }
        }
    }

    fn unpack(from: &mut Reader<'_, '_>) -> Option<Self> {
        if !from.marked() {
            return Some(Self::new());
        }
        let length = from.length()?;
        (0..length).map(|_| T::unpack(from)).collect()
    }
}

/// Words, by their place.
macro_rules! packed_words {
    ($($word:ty),+ $(,)?) => {
        $(impl Packed for $word {
            fn pack(&self, to: &mut Writer<'_>) {
                to.bytes.push(self.index());
            }

            fn unpack(from: &mut Reader<'_, '_>) -> Option<Self> {
                Self::ALL.get(usize::from(from.byte()?)).copied()
            }
        })+
    };
}

packed_words![
    ArrivalSource,
    CacheStatus,
    Flag,
    HashScope,
    Operation,
    RagLabel,
    Scenario,
    SessionSource,
    Status,
    TokenSource,
    ToolClass,
    TtftSource,
    WorkloadClass,
];

/// Structs, field by field; a field left out does not compile.
macro_rules! packed_struct {
    ($($name:ident { $($field:ident),+ $(,)? })+) => {
        $(impl Packed for $name {
            fn pack(&self, to: &mut Writer<'_>) {
                let Self { $($field),+ } = self;
                $($field.pack(to);)+
            }

            fn unpack(from: &mut Reader<'_, '_>) -> Option<Self> {
                Some(Self { $($field: Packed::unpack(from)?),+ })
            }
        })+
    };
}

packed_struct! {
    RequestRecord {
        source_format, source_file_id, source_line, request_id_hash, trace_id_hash,
        response_id_hash, span_id_hash, parent_span_id_hash, arrival_time, arrival_source,
        arrival_resolution_us, zone_assumed, end_time, duration_us, time_to_first_chunk_us,
        ttft_source, queue_time_us, prefill_time_us, decode_time_us, operation, provider_name,
        request_model, response_model, endpoint_family, workload_class, input_tokens,
        output_tokens, cache_read_input_tokens, cache_write_input_tokens,
        reasoning_output_tokens, input_token_source, output_token_source, request_bytes,
        response_bytes, max_tokens, temperature, top_p, choice_count, stream, status,
        http_status_code, error_type, finish_reasons, attempt_count, cache_status, cost,
        cost_currency, session_id_hash, session_source, turn_index, parent_row_id,
        think_time_us, user_hash, key_hash, tenant_hash, message_count, system_count,
        user_count, assistant_count, tool_count, tool_definition_count, tool_call_count,
        tool_class, image_count, audio_count, file_count, rag_label, rag_evidence,
        context_tokens, question_tokens, prefix_block_hashes, prefix_block_size,
        prefix_hash_scope, scenario, flags,
    }
    Draft { row, join, chain }
    Join { key, role }
    Chain {
        prefixes, prefixes_no_system, exchanges, with_answer, with_answer_no_system,
        last_exchange, last_user, previous, own, is_tool_turn, is_incomplete,
    }
}

impl Packed for Role {
    fn pack(&self, to: &mut Writer<'_>) {
        let (kind, value) = match self {
            Self::Attempt => (0, 0),
            Self::Part(rank) => (1, i64::from(*rank)),
            Self::Version(stamp) => (2, *stamp),
            Self::Retrieval => (3, 0),
            Self::Tool => (4, 0),
        };
        to.bytes.push(kind);
        value.pack(to);
    }

    fn unpack(from: &mut Reader<'_, '_>) -> Option<Self> {
        let (kind, value) = (from.byte()?, i64::unpack(from)?);
        match kind {
            0 => Some(Self::Attempt),
            1 => u8::try_from(value).ok().map(Self::Part),
            2 => Some(Self::Version(value)),
            3 => Some(Self::Retrieval),
            4 => Some(Self::Tool),
            _ => None,
        }
    }
}

impl<T: Packed> Packed for Box<T> {
    fn pack(&self, to: &mut Writer<'_>) {
        T::pack(self, to);
    }

    fn unpack(from: &mut Reader<'_, '_>) -> Option<Self> {
        T::unpack(from).map(Self::new)
    }
}

/// Appends a draft.
pub fn encode(draft: &Draft, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; BITS]);
    let mut to = Writer { bytes, bits: 0, bit: 0 };
    draft.pack(&mut to);
    debug_assert!(usize::try_from(to.bit).is_ok_and(|bits| bits <= 8 * BITS), "room for the bits");
    let bits = to.bits.to_le_bytes();
    for (slot, bit) in bytes.iter_mut().skip(start).zip(bits).take(BITS) {
        *slot = bit;
    }
}

/// Returns a draft; `None` when the bytes are damaged.
pub fn decode(bytes: &[u8], names: &mut Names) -> Option<Draft> {
    let (front, rest) = bytes.split_at_checked(BITS)?;
    let bits = front.iter().rev().fold(0_u128, |sum, byte| sum << 8 | u128::from(*byte));
    let mut from = Reader { bytes: rest, bits, bit: 0, names, place: 0 };
    Draft::unpack(&mut from).filter(|_| from.bytes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::samples::Draw;
    use proptest::prelude::*;

    fn draft(seed: u64) -> Draft {
        let row = Draw::new(seed).records(1).remove(0);
        let hash = |n: u8| Hash128([n; 16]);
        let roles = [Role::Attempt, Role::Part(7), Role::Version(-5), Role::Retrieval, Role::Tool];
        let role = roles[usize::try_from(seed % 5).unwrap()];
        let chain = Chain {
            prefixes: vec![hash(1), hash(2)],
            exchanges: vec![hash(3)],
            with_answer: Some(hash(4)),
            own: Some(hash(5)),
            is_tool_turn: seed.is_multiple_of(2),
            ..Chain::default()
        };
        Draft {
            row: Box::new(row),
            join: (!seed.is_multiple_of(3)).then_some(Join { key: hash(9), role }),
            chain: (!seed.is_multiple_of(4)).then(|| Box::new(chain)),
        }
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(seed: u64) {
            let draft = draft(seed);
            let mut bytes = vec![7];
            encode(&draft, &mut bytes);
            let mut names = Names::default();
            prop_assert_eq!(decode(&bytes[1..], &mut names), Some(draft.clone()));
            prop_assert_eq!(decode(&bytes[1..], &mut names), Some(draft));
        }

        #[test]
        fn damage_never_panics(seed: u64, at: usize, bit in 0_u32..8) {
            let mut bytes = Vec::new();
            encode(&draft(seed), &mut bytes);
            let at = at % bytes.len();
            let _ = decode(&bytes[..at], &mut Names::default());
            bytes[at] ^= 1 << bit;
            let _ = decode(&bytes, &mut Names::default());
        }
    }

    #[test]
    fn a_usual_row_is_small() {
        let mut bytes = Vec::new();
        encode(&RequestRecord::unknown("generic".into(), 0, 1).into(), &mut bytes);
        assert!(bytes.len() < 64, "{}", bytes.len());
    }
}
