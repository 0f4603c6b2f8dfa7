//! The columns of every artifact: the contract between the stages and with the notebooks.
//!
//! One table per artifact in [`artifacts`]: name, type, whether null is allowed, unit, meaning.
//! Writers, readers, the Parquet metadata and `docs/formats.md` all come from these tables. Names
//! of the trace follow OpenTelemetry's generative-AI terms with `.` written as `_`; names of plan
//! and run are `snake_case` with the unit last.

pub mod alias;
pub mod artifacts;

pub use alias::{MAP_FIELDS, MapField, map_field};
pub use artifacts::{CHUNKS, PLAN, POOL, REQUESTS, TRACE};

use arrow::datatypes::{DataType, Field, Fields, Schema, TimeUnit};
use std::sync::Arc;

/// Version of this program, as written into artifacts.
pub const TOOL_VERSION: &str = env!("CARGO_PKG_VERSION");
/// Key of the Parquet metadata that says which artifact a file is.
pub const KEY_ARTIFACT: &str = "tracewright.artifact";
/// Key of the Parquet metadata that holds the schema version.
pub const KEY_SCHEMA_VERSION: &str = "tracewright.schema_version";
/// Key of the Parquet metadata that holds the tool version.
pub const KEY_TOOL_VERSION: &str = "tracewright.tool_version";
/// Key of the Parquet metadata that holds the artifact's own metadata as JSON.
pub const KEY_METADATA: &str = "tracewright.metadata";

/// Every artifact, in the order of the pipeline.
pub const ARTIFACTS: [&Artifact; 5] = [&TRACE, &PLAN, &REQUESTS, &CHUNKS, &POOL];

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// True or false.
    Bool,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 16 bits.
    I16,
    /// Signed, 32 bits.
    I32,
    /// Signed, 64 bits.
    I64,
    /// A float, 64 bits.
    F64,
    /// Text.
    Text,
    /// A keyed hash of 16 bytes.
    Hash,
    /// Microseconds since the Unix epoch, UTC.
    Time,
    /// A list of texts.
    Texts,
    /// A list of keyed hashes of 16 bytes.
    Hashes,
    /// A list of unsigned 32-bit integers.
    U32s,
    /// A list of unsigned 64-bit integers.
    U64s,
    /// A list of signed 64-bit integers.
    I64s,
    /// A list of prompt parts: pool entry and cut.
    Parts,
}

impl Kind {
    /// Returns the Arrow type. Elements of lists are never null.
    pub fn arrow(self) -> DataType {
        let list = |item| DataType::List(Arc::new(Field::new("item", item, false)));
        match self {
            Self::Bool => DataType::Boolean,
            Self::U32 => DataType::UInt32,
            Self::U64 => DataType::UInt64,
            Self::I16 => DataType::Int16,
            Self::I32 => DataType::Int32,
            Self::I64 => DataType::Int64,
            Self::F64 => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::Hash => DataType::FixedSizeBinary(16),
            Self::Time => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Texts => list(DataType::Utf8),
            Self::Hashes => list(DataType::FixedSizeBinary(16)),
            Self::U32s => list(DataType::UInt32),
            Self::U64s => list(DataType::UInt64),
            Self::I64s => list(DataType::Int64),
            Self::Parts => list(DataType::Struct(part_fields())),
        }
    }

    /// Returns the type as `docs/formats.md` prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "Boolean",
            Self::U32 => "UInt32",
            Self::U64 => "UInt64",
            Self::I16 => "Int16",
            Self::I32 => "Int32",
            Self::I64 => "Int64",
            Self::F64 => "Float64",
            Self::Text => "Utf8",
            Self::Hash => "FixedSizeBinary(16)",
            Self::Time => "Timestamp(us, UTC)",
            Self::Texts => "List<Utf8>",
            Self::Hashes => "List<FixedSizeBinary(16)>",
            Self::U32s => "List<UInt32>",
            Self::U64s => "List<UInt64>",
            Self::I64s => "List<Int64>",
            Self::Parts => "List<Struct{entry_id UInt32, cut_tokens UInt32}>",
        }
    }
}

/// Returns the fields of a prompt part.
pub(super) fn part_fields() -> Fields {
    Fields::from(vec![
        Field::new("entry_id", DataType::UInt32, false),
        Field::new("cut_tokens", DataType::UInt32, false),
    ])
}

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Whether null is allowed; null means "not known".
    pub nullable: bool,
    /// Its unit; empty when it has none.
    pub unit: &'static str,
    /// What it holds, in one sentence.
    pub meaning: &'static str,
}

/// One kind of Parquet file.
#[derive(Clone, Copy, Debug)]
pub struct Artifact {
    /// Its name, as in the Parquet metadata.
    pub name: &'static str,
    /// The usual file name.
    pub file: &'static str,
    /// Version of its columns.
    pub version: u32,
    /// What one row is, and its order.
    pub row: &'static str,
    /// Its columns, in the order of the file.
    pub columns: &'static [Column],
}

impl Artifact {
    /// Returns the Arrow schema; unit and meaning are in each field's metadata.
    pub fn arrow(&self) -> Schema {
        let fields = self.columns.iter().map(|column| {
            let mut metadata = vec![("description", column.meaning)];
            if !column.unit.is_empty() {
                metadata.push(("unit", column.unit));
            }
            Field::new(column.name, column.kind.arrow(), column.nullable)
                .with_metadata(metadata.into_iter().collect::<arrow::datatypes::Metadata>())
        });
        Schema::new(fields.collect::<Vec<_>>())
    }

    /// Returns the position and the column called `name`.
    pub fn column(&self, name: &str) -> Option<(usize, &Column)> {
        self.columns.iter().enumerate().find(|(_, column)| column.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_snake_case() {
        for artifact in ARTIFACTS {
            let names: BTreeSet<_> = artifact.columns.iter().map(|column| column.name).collect();
            assert_eq!(names.len(), artifact.columns.len(), "{}", artifact.name);
            for name in names {
                let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
                assert!(name.chars().all(plain), "{name}");
            }
        }
    }

    #[test]
    fn units_stand_last_in_names() {
        for artifact in ARTIFACTS {
            for column in artifact.columns {
                for (suffix, unit) in [("_us", "us"), ("_ns", "ns"), ("_bytes", "bytes")] {
                    if column.name.ends_with(suffix) {
                        assert_eq!(column.unit, unit, "{}.{}", artifact.name, column.name);
                    }
                }
                if column.name.ends_with("_tokens") {
                    assert_eq!(column.unit, "tokens", "{}.{}", artifact.name, column.name);
                }
            }
        }
    }
}
