//! Readers of the containers a log can come in, beside lines and CSV.
//!
//! Each gives chunks of records with their places: values cut out of JSON documents ([`document`]),
//! records of text that span lines and lines that a container runtime split ([`join`]), rows of
//! Parquet and Arrow ([`rows`]) and of SQLite ([`sqlite`]).

pub mod document;
pub mod join;
pub mod list;
pub mod rows;
pub mod scan;
pub mod sqlite;

#[cfg(test)]
mod tests;
