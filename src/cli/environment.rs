//! The environment, read only for secrets named by the user and for well-known target settings.

#![expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]

/// Returns the value of an environment variable, if it is set and not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
