//! Tells CSV and SQL from text, by the first bytes of a log.
//!
//! CSV begins with names, or has the same number of cells in each of its first lines; what
//! separates them is whatever makes the most of them. A line of a server log has words, brackets
//! and quotes where CSV has names.

/// What may separate cells, the usual first.
const DELIMITERS: &[u8] = b",;\t|";
/// Lines looked at.
const LINES: usize = 20;
/// Longest name of a column, in bytes.
const MAX_NAME: usize = 64;

/// Returns what separates the cells of a CSV log; `None` when it is none.
pub(super) fn delimiter(head: &str) -> Option<u8> {
    let best = DELIMITERS.iter().rev().max_by_key(|found| head_row(head, **found).len());
    let delimiter = *best?;
    if head.lines().skip(1).take(LINES).any(|line| line.trim_start().starts_with('{')) {
        return None;
    }
    let names = head_row(head, delimiter);
    let is_header = names.iter().enumerate().all(|(place, name)| is_name(name, place));
    if names.len() > 1 {
        let is_header = is_header && fits_rows(head, delimiter, names.len());
        return (is_header || is_table(head, delimiter, names.len())).then_some(delimiter);
    }
    // One column: a name, and below it single words.
    let words = head.lines().skip(1).filter(|line| !line.trim().is_empty()).take(LINES);
    let mut words = words.map(|line| line.split_whitespace().count() == 1 && !line.contains('{'));
    let is_word = names.first().is_some_and(|name| !name.contains(' '));
    (is_header && is_word && words.all(|is_word| is_word)).then_some(delimiter)
}

/// Returns the cells of the first record.
fn head_row(head: &str, delimiter: u8) -> Vec<String> {
    rows(head, delimiter).next().unwrap_or_default()
}

fn rows(head: &str, delimiter: u8) -> impl Iterator<Item = Vec<String>> {
    let reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(delimiter)
        .from_reader(head.as_bytes());
    let cells = |row: csv::ByteRecord| {
        row.iter().map(|cell| String::from_utf8_lossy(cell).trim().to_owned()).collect()
    };
    reader.into_byte_records().map_while(Result::ok).map(cells)
}

/// Whether a cell of the first line may be the name of a column; the first may be empty, as an
/// index is written.
fn is_name(name: &str, place: usize) -> bool {
    let fits = |c: char| c.is_alphanumeric() || "_-. :/()[]%#@".contains(c);
    let is_blank_index = name.is_empty() && place == 0;
    let begins = name.starts_with(|c: char| c.is_alphabetic() || "_@#".contains(c));
    is_blank_index
        || (begins
            && name.len() <= MAX_NAME
            && name.split(' ').count() <= 4
            && !name.contains("] ")
            && name.chars().all(fits))
}

/// Whether half of the rows, or more, have as many cells as the header.
fn fits_rows(head: &str, delimiter: u8, columns: usize) -> bool {
    let rows: Vec<usize> = rows(head, delimiter).skip(1).take(LINES).map(|row| row.len()).collect();
    let fitting = rows.iter().filter(|cells| **cells == columns).count();
    // A first row that is longer than the head is cut.
    fitting * 2 >= rows.len() || rows.len() == 1
}

/// Whether the first lines have the same number of cells, three or more, without the looks of a
/// server log.
fn is_table(head: &str, delimiter: u8, columns: usize) -> bool {
    let first = head.lines().next().unwrap_or_default();
    let server = ["[", "{", "\" ", " - ", ": ", "INFO", "WARN"].into_iter();
    let mut rows = rows(head, delimiter).take(LINES).peekable();
    // The last row of the head may be cut.
    let mut same = true;
    while let Some(row) = rows.next() {
        same &= row.len() == columns || rows.peek().is_none();
    }
    columns >= 3 && same && !server.into_iter().any(|mark| first.contains(mark))
}

/// Whether a text is a dump of statements of SQL.
pub(super) fn is_sql(head: &str) -> bool {
    let is_comment = |line: &&str| {
        let line = line.trim_start();
        line.is_empty()
            || line.starts_with("--")
            || line.starts_with("/*")
            || line.starts_with('\\')
    };
    let Some(first) = head.lines().find(|line| !is_comment(line)) else { return false };
    let first = first.trim_start().to_ascii_uppercase();
    let begins = |start: &str| first.starts_with(start);
    (begins("COPY ") && first.contains(" FROM STDIN"))
        || (begins("SET ") && (first.contains('=') || first.contains(" TO ")))
        || ["INSERT INTO ", "CREATE TABLE ", "DROP TABLE ", "LOCK TABLES ", "PRAGMA FOREIGN_KEYS"]
            .into_iter()
            .chain(["BEGIN TRANSACTION", "CREATE DATABASE ", "USE `", "REPLACE INTO "])
            .any(begins)
}
