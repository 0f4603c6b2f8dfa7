//! The one word at the top of a report: may these numbers be believed?
//!
//! Warnings in, a word and its reasons out. The gravest warning decides.

use super::warnings::{Level, Warning};
use crate::domain::word::word_enum;
use serde::{Deserialize, Serialize};

word_enum! {
    /// Whether a run's numbers may be believed.
    pub enum VerdictWord {
        /// Nothing speaks against them.
        Believable = "believable",
        /// Something must be said with them.
        WithWarnings = "believable with warnings",
        /// They do not measure what was planned.
        NotBelievable = "not believable",
    }
}

/// The verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The word.
    pub word: VerdictWord,
    /// The findings that led to it; empty when believable.
    pub reasons: Vec<String>,
}

impl Default for Verdict {
    /// Nothing speaks against the numbers.
    fn default() -> Self {
        Self { word: VerdictWord::Believable, reasons: Vec::new() }
    }
}

impl Verdict {
    /// Returns the verdict that follows from `warnings`.
    ///
    /// When something is fatal, only that is given as a reason.
    pub fn of(warnings: &[Warning]) -> Self {
        let findings = |level| -> Vec<String> {
            let wanted = warnings.iter().filter(|warning| warning.level == level);
            wanted.map(|warning| warning.finding.clone()).collect()
        };
        let fatal = findings(Level::Fatal);
        if !fatal.is_empty() {
            return Self { word: VerdictWord::NotBelievable, reasons: fatal };
        }
        let reasons = findings(Level::Warning);
        let word =
            if reasons.is_empty() { VerdictWord::Believable } else { VerdictWord::WithWarnings };
        Self { word, reasons }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(level: Level, finding: &str) -> Warning {
        Warning {
            level,
            code: "code".to_owned(),
            finding: finding.to_owned(),
            advice: "advice".to_owned(),
        }
    }

    #[test]
    fn the_gravest_decides() {
        assert_eq!(Verdict::of(&[]), Verdict::default());
        let notice = warning(Level::Notice, "n");
        let one = warning(Level::Warning, "w");
        let fatal = warning(Level::Fatal, "f");
        assert_eq!(Verdict::of(std::slice::from_ref(&notice)), Verdict::default());
        let with = Verdict::of(&[one.clone(), notice.clone()]);
        assert_eq!((with.word, with.reasons), (VerdictWord::WithWarnings, vec!["w".to_owned()]));
        let not = Verdict::of(&[fatal, one, notice]);
        assert_eq!((not.word, not.reasons), (VerdictWord::NotBelievable, vec!["f".to_owned()]));
    }
}
