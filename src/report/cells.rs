//! Numbers as cells, and cells as tables of plain text or Markdown.
//!
//! Widths are counted in characters. An absent number is `-`, never 0.

use std::fmt::Write as _;

/// A table: a header and rows of as many cells.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// How many columns from the left hold words; the others hold numbers and align right.
    words: usize,
}

impl Table {
    /// Starts a table whose first `words` columns hold words.
    pub(super) fn new(words: usize, header: &[&str]) -> Self {
        let header = header.iter().map(|&cell| cell.to_owned()).collect();
        Self { header, rows: Vec::new(), words }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Returns the width of every column.
    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.header.iter().map(|cell| cell.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }

    /// Returns the table as aligned lines, two blanks in, without blanks at the end.
    pub(super) fn to_text(&self) -> String {
        let widths = self.widths();
        let mut text = String::new();
        let headless = self.header.iter().all(String::is_empty);
        for row in (!headless).then_some(&self.header).into_iter().chain(&self.rows) {
            let mut line = String::from(" ");
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                // Writing to a string cannot fail.
                let _ok = if column < self.words {
                    write!(line, " {cell:<width$}")
                } else {
                    write!(line, " {cell:>width$}")
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// Returns the table in GitHub's Markdown.
    pub(super) fn to_markdown(&self) -> String {
        let line = |cells: &[String]| {
            let escaped: Vec<String> = cells.iter().map(|cell| escape(cell)).collect();
            format!("| {} |\n", escaped.join(" | "))
        };
        let mut text = line(&self.header);
        let rule = |column| if column < self.words { "---" } else { "---:" };
        let rules: Vec<String> =
            (0..self.header.len()).map(|column| rule(column).to_owned()).collect();
        text.push_str(&line(&rules));
        self.rows.iter().for_each(|row| text.push_str(&line(row)));
        text
    }
}

/// Returns text that Markdown shows as it is, in one line and inside a table cell.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '|' | '*' | '_' | '<' | '\\' | '[' => {
                escaped.push('\\');
                escaped.push(character);
            }
            '\n' | '\r' => escaped.push(' '),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// Returns a whole number with commas between thousands.
pub(super) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a whole number, or `-`.
pub(super) fn maybe_count(value: Option<u64>) -> String {
    value.map_or_else(absent, count)
}

/// Returns what stands for a number that was not measured.
pub(super) fn absent() -> String {
    "-".to_owned()
}

/// Returns a number with as many decimals as its size deserves, or `-`.
pub(super) fn number(value: Option<f64>) -> String {
    let Some(value) = value else { return absent() };
    let size = value.abs();
    if size < 100.0 {
        format!("{value:.2}")
    } else if size < 10_000.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// Returns a share in percent, or `-`.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(absent, |share| format!("{:.2} %", share * 100.0))
}

/// Breaks `text` into lines of at most `width` characters at blanks; a longer word stays whole.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_cells() {
        let counts: Vec<String> =
            [0, 999, 1_000, 1_234_567].iter().map(|&value| count(value)).collect();
        assert_eq!(counts, ["0", "999", "1,000", "1,234,567"]);
        let numbers: Vec<String> =
            [0.0, 9.999, 123.45, 12_345.6].iter().map(|&value| number(Some(value))).collect();
        assert_eq!(numbers, ["0.00", "10.00", "123.5", "12346"]);
        assert_eq!(
            (number(None), percent(None), maybe_count(None)),
            (absent(), absent(), absent())
        );
        assert_eq!(percent(Some(0.1234)), "12.34 %");
    }

    #[test]
    fn tables_align_words_left_and_numbers_right() {
        let mut table = Table::new(1, &["what", "n"]);
        table.row(vec!["a|b".to_owned(), "1,000".to_owned()]);
        table.row(vec!["longer".to_owned(), "7".to_owned()]);
        assert_eq!(table.to_text(), "  what       n\n  a|b    1,000\n  longer     7\n");
        assert_eq!(
            table.to_markdown(),
            "| what | n |\n| --- | ---: |\n| a\\|b | 1,000 |\n| longer | 7 |\n"
        );
    }

    #[test]
    fn wrapping_never_splits_a_word() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("unbreakable", 3), ["unbreakable"]);
        assert_eq!(wrap("", 3), [""]);
    }
}
