//! A report as plain text, at most [`WIDTH`] columns wide; the verdict stands first.
//!
//! No colour and no control characters, whatever the server said; equal reports give equal bytes.
//! What is printed is laid out in `sections`.

use super::cells;
use super::sections::{self, Block};
use super::summarize::Report;

/// Columns of the page. Only a word longer than the page goes past it.
pub const WIDTH: usize = 100;
/// Columns of a term and the blanks after it.
const TERM: usize = 18;

/// Returns `report` as plain text that ends with a line feed.
pub fn render(report: &Report) -> String {
    let mut text = format!("tracewright report: {}\n", report.verdict.word.as_str().to_uppercase());
    for reason in &report.verdict.reasons {
        item(&mut text, "  - ", reason);
    }
    for section in sections::of(report) {
        text.push('\n');
        text.push_str(&section.title);
        text.push('\n');
        for block in section.blocks {
            match block {
                Block::Table(table) => text.push_str(&table.to_text()),
                Block::Sentence(sentence) => item(&mut text, "  ", &sentence),
                Block::Item(term, meaning) => {
                    let lead = format!("  {term:<width$}", width = TERM - 2);
                    let lead = if lead.ends_with(' ') { lead } else { format!("{lead} ") };
                    item(&mut text, &lead, &meaning);
                }
            }
        }
    }
    text
}

/// Appends `lead` and the words of `body`, wrapped; further lines are as far in as the first.
fn item(text: &mut String, lead: &str, body: &str) {
    let indent = lead.chars().count();
    let clean: String = body.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    for (index, line) in cells::wrap(&clean, WIDTH - indent).iter().enumerate() {
        if index == 0 {
            text.push_str(lead);
        } else {
            text.push_str(&" ".repeat(indent));
        }
        text.push_str(line);
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::{facts, failed, ok, plan, unsent};
    use super::super::summarize::summarize;
    use super::*;
    use crate::domain::outcome::Failure;
    use crate::domain::schedule::CountKind;

    #[test]
    fn no_line_is_wider_than_the_page() {
        let mut outcomes: Vec<_> = (0..400).map(ok).collect();
        outcomes[7] = failed(7, Failure::ConnectionReusedClosed);
        outcomes[8] = failed(8, Failure::Http5xx);
        outcomes[9].at.closed = Some(crate::domain::time::Nanos(9_000_000_000_000));
        let report = summarize(&outcomes, plan(500), facts()).unwrap();
        let text = render(&report);
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{} columns: {line}", line.chars().count());
            assert_eq!(line.trim_end(), line);
        }
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let mut outcome = failed(0, Failure::StreamError);
        outcome.failure_message = Some("\u{1b}[31mred\u{7}".to_owned());
        let text = render(&summarize(&[outcome], plan(1), facts()).unwrap());
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "the snapshot holds a whole report")]
    fn a_whole_report() {
        let mut outcomes: Vec<_> = (0..38).map(ok).collect();
        outcomes.push(failed(38, Failure::Http5xx));
        outcomes.push(unsent(39));
        let mut facts = facts();
        facts.count_kind = Some(CountKind::Raw);
        facts.target_is_mock = true;
        let mut plan = plan(40);
        plan.counts.source_rows = 45;
        plan.counts.not_selected = 5;
        plan.speed = Some(2.0);
        let report = summarize(&outcomes, plan, facts).unwrap();
        insta::assert_snapshot!(render(&report), @"
        tracewright report: NOT BELIEVABLE
          - 1 of 40 planned requests were not sent

        Run
          run        2026-01-02T03-04-05Z-example
          target     http://127.0.0.1:8000 (chat, model example)
          status     complete
          plan       recorded (seed 42), 2 times the trace's speed
          tokenizer  o200k_base (input counted: raw)
          scheduling SCHED_OTHER

        Requests
                                      requests   share
          rows of the trace                 45
            outside the window               0  0.00 %
            not selected (cap)               5 11.11 %
            answered by a cache              0  0.00 %
          planned = sent + unsent           40
            unsent                           1  2.50 %
            sent = succeeded + failed       39 97.50 %
              succeeded                     38 97.44 %
              failed                         1  2.56 %

        Latency of succeeded requests, all kinds (ms)
                                   n   min  mean   p50   p90    p95    p99  p99.9   max
          TTFT, actual send       38 100.0 100.0 100.0 100.0 ≥100.0 ≥100.0 ≥100.0 100.0
          TTFT, intended send     38 100.0 100.0 100.0 100.0 ≥100.0 ≥100.0 ≥100.0 100.0
          TTFT content, actual    38 100.0 100.0 100.0 100.0 ≥100.0 ≥100.0 ≥100.0 100.0
          TTFT content, intended  38 100.0 100.0 100.0 100.0 ≥100.0 ≥100.0 ≥100.0 100.0
          TPOT                    38 10.00 10.00 10.00 10.00 ≥10.00 ≥10.00 ≥10.00 10.00
          chunk gap (pooled)     342 10.00 10.00 10.00 10.00  10.00 ≥10.00 ≥10.00 10.00
          mean chunk gap          38 10.00 10.00 10.00 10.00 ≥10.00 ≥10.00 ≥10.00 10.00
          E2E, actual send        38 200.0 200.0 200.0 200.0 ≥200.0 ≥200.0 ≥200.0 200.0
          E2E, intended send      38 200.0 200.0 200.0 200.0 ≥200.0 ≥200.0 ≥200.0 200.0
          E2E text, actual        38 190.0 190.0 190.0 190.0 ≥190.0 ≥190.0 ≥190.0 190.0
          E2E text, intended      38 190.0 190.0 190.0 190.0 ≥190.0 ≥190.0 ≥190.0 190.0

        Latency with failures sorted last (ms)
                              kind    n failed   p50   p90    p95    p99
          TTFT, actual send   all    39      1 100.0 100.0  100.0 failed
                              single 20      1 100.0 100.0 failed failed
                              rag    19      0 100.0 100.0  100.0  100.0
          TTFT, intended send all    39      1 100.0 100.0  100.0 failed
                              single 20      1 100.0 100.0 failed failed
                              rag    19      0 100.0 100.0  100.0  100.0
          E2E, actual send    all    39      1 200.0 200.0  200.0 failed
                              single 20      1 200.0 200.0 failed failed
                              rag    19      0 200.0 200.0  200.0  200.0
          E2E, intended send  all    39      1 200.0 200.0  200.0 failed
                              single 20      1 200.0 200.0 failed failed
                              rag    19      0 200.0 200.0  200.0  200.0

        Latency by kind of request (ms)
                              kind     n  mean   p50    p90    p95    p99   max
          TTFT, actual send   all     38 100.0 100.0  100.0 ≥100.0 ≥100.0 100.0
                              single  19 100.0 100.0 ≥100.0 ≥100.0 ≥100.0 100.0
                              rag     19 100.0 100.0 ≥100.0 ≥100.0 ≥100.0 100.0
          TTFT, intended send all     38 100.0 100.0  100.0 ≥100.0 ≥100.0 100.0
                              single  19 100.0 100.0 ≥100.0 ≥100.0 ≥100.0 100.0
                              rag     19 100.0 100.0 ≥100.0 ≥100.0 ≥100.0 100.0
          TPOT                all     38 10.00 10.00  10.00 ≥10.00 ≥10.00 10.00
                              single  19 10.00 10.00 ≥10.00 ≥10.00 ≥10.00 10.00
                              rag     19 10.00 10.00 ≥10.00 ≥10.00 ≥10.00 10.00
          chunk gap (pooled)  all    342 10.00 10.00  10.00  10.00 ≥10.00 10.00
                              single 171 10.00 10.00  10.00  10.00 ≥10.00 10.00
                              rag    171 10.00 10.00  10.00  10.00 ≥10.00 10.00
          E2E, intended send  all     38 200.0 200.0  200.0 ≥200.0 ≥200.0 200.0
                              single  19 200.0 200.0 ≥200.0 ≥200.0 ≥200.0 200.0
                              rag     19 200.0 200.0 ≥200.0 ≥200.0 ≥200.0 200.0

        Punctuality of the client
          Verdict: valid.
          ms                  n  min mean  p50  p90   p95   p99 p99.9  max
          schedule delay     39 0.00 0.00 0.00 0.00 ≥0.00 ≥0.00 ≥0.00 0.00
          client's own delay 39 0.00 0.00 0.00 0.00 ≥0.00 ≥0.00 ≥0.00 0.00
          dispatch delay     39 0.00 0.00 0.00 0.00 ≥0.00 ≥0.00 ≥0.00 0.00
          late by more than 50 ms         0 (0.00 %)
          sent early                      0
          worst 10 s window               -
          largest backlog                 1
          drift, first to last tenth (ms) 0.00

        Throughput
                                     planned achieved
          requests sent per second     10.00    10.00
          most sends in any 100 ms         1        1
          most sends in any 1 s           10       10
          most in flight                   -        2
          requests served per second       -     9.50
          output tokens per second         -    95.00
          all tokens per second            -    570.0
          first send to last end (s)       -     4.00

        Tokens
          input as planned              38 of 38 server counts (100.00 %)
          input, server - planned       mean +0.00, from +0 to +0
          input from the server's cache 32.00 %
          output as planned             38 of 38 answers (100.00 %)
          output received               380 of 380 planned tokens (100.00 %)
          output shortfall              0.00 %
          reasoning tokens              -
          tokens per chunk              1.00
          counted by                    server 38, this program 0, nobody 0

        Connections and streams
          connections                       new 0, reused 39, unknown 0
          connect time (ms)                 p50 -, p99 - over 0
          over 90 % of the text in one read 0 of 38 streams (0.00 %)

        Failures
          class    group requests of sent   95 % interval HTTP status
          http_5xx ERROR        1  2.56 % 0.45 to 13.18 %     503 x 1
          http_5xx        the answer was http_5xx

        Warnings
          fatal           1 of 40 planned requests were not sent. The load was lighter than planned; raise
                          the client's limits, or lower the rate.
          warning         1 of 39 sent requests failed (2.56 %). They have no latency; quote the
                          error-adjusted percentiles beside the success-only ones.
          warning         p99 rests on fewer than 368 succeeded requests in: all 38, single 19, rag 19. Its
                          95 % interval has no upper end there: treat that p99 as a maximum, or run longer.
          notice          5 of 45 source rows were left out by a cap. The load is a part of the recorded
                          one; lift the cap to replay all of it.
          notice          the trace was replayed at 2 times its own speed. Rates are not those of
                          production; quote them with the factor.
          notice          all 39 requests went to the built-in mock. The latencies say nothing about a real
                          server; give `--url` to measure one.

        Definitions
          actual send     the instant the first byte of the request was handed to the socket; the connection
                          stands by then
          intended send   the instant the plan wanted the request to leave; latency from here holds the
                          client's own lateness
          TTFT            send to the first non-empty generated text of any kind: content, reasoning or tool
                          call; role-only, null and empty deltas and keep-alives never count
          TTFT content    send to the first non-empty visible text; reasoning and tool calls do not count
          TPOT            (last text - first text) / (output tokens - 1), one sample a request; empty below
                          two tokens
          chunk gap       time between neighbouring chunks with text, pooled: one sample a gap; a chunk may
                          hold several tokens and is not split; chunks of one read have a gap of 0
          mean chunk gap  the mean of a request's chunk gaps, one sample a request; it hides stalls
          E2E             send to the end of the response body; E2E text ends with the last non-empty text
          error-adjusted  failed requests sort after every sample; a percentile that falls among them is
                          `failed`, not a number
          percentile      exact, by linear interpolation of order statistics (NumPy's default); ≥ marks one
                          whose 95 % interval has no upper end for want of samples
          throughput      succeeded requests and their tokens over the time from the first send to the last
                          end of any sent request; failed requests add time but no tokens
          schedule delay  actual - intended send, the set-up of a new connection included; dispatch delay is
                          the dispatcher's own part
        ");
    }

    #[test]
    fn all_failed() {
        let outcomes: Vec<_> = (0..3).map(|id| failed(id, Failure::Connect)).collect();
        let text = render(&summarize(&outcomes, plan(3), facts()).unwrap());
        let head: Vec<&str> = text.lines().take(2).collect();
        assert_eq!(head, ["tracewright report: NOT BELIEVABLE", "  - all 3 sent requests failed"]);
        let ttft = text.lines().find(|line| line.contains("TTFT, actual send")).unwrap();
        assert_eq!(ttft.split_whitespace().filter(|cell| *cell == "-").count(), 8, "{ttft}");
    }
}
