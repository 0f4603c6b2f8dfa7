#!/usr/bin/env python3
"""Times `tracewright ingest` beside DuckDB, Polars and PyArrow on the same logs, on one core.

    ingest_peers.py --tracewright BINARY --lean FILE --real FILE --azure FILE [--rounds 3] [--core 1]

Every reader projects the same log to zstd Parquet: of LiteLLM rows 14 columns, four of them out of
nested objects; of the Azure CSV all three. One round runs every tool once, in an order that turns
from round to round; a run is a process of its own, pinned to one core, the file in the page cache.
Of a peer only the work counts, not the start of Python and its imports; of `tracewright` the whole.
Prints per file and tool the median of MB/s and rows/s, the peak RSS, the Parquet's size, and the
median of the ratios to `tracewright` of the same round. A tool that fails is named with its error.

Needs duckdb, polars and pyarrow in the Python that runs it. MB are 10^6 bytes of input; s; MiB.
"""
import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

TOP = ["request_id", "api_key", "startTime", "endTime", "completionStartTime", "model", "status",
       "prompt_tokens", "completion_tokens", "session_id"]
NESTED = {"cached_tokens": ["usage_object", "prompt_tokens_details", "cached_tokens"],
          "reasoning_tokens": ["usage_object", "completion_tokens_details", "reasoning_tokens"],
          "key_team": ["user_api_key_team_id"], "key_alias": ["user_api_key_alias"]}
NUMBERS = {"prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens"}


def duckdb_json(path, out):
    import duckdb
    usage = "usage_object STRUCT(prompt_tokens_details STRUCT(cached_tokens BIGINT), completion_tokens_details STRUCT(reasoning_tokens BIGINT))"
    columns = {name: "BIGINT" if name in NUMBERS else "VARCHAR" for name in TOP}
    columns["metadata"] = f"STRUCT({usage}, user_api_key_team_id VARCHAR, user_api_key_alias VARCHAR)"
    kinds = ", ".join(f"'{name}': '{kind}'" for name, kind in columns.items())
    picked = TOP + [f"metadata.{'.'.join(path)} AS {name}" for name, path in NESTED.items()]
    duckdb.execute("SET threads = 1; SET preserve_insertion_order = false")
    duckdb.execute(f"COPY (SELECT {', '.join(picked)} FROM read_json('{path}', format = 'newline_delimited', "
                   f"columns = {{{kinds}}})) TO '{out}' (FORMAT parquet, COMPRESSION zstd)")


def polars_json(path, out):
    import polars
    whole, text = polars.Int64, polars.String
    usage = polars.Struct({"prompt_tokens_details": polars.Struct({"cached_tokens": whole}),
                           "completion_tokens_details": polars.Struct({"reasoning_tokens": whole})})
    schema = {name: whole if name in NUMBERS else text for name in TOP}
    schema["metadata"] = polars.Struct({"usage_object": usage, "user_api_key_team_id": text, "user_api_key_alias": text})

    def nested(parts):
        value = polars.col("metadata")
        for part in parts:
            value = value.struct.field(part)
        return value
    columns = [polars.col(name) for name in TOP] + [nested(parts).alias(name) for name, parts in NESTED.items()]
    polars.scan_ndjson(path, schema=schema).select(columns).sink_parquet(out, compression="zstd")


def pyarrow_json(path, out):
    import pyarrow
    import pyarrow.json
    import pyarrow.parquet
    usage = pyarrow.struct([("prompt_tokens_details", pyarrow.struct([("cached_tokens", pyarrow.int64())])),
                            ("completion_tokens_details", pyarrow.struct([("reasoning_tokens", pyarrow.int64())]))])
    metadata = pyarrow.struct([("usage_object", usage), ("user_api_key_team_id", pyarrow.string()),
                               ("user_api_key_alias", pyarrow.string())])
    fields = [(name, pyarrow.int64() if name in NUMBERS else pyarrow.string()) for name in TOP]
    options = pyarrow.json.ParseOptions(explicit_schema=pyarrow.schema([*fields, ("metadata", metadata)]),
                                        unexpected_field_behavior="ignore")
    table = pyarrow.json.read_json(path, read_options=pyarrow.json.ReadOptions(use_threads=False), parse_options=options)
    pyarrow.parquet.write_table(table.flatten().flatten().flatten(), out, compression="zstd")


def duckdb_csv(path, out):
    import duckdb
    duckdb.execute("SET threads = 1; SET preserve_insertion_order = false")
    duckdb.execute(f"COPY (SELECT * FROM read_csv('{path}', header = true, columns = {{'TIMESTAMP': 'TIMESTAMP', "
                   f"'ContextTokens': 'INTEGER', 'GeneratedTokens': 'INTEGER'}})) TO '{out}' (FORMAT parquet, COMPRESSION zstd)")


def polars_csv(path, out):
    import polars
    time_ = polars.col("TIMESTAMP").str.slice(0, 26).str.to_datetime("%Y-%m-%d %H:%M:%S%.6f")
    polars.scan_csv(path).with_columns(time_).sink_parquet(out, compression="zstd")


def pyarrow_csv(path, out):
    import pyarrow.csv
    import pyarrow.parquet
    reader = pyarrow.csv.open_csv(path, read_options=pyarrow.csv.ReadOptions(use_threads=False))
    with pyarrow.parquet.ParquetWriter(out, reader.schema, compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(batch)


PEERS = {"duckdb": {"json": duckdb_json, "csv": duckdb_csv}, "polars": {"json": polars_json, "csv": polars_csv},
         "pyarrow": {"json": pyarrow_json, "csv": pyarrow_csv}}


def run(tool, kind, path, options):
    """Runs one tool in a process of its own; returns seconds, peak RSS in MiB and bytes written."""
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        out = os.path.join(folder, "out.parquet")
        if tool == "tracewright":
            command = [options.tracewright, "ingest", path, "-o", out]
        else:
            command = [sys.executable, os.path.abspath(__file__), "--peer", tool, kind, path, out]
        environment = os.environ | {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "XDG_CONFIG_HOME": folder}
        start = time.perf_counter()
        process = subprocess.Popen(["taskset", "-c", str(options.core), *command], env=environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said = process.stdout.read()
        problem = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        if status != 0 or not os.path.exists(out):
            raise RuntimeError(problem.decode(errors="replace").strip().splitlines()[-1:] or [f"status {status}"])
        cpu = usage.ru_utime + usage.ru_stime
        if tool != "tracewright":
            seconds, cpu = map(float, said.split())
        return {"seconds": seconds, "cpu": cpu, "rss": usage.ru_maxrss / 1024, "bytes": os.path.getsize(out)}


def measure(kind, path, options):
    size = os.path.getsize(path)
    with open(path, "rb") as file:  # into the page cache, and counted
        rows = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 24), b"")) - (kind == "csv")
    tools = ["tracewright", *PEERS] if options.tracewright else list(PEERS)
    tools = [tool for tool in tools if not options.only or tool in options.only]
    runs = {tool: [] for tool in tools}
    failed = {}
    for turn in range(options.rounds):
        for tool in tools[turn % len(tools):] + tools[:turn % len(tools)]:
            try:
                runs[tool].append(run(tool, kind, path, options))
            except RuntimeError as error:
                failed[tool] = error
    print(f"\n{path}: {size:,} bytes, {rows:,} rows, {options.rounds} rounds on core {options.core}")
    print(f"{'tool':12} {'MB/s':>7} {'rows/s':>11} {'MB/s of CPU':>11} {'RSS MiB':>8} {'Parquet MB':>10} {'x tracewright':>13}")
    for tool, found in runs.items():
        if tool in failed or not found:
            print(f"{tool:12} failed: {failed.get(tool)}")
            continue
        median = statistics.median(one["seconds"] for one in found)
        cpu = statistics.median(one["cpu"] for one in found)
        pairs = list(zip(found, runs.get("tracewright", [])))
        ratio = statistics.median(ours["seconds"] / one["seconds"] for one, ours in pairs) if pairs else float("nan")
        print(f"{tool:12} {size / median / 1e6:7.0f} {rows / median:11,.0f} {size / cpu / 1e6:11.0f} "
              f"{max(one['rss'] for one in found):8.0f} {found[0]['bytes'] / 1e6:10.1f} {ratio:13.2f}", flush=True)


def main():
    if sys.argv[1:2] == ["--peer"]:
        _, _, tool, kind, path, out = sys.argv
        __import__(tool)
        if tool == "pyarrow":
            import pyarrow.csv  # noqa: F401
            import pyarrow.json  # noqa: F401
            import pyarrow.parquet  # noqa: F401
        start, cpu = time.perf_counter(), time.process_time()
        PEERS[tool][kind](path, out)
        print(time.perf_counter() - start, time.process_time() - cpu)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tracewright", help="the binary, a release build")
    parser.add_argument("--lean")
    parser.add_argument("--real")
    parser.add_argument("--azure")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--core", type=int, default=1)
    parser.add_argument("--only", action="append", help="a tool; may be given several times")
    parser.add_argument("--folder", help="where outputs go, for a while")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for kind, path in (("json", options.lean), ("json", options.real), ("csv", options.azure)):
        if path:
            measure(kind, path, options)


if __name__ == "__main__":
    main()
