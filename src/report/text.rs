//! A report as plain text, at most [`WIDTH`] columns wide; the verdict stands first.

use super::cells;
use super::sections::{self, Block};
use super::summarize::Report;

/// Columns of the page. Only a word longer than the page goes past it.
pub const WIDTH: usize = 100;
/// Columns of a term and the blanks after it.
const TERM: usize = 18;

/// Returns `report` as plain text that ends with a line feed.
pub fn render(report: &Report) -> String {
    let mut text = format!("tracewright report: {}\n", report.verdict.word.as_str().to_uppercase());
    for reason in &report.verdict.reasons {
        item(&mut text, "  - ", reason);
    }
    for section in sections::of(report) {
        text.push('\n');
        text.push_str(&section.title);
        text.push('\n');
        for block in section.blocks {
            match block {
                Block::Table(table) => text.push_str(&table.to_text()),
                Block::Sentence(sentence) => item(&mut text, "  ", &sentence),
                Block::Item(term, meaning) => {
                    let lead = format!("  {term:<width$}", width = TERM - 2);
                    let lead = if lead.ends_with(' ') { lead } else { format!("{lead} ") };
                    item(&mut text, &lead, &meaning);
                }
            }
        }
    }
    text
}

/// Appends `lead` and the words of `body`, wrapped; further lines are as far in as the first.
fn item(text: &mut String, lead: &str, body: &str) {
    let indent = lead.chars().count();
    let clean: String = body.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    for (index, line) in cells::wrap(&clean, WIDTH - indent).iter().enumerate() {
        if index == 0 {
            text.push_str(lead);
        } else {
            text.push_str(&" ".repeat(indent));
        }
        text.push_str(line);
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::{facts, failed, ok, plan, unsent};
    use super::super::summarize::summarize;
    use super::*;
    use crate::domain::outcome::Failure;
    use crate::domain::schedule::CountKind;

    #[test]
    fn no_line_is_wider_than_the_page() {
        let mut outcomes: Vec<_> = (0..400).map(ok).collect();
        outcomes[7] = failed(7, Failure::ConnectionReusedClosed);
        outcomes[8] = failed(8, Failure::Http5xx);
        outcomes[9].at.closed = Some(crate::domain::time::Nanos(9_000_000_000_000));
        let report = summarize(&outcomes, plan(500), facts()).unwrap();
        let text = render(&report);
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{} columns: {line}", line.chars().count());
            assert_eq!(line.trim_end(), line);
        }
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let mut outcome = failed(0, Failure::StreamError);
        outcome.failure_message = Some("\u{1b}[31mred\u{7}".to_owned());
        let text = render(&summarize(&[outcome], plan(1), facts()).unwrap());
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
    }

    #[test]
    fn a_whole_report() {
        let mut outcomes: Vec<_> = (0..38).map(ok).collect();
        outcomes.push(failed(38, Failure::Http5xx));
        outcomes.push(unsent(39));
        let mut facts = facts();
        facts.count_kind = Some(CountKind::Raw);
        facts.target_is_mock = true;
        let mut plan = plan(40);
        plan.counts.source_rows = 45;
        plan.counts.not_selected = 5;
        plan.speed = Some(2.0);
        let report = summarize(&outcomes, plan, facts).unwrap();
        insta::assert_snapshot!(render(&report), @"");
    }

    #[test]
    fn all_failed() {
        let outcomes: Vec<_> = (0..3).map(|id| failed(id, Failure::Connect)).collect();
        let text = render(&summarize(&outcomes, plan(3), facts()).unwrap());
        let head: Vec<&str> = text.lines().take(2).collect();
        assert_eq!(head, ["tracewright report: NOT BELIEVABLE", "  - all 3 sent requests failed"]);
        let ttft = text.lines().find(|line| line.contains("TTFT, actual send")).unwrap();
        assert_eq!(ttft.split_whitespace().filter(|cell| *cell == "-").count(), 8, "{ttft}");
    }
}
