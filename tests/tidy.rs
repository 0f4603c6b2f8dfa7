//! Structure that a compiler does not check: import borders, headers, file lengths, words.

#![allow(clippy::disallowed_methods, reason = "tests read the source tree")]

use std::fs;
use std::path::{Path, PathBuf};

/// Longest source file, tests included.
const MAX_LINES: usize = 600;

/// Which of our modules each module may import, besides itself.
const IMPORTS: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("table", &["domain"]),
    ("ingest", &["domain", "table"]),
    ("fit", &["domain"]),
    ("pool", &["domain"]),
    ("plan", &["domain"]),
    ("replay", &["domain"]),
    ("report", &["domain"]),
    ("mock", &["domain"]),
    ("export", &["domain"]),
    ("run", &["domain", "table"]),
    (
        "cli",
        &[
            "domain", "table", "ingest", "fit", "pool", "plan", "replay", "report", "mock", "run",
            "export",
        ],
    ),
];

/// Crates that one module alone may use.
const OWNED_CRATES: &[(&str, &str)] = &[
    ("arrow", "table"),
    ("parquet", "table"),
    ("polars", "table"),
    ("tiktoken_rs", "pool"),
    ("bpe_openai", "pool"),
    ("clap", "cli"),
    ("indicatif", "cli"),
    ("anyhow", "cli"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns every `.rs` file below `dir`, sorted.
fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for path in entries.map(|entry| entry.expect("readable entry").path()) {
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Returns the module a source file belongs to; `None` for `lib.rs` and `main.rs`.
fn module_of(path: &Path) -> Option<String> {
    let inside = path.strip_prefix(root().join("src")).ok()?;
    let mut parts = inside.components();
    let first = parts.next()?.as_os_str().to_str()?;
    // A file directly below `src` belongs to no module.
    parts.next().map(|_| first.to_owned())
}

/// Returns whether a file is a module that only tests are built with.
fn is_for_tests(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let parent = path.parent().expect("a file has a folder");
    let declared_in = [parent.join("mod.rs"), parent.with_extension("rs")];
    let inside_tests = path.components().any(|part| part.as_os_str() == "tests");
    let declared =
        declared_in.iter().filter_map(|file| fs::read_to_string(file).ok()).any(|text| {
            text.lines().zip(text.lines().skip(1)).any(|(first, second)| {
                first.trim() == "#[cfg(test)]" && second.trim().ends_with(&format!("mod {stem};"))
            })
        });
    inside_tests || declared
}

/// Returns the names that follow `marker` in a line.
fn names_after<'a>(line: &'a str, marker: &'a str) -> impl Iterator<Item = &'a str> {
    line.split(marker).skip(1).map(|rest| {
        rest.split(|c: char| !(c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit()))
            .next()
            .unwrap_or("")
    })
}

/// Returns whether a line of code names a crate, by `krate::` or `use krate;`.
fn uses_crate(code: &str, krate: &str) -> bool {
    let path = format!("{krate}::");
    let inside_a_longer_name = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    code.contains(&format!("use {krate};"))
        || code.split_once(&path).is_some_and(|(before, _)| !before.ends_with(inside_a_longer_name))
}

/// Returns one message per import that crosses a border.
fn forbidden_imports(module: &str, text: &str, place: &str) -> Vec<String> {
    let allowed =
        IMPORTS.iter().find(|(name, _)| *name == module).map_or(&[][..], |(_, list)| list);
    let mut faults = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or("");
        for name in names_after(code, "crate::") {
            let is_module = IMPORTS.iter().any(|(known, _)| *known == name);
            if is_module && name != module && !allowed.contains(&name) {
                faults.push(format!("{place}:{}: `{module}` may not import `{name}`", number + 1));
            }
        }
        for (krate, owner) in OWNED_CRATES {
            if module != *owner && uses_crate(code, krate) {
                let line = number + 1;
                faults.push(format!("{place}:{line}: only `{owner}` may use the crate `{krate}`"));
            }
        }
    }
    faults
}

#[test]
fn stages_import_only_what_they_may() {
    let mut faults = Vec::new();
    for path in rust_files(&root().join("src")) {
        let Some(module) = module_of(&path) else { continue };
        let text = fs::read_to_string(&path).expect("UTF-8 source");
        faults.extend(forbidden_imports(&module, &text, &path.display().to_string()));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_import_check_sees_a_forbidden_import() {
    let faults = forbidden_imports("domain", "use crate::table::trace;\n", "src/domain/x.rs");
    assert_eq!(faults, ["src/domain/x.rs:1: `domain` may not import `table`"]);
    let faults = forbidden_imports("fit", "let x = arrow::array::Array;\n", "src/fit/x.rs");
    assert_eq!(faults, ["src/fit/x.rs:1: only `table` may use the crate `arrow`"]);
    assert!(forbidden_imports("plan", "use crate::domain::seed::Seed;\n", "x").is_empty());
}

#[test]
fn every_file_has_a_header_and_a_bearable_length() {
    let mut faults = Vec::new();
    for dir in ["src", "tests", "benches"] {
        for path in rust_files(&root().join(dir)) {
            let text = fs::read_to_string(&path).expect("UTF-8 source");
            if !text.starts_with("//!") {
                faults.push(format!("{}: no `//!` header", path.display()));
            }
            let lines = text.lines().count();
            if lines > MAX_LINES {
                faults.push(format!("{}: {lines} lines, at most {MAX_LINES}", path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn nothing_unfinished_is_marked_in_the_source() {
    // Put together here, so that this file does not hold the words itself.
    let marks = [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["to", "do!("].concat()];
    let mut faults = Vec::new();
    for dir in ["src", "tests", "benches"] {
        for path in rust_files(&root().join(dir)) {
            let text = fs::read_to_string(&path).expect("UTF-8 source");
            for (number, line) in text.lines().enumerate() {
                if marks.iter().any(|mark| line.contains(mark.as_str())) {
                    faults.push(format!("{}:{}: {line}", path.display(), number + 1));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn only_the_command_line_prints_or_exits() {
    let words = ["println!", "eprintln!", "print!(", "process::exit"];
    let mut faults = Vec::new();
    for path in rust_files(&root().join("src")) {
        if module_of(&path).is_some_and(|module| module == "cli") || is_for_tests(&path) {
            continue;
        }
        let text = fs::read_to_string(&path).expect("UTF-8 source");
        let product = text.split("#[cfg(test)]").next().unwrap_or("");
        for (number, line) in product.lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            if words.iter().any(|word| code.contains(word)) {
                faults.push(format!("{}:{}: {line}", path.display(), number + 1));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
