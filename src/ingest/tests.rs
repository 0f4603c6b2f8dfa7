//! Tests of the whole ingest.
