"""Compares the TTFT that a replay measured with the mock's own stamps of the same requests.

Usage: python benches/ttft_against_stamps.py TRACEWRIGHT SCRATCH_DIR   (needs polars; Linux)

The mock holds its first text back by 200 ms and sends a role-only chunk after 5 ms. It stamps, on
the same monotonic clock, when a request's headers were read and when the first text was handed to
its socket. Prints the quantiles of (measured TTFT - stamped TTFT), in microseconds, and those of
the arrival: when the mock read the headers minus when the client sent.
"""

import json
import pathlib
import subprocess
import sys

import polars as pl

REQUESTS = 1_000
RATE_PER_S = 50


def log_lines():
    yield "TIMESTAMP,ContextTokens,GeneratedTokens"
    for row in range(REQUESTS):
        millis = row * 1_000 // RATE_PER_S
        minute, second = divmod(millis // 1_000, 60)
        yield f"2026-11-02 00:{minute:02}:{second:02}.{millis % 1_000:03}0000,{200 + row % 300},20"


def main(binary, scratch):
    scratch = pathlib.Path(scratch)
    scratch.mkdir(parents=True, exist_ok=True)
    (scratch / "log.csv").write_text("\n".join(log_lines()) + "\n")
    pool = pathlib.Path("prompt-pools/small").resolve()

    def run(*args):
        subprocess.run([binary, *args, "--quiet", "--force"], cwd=scratch, check=True,
                       stdout=subprocess.DEVNULL)

    run("ingest", "log.csv", "-o", "trace.parquet")
    run("plan", "--trace", "trace.parquet", "--pool", str(pool), "-o", "plan.parquet")
    mock = subprocess.Popen(
        [binary, "mock", "--ttft", "200ms", "--role-delay", "5ms", "--tpot", "10ms", "--force",
         "--stamps", "stamps.jsonl", "--until-stdin-closes"],
        cwd=scratch, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    url = mock.stdout.readline().split()[-1]
    before = set(scratch.glob("runs/*"))
    run("replay", "plan.parquet", "--pool", str(pool), "--url", url, "--model", "mock", "-o", "runs")
    mock.stdin.close()
    mock.wait()

    (run_dir,) = set(scratch.glob("runs/*")) - before
    measured = pl.read_parquet(run_dir / "requests.parquet").sort("sent_ns")
    stamps = [json.loads(line) for line in (scratch / "stamps.jsonl").read_text().splitlines()]
    stamps = [stamp for stamp in stamps if stamp.get("first_text_ns") is not None]
    stamps.sort(key=lambda stamp: stamp["headers_ns"])
    assert len(stamps) == measured.height == REQUESTS, (len(stamps), measured.height)
    stamped = pl.Series([stamp["first_text_ns"] - stamp["headers_ns"] for stamp in stamps])
    for name, differences in [("measured - stamped TTFT", measured["ttft_ns"] - stamped)]:
        print(f"{name} over {REQUESTS} requests, us: ", end="")
        for quantile in (0.0, 0.5, 0.9, 0.99, 1.0):
            value = differences.quantile(quantile, "linear") / 1_000
            print(f"p{quantile * 100:g} {value:.0f}", end="  ")
        print()
    print(f"measured TTFT p50 {measured['ttft_ns'].quantile(0.5, 'linear') / 1e6:.3f} ms, "
          f"stamped {stamped.quantile(0.5, 'linear') / 1e6:.3f} ms")
    for column in ("dispatched_ns", "sent_ns"):
        delay = (measured[column] - measured["scheduled_ns"]) / 1_000
        print(f"{column} - scheduled_ns, us: p50 {delay.quantile(0.5):.0f}  p99 {delay.quantile(0.99):.0f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
