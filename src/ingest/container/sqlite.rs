//! The log table of an SQLite file as JSON objects, as one-api and new-api keep it.
//!
//! The table `logs`, or the only one. The file is opened as one that nobody changes: no lock, no
//! file beside it. Where a write-ahead log or a journal lies beside it, a copy of both is read
//! instead, so that their rows count and the original stays as it is. Blobs become hexadecimal
//! texts.

use super::super::error::IngestError;
use super::super::loose::FieldError;
use super::super::rows::push_json_text;
use super::rows::{RowSource, SomeRows};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows read at once.
const ROWS: usize = 256;
/// The table that one-api and new-api write.
const TABLE: &str = "logs";

/// The log table of one file.
#[derive(Debug)]
pub struct Database {
    file: Arc<str>,
    connection: Connection,
    query: String,
    /// Whether pages go by row id; otherwise by number.
    by_id: bool,
    next: i64,
    at_end: bool,
    /// Holds the copy, where one is read.
    _copy: Option<tempfile::TempDir>,
}

impl Database {
    /// Opens a file and finds its table.
    ///
    /// # Errors
    ///
    /// If it cannot be read as SQLite, or has no one table.
    pub fn open(path: &Path) -> Result<Self, IngestError> {
        let file: Arc<str> = path.display().to_string().into();
        let copy = copy_with_log(path)
            .map_err(|source| IngestError::Unreadable { file: file.clone(), source })?;
        let connection = match &copy {
            Some((_, copy)) => Connection::open_with_flags(copy, OpenFlags::SQLITE_OPEN_READ_WRITE),
            None => Connection::open_with_flags(
                uri(path),
                OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI,
            ),
        };
        let broken = |source| broken(&file, source);
        let connection = connection.map_err(broken)?;
        let tables = tables(&connection).map_err(broken)?;
        let table = match tables.as_slice() {
            [only] => only,
            several if several.iter().any(|name| name == TABLE) => TABLE,
            several => return Err(IngestError::NoTable { file, found: several.len() }),
        };
        let table = table.replace('"', "\"\"");
        let by_id = format!(
            "SELECT _rowid_, * FROM \"{table}\" WHERE _rowid_ > ?1 ORDER BY _rowid_ LIMIT {ROWS}"
        );
        let has_id = connection.prepare(&by_id).is_ok();
        let query = if has_id {
            by_id
        } else {
            format!("SELECT 0, * FROM \"{table}\" LIMIT {ROWS} OFFSET ?1")
        };
        let next = if has_id { i64::MIN } else { 0 };
        let copy = copy.map(|(folder, _)| folder);
        Ok(Self { file, connection, query, by_id: has_id, next, at_end: false, _copy: copy })
    }

    fn page(&mut self) -> rusqlite::Result<SomeRows> {
        let mut statement = self.connection.prepare_cached(&self.query)?;
        let keys: Vec<String> = statement
            .column_names()
            .map(|name| format!("{}:", serde_json::to_string(name).unwrap_or_default()))
            .collect();
        let mut found = SomeRows::new();
        let mut rows = statement.query([self.next])?;
        while let Some(row) = rows.next()? {
            if self.by_id {
                self.next = row.get(0)?;
            }
            let mut text = String::from("{");
            let mut is_text = true;
            // The first column is the row id.
            for (place, key) in keys.iter().enumerate().skip(1) {
                if place > 1 {
                    text.push(',');
                }
                text.push_str(key);
                is_text &= push_value(row.get_ref(place)?, &mut text);
            }
            text.push('}');
            found.push(if is_text { Ok(text) } else { Err(FieldError::new("", "is not UTF-8")) });
        }
        Ok(found)
    }
}

impl RowSource for Database {
    fn next_rows(&mut self) -> Result<Option<SomeRows>, IngestError> {
        if self.at_end {
            return Ok(None);
        }
        let rows = self.page().map_err(|source| broken(&self.file, source))?;
        self.at_end = rows.len() < ROWS;
        if !self.by_id {
            self.next += i64::try_from(rows.len()).unwrap_or(i64::MAX);
        }
        Ok((!rows.is_empty()).then_some(rows))
    }
}

/// Appends a value as JSON; returns whether it could be, which a text that is not UTF-8 cannot.
fn push_value(value: ValueRef<'_>, text: &mut String) -> bool {
    match value {
        ValueRef::Null => text.push_str("null"),
        ValueRef::Integer(number) => text.push_str(&number.to_string()),
        ValueRef::Real(number) => match serde_json::Number::from_f64(number) {
            Some(number) => text.push_str(&number.to_string()),
            None => text.push_str("null"),
        },
        ValueRef::Text(bytes) => match simdutf8::basic::from_utf8(bytes) {
            Ok(value) => push_json_text(value, text),
            Err(_) => return false,
        },
        ValueRef::Blob(bytes) => {
            text.push('"');
            for byte in bytes {
                push_hex(*byte, text);
            }
            text.push('"');
        }
    }
    true
}

fn push_hex(byte: u8, text: &mut String) {
    for digit in [byte >> 4, byte & 15] {
        text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
    }
}

fn broken(file: &Arc<str>, source: rusqlite::Error) -> IngestError {
    IngestError::Sqlite { file: file.clone(), source: Box::new(source) }
}

fn tables(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let query = "SELECT name FROM sqlite_master WHERE type = 'table' \
                 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
    connection.prepare(query)?.query_map([], |row| row.get(0))?.collect()
}

/// Returns the address of a file that nobody changes.
fn uri(path: &Path) -> String {
    let mut text = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
            text.push(char::from(*byte));
        } else {
            text.push('%');
            push_hex(*byte, &mut text);
        }
    }
    text + "?immutable=1"
}

/// Copies a file together with the log or journal beside it; `None` when there is none.
fn copy_with_log(path: &Path) -> std::io::Result<Option<(tempfile::TempDir, PathBuf)>> {
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let logs = ["-wal", "-journal"].map(|suffix| (suffix, beside(suffix)));
    let is_there = |log: &Path| log.metadata().is_ok_and(|found| found.len() > 0);
    if !logs.iter().any(|(_, log)| is_there(log)) {
        return Ok(None);
    }
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("copy.db");
    std::fs::copy(path, &copy)?;
    for (suffix, log) in &logs {
        if is_there(log) {
            std::fs::copy(log, folder.path().join(format!("copy.db{suffix}")))?;
        }
    }
    Ok(Some((folder, copy)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(path: &Path, statements: &str) -> Connection {
        let connection = Connection::open(path).unwrap();
        connection.execute_batch(statements).unwrap();
        connection
    }

    fn rows(path: &Path) -> Vec<Result<String, FieldError>> {
        let mut database = Database::open(path).unwrap();
        let mut rows = Vec::new();
        while let Some(more) = database.next_rows().unwrap() {
            rows.extend(more);
        }
        rows
    }

    #[test]
    fn the_table_of_logs_is_read_whole_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a ?%1.db");
        drop(make(
            &path,
            "CREATE TABLE users (x); CREATE TABLE logs (id INTEGER PRIMARY KEY, model TEXT, quota REAL, raw BLOB, other);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
             INSERT INTO logs SELECT i, 'm\"' || i, i / 2.0, x'00ff', NULL FROM n;
             UPDATE logs SET model = CAST(x'ff' AS TEXT) WHERE id = 3;",
        ));
        let found = rows(&path);
        assert_eq!(found.len(), 1_000);
        insta::assert_snapshot!(found[999].as_ref().unwrap(), @r#"{"id":1000,"model":"m\"1000","quota":500.0,"raw":"00ff","other":null}"#);
        assert_eq!(found[2], Err(FieldError::new("", "is not UTF-8")));
        assert_eq!(folder.path().read_dir().unwrap().count(), 1, "nothing was written");
    }

    #[test]
    fn rows_in_a_write_ahead_log_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one-api.db");
        let open = make(
            &path,
            "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;
             CREATE TABLE anything (id); INSERT INTO anything VALUES (1), (2);",
        );
        assert_eq!(rows(&path).len(), 2);
        drop(open);
    }

    #[test]
    fn tables_without_row_ids_are_read_by_pages() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        drop(make(
            &path,
            "CREATE TABLE logs (id INTEGER PRIMARY KEY, b) WITHOUT ROWID;
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 512)
             INSERT INTO logs SELECT i, i FROM n;",
        ));
        assert_eq!(rows(&path).len(), 512);
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        drop(make(&path, "CREATE TABLE a (x); CREATE TABLE b (x);"));
        assert!(matches!(Database::open(&path), Err(IngestError::NoTable { found: 2, .. })));
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..100]).unwrap();
        assert!(Database::open(&path).is_err());
        std::fs::write(&path, [b"SQLite format 3\0", &[7; 500][..]].concat()).unwrap();
        assert!(matches!(Database::open(&path), Err(IngestError::Sqlite { .. })));
    }
}
