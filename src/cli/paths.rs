//! Refuses an output that would take the place of an input, whatever `--force` allows.
//!
//! Paths in, nothing or a usage error out. Two paths are the same file when they lead to the same
//! place after links and `..` are followed. An output that does not exist yet replaces nothing.
//! `--force` permits to replace an older output; a log or a salt that is gone cannot be made again.

use super::failure::Failed;
use std::path::{Path, PathBuf};

/// Checks that no output stands where an input stands.
///
/// `<output>.partial`, where an output is written before it is complete, is checked too.
///
/// # Errors
///
/// A usage error that names both, if one of `outputs` is one of `inputs`.
pub(crate) fn keep_inputs<'p>(
    inputs: impl IntoIterator<Item = &'p Path>,
    outputs: &[&Path],
) -> Result<(), Failed> {
    let inputs: Vec<(&Path, PathBuf)> =
        inputs.into_iter().filter_map(|input| Some((input, input.canonicalize().ok()?))).collect();
    for output in outputs {
        let mut partial = output.as_os_str().to_owned();
        partial.push(".partial");
        let places = [output.canonicalize().ok(), Path::new(&partial).canonicalize().ok()];
        for place in places.into_iter().flatten() {
            if let Some((input, _)) = inputs.iter().find(|(_, input)| *input == place) {
                let (output, input) = (output.display(), input.display());
                let message = format!("{output}: this output would replace the input `{input}`");
                return Err(Failed::usage(message, "name another output: `-o FILE`".to_owned()));
            }
        }
    }
    Ok(())
}

/// Checks that no log is named twice: its requests would count twice.
///
/// # Errors
///
/// A usage error that names the second one.
pub(crate) fn once(logs: &[PathBuf]) -> Result<(), Failed> {
    let mut seen = Vec::new();
    for log in logs {
        let Ok(place) = log.canonicalize() else { continue };
        if seen.contains(&place) {
            let message = format!("{}: this log is named twice", log.display());
            return Err(Failed::usage(message, "name each log once".to_owned()));
        }
        seen.push(place);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_counts_once() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&a, "x").unwrap();
        std::fs::write(&b, "x").unwrap();
        assert!(once(&[a.clone(), b]).is_ok());
        let again = once(&[a.clone(), folder.path().join("./a")]).unwrap_err().to_string();
        assert!(again.ends_with("this log is named twice"), "{again}");
        assert!(once(&[folder.path().join("missing"), folder.path().join("missing")]).is_ok());
    }

    #[test]
    fn an_output_never_replaces_an_input() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["log", "salt", "other.partial"] {
            std::fs::write(at(name), "x").unwrap();
        }
        let check = |inputs: &[&str], output: &Path| {
            let inputs: Vec<_> = inputs.iter().map(|name| at(name)).collect();
            keep_inputs(inputs.iter().map(PathBuf::as_path), &[&at("new"), output])
        };
        assert!(check(&["log", "none"], &at("salt")).is_ok());
        assert!(check(&["none"], &at("none")).is_ok(), "what is missing cannot be replaced");
        assert!(check(&["salt", "log"], &folder.path().join(".").join("log")).is_err());
        assert!(check(&["other.partial"], &at("other")).is_err());
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(at("log"), at("link")).unwrap();
            assert!(check(&["link"], &at("log")).is_err());
        }
        let error = check(&["salt", "log"], &at("log")).unwrap_err();
        let text = super::super::failure::render(&error.into());
        let text = text.replace(&format!("{}/", folder.path().display()), "");
        insta::assert_snapshot!(text, @r"
        error: log: this output would replace the input `log`
        hint: name another output: `-o FILE`
        ");
    }
}
