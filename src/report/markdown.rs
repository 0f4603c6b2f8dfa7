//! A report as Markdown whose tables render on GitHub.
//!
//! The same sections as the text. Words of the server are escaped, so that a message can break
//! neither a table nor the page.

use super::cells::escape;
use super::sections::{self, Block};
use super::summarize::Report;
use std::fmt::Write as _;

/// Returns `report` as Markdown that ends with a line feed.
pub fn render(report: &Report) -> String {
    let mut text = format!("# tracewright report: {}\n", report.verdict.word);
    if !report.verdict.reasons.is_empty() {
        text.push('\n');
    }
    for reason in &report.verdict.reasons {
        // Writing to a string cannot fail.
        let _ok = writeln!(text, "- {}", escape(reason));
    }
    for section in sections::of(report) {
        let _ok = write!(text, "\n## {}\n\n", section.title);
        let mut was_item = false;
        for (index, block) in section.blocks.iter().enumerate() {
            let is_item = matches!(block, Block::Item(..));
            if index > 0 && !(is_item && was_item) {
                text.push('\n');
            }
            was_item = is_item;
            match block {
                Block::Table(table) => text.push_str(&table.to_markdown()),
                Block::Sentence(sentence) => {
                    let _ok = writeln!(text, "{}", escape(sentence));
                }
                Block::Item(term, meaning) => {
                    let _ok = writeln!(text, "- **{}**: {}", escape(term), escape(meaning));
                }
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::example::{facts, failed, ok, plan};
    use super::super::summarize::summarize;
    use super::*;
    use crate::domain::outcome::Failure;

    #[test]
    fn every_table_has_a_rule_and_as_many_cells_in_each_row() {
        let mut outcomes: Vec<_> = (0..20).map(ok).collect();
        outcomes.push(failed(20, Failure::RateLimited));
        let text = render(&summarize(&outcomes, plan(21), facts()).unwrap());
        let lines: Vec<&str> = text.lines().collect();
        let cells = |line: &str| line.replace("\\|", "").matches('|').count();
        let mut tables = 0;
        for (index, line) in lines.iter().enumerate() {
            if line.starts_with("| ---") {
                tables += 1;
                assert!(index >= 2 && lines[index - 2].is_empty(), "no blank line before {line}");
                let body = lines[index..].iter().take_while(|line| line.starts_with('|'));
                assert!(body.clone().all(|row| cells(row) == cells(lines[index - 1])));
            }
        }
        assert_eq!(tables, 11, "{text}");
    }

    #[test]
    fn a_message_cannot_break_out_of_its_place() {
        let mut outcome = failed(0, Failure::Http4xx);
        outcome.failure_message = Some("a|b <img src=x>\n# title".to_owned());
        let text = render(&summarize(&[outcome], plan(1), facts()).unwrap());
        assert!(text.contains("- **http\\_4xx**: a\\|b \\<img src=x> # title\n"), "{text}");
    }
}
