//! Group-bys over a whole trace, by lazy scans that read only the columns they need.
//!
//! Behind the Cargo feature `polars`; without it every query is an error that says so. Results are
//! sorted, so that they do not depend on threads.

use super::error::TableError;
use std::path::Path;

/// Requests and tokens of one hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HourCount {
    /// Start of the hour, in microseconds since the Unix epoch, UTC.
    pub start_us: i64,
    /// Requests that arrived in it.
    pub requests: u64,
    /// Their known input tokens.
    pub input_tokens: u64,
    /// Their known output tokens.
    pub output_tokens: u64,
}

/// Returns requests and tokens per hour of arrival, in order; hours without requests are absent,
/// and rows without an arrival are left out.
///
/// # Errors
///
/// If the trace cannot be read, or the feature `polars` is off.
pub fn hourly_counts(trace: &Path) -> Result<Vec<HourCount>, TableError> {
    scan::hourly_counts(trace)
}

#[cfg(feature = "polars")]
mod scan {
    //! The queries.

    use super::HourCount;
    use crate::table::error::TableError;
    use crate::table::trace::TraceReader;
    use polars::prelude::{
        Column, DataFrame, DataType, Engine, LazyFrame, PlRefPath, PolarsError, PolarsResult,
        ScanArgsParquet, col, len, lit,
    };
    use std::path::Path;

    const HOUR_US: i64 = 3_600_000_000;
    const INPUT: &str = "gen_ai_usage_input_tokens";
    const OUTPUT: &str = "gen_ai_usage_output_tokens";

    pub(super) fn hourly_counts(trace: &Path) -> Result<Vec<HourCount>, TableError> {
        // Polars' whole-number division by rounding down needs one more of its features; the
        // double remainder is at least 0 whichever sign a remainder takes.
        let at = col("arrival_time").cast(DataType::Int64);
        let within = (at.clone() % lit(HOUR_US) + lit(HOUR_US)) % lit(HOUR_US);
        let start = at - within;
        let frame = collect(trace, |rows| {
            rows.filter(col("arrival_time").is_not_null()).group_by([start.alias("start_us")]).agg(
                [
                    len().cast(DataType::UInt64).alias("requests"),
                    col(INPUT).sum().cast(DataType::UInt64).alias("input"),
                    col(OUTPUT).sum().cast(DataType::UInt64).alias("output"),
                ],
            )
        })?;
        let wrap = |source: PolarsError| TableError::columns(trace, "read", source);
        let (starts, requests) = (ints(&frame, "start_us"), counts(&frame, "requests"));
        let (inputs, outputs) = (counts(&frame, "input"), counts(&frame, "output"));
        let (starts, requests) = (starts.map_err(wrap)?, requests.map_err(wrap)?);
        let (inputs, outputs) = (inputs.map_err(wrap)?, outputs.map_err(wrap)?);
        let tokens = inputs.into_iter().zip(outputs);
        let mut found: Vec<_> = starts
            .into_iter()
            .zip(requests)
            .zip(tokens)
            .map(|((start_us, requests), (input_tokens, output_tokens))| HourCount {
                start_us,
                requests,
                input_tokens,
                output_tokens,
            })
            .collect();
        found.sort_by_key(|hour| hour.start_us);
        Ok(found)
    }

    /// Checks that the file is a trace, and runs a query over it.
    fn collect(
        trace: &Path,
        query: impl FnOnce(LazyFrame) -> LazyFrame,
    ) -> Result<DataFrame, TableError> {
        TraceReader::open(trace)?;
        let wrap = |source: PolarsError| TableError::columns(trace, "read", source);
        let path = PlRefPath::try_from_path(trace).map_err(wrap)?;
        // A path is a path: `[b]` in it is no pattern.
        let options = ScanArgsParquet { glob: false, ..ScanArgsParquet::default() };
        let rows = LazyFrame::scan_parquet(path, options).map_err(wrap)?;
        let result = query(rows).collect_with_engine(Engine::Streaming).map_err(wrap)?;
        Ok(result.unwrap_single())
    }

    fn ints(frame: &DataFrame, name: &str) -> PolarsResult<Vec<i64>> {
        Ok(frame.column(name)?.i64()?.iter().flatten().collect())
    }

    fn counts(frame: &DataFrame, name: &str) -> PolarsResult<Vec<u64>> {
        let column: &Column = frame.column(name)?;
        Ok(column.u64()?.iter().map(Option::unwrap_or_default).collect())
    }
}

#[cfg(not(feature = "polars"))]
mod scan {
    //! Refusals: this build has no query engine.

    use super::HourCount;
    use crate::table::error::TableError;
    use std::path::Path;

    pub(super) fn hourly_counts(trace: &Path) -> Result<Vec<HourCount>, TableError> {
        Err(off(trace))
    }

    fn off(trace: &Path) -> TableError {
        TableError::FeatureOff {
            path: trace.to_owned(),
            feature: "polars",
            needed_for: "the summary by hour",
        }
    }
}

#[cfg(test)]
#[cfg(feature = "polars")]
mod tests {
    use super::*;
    use crate::domain::record::{RequestRecord, Status};
    use crate::domain::time::WallTime;
    use crate::domain::trace::TraceMetadata;
    use crate::table::trace::TraceWriter;

    const HOUR: i64 = 3_600_000_000;

    fn row(at: Option<i64>, model: Option<&str>, tokens: Option<u32>) -> RequestRecord {
        RequestRecord {
            arrival_time: at.map(WallTime),
            request_model: model.map(Into::into),
            input_tokens: tokens,
            output_tokens: tokens.map(|tokens| tokens / 2),
            status: if tokens.is_some() { Status::Ok } else { Status::Error },
            prefix_block_hashes: vec![1],
            ..RequestRecord::unknown("x".into(), 0, 1)
        }
    }

    fn with_trace<T>(rows: &[RequestRecord], query: impl Fn(&Path) -> T) -> T {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a [b] trace.parquet");
        let mut writer = TraceWriter::create(&path, false).unwrap();
        writer.write(rows).unwrap();
        writer.finish(&TraceMetadata::default()).unwrap();
        query(&path)
    }

    #[test]
    fn hours_are_floored_also_before_1970() {
        let rows = [
            row(None, None, Some(7)),
            row(Some(-1), None, Some(10)),
            row(Some(0), None, None),
            row(Some(HOUR - 1), None, Some(20)),
            row(Some(HOUR), None, Some(30)),
        ];
        let hour = |start_us, requests, input_tokens| HourCount {
            start_us,
            requests,
            input_tokens,
            output_tokens: input_tokens / 2,
        };
        let found = with_trace(&rows, |path| hourly_counts(path).unwrap());
        assert_eq!(found, [hour(-HOUR, 1, 10), hour(0, 2, 20), hour(HOUR, 1, 30)]);
        assert_eq!(with_trace(&[], |path| hourly_counts(path).unwrap()), []);
    }

    #[test]
    fn not_a_trace_is_said_plainly() {
        let error = hourly_counts(Path::new("missing.parquet")).unwrap_err().to_string();
        assert_eq!(error, "missing.parquet: no such file");
    }
}
