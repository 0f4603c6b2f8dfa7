//! What can stop an ingest, each in one line with where, what and a hint.
//!
//! A record that cannot be read is no error: it goes to the rejects file ([`super::diagnostic`]).
//! Messages name files, columns and counts. They never quote a value of a record.

use crate::domain::position::Position;
use crate::table::TableError;
use std::path::PathBuf;
use std::sync::Arc;

/// Why an ingest stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// No input was named.
    #[error("no log named: expected at least one file, found none")]
    NoInput,
    /// The system refuses to open or read the file.
    #[error("{file}: cannot be read")]
    Unreadable {
        /// The file, as the user named it.
        file: Arc<str>,
        /// What the system says.
        source: std::io::Error,
    },
    /// A directory in place of a file.
    #[error("{file}: expected a log file, found a directory")]
    Directory {
        /// The path, as the user named it.
        file: Arc<str>,
    },
    /// A pipe, a terminal or another device: it can be read once only, and a log is read twice.
    #[error("{file}: expected a regular file, found a pipe or a device")]
    NotAFile {
        /// The path, as the user named it.
        file: Arc<str>,
    },
    /// No byte, or nothing but a byte-order mark.
    #[error("{file}: expected records, found an empty file")]
    Empty {
        /// The file, as the user named it.
        file: Arc<str>,
    },
    /// Neither text nor a known compression.
    #[error("{file}: expected JSON, CSV, text, Parquet, Arrow or SQLite, found {what}")]
    Binary {
        /// The file, as the user named it.
        file: Arc<str>,
        /// What it is instead.
        what: &'static str,
    },
    /// The compressed stream ends early.
    #[error("{file}: the {container} stream is cut at byte {byte}, before its end mark")]
    Cut {
        /// The file, as the user named it.
        file: Arc<str>,
        /// `gzip` or `zstd`.
        container: &'static str,
        /// Bytes of the compressed file that could be read.
        byte: u64,
    },
    /// The compressed stream is damaged.
    #[error("{file}: the {container} stream is damaged near byte {byte}")]
    Damaged {
        /// The file, as the user named it.
        file: Arc<str>,
        /// `gzip` or `zstd`.
        container: &'static str,
        /// Compressed bytes read when it was noticed.
        byte: u64,
    },
    /// Bytes after the last member that are no further member.
    #[error("{file}: leftover bytes at byte {byte}, expected the end or another compressed member")]
    Garbage {
        /// The file, as the user named it.
        file: Arc<str>,
        /// Where they begin in the compressed file.
        byte: u64,
    },
    /// One CSV record longer than the limit.
    #[error("{file}:{line}: a CSV record is longer than {limit} bytes; is a quote left open?")]
    RecordTooLong {
        /// The file, as the user named it.
        file: Arc<str>,
        /// The line where the record begins.
        line: u64,
        /// The limit.
        limit: u64,
    },
    /// JSON so damaged that the next record cannot be found.
    #[error(
        "{file}:{line}: the JSON is broken at byte {byte}, and nothing tells where the next record begins"
    )]
    BrokenJson {
        /// The file, as the user named it.
        file: Arc<str>,
        /// The line of the damage.
        line: u64,
        /// Its byte in the decompressed stream.
        byte: u64,
    },
    /// A binary container inside gzip or zstd.
    #[error("{file}: expected text inside the packed file, found {what}")]
    PackedBinary {
        /// The file, as the user named it.
        file: Arc<str>,
        /// What it is.
        what: &'static str,
    },
    /// An SQLite file that SQLite cannot read.
    #[error("{file}: cannot be read as an SQLite database")]
    Sqlite {
        /// The file, as the user named it.
        file: Arc<str>,
        /// What SQLite says.
        source: Box<rusqlite::Error>,
    },
    /// An SQLite file without a table that could be the log.
    #[error("{file}: expected a table `logs`, or one table only, found {found} others")]
    NoTable {
        /// The file, as the user named it.
        file: Arc<str>,
        /// Tables found.
        found: usize,
    },
    /// A pattern that no file matches.
    #[error("{pattern}: expected files of this name, found none")]
    NoMatch {
        /// The pattern, as the user wrote it.
        pattern: Arc<str>,
    },
    /// A directory without a log.
    #[error("{file}: expected logs in this directory, found none")]
    NoLogs {
        /// The directory, as the user named it.
        file: Arc<str>,
    },
    /// Statements of SQL.
    #[error("{file}: expected a log, found a dump of SQL statements")]
    SqlDump {
        /// The file, as the user named it.
        file: Arc<str>,
    },
    /// Spans of OpenTelemetry as protobuf.
    #[error("{file}: expected OTLP as JSON, found it as protobuf")]
    Protobuf {
        /// The file, as the user named it.
        file: Arc<str>,
    },
    /// A CSV header that no format knows.
    #[error("{file}: the header is of no known format: {found}")]
    UnknownHeader {
        /// The file, as the user named it.
        file: Arc<str>,
        /// The column names found, or why they are not shown.
        found: String,
        /// A ready `--map` line.
        map_line: String,
    },
    /// JSON records that no format knows, or of several formats.
    #[error(
        "{file}: the format is not clear from {sampled} records: {candidates}{}",
        unknown_paths(paths)
    )]
    UnknownFormat {
        /// The file, as the user named it.
        file: Arc<str>,
        /// Records looked at.
        sampled: usize,
        /// Each candidate with its count and its keys.
        candidates: String,
        /// Key paths with types of a record that no format knows.
        paths: String,
        /// A ready `--map` line.
        map_line: String,
    },
    /// Sums over many requests in place of a log of requests.
    #[error("{file}: expected one record a request, found {what}")]
    Aggregate {
        /// The file, as the user named it.
        file: Arc<str>,
        /// What it is.
        what: &'static str,
        /// Which export to take instead.
        instead: &'static str,
    },
    /// The format asked for cannot be read from this kind of file.
    #[error("{file}: `{format}` is not read from {container}")]
    WrongContainer {
        /// The file, as the user named it.
        file: Arc<str>,
        /// The format.
        format: &'static str,
        /// `CSV` or `JSONL`.
        container: &'static str,
    },
    /// A column that the format or `--map` needs is not in the file.
    #[error("{file}: no column `{column}`; found {found}")]
    NoColumn {
        /// The file, as the user named it.
        file: Arc<str>,
        /// The column.
        column: String,
        /// The columns found.
        found: String,
    },
    /// `--format generic` without a map.
    #[error("{file}: the format `generic` needs at least one `--map FIELD=COLUMN`, found none")]
    NoMap {
        /// The file, as the user named it.
        file: Arc<str>,
    },
    /// A `--map` that does not parse.
    #[error("--map: expected `FIELD=COLUMN` with a known field, found `{found}`")]
    BadMap {
        /// The argument.
        found: String,
    },
    /// A `--time-unit` that does not parse.
    #[error("--time-unit: expected s, ms, us or ns, found `{found}`")]
    BadUnit {
        /// The argument.
        found: String,
    },
    /// An unknown time zone.
    #[error("--tz: expected an IANA time zone, found `{found}`")]
    BadZone {
        /// The argument.
        found: String,
    },
    /// An option that chooses rows and does not parse.
    #[error("{option}: expected {expected}, found `{found}`")]
    BadFilter {
        /// The option.
        option: &'static str,
        /// What would do.
        expected: String,
        /// What was typed; of a condition on identifiers only its key.
        found: String,
    },
    /// Numbers of one time column that cannot have one unit.
    #[error("{at}: times in `{column}` do not share one unit: expected {unit}")]
    MixedUnits {
        /// The line that does not fit, or the file when the sample itself is mixed.
        at: Position,
        /// The column.
        column: String,
        /// What was expected and found.
        unit: String,
    },
    /// Files with different kinds of times in one trace.
    #[error("{file}: its times are {found}, those of the files before it are {expected}")]
    MixedOrigins {
        /// The file, as the user named it.
        file: Arc<str>,
        /// The kind of times found here.
        found: &'static str,
        /// The kind before.
        expected: &'static str,
    },
    /// Nothing was left to write.
    #[error(
        "no request left of {read} records: {dropped} dropped{}, {rejected} rejected",
        in_brackets(reasons)
    )]
    NoRows {
        /// Records read.
        read: u64,
        /// Records left out on purpose.
        dropped: u64,
        /// Why, with counts.
        reasons: String,
        /// Records that could not be read.
        rejected: u64,
    },
    /// The salt file cannot be read or made.
    #[error("{}: the salt file cannot be {action}", path.display())]
    Salt {
        /// The path.
        path: PathBuf,
        /// `read` or `made`.
        action: &'static str,
        /// What the system says.
        source: std::io::Error,
    },
    /// A salt too short to protect anything.
    #[error("{}: expected a salt of at least 16 bytes, found {found}", path.display())]
    ShortSalt {
        /// The path.
        path: PathBuf,
        /// Bytes found.
        found: usize,
    },
    /// No place for the salt.
    #[error("no home for the salt: neither `XDG_CONFIG_HOME` nor `HOME` is set")]
    NoSaltHome,
    /// A temporary or output file cannot be written.
    #[error("{}: cannot be written", path.display())]
    Unwritable {
        /// The path.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file of sorted rows cannot be read back.
    #[error("{}: the sorted rows cannot be read back", path.display())]
    Spill {
        /// The path.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Times without a year, and none told.
    #[error("{file}: its times have no year, expected `--year`")]
    NoYear {
        /// The file, as the user named it.
        file: Arc<str>,
    },
    /// More inputs than a trace can number.
    #[error("too many inputs: expected at most 4294967295 files")]
    TooManyFiles,
    /// Whoever takes the rows has stopped, and knows why.
    #[error("the rows could not be handed on")]
    SinkClosed,
    /// A table could not be read or written.
    #[error(transparent)]
    Table(Box<TableError>),
}

impl From<TableError> for IngestError {
    fn from(error: TableError) -> Self {
        Self::Table(Box::new(error))
    }
}

impl IngestError {
    /// Returns what the user can do about it; `None` when the message says all.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Binary { .. } => {
                "unpack it, or export the log as JSONL or CSV; gzip and zstd are unpacked here"
            }
            Self::Cut { .. } => "copy the file again, or unpack what is there and ingest that",
            Self::Damaged { .. } => "copy the file again and test it with `gzip -t` or `zstd -t`",
            Self::Garbage { .. } => "remove the bytes after the last member, or pack it again",
            Self::RecordTooLong { .. } => "quotes inside a CSV field are doubled",
            Self::BrokenJson { .. } => "export it again, or make lines of it: `jq -c '.[]' FILE`",
            Self::PackedBinary { .. } => "unpack it first: `gzip -d` or `zstd -d`",
            Self::Sqlite { .. } => "copy the file again while nothing writes to it",
            Self::NoTable { .. } => {
                "export the table of the log as CSV: `sqlite3 -csv -header FILE 'SELECT * FROM TABLE'`"
            }
            Self::NoMatch { .. } => "check the name; a pattern is quoted, as in 'logs/*.jsonl.gz'",
            Self::NoLogs { .. } => {
                "hidden files, *.rejects.jsonl, *.md and checksums are left out; name such a file itself"
            }
            Self::SqlDump { .. } => {
                "export the table as CSV: `\\copy (SELECT * FROM logs) TO 'logs.csv' CSV HEADER` in psql, `mysql --batch` gives tabs, `sqlite3 -csv -header`; SQLite files are read as they are"
            }
            Self::Protobuf { .. } => "set `format: json` in the collector's file exporter",
            Self::UnknownHeader { map_line, .. } | Self::UnknownFormat { map_line, .. } => {
                return Some(unknown_hint(map_line));
            }
            Self::Aggregate { instead, .. } => instead,
            Self::NoColumn { .. } => "names are case-sensitive; see `--map FIELD=COLUMN`",
            Self::NoMap { .. } => "for example `--map input_tokens=COLUMN`",
            Self::BadMap { .. } => {
                return Some(format!("fields: {}", crate::table::schema::alias::map_names()));
            }
            Self::BadUnit { .. } => "for one column: `--time-unit COLUMN=ms`",
            Self::BadZone { .. } => "for example `--tz Europe/Berlin` or `--tz UTC`",
            Self::BadFilter { .. } => {
                "for example `--from 2026-11-24 --to 2026-12-01 --where 'model=chat-small|chat-big'`"
            }
            Self::MixedUnits { .. } => "name the unit: `--time-unit s|ms|us|ns`",
            Self::MixedOrigins { .. } => "make one trace of each kind",
            Self::NoRows { .. } => "a wrong `--format`, `--map`, `--where` or window?",
            Self::Salt { .. } => "name another one: `--salt-file FILE`",
            Self::ShortSalt { .. } => "make one: `head -c 32 /dev/urandom | base64 > FILE`",
            Self::NoSaltHome => "name a salt: `--salt-file FILE`",
            Self::Table(error) => return error.hint(),
            Self::WrongContainer { .. } => "leave out `--format` to let the file decide",
            Self::NoInput => "for example `tracewright ingest spendlogs.jsonl -o trace.parquet`",
            Self::Unreadable { .. } => "check the name and who may read it",
            Self::Directory { .. } => "name the files in it, for example `DIR/*.jsonl.gz`",
            Self::NotAFile { .. } => "unpack or save it to a file first",
            Self::Empty { .. } => "export the log again, or leave this file out",
            Self::Unwritable { .. } => "choose a folder that exists, can be written and has room",
            Self::Spill { .. } => "look at the disk under the output's folder, and run it again",
            Self::SinkClosed => "look at the message of the writer",
            Self::NoYear { .. } => "for example `--year 2026`: the year of the file's first line",
            Self::TooManyFiles => "join files, or make more than one trace",
        };
        Some(text.to_owned())
    }
}

fn in_brackets(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" ({text})") }
}

fn unknown_paths(paths: &str) -> String {
    if paths.is_empty() { String::new() } else { format!("; unknown records have {paths}") }
}

fn unknown_hint(map_line: &str) -> String {
    if map_line.is_empty() {
        return "name the format with `--format`; `docs/ingest.md` lists them".to_owned();
    }
    format!(
        "name the format with `--format` (`docs/ingest.md` lists them), or say which column is what: {map_line}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    fn all() -> Vec<IngestError> {
        let file: Arc<str> = "a.log".into();
        let io = || std::io::Error::other("disk on fire");
        let text = || "TEXT".to_owned();
        vec![
            IngestError::NoInput,
            IngestError::Unreadable { file: file.clone(), source: io() },
            IngestError::Directory { file: file.clone() },
            IngestError::NotAFile { file: file.clone() },
            IngestError::Empty { file: file.clone() },
            IngestError::Binary { file: file.clone(), what: "a zip archive" },
            IngestError::Cut { file: file.clone(), container: "gzip", byte: 7 },
            IngestError::Damaged { file: file.clone(), container: "zstd", byte: 7 },
            IngestError::Garbage { file: file.clone(), byte: 7 },
            IngestError::RecordTooLong { file: file.clone(), line: 3, limit: 64 },
            IngestError::BrokenJson { file: file.clone(), line: 3, byte: 70 },
            IngestError::PackedBinary { file: file.clone(), what: "a Parquet file" },
            IngestError::Sqlite {
                file: file.clone(),
                source: Box::new(rusqlite::Error::InvalidQuery),
            },
            IngestError::NoTable { file: file.clone(), found: 2 },
            IngestError::NoMatch { pattern: "*.log".into() },
            IngestError::NoLogs { file: file.clone() },
            IngestError::SqlDump { file: file.clone() },
            IngestError::Protobuf { file: file.clone() },
            IngestError::UnknownHeader { file: file.clone(), found: text(), map_line: text() },
            IngestError::UnknownFormat {
                file: file.clone(),
                sampled: 5,
                candidates: text(),
                paths: String::new(),
                map_line: text(),
            },
            IngestError::Aggregate { file: file.clone(), what: "sums", instead: "take the log" },
            IngestError::WrongContainer {
                file: file.clone(),
                format: "azure-llm-public",
                container: "JSONL",
            },
            IngestError::NoColumn { file: file.clone(), column: text(), found: "a, b".to_owned() },
            IngestError::NoMap { file: file.clone() },
            IngestError::BadMap { found: text() },
            IngestError::BadFilter { option: "--where", expected: text(), found: text() },
            IngestError::BadUnit { found: text() },
            IngestError::BadZone { found: text() },
            IngestError::MixedUnits {
                at: Position { file: file.clone(), line: 3, byte: None },
                column: text(),
                unit: text(),
            },
            IngestError::NoYear { file: file.clone() },
            IngestError::MixedOrigins { file, found: "missing", expected: "dates" },
            IngestError::NoRows { read: 3, dropped: 2, reasons: "probe 2".to_owned(), rejected: 1 },
            IngestError::Salt { path: "salt".into(), action: "read", source: io() },
            IngestError::ShortSalt { path: "salt".into(), found: 3 },
            IngestError::NoSaltHome,
            IngestError::Unwritable { path: "out".into(), source: io() },
            IngestError::Spill { path: "run-0".into(), source: io() },
            IngestError::TooManyFiles,
            IngestError::SinkClosed,
        ]
    }

    #[test]
    fn every_message_says_where_and_what_and_a_hint_what_to_do() {
        let mut text = String::new();
        for error in all() {
            writeln!(text, "{error}").unwrap();
            if let Some(hint) = error.hint() {
                writeln!(text, "    {hint}").unwrap();
            }
        }
        insta::assert_snapshot!(text, @r#"
        no log named: expected at least one file, found none
            for example `tracewright ingest spendlogs.jsonl -o trace.parquet`
        a.log: cannot be read
            check the name and who may read it
        a.log: expected a log file, found a directory
            name the files in it, for example `DIR/*.jsonl.gz`
        a.log: expected a regular file, found a pipe or a device
            unpack or save it to a file first
        a.log: expected records, found an empty file
            export the log again, or leave this file out
        a.log: expected JSON, CSV, text, Parquet, Arrow or SQLite, found a zip archive
            unpack it, or export the log as JSONL or CSV; gzip and zstd are unpacked here
        a.log: the gzip stream is cut at byte 7, before its end mark
            copy the file again, or unpack what is there and ingest that
        a.log: the zstd stream is damaged near byte 7
            copy the file again and test it with `gzip -t` or `zstd -t`
        a.log: leftover bytes at byte 7, expected the end or another compressed member
            remove the bytes after the last member, or pack it again
        a.log:3: a CSV record is longer than 64 bytes; is a quote left open?
            quotes inside a CSV field are doubled
        a.log:3: the JSON is broken at byte 70, and nothing tells where the next record begins
            export it again, or make lines of it: `jq -c '.[]' FILE`
        a.log: expected text inside the packed file, found a Parquet file
            unpack it first: `gzip -d` or `zstd -d`
        a.log: cannot be read as an SQLite database
            copy the file again while nothing writes to it
        a.log: expected a table `logs`, or one table only, found 2 others
            export the table of the log as CSV: `sqlite3 -csv -header FILE 'SELECT * FROM TABLE'`
        *.log: expected files of this name, found none
            check the name; a pattern is quoted, as in 'logs/*.jsonl.gz'
        a.log: expected logs in this directory, found none
            hidden files, *.rejects.jsonl, *.md and checksums are left out; name such a file itself
        a.log: expected a log, found a dump of SQL statements
            export the table as CSV: `\copy (SELECT * FROM logs) TO 'logs.csv' CSV HEADER` in psql, `mysql --batch` gives tabs, `sqlite3 -csv -header`; SQLite files are read as they are
        a.log: expected OTLP as JSON, found it as protobuf
            set `format: json` in the collector's file exporter
        a.log: the header is of no known format: TEXT
            name the format with `--format` (`docs/ingest.md` lists them), or say which column is what: TEXT
        a.log: the format is not clear from 5 records: TEXT
            name the format with `--format` (`docs/ingest.md` lists them), or say which column is what: TEXT
        a.log: expected one record a request, found sums
            take the log
        a.log: `azure-llm-public` is not read from JSONL
            leave out `--format` to let the file decide
        a.log: no column `TEXT`; found a, b
            names are case-sensitive; see `--map FIELD=COLUMN`
        a.log: the format `generic` needs at least one `--map FIELD=COLUMN`, found none
            for example `--map input_tokens=COLUMN`
        --map: expected `FIELD=COLUMN` with a known field, found `TEXT`
            fields: arrival, end, duration, ttft, input_tokens, output_tokens, cached_tokens, reasoning_tokens, model, response_model, provider, operation, endpoint, max_tokens, temperature, top_p, stream, status, http_status, error, finish_reason, request_id, trace_id, session, turn, user, key, tenant, cost, scenario
        --where: expected TEXT, found `TEXT`
            for example `--from 2026-11-24 --to 2026-12-01 --where 'model=chat-small|chat-big'`
        --time-unit: expected s, ms, us or ns, found `TEXT`
            for one column: `--time-unit COLUMN=ms`
        --tz: expected an IANA time zone, found `TEXT`
            for example `--tz Europe/Berlin` or `--tz UTC`
        a.log:3: times in `TEXT` do not share one unit: expected TEXT
            name the unit: `--time-unit s|ms|us|ns`
        a.log: its times have no year, expected `--year`
            for example `--year 2026`: the year of the file's first line
        a.log: its times are missing, those of the files before it are dates
            make one trace of each kind
        no request left of 3 records: 2 dropped (probe 2), 1 rejected
            a wrong `--format`, `--map`, `--where` or window?
        salt: the salt file cannot be read
            name another one: `--salt-file FILE`
        salt: expected a salt of at least 16 bytes, found 3
            make one: `head -c 32 /dev/urandom | base64 > FILE`
        no home for the salt: neither `XDG_CONFIG_HOME` nor `HOME` is set
            name a salt: `--salt-file FILE`
        out: cannot be written
            choose a folder that exists, can be written and has room
        run-0: the sorted rows cannot be read back
            look at the disk under the output's folder, and run it again
        too many inputs: expected at most 4294967295 files
            join files, or make more than one trace
        the rows could not be handed on
            look at the message of the writer
        "#);
    }
}
