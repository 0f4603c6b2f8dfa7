//! Times the parts of `ingest` by themselves, on one thread: `ingest_parts LOG [REPEATS]`.
//!
//! A log in JSON lines of a format that is told apart by itself -> nanoseconds a row and MB/s of
//! CPU time of picking 14 values, decoding rows, and writing them as a trace, the best of some repeats. Holds
//! the log and its rows in memory: give it 100 MB, not all of a week. Prints, asserts nothing.

#![allow(clippy::print_stdout, reason = "its purpose")]
#![allow(clippy::disallowed_methods, reason = "reads the log it measures")]

use std::path::{Path, PathBuf};
use std::time::Duration;
use tracewright::domain::convert::{count, float};
use tracewright::domain::record::RequestRecord;
use tracewright::domain::trace::TraceMetadata;
use tracewright::ingest::format::{Adapter, At, Input, Item, Out, Shared};
use tracewright::ingest::pick::Picker;
use tracewright::ingest::privacy::Hasher;
use tracewright::ingest::sample::Sample;
use tracewright::ingest::{Hints, Zone, detect, format};
use tracewright::table::trace::TraceWriter;

/// What a comparison with other readers picks.
const PATHS: [&str; 14] = [
    "request_id",
    "api_key",
    "startTime",
    "endTime",
    "completionStartTime",
    "model",
    "status",
    "prompt_tokens",
    "completion_tokens",
    "session_id",
    "metadata.status",
    "metadata.usage_object.prompt_tokens_details.cached_tokens",
    "metadata.user_api_key_team_id",
    "end_user",
];

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().ok_or("which log?")?);
    let repeats = arguments.next().map_or(Ok(5), |text| text.parse::<u32>())?;
    let text = std::fs::read_to_string(&path)?;
    let lines: Vec<&str> = text.lines().collect();
    let best = |what: &str, work: &mut dyn FnMut() -> Result<(), Failure>| {
        let mut best = Duration::MAX;
        for _ in 0..repeats {
            let start = cpu_time();
            work()?;
            best = best.min(cpu_time().saturating_sub(start));
        }
        let seconds = best.as_secs_f64();
        let row = seconds * 1e9 / float(count(lines.len()));
        let rate = float(count(text.len())) / 1e6 / seconds;
        println!("{what:20} {row:9.1} ns/row {rate:9.0} MB/s");
        Ok::<_, Failure>(())
    };
    println!("{} rows of {} bytes", lines.len(), text.len() / lines.len().max(1));
    best("lines", &mut || {
        std::hint::black_box(text.lines().count());
        Ok(())
    })?;
    let picker = Picker::new(&PATHS.map(str::to_owned));
    best("pick 14", &mut || {
        for line in &lines {
            std::hint::black_box(picker.array::<14>(line).map_err(|error| error.reason)?);
        }
        Ok(())
    })?;
    let hints = Hints::none();
    let sample = Sample::read(&path)?;
    let format = detect::detect(&sample, &hints)?.format;
    let (adapter, _) = format::make(format, &sample, &hints)?;
    let adapter = &*adapter;
    let mut rows = Vec::new();
    best("decode", &mut || {
        rows.clear();
        decode(adapter, &lines, |row| rows.push(row))
    })?;
    best("decode, not kept", &mut || {
        decode(adapter, &lines, |row| {
            std::hint::black_box(&row);
        })
    })?;
    rows.sort_by_key(|row| row.arrival_time);
    let folder = tempfile::tempdir()?;
    best("write", &mut || write(&folder.path().join("trace.parquet"), &rows))?;
    println!("{} bytes of Parquet", folder.path().join("trace.parquet").metadata()?.len());
    Ok(())
}

/// Returns the CPU time of this thread: other processes on the core do not count.
fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(now).unwrap_or_default()
}

fn decode(
    adapter: &dyn Adapter,
    lines: &[&str],
    mut keep: impl FnMut(RequestRecord),
) -> Result<(), Failure> {
    let mut shared = Shared::new(Hasher::new(b"a salt to measure with"), Zone::utc());
    for (line, number) in lines.iter().zip(1..) {
        let mut out = Out::default();
        let at = At { file_id: 0, line: number };
        adapter
            .decode(Input::Json(line), at, &mut shared, &mut out)
            .map_err(|refusal| format!("{refusal:?}"))?;
        for item in out.items {
            if let Item::Keep(draft) = item {
                keep(*draft.row);
            }
        }
    }
    Ok(())
}

fn write(path: &Path, rows: &[RequestRecord]) -> Result<(), Failure> {
    let mut writer = TraceWriter::create(path, true)?;
    writer.write(rows)?;
    Ok(writer.finish(&TraceMetadata::default())?)
}
