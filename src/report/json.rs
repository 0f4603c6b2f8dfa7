//! A report as JSON: the fields of [`Report`], two blanks a level. Absent numbers are `null`.

use super::summarize::Report;

/// Returns `report` as pretty JSON that ends with a line feed.
///
/// # Errors
///
/// If a value has no JSON form, which is a bug in a serialiser.
pub fn render(report: &Report) -> serde_json::Result<String> {
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::example::{facts, failed, ok, plan};
    use super::super::summarize::summarize;
    use super::*;
    use crate::domain::outcome::Failure;
    use serde_json::Value;
    use std::collections::BTreeSet;

    /// Collects the paths of all leaves; a list's items share the path `[]`.
    fn paths(value: &Value, path: &str, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                for (key, field) in fields {
                    paths(field, &format!("{path}.{key}"), found);
                }
            }
            Value::Array(items) => {
                items.iter().for_each(|item| paths(item, &format!("{path}[]"), found));
            }
            _ => {
                found.insert(path.trim_start_matches('.').to_owned());
            }
        }
    }

    #[test]
    fn reads_back_as_it_was_written() {
        let mut outcomes: Vec<_> = (0..9).map(ok).collect();
        outcomes.push(failed(9, Failure::Http5xx));
        let report = summarize(&outcomes, plan(10), facts()).unwrap();
        let text = render(&report).unwrap();
        assert!(text.ends_with("}\n"));
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }

    #[test]
    fn the_keys_are_stable() {
        let mut outcomes: Vec<_> = (0..99).map(ok).collect();
        outcomes.push(failed(99, Failure::Http5xx));
        let report = summarize(&outcomes, plan(100), facts()).unwrap();
        let value: Value = serde_json::from_str(&render(&report).unwrap()).unwrap();
        let mut found = BTreeSet::new();
        paths(&value, "", &mut found);
        // One latency stands for all: they have the same keys.
        let other = |path: &String| {
            path.starts_with("latency[].success_only.") && !path.contains(".tpot.")
                || path.starts_with("latency[].error_adjusted.")
                    && !path.contains(".ttft_from_actual.")
        };
        found.retain(|path| !other(path));
        let keys: Vec<String> = found.into_iter().collect();
        insta::assert_snapshot!(keys.join("\n"), @"");
    }
}
