//! Tells the format of a log from its records, by the table of rules in `rules`.
//!
//! Each record of the sample votes for the first rule that holds. A format needs 95 % of the
//! records that parse; lines of text that no rule knows have no vote, since logs of servers hold
//! other lines too. Otherwise the message lists the candidates with counts and key names, never
//! values, and a `--map` line to start from.

mod rules;

use super::error::IngestError;
use super::format::{Format, Hints, could_be_data};
use super::sample::{Records, Sample};
use rules::{OBJECTS, SUMS, of_text};
use serde_json::Value;
use std::collections::BTreeMap;

/// The format of a log, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detected {
    /// The format.
    pub format: Format,
    /// What decided, with counts, in words; no values.
    pub why: Vec<String>,
}

/// Share of the votes a format needs, in percent.
const MIN_SHARE_PERCENT: usize = 95;
/// Key names shown in a message.
const SHOWN_KEYS: usize = 40;

/// Returns the format of a log: as told, by `--map`, or by its records.
///
/// # Errors
///
/// If no format is clear.
pub fn detect(sample: &Sample, hints: &Hints) -> Result<Detected, IngestError> {
    if let Some(format) = hints.format {
        return Ok(Detected { format, why: vec!["`--format`".to_owned()] });
    }
    if !hints.map.is_empty() {
        return Ok(Detected { format: Format::Generic, why: vec!["`--map`".to_owned()] });
    }
    let mut votes = Votes::default();
    match &sample.records {
        Records::Jsonl(lines) => {
            for line in lines {
                match serde_json::from_str::<Value>(line) {
                    Ok(record) if record.is_object() => votes.object(&record),
                    _ => votes.unparsed += 1,
                }
            }
        }
        Records::Csv(header, rows) => {
            let names: Vec<&str> = header.names().iter().map(String::as_str).collect();
            let by_header = |cells: &csv::ByteRecord| {
                let cell =
                    |place: usize| String::from_utf8_lossy(cells.get(place).unwrap_or_default());
                let cells = names.iter().enumerate();
                let fields = cells.map(|(place, name)| ((*name).to_owned(), cell(place).into()));
                Value::Object(fields.collect())
            };
            let blank = csv::ByteRecord::from(vec![""; names.len()]);
            for row in if rows.is_empty() { std::slice::from_ref(&blank) } else { rows } {
                votes.object(&by_header(row));
            }
            if votes.winner().is_none() && votes.sums.is_empty() {
                // Where the first line is data, no cell of it is shown.
                let shown = if names.iter().any(|name| is_data(name)) { &[][..] } else { &names };
                return Err(IngestError::UnknownHeader {
                    file: sample.file.clone(),
                    found: describe_header(&names),
                    map_line: map_line(shown),
                });
            }
        }
        Records::Text(lines) => {
            for line in lines {
                if let Some((format, why)) = of_text(line) {
                    votes.add(Some(format), vec![why.to_owned()], String::new);
                }
            }
        }
    }
    match votes.aggregate(sample) {
        Some(error) => Err(error),
        None => votes.winner().ok_or_else(|| votes.unclear(sample)),
    }
}

/// Returns whether a line of text is a record of a known log.
pub(super) fn knows_text(line: &str) -> bool {
    of_text(line).is_some()
}

/// The count of a format's records, the keys of the first, and how often what decided for them.
type Found = (usize, String, BTreeMap<Vec<String>, usize>);

/// What the records of a sample voted for.
#[derive(Debug, Default)]
struct Votes {
    by_format: BTreeMap<Option<Format>, Found>,
    /// Paths and types of the first record of no format, for `--map`.
    unknown: Vec<(String, &'static str)>,
    /// Records that are sums over many requests, by kind.
    sums: BTreeMap<usize, usize>,
    parsed: usize,
    unparsed: usize,
}

impl Votes {
    fn object(&mut self, record: &Value) {
        if let Some(kind) = SUMS.iter().position(|sums| sums.holds(record)) {
            self.parsed += 1;
            *self.sums.entry(kind).or_insert(0) += 1;
            return;
        }
        let rule = OBJECTS.iter().find(|rule| rule.holds(record));
        let why = rule
            .map_or_else(Vec::new, |rule| rule.needs.iter().map(|need| need.describe()).collect());
        if rule.is_none() && self.unknown.is_empty() {
            paths(record, "", &mut self.unknown);
        }
        self.add(rule.map(|rule| rule.format), why, || {
            let keys: Vec<&str> =
                record.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
            show_keys(&keys)
        });
    }

    fn add(&mut self, format: Option<Format>, why: Vec<String>, keys: impl Fn() -> String) {
        self.parsed += 1;
        let entry = self.by_format.entry(format).or_insert_with(|| (0, keys(), BTreeMap::new()));
        entry.0 += 1;
        *entry.2.entry(why).or_insert(0) += 1;
    }

    fn winner(&self) -> Option<Detected> {
        let (format, (count, _, why)) =
            self.by_format.iter().max_by_key(|(_, (count, ..))| *count)?;
        let format = (*format)?;
        let mut count = *count;
        // AIPerf's inputs hold lines without sessions too, which look like any trace of lengths.
        let aiperf = self.by_format.get(&Some(Format::AiperfSessions)).map_or(0, |votes| votes.0);
        let lengths = self.by_format.get(&Some(Format::LengthTrace)).map_or(0, |votes| votes.0);
        let is_aiperf =
            aiperf > 0 && matches!(format, Format::AiperfSessions | Format::LengthTrace);
        let format = if is_aiperf { Format::AiperfSessions } else { format };
        if is_aiperf {
            count = aiperf + lengths;
        }
        let enough = count * 100 >= self.parsed * MIN_SHARE_PERCENT;
        enough.then(|| Detected {
            format,
            why: why
                .iter()
                .map(|(needs, count)| format!("{count} of {}: {}", self.parsed, needs.join(", ")))
                .collect(),
        })
    }

    /// Returns the refusal of a log of sums.
    fn aggregate(&self, sample: &Sample) -> Option<IngestError> {
        let (kind, count) = self.sums.iter().max_by_key(|(_, count)| **count)?;
        let sums = SUMS.get(*kind).filter(|_| count * 100 >= self.parsed * MIN_SHARE_PERCENT)?;
        Some(IngestError::Aggregate {
            file: sample.file.clone(),
            what: sums.what,
            instead: sums.instead,
        })
    }

    fn unclear(&self, sample: &Sample) -> IngestError {
        let candidates: Vec<String> =
            self.by_format
                .iter()
                .map(|(format, (count, keys, _))| {
                    let name = format.map_or("unknown", Format::as_str);
                    format!("{name} {count} (keys: {keys})")
                })
                .chain((!self.sums.is_empty()).then(|| {
                    format!("sums over many requests {}", self.sums.values().sum::<usize>())
                }))
                .chain((self.unparsed > 0).then(|| format!("not JSON objects {}", self.unparsed)))
                .collect();
        let candidates = if candidates.is_empty() {
            "no line of a known form".to_owned()
        } else {
            candidates.join("; ")
        };
        let shown = self.unknown.iter().take(SHOWN_KEYS);
        let paths: Vec<String> = shown.map(|(path, kind)| format!("{path}: {kind}")).collect();
        let names: Vec<&str> = self.unknown.iter().map(|(path, _)| path.as_str()).collect();
        IngestError::UnknownFormat {
            file: sample.file.clone(),
            sampled: sample.len(),
            candidates,
            paths: paths.join(", "),
            map_line: map_line(&names),
        }
    }
}

/// Lists the paths of an object with the types of their values; names that could be data are `?`.
fn paths(record: &Value, above: &str, found: &mut Vec<(String, &'static str)>) {
    let Some(fields) = record.as_object() else { return };
    for (key, value) in fields {
        let key = safe_key(key);
        let path = if above.is_empty() { key.to_owned() } else { format!("{above}.{key}") };
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "text",
            Value::Array(_) => "array",
            Value::Object(_) if above.matches('.').count() < 2 => {
                paths(value, &path, found);
                continue;
            }
            Value::Object(_) => "object",
        };
        if !found.iter().any(|(known, _)| *known == path) {
            found.push((path, kind));
        }
    }
}

/// Returns the names of the keys for a message, without those that could be data.
pub(super) fn show_keys(keys: &[&str]) -> String {
    let mut shown: Vec<&str> = keys.iter().take(SHOWN_KEYS).map(|key| safe_key(key)).collect();
    if keys.len() > SHOWN_KEYS {
        shown.push("…");
    }
    shown.join(", ")
}

fn describe_header(names: &[&str]) -> String {
    match names.iter().position(|name| is_data(name)) {
        Some(place) => {
            format!("the first line looks like data, not names (column {})", place + 1)
        }
        None => show_keys(names),
    }
}

/// Whether a cell of the first line is no name of a column.
fn is_data(name: &str) -> bool {
    let words = name.split(' ').count();
    name.is_empty()
        || words > 3
        || name.parse::<f64>().is_ok()
        || name.starts_with("20")
        || !is_safe(name)
}

/// A name that is a name: data in its place is not shown.
fn is_safe(key: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-. :/()[]".contains(&byte);
    !key.is_empty() && key.len() <= 64 && key.bytes().all(fits) && !could_be_data(key)
}

fn safe_key(key: &str) -> &str {
    if is_safe(key) { key } else { "?" }
}

/// Fields for which a column is looked for by parts of its name, most telling first.
const GUESSES: &[(&str, &[&str])] = &[
    ("arrival", &["arriv", "start", "timestamp", "created", "time", "date"]),
    ("input_tokens", &["input_tok", "prompt_tok", "prefill", "input", "prompt", "context"]),
    ("output_tokens", &["output_tok", "completion_tok", "decode", "output", "completion", "gener"]),
    ("session", &["session", "conversation", "thread"]),
    ("model", &["model"]),
    ("status", &["status"]),
];

/// Returns a `--map` line for these columns, with `COLUMN` where none fits.
fn map_line(columns: &[&str]) -> String {
    let guess = |parts: &[&str]| {
        parts.iter().find_map(|part| {
            columns.iter().find(|name| is_safe(name) && name.to_lowercase().contains(part))
        })
    };
    let mut line = Vec::new();
    for (field, parts) in GUESSES {
        match guess(parts) {
            Some(column) if column.contains(' ') => line.push(format!("--map '{field}={column}'")),
            Some(column) => line.push(format!("--map {field}={column}")),
            None if matches!(*field, "input_tokens" | "output_tokens") => {
                line.push(format!("--map {field}=COLUMN"));
            }
            None => {}
        }
    }
    line.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints() -> Hints {
        Hints::none()
    }

    fn of(text: &str) -> Result<Format, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, text).unwrap();
        let found = Sample::read(&path).and_then(|sample| detect(&sample, &hints()));
        found.map(|found| found.format).map_err(|error| {
            let text = format!("{error}\n{}", error.hint().unwrap_or_default());
            text.replace(&format!("{}/", folder.path().display()), "")
        })
    }

    #[test]
    fn keys_decide() {
        let length = r#"{"timestamp":0,"input_length":1,"output_length":1}"#;
        assert_eq!(of(length), Ok(Format::LengthTrace));
        assert_eq!(of("timestamp,input_length,output_length\n"), Ok(Format::LengthTrace));
        assert_eq!(of("TIMESTAMP,ContextTokens,GeneratedTokens\r\n"), Ok(Format::AzureLlmPublic));
        let images = "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n";
        assert_eq!(of(images), Ok(Format::AzureLmmPublic));
        let spend = r#"{"request_id":"","call_type":"","api_key":"","spend":0,"startTime":"","endTime":""}"#;
        assert_eq!(of(spend), Ok(Format::LitellmSpendlogs));
        let session = r#"{"session_id":"s","timestamp":0,"input_length":1,"output_length":1}"#;
        assert_eq!(of(session), Ok(Format::AiperfSessions));
    }

    #[test]
    fn sums_are_refused_with_what_to_take_instead() {
        insta::assert_snapshot!(of("date,model,requests,prompt_tokens\n2026-11-24,m,12,9\n").unwrap_err(), @r"
        log: expected one record a request, found OpenRouter's activity summed by day and model
        export the activity by generation (a CSV with `generation_id`), or fetch `/generation` for each id
        ");
        let bucket = r#"{"object":"bucket","start_time":1,"end_time":2,"results":[{"object":"organization.usage.completions.result","input_tokens":9,"num_model_requests":5}]}"#;
        insta::assert_snapshot!(of(bucket).unwrap_err(), @r"
        log: expected one record a request, found sums of OpenAI's usage API
        take the log of the gateway or of the client in front of it
        ");
        for sums in [
            r#"{"object":"organization.usage.completions.result","input_tokens":9}"#,
            r#"{"object":"page","data":[{"object":"bucket","results":[{"input_tokens":9}]}],"has_more":false}"#,
            r#"{"start_time":1,"num_model_requests":5,"model":"m","input_tokens":9}"#,
            r#"{"date":"2026-11-24","api_key":"k","api_requests":5,"spend":1}"#,
            r#"{"created_at":1,"model_name":"m","token_used":5,"count":1,"quota":2}"#,
        ] {
            assert!(of(sums).unwrap_err().contains("expected one record a request"), "{sums}");
        }
        let sum = r#"{"start_time":1,"num_model_requests":5,"model":"m","input_tokens":9}"#;
        let mixed = format!("{sum}\n{{\"level\":\"info\"}}\n");
        assert!(of(&mixed).unwrap_err().contains("sums over many requests 1"));
    }

    #[test]
    fn variants_of_a_format_are_known() {
        let lengths = "num_prefill_tokens,num_decode_tokens\n1,2\n";
        assert_eq!(of(lengths), Ok(Format::Vidur));
        let generation =
            r#"{"id":"g","tokens_prompt":1,"native_tokens_prompt":1,"generation_time":5}"#;
        assert_eq!(of(generation), Ok(Format::OpenrouterActivity));
        let input = r#"{"custom_id":"j","method":"POST","url":"/v1/responses","body":{}}"#;
        assert_eq!(of(input), Ok(Format::OpenaiBatchOutput));
    }

    #[test]
    fn nineteen_of_twenty_records_are_enough() {
        let length = r#"{"timestamp":0,"input_length":1,"output_length":1}"#;
        let mut lines = vec![length; 19];
        lines.push(r#"{"level":"info"}"#);
        assert_eq!(of(&lines.join("\n")), Ok(Format::LengthTrace));
        lines.push(r#"{"level":"info"}"#);
        lines.push("no json");
        insta::assert_snapshot!(of(&lines.join("\n")).unwrap_err(), @r"
        log: the format is not clear from 22 records: unknown 2 (keys: level); length-trace 19 (keys: input_length, output_length, timestamp); not JSON objects 1; unknown records have level: text
        name the format with `--format` (`docs/ingest.md` lists them), or say which column is what: --map input_tokens=COLUMN --map output_tokens=COLUMN
        ");
    }

    #[test]
    fn an_unknown_header_gives_a_map_to_start_from() {
        insta::assert_snapshot!(of("arrival_time_ns,input_toks,output_toks\n1,2,3\n").unwrap_err(), @r"
        log: the header is of no known format: arrival_time_ns, input_toks, output_toks
        name the format with `--format` (`docs/ingest.md` lists them), or say which column is what: --map arrival=arrival_time_ns --map input_tokens=input_toks --map output_tokens=output_toks
        ");
        insta::assert_snapshot!(of("level,Total Time\n").unwrap_err(), @r"
        log: the header is of no known format: level, Total Time
        name the format with `--format` (`docs/ingest.md` lists them), or say which column is what: --map 'arrival=Total Time' --map input_tokens=COLUMN --map output_tokens=COLUMN
        ");
    }

    #[test]
    fn data_in_place_of_names_is_not_shown() {
        for text in ["canary,2026-01-01,5\n", "canary@example.com,b\n", "{\"canary secret!\":1}\n"]
        {
            let error = of(text).unwrap_err();
            assert!(!error.contains("canary"), "{error}");
        }
    }
}
