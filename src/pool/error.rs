//! What can go wrong while a pool is built, checked or used, and what to do about it.

use std::path::PathBuf;

/// An error of the pool stage.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The name of a tokenizer that is not built in.
    #[error("tokenizer `{name}`: not known, expected one of {known}")]
    UnknownTokenizer {
        /// The name asked for.
        name: String,
        /// The known names, in backticks.
        known: String,
    },
    /// A file or folder that cannot be read.
    #[error("{}: not readable", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that is not UTF-8.
    #[error("{}: byte {byte} is not UTF-8", path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// Bytes before the first invalid one.
        byte: usize,
    },
    /// A file larger than the limit.
    #[error("{}: {bytes} bytes, expected at most {limit}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A file named on the command line that is no text.
    #[error("{}: unknown kind of file, expected `.txt`, `.md` or `.jsonl`", path.display())]
    UnknownKind {
        /// The file.
        path: PathBuf,
    },
    /// A line of a JSON-lines file without a text.
    #[error("{}:{line}: {what}, expected an object with a string `text`", path.display())]
    BadLine {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What was found.
        what: String,
    },
    /// No source of text was named.
    #[error("pool: no texts given and no language to write in")]
    NoSource,
    /// Not one fragment came out of the sources.
    #[error("pool: no usable fragment in {texts} texts, {rejected} rejected")]
    NoFragments {
        /// Texts read.
        texts: u64,
        /// Fragments rejected.
        rejected: u64,
    },
    /// The sentence grammars did not give enough distinct fragments.
    #[error("pool: {built} distinct entries after {tried} attempts, expected {wanted}")]
    TooFew {
        /// Entries asked for.
        wanted: u64,
        /// Entries built.
        built: u64,
        /// Fragments written.
        tried: u64,
    },
    /// More entries than an entry id can number.
    #[error("pool: {wanted} entries, expected at most {limit}")]
    TooMany {
        /// Entries asked for.
        wanted: u64,
        /// The limit.
        limit: u64,
    },
    /// Joins whose tokens do not add up.
    #[error("pool: {failed} of {checked} random joins do not add up, first: {first}")]
    JoinsFailed {
        /// Joins checked.
        checked: u64,
        /// Joins that failed.
        failed: u64,
        /// The parts of the first failure and both counts; no text.
        first: String,
    },
    /// A prompt part names an entry that the pool does not hold.
    #[error("prompt part: entry {entry_id} is not in the pool of {entries} entries")]
    UnknownEntry {
        /// The entry.
        entry_id: u32,
        /// Entries in the pool.
        entries: usize,
    },
    /// A prompt part cuts an entry where its cut table has no cut.
    #[error("prompt part: entry {entry_id} has no cut at {cut_tokens} tokens")]
    NotACut {
        /// The entry.
        entry_id: u32,
        /// The tokens asked for.
        cut_tokens: u32,
    },
    /// A pool whose texts and cut tables do not fit together.
    #[error("pool entry {entry_id}: {what}")]
    BrokenEntry {
        /// The entry.
        entry_id: u32,
        /// What is wrong.
        what: String,
    },
    /// A pool built with another vocabulary of the same name.
    #[error("pool: vocabulary digest of `{tokenizer}` is `{found}`, expected `{expected}`")]
    OtherVocabulary {
        /// The tokenizer's name.
        tokenizer: String,
        /// The digest in the pool's manifest.
        found: String,
        /// The digest of the built-in vocabulary.
        expected: String,
    },
}

impl PoolError {
    /// Returns what the user can do about it, when there is something.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::UnknownTokenizer { .. } => {
                "name the tokenizer of the model under test; most recent models count close to `o200k_base`"
            }
            Self::Read { .. } => "check the path and its permissions",
            Self::NotUtf8 { .. } => "convert the file to UTF-8, for example with `iconv -t utf-8`",
            Self::TooLarge { .. } => "split the file; a folder of files is read in order of name",
            Self::UnknownKind { .. } => {
                "rename the file, or name its folder: files of other kinds in a folder are skipped and counted"
            }
            Self::BadLine { .. } => r#"write one object a line, for example {"text": "..."}"#,
            Self::NoSource => "name files or folders, or write own sentences with `--fake en,zh`",
            Self::NoFragments { .. } => {
                "a fragment needs at least 8 tokens and a word boundary within its first 16; add longer texts or `--fake en,zh`"
            }
            Self::TooFew { .. } => {
                "ask for fewer entries with `--entries`, or add texts of your own"
            }
            Self::TooMany { .. } => "ask for fewer entries with `--entries`",
            Self::JoinsFailed { .. } => {
                "the pool was not written; leave out the texts named by file one by one to find the cause, and report it"
            }
            Self::UnknownEntry { .. } | Self::NotACut { .. } => {
                "the plan was made for another pool; make the plan again with this one"
            }
            Self::BrokenEntry { .. } => "build the pool again with `tracewright pool build`",
            Self::OtherVocabulary { .. } => {
                "build the pool again with this version of `tracewright`"
            }
        };
        Some(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    #[test]
    fn every_message_says_where_what_and_what_to_do() {
        let path = || PathBuf::from("texts/a.txt");
        let missing = || std::io::Error::from(std::io::ErrorKind::NotFound);
        let known = "`o200k_base`, `cl100k_base`".to_owned();
        let digest = |text: &str| text.to_owned();
        let errors = [
            PoolError::UnknownTokenizer { name: "gpt2".into(), known },
            PoolError::Read { path: path(), source: missing() },
            PoolError::NotUtf8 { path: path(), byte: 17 },
            PoolError::TooLarge { path: path(), bytes: 300, limit: 256 },
            PoolError::UnknownKind { path: "texts/a.pdf".into() },
            PoolError::BadLine { path: "a.jsonl".into(), line: 3, what: "no `text`".into() },
            PoolError::NoSource,
            PoolError::NoFragments { texts: 2, rejected: 5 },
            PoolError::TooFew { wanted: 900, built: 412, tried: 3700 },
            PoolError::TooMany { wanted: 5_000_000, limit: 1_000_000 },
            PoolError::JoinsFailed { checked: 9, failed: 1, first: "entry 3 at 5".into() },
            PoolError::UnknownEntry { entry_id: 7, entries: 3 },
            PoolError::NotACut { entry_id: 7, cut_tokens: 11 },
            PoolError::BrokenEntry { entry_id: 7, what: "2 cuts, 3 offsets".into() },
            PoolError::OtherVocabulary {
                tokenizer: "o200k_base".into(),
                found: digest("aa"),
                expected: digest("bb"),
            },
        ];
        let mut shown = String::new();
        for error in errors {
            writeln!(shown, "{error}\n  hint: {}", error.hint().unwrap()).unwrap();
        }
        insta::assert_snapshot!(shown, @r#"
        tokenizer `gpt2`: not known, expected one of `o200k_base`, `cl100k_base`
          hint: name the tokenizer of the model under test; most recent models count close to `o200k_base`
        texts/a.txt: not readable
          hint: check the path and its permissions
        texts/a.txt: byte 17 is not UTF-8
          hint: convert the file to UTF-8, for example with `iconv -t utf-8`
        texts/a.txt: 300 bytes, expected at most 256
          hint: split the file; a folder of files is read in order of name
        texts/a.pdf: unknown kind of file, expected `.txt`, `.md` or `.jsonl`
          hint: rename the file, or name its folder: files of other kinds in a folder are skipped and counted
        a.jsonl:3: no `text`, expected an object with a string `text`
          hint: write one object a line, for example {"text": "..."}
        pool: no texts given and no language to write in
          hint: name files or folders, or write own sentences with `--fake en,zh`
        pool: no usable fragment in 2 texts, 5 rejected
          hint: a fragment needs at least 8 tokens and a word boundary within its first 16; add longer texts or `--fake en,zh`
        pool: 412 distinct entries after 3700 attempts, expected 900
          hint: ask for fewer entries with `--entries`, or add texts of your own
        pool: 5000000 entries, expected at most 1000000
          hint: ask for fewer entries with `--entries`
        pool: 1 of 9 random joins do not add up, first: entry 3 at 5
          hint: the pool was not written; leave out the texts named by file one by one to find the cause, and report it
        prompt part: entry 7 is not in the pool of 3 entries
          hint: the plan was made for another pool; make the plan again with this one
        prompt part: entry 7 has no cut at 11 tokens
          hint: the plan was made for another pool; make the plan again with this one
        pool entry 7: 2 cuts, 3 offsets
          hint: build the pool again with `tracewright pool build`
        pool: vocabulary digest of `o200k_base` is `aa`, expected `bb`
          hint: build the pool again with this version of `tracewright`
        "#);
    }
}
