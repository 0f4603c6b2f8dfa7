//! Renders `docs/formats.md` from the schema tables.

use super::schema::{
    ARTIFACTS, Artifact, KEY_ARTIFACT, KEY_METADATA, KEY_SCHEMA_VERSION, KEY_TOOL_VERSION,
    MAP_FIELDS,
};
use std::fmt::Write;

const INTRODUCTION: &str = "\
# File formats

This file is generated from `src/table/schema/`; do not edit it by hand. A test keeps it equal.

Every table is a Parquet file with zstd compression. Null means *not known*, never zero. Names of
the trace follow OpenTelemetry's generative-AI terms with `.` written as `_`; names of plan and run
end with their unit. Each column's description and unit are also in the file itself, in the
metadata of its Arrow field. Equal inputs, seed and version give equal bytes: no table holds the
time at which it was written.
";

const JSON_FILES: &str = "\
## model.json

The fitted workload, written by `fit` and read by `plan`: rows read, input and output lengths with
every fit, arrivals, shares of kinds of requests, warnings. Numbers that could not be measured are
null. It holds the digest of the trace, no row of it and no hash. `schema_version` is 1.

## pool.json

The manifest of a prompt pool, beside `pool.parquet`: tokenizer and its digest, seed, number of
entries and tokens, entries per bucket and kind, joins that were checked, and `pool_digest`, the
BLAKE3 digest of `pool.parquet`. Readers check that digest.

## manifest.json

The manifest of a run directory, written first with the status `running` and last with `complete`
or `interrupted`: versions, seed, digests of plan, trace, model, pool and tokenizer, the target
without user, password and query, time limits, facts about the host (never its name) and about
the server, start and end as RFC 3339 in UTC. It is the only file with wall-clock times.

## requests.arrows.partial

Present while a run goes on or after it was killed: an Arrow IPC stream with the columns of
`requests.parquet` and `chunk_deltas_ns`, in order of completion, readable up to its last batch.
";

/// Returns the text of `docs/formats.md`.
pub fn formats_markdown() -> String {
    let mut text = INTRODUCTION.to_owned();
    let keys = [
        (KEY_ARTIFACT, "which of the tables below the file is"),
        (KEY_SCHEMA_VERSION, "version of the table's columns"),
        (KEY_TOOL_VERSION, "version of the program that wrote it"),
        (KEY_METADATA, "where the table came from, as JSON"),
    ];
    text.push_str("\nKeys of the Parquet metadata:\n\n| key | value |\n| --- | --- |\n");
    for (key, value) in keys {
        line(&mut text, &[&code(key), value]);
    }
    for artifact in ARTIFACTS {
        table(&mut text, artifact);
    }
    text.push('\n');
    text.push_str(JSON_FILES);
    text.push_str("\n## Names for `--map`\n\nEither name can be used.\n\n");
    text.push_str("| column of the trace | short name |\n| --- | --- |\n");
    for field in MAP_FIELDS {
        line(&mut text, &[&code(field.column), &code(field.alias)]);
    }
    text
}

fn table(text: &mut String, artifact: &Artifact) {
    text.push_str("\n## ");
    text.push_str(artifact.file);
    text.push_str("\n\n");
    text.push_str(artifact.row);
    write!(text, "\nSchema version {}.\n\n", artifact.version).expect("a string takes any text");
    text.push_str("| column | type | null | unit | meaning |\n| --- | --- | --- | --- | --- |\n");
    for column in artifact.columns {
        let null = if column.nullable { "yes" } else { "no" };
        let (name, kind) = (code(column.name), code(column.kind.name()));
        line(text, &[&name, &kind, null, column.unit, column.meaning]);
    }
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn line(text: &mut String, cells: &[&str]) {
    text.push_str("| ");
    text.push_str(&cells.join(" | "));
    text.push_str(" |\n");
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "the test compares with the committed file")]

    use super::*;

    /// `UPDATE_DOCS=1 cargo test --lib formats` writes the file anew.
    #[test]
    fn the_committed_file_is_this_text() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/formats.md");
        if std::env::var("UPDATE_DOCS").is_ok() {
            std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/docs")).unwrap();
            std::fs::write(path, formats_markdown()).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap();
        assert!(committed == formats_markdown(), "run `UPDATE_DOCS=1 cargo test --lib formats`");
    }
}
