#!/usr/bin/env python3
"""Writes the sample traces of this directory. Every value is invented.

    python3 generate.py            write the files
    python3 generate.py --check    build them in memory and compare with the files

Input: nothing but SEED. Output: a LiteLLM spend log of one week, the same requests as an
Azure-style CSV and a Mooncake-style JSONL, and truth.json, which says what was planted.
Python standard library only. Draws use `random()` and `getrandbits()` of seeded generators (both
stable across Python versions) and no iteration over a set, so that the same bytes come out on
every run.
"""

import bisect
import gzip
import hashlib
import io
import json
import math
import random
import sys
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

SEED = 20261102
WEEK_START = datetime(2026, 11, 2, tzinfo=timezone.utc)  # a Monday
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
WEEK_MS = 7 * DAY_MS
HERE = Path(__file__).resolve().parent
PROBE = "litellm-internal-health-check"
BLOCK_TOKENS = 512

# How many calls of each kind; a session's turns past Sunday midnight are cut off afterwards.
CALLS = {"short_chat": 9_000, "multi_turn": 6_000, "rag": 3_000, "long_output": 2_000}
# Lengths in tokens. Input: fixed + lognormal(mu, sigma) of the new text, cut to [min, max].
# Output: offset + exponential(mean), cut at max_tokens (then finish_reason is "length").
LENGTHS = {
    "short_chat": {"fixed": 0, "mu": 5.2, "sigma": 0.9, "min": 8, "max": 8_000,
                   "out_offset": 1, "out_mean": 130.0, "max_tokens": 512},
    "multi_turn": {"fixed": 600, "mu": 4.6, "sigma": 0.9, "min": 610, "max": 32_000,
                   "out_offset": 1, "out_mean": 260.0, "max_tokens": 1_024},
    "rag": {"fixed": 0, "mu": 8.3, "sigma": 0.9, "min": 700, "max": 60_000,
            "out_offset": 1, "out_mean": 210.0, "max_tokens": 1_024},
    "long_output": {"fixed": 0, "mu": 6.2, "sigma": 0.7, "min": 40, "max": 12_000,
                    "out_offset": 1_000, "out_mean": 900.0, "max_tokens": 4_000},
}
TURN_SHARES = {2: 0.32, 3: 0.22, 4: 0.15, 5: 0.11, 6: 0.08, 7: 0.05, 8: 0.04, 9: 0.03}
THINK_MEDIAN_S, THINK_SIGMA, THINK_MAX_S = 25.0, 1.0, 1_800.0
FAILURE_SHARE, INCIDENT_FAILURE_SHARE = 0.018, 0.30
INCIDENT = (2 * DAY_MS + 14 * HOUR_MS, 2 * DAY_MS + 14 * HOUR_MS + 12 * MINUTE_MS)  # Wednesday
TRACE_ID_SHARE, FALLBACK_SHARE = 0.5, 0.2  # of retried calls; of those with a trace id, if answered
READ_ERROR_MS = 6_000  # nobody goes on within this time after a failure
RETRY_SHARE, HANG_UP_SHARE, CACHE_HIT_SHARE = 0.45, 0.011, 0.022  # the last one of short chats
CRON_SHARE_OF_RAG, BATCH_SHARE_OF_LONG = 0.35, 0.55
DAY_FACTOR = [1.0, 1.08, 1.1, 1.05, 0.92, 0.38, 0.33]
PROBE_EVERY_MS = 30 * MINUTE_MS
SPOOFED_TAGS = 3

# (model, model_group, provider, milliseconds per output token)
MODELS = {
    "chat-small": ("gpt-4o-mini", "openai", 9.0),
    "chat-large": ("qwen2.5-72b-instruct", "hosted_vllm", 24.0),
    "doc-qa": ("llama-3.3-70b-instruct", "hosted_vllm", 21.0),
}
KEYS = ["web-app", "support-desk", "doc-search", "cron-reports", "batch-jobs"]
ERRORS = [  # (share, error_code, error_class, shortest and longest duration in ms, retried)
    (0.45, "429", "RateLimitError", 30, 400, True),
    (0.20, "500", "InternalServerError", 100, 4_000, True),
    (0.12, "503", "ServiceUnavailableError", 50, 1_500, True),
    (0.13, "504", "Timeout", 30_000, 30_400, True),
    (0.10, "400", "BadRequestError", 20, 200, False),
]


class Draw:
    """One named stream of random draws."""

    def __init__(self, name):
        self.source = random.Random(f"{SEED}:{name}")

    def unit(self):
        return self.source.random()

    def below(self, n):
        return int(self.source.random() * n)

    def between(self, low, high):
        return low + (high - low) * self.source.random()

    def chance(self, share):
        return self.source.random() < share

    def exponential(self, mean):
        return -mean * math.log(1.0 - self.source.random())

    def normal(self):
        radius = math.sqrt(-2.0 * math.log(1.0 - self.source.random()))
        return radius * math.cos(2.0 * math.pi * self.source.random())

    def lognormal(self, mu, sigma):
        return math.exp(mu + sigma * self.normal())

    def pick(self, shares):
        """Returns the index drawn by `shares`, which need not sum to 1."""
        at = self.source.random() * sum(shares)
        for index, share in enumerate(shares):
            at -= share
            if at < 0:
                return index
        return len(shares) - 1

    def hex(self, digits):
        return f"{self.source.getrandbits(4 * digits):0{digits}x}"

    def uuid(self):
        h = self.hex(32)
        return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}"


@dataclass
class Attempt:
    """One row of the log: times in ms since the week's start."""

    start: int
    first: int | None
    end: int
    error: tuple | None = None  # (code, class)
    group: str | None = None  # where a fallback sent it; None is the model asked for


@dataclass
class Call:
    """One request as its client saw it."""

    kind: str
    arrival: int
    group: str
    key: str
    input_tokens: int
    output_tokens: int = 0
    finish: str | None = None
    stream: bool = True
    session: str = ""
    turn: int = 0
    end_user: str = ""
    status: str = "ok"  # ok | failed | hang_up
    attempts: list = field(default_factory=list)
    cached_tokens: int | None = None
    cache_hit_of: "Call | None" = None
    request_id: str = ""
    trace_id: str | None = None
    spoofed: bool = False
    sub_ms: int = 0  # 100 ns units below the millisecond; only the Azure-style file shows them

    @property
    def end(self):
        return self.attempts[-1].end


# ---------------------------------------------------------------- arrivals


def minute_weights():
    """Relative human demand of each minute: nights low, two day peaks, and a slow random wobble."""
    draw, weights, level = Draw("wobble"), [], 0.0
    for minute in range(WEEK_MS // MINUTE_MS):
        if minute % 5 == 0:
            level = 0.8 * level + 0.35 * draw.normal()
        hour = (minute % 1_440) / 60.0
        shape = 0.07 + math.exp(-(((hour - 10.2) / 1.7) ** 2))
        shape += 0.9 * math.exp(-(((hour - 15.4) / 2.0) ** 2))
        shape += 0.22 * math.exp(-(((hour - 20.3) / 1.6) ** 2))
        weights.append(shape * DAY_FACTOR[minute // 1_440] * math.exp(level))
    return weights


def human_arrivals(draw, weights, n):
    """n independent instants with the density `weights`: a Poisson process given its count."""
    total, sums = 0.0, []
    for weight in weights:
        total += weight
        sums.append(total)
    minutes = [bisect.bisect_right(sums, draw.unit() * total) for _ in range(n)]
    return sorted(min(m, len(weights) - 1) * MINUTE_MS + draw.below(MINUTE_MS) for m in minutes)


def cron_arrivals(draw, n):
    """n instants in the first seconds of full hours."""
    return sorted(draw.below(168) * HOUR_MS + int(draw.exponential(1_200.0)) for _ in range(n))


def batch_arrivals(draw, n):
    """n instants in clumps: 01:30 every day and 13:20 on working days, about a minute each."""
    clumps = [day * DAY_MS + 90 * MINUTE_MS for day in range(7)]
    clumps += [day * DAY_MS + 800 * MINUTE_MS for day in range(5)]
    return sorted(clumps[draw.below(len(clumps))] + int(draw.exponential(18_000.0)) for _ in range(n))


# ---------------------------------------------------------------- one call


def new_text(draw, law):
    return max(1, round(draw.lognormal(law["mu"], law["sigma"])))


def clip(value, law):
    return max(law["min"], min(law["max"], value))


def draw_output(draw, law):
    """Returns (tokens, finish_reason): ceil of an exponential, cut at max_tokens."""
    natural = law["out_offset"] + math.ceil(draw.exponential(law["out_mean"])) - 1
    if natural >= law["max_tokens"]:
        return law["max_tokens"], "length"
    return max(1, natural), "stop"


def serve(draw, call, weights):
    """Gives the call its attempts: failures first, then an answer, a hang-up or nothing."""
    start = call.arrival
    incident = INCIDENT[0] <= start < INCIDENT[1]
    failing = draw.chance(INCIDENT_FAILURE_SHARE if incident else FAILURE_SHARE)
    while failing:
        _, code, name, low, high, retried = ERRORS[draw.pick([e[0] for e in ERRORS])]
        end = start + round(draw.between(low, high))
        call.attempts.append(Attempt(start, None, end, (code, name)))
        if not retried or not draw.chance(RETRY_SHARE) or len(call.attempts) == 3:
            call.status, call.output_tokens, call.finish = "failed", 0, None
            break
        start = end + round(draw.between(400, 2_500))
        failing = draw.chance(0.15)
    if len(call.attempts) > (call.status == "failed"):
        call.trace_id = draw.uuid()  # only retried calls carry it, and not all: see plant_links
    if call.status == "failed":
        return
    busy = min(2.0, weights[min(start, WEEK_MS - 1) // MINUTE_MS])
    per_token = MODELS[call.group][2] * (1.0 + 0.35 * busy) * draw.between(0.9, 1.15)
    ttft = (90.0 + 0.11 * call.input_tokens) * (1.0 + 0.5 * busy) * draw.lognormal(0.0, 0.25)
    if call.stream and call.output_tokens > 40 and draw.chance(HANG_UP_SHARE):
        call.status, call.finish = "hang_up", None
        call.output_tokens = 1 + draw.below(40)
    first = start + max(1, round(ttft))
    end = first + max(1, round(per_token * (call.output_tokens - 1)))
    call.attempts.append(Attempt(start, first if call.stream else end, end))


def single(draw, kind, arrival, group, key, weights):
    law = LENGTHS[kind]
    call = Call(kind, arrival, group, key, clip(law["fixed"] + new_text(draw, law), law))
    call.output_tokens, call.finish = draw_output(draw, law)
    call.stream = draw.chance(0.85 if kind != "rag" else 0.7)
    call.session = draw.uuid()  # the gateway invents one for every request
    call.request_id = "chatcmpl-" + draw.hex(16)
    call.sub_ms = draw.below(10_000)
    if key == "web-app":
        call.end_user = f"customer-{draw.below(900):04d}"
    serve(draw, call, weights)
    return call


def session_calls(draw, arrival, turns, weights):
    """The turns of one session: each prompt is the one before, its answer, and a new message."""
    law, calls = LENGTHS["multi_turn"], []
    session, user = draw.uuid(), f"customer-{draw.below(900):04d}"
    group = "chat-small" if draw.chance(0.6) else "chat-large"
    history = law["fixed"]
    for turn in range(turns):
        message = new_text(draw, law)
        call = Call("multi_turn", arrival, group, "support-desk", clip(history + message, law))
        call.session, call.turn, call.end_user = session, turn, user
        call.output_tokens, call.finish = draw_output(draw, law)
        call.request_id = "chatcmpl-" + draw.hex(16)
        call.sub_ms = draw.below(10_000)
        serve(draw, call, weights)
        if turn > 0 and call.status == "ok" and draw.chance(0.8):
            call.cached_tokens = history // BLOCK_TOKENS * BLOCK_TOKENS
        history = call.input_tokens + call.output_tokens
        think = min(THINK_MAX_S, draw.lognormal(math.log(THINK_MEDIAN_S), THINK_SIGMA))
        calls.append(call)
        pause = max(1, round(think * 1_000.0))
        arrival = call.end + (max(pause, READ_ERROR_MS) if call.status == "failed" else pause)
    return [call for call in calls if call.arrival < WEEK_MS]


def all_calls():
    weights, calls = minute_weights(), []
    draw = Draw("short_chat")
    for at in human_arrivals(draw, weights, CALLS["short_chat"]):
        group = "chat-small" if draw.chance(0.8) else "chat-large"
        calls.append(single(draw, "short_chat", at, group, "web-app", weights))
    draw = Draw("rag")
    cron = round(CALLS["rag"] * CRON_SHARE_OF_RAG)
    for at in human_arrivals(draw, weights, CALLS["rag"] - cron):
        calls.append(single(draw, "rag", at, "doc-qa", "doc-search", weights))
    for at in cron_arrivals(draw, cron):
        calls.append(single(draw, "rag", at, "doc-qa", "cron-reports", weights))
    draw = Draw("long_output")
    batch = round(CALLS["long_output"] * BATCH_SHARE_OF_LONG)
    for at in human_arrivals(draw, weights, CALLS["long_output"] - batch):
        calls.append(single(draw, "long_output", at, "chat-large", "web-app", weights))
    for at in batch_arrivals(draw, batch):
        calls.append(single(draw, "long_output", at, "chat-large", "batch-jobs", weights))
    draw, sizes = Draw("multi_turn"), []
    while sum(sizes) < CALLS["multi_turn"]:
        sizes.append(list(TURN_SHARES)[draw.pick(list(TURN_SHARES.values()))])
    for at, turns in zip(human_arrivals(draw, weights, len(sizes)), sizes):
        calls.extend(session_calls(draw, at, turns, weights))
    calls.sort(key=lambda call: (call.arrival, call.sub_ms, call.request_id))
    plant_cache_hits(calls)
    plant_links(calls)
    draw = Draw("spoofed")
    shorts = [c for c in calls if c.kind == "short_chat" and c.status == "ok" and not c.cache_hit_of]
    for _ in range(SPOOFED_TAGS):
        shorts.pop(draw.below(len(shorts))).spoofed = True
    return calls


def plant_cache_hits(calls):
    """Turns some short chats into repeats of one of the last 200 answered short chats."""
    draw, answered = Draw("cache_hits"), []
    for call in calls:
        if call.kind != "short_chat" or call.status != "ok" or len(call.attempts) > 1:
            continue
        if len(answered) > 50 and draw.chance(CACHE_HIT_SHARE):
            first = answered[-1 - draw.below(min(200, len(answered)))]
            if first.end < call.arrival:
                call.cache_hit_of, call.group, call.stream = first, first.group, False
                call.input_tokens, call.output_tokens = first.input_tokens, first.output_tokens
                call.finish = first.finish
                end = call.arrival + 4 + draw.below(20)
                call.attempts = [Attempt(call.arrival, end, end)]
                continue
        answered.append(call)


def plant_links(calls):
    """Takes the trace id from some retried calls, as gateways that only write the session id do,
    and lets the last attempt of some others go to another model."""
    draw, others = Draw("links"), {"chat-small": "chat-large", "chat-large": "chat-small"}
    for call in calls:
        if call.trace_id is None:
            continue
        keep, fall_back = draw.chance(TRACE_ID_SHARE), draw.chance(FALLBACK_SHARE)
        if not keep:
            call.trace_id = None
        elif fall_back and call.status == "ok" and call.group in others:
            call.attempts[-1].group = others[call.group]


# ---------------------------------------------------------------- LiteLLM rows


def stamp(ms):
    return (WEEK_START + timedelta(milliseconds=ms)).strftime("%Y-%m-%dT%H:%M:%S.%f") + "+00:00"


def digest_of(name):
    return hashlib.sha256(name.encode()).hexdigest()


def metadata_of(call, attempt):
    data = {
        "user_api_key": digest_of("key " + call.key), "user_api_key_alias": call.key,
        "user_api_key_team_id": "team-" + call.key, "user_api_key_user_id": "default_user_id",
        "status": "failure" if attempt.error else "success",
        "additional_usage_values": {},
        "vector_store_request_metadata": None,
        "attempted_retries": call.attempts.index(attempt),
    }
    if call.cached_tokens and not attempt.error:
        cached = {"cached_tokens": call.cached_tokens}
        data["additional_usage_values"] = {"prompt_tokens_details": cached}
    if call.kind == "rag":
        data["vector_store_request_metadata"] = [
            {"vector_store_id": "vs_invented", "query": "[redacted]", "custom_llm_provider": "openai"}
        ]
    if call.trace_id:
        data["litellm_trace_id"] = call.trace_id
    error = attempt.error
    if call.status == "hang_up" and error is None:
        error = ("499", "ClientDisconnect")
    if error:
        data["error_information"] = {"error_code": error[0], "error_class": error[1]}
    return data


def row_of(call, attempt, draw):
    """One spend-log row. Failures have 0 tokens and a request id of their own."""
    group = attempt.group or call.group
    model, provider, _ = MODELS[group]
    failed, hit = attempt.error is not None, call.cache_hit_of is not None
    tokens = (0, 0) if failed else (call.input_tokens, call.output_tokens)
    request_id = draw.uuid() if failed else call.request_id
    if hit:
        epoch = (WEEK_START.timestamp() * 1_000 + attempt.end) / 1_000
        request_id = f"{call.cache_hit_of.request_id}_cache_hit{epoch:.3f}"
    spend = 0.0 if failed or hit else round(tokens[0] * 1.5e-7 + tokens[1] * 6e-7, 8)
    request = {"model": call.group, "stream": call.stream,
               "max_tokens": LENGTHS[call.kind]["max_tokens"]}
    return {
        "request_id": request_id, "call_type": "acompletion", "api_key": digest_of("key " + call.key),
        "spend": spend, "total_tokens": sum(tokens), "prompt_tokens": tokens[0],
        "completion_tokens": tokens[1], "startTime": stamp(attempt.start),
        "endTime": stamp(attempt.end), "request_duration_ms": attempt.end - attempt.start,
        "completionStartTime": stamp(attempt.end if attempt.first is None else attempt.first),
        "model": model, "model_id": digest_of("deployment " + model), "model_group": group,
        "custom_llm_provider": provider, "api_base": "https://llm.example.test/v1",
        "user": "default_user_id", "metadata": metadata_of(call, attempt),
        "cache_hit": "True" if hit else "False",
        "cache_key": digest_of("cache " + call.cache_hit_of.request_id) if hit else "Cache OFF",
        "request_tags": [PROBE] if call.spoofed else ["team:" + call.key],
        "team_id": "team-" + call.key, "organization_id": None, "end_user": call.end_user,
        "requester_ip_address": "192.0.2.17", "messages": {},
        "response": {} if failed else {"choices": [{"index": 0, "finish_reason": call.finish}]},
        "session_id": call.session, "status": "failure" if failed else "success",
        "mcp_namespaced_tool_name": None, "agent_id": None, "proxy_server_request": request,
    }


def plant_nulls(row, draw, nulls):
    """Blanks what older or half-configured gateways leave out."""
    at = draw.unit()
    if row["status"] != "success" or row["cache_hit"] == "True":
        return  # the draw is spent anyway, so that rows do not move each other
    if at < 0.004:
        row["completionStartTime"] = None
        nulls["completionStartTime"] += 1
    elif at < 0.007:
        row["model_group"] = None
        row["proxy_server_request"] = {}
        nulls["model_group"] += 1
    elif at < 0.011:
        del row["request_duration_ms"]
        nulls["request_duration_ms_missing"] += 1
    elif at < 0.014:
        row["response"] = {}
        nulls["response_empty"] += 1
    elif at < 0.016:
        row["cache_hit"] = "None"
        nulls["cache_hit_None"] += 1


def probe_rows(draw):
    """The gateway's own health checks: every half hour, one token, its own key, team and tag."""
    rows = []
    for start in range(7_000, WEEK_MS, PROBE_EVERY_MS):
        call = Call("short_chat", start, "chat-small", PROBE, 9, 1, "length", False)
        call.session, call.request_id = draw.uuid(), "chatcmpl-" + draw.hex(16)
        attempt = Attempt(start, start + 210, start + 210)
        call.attempts = [attempt]
        row = row_of(call, attempt, draw)
        row["request_tags"], row["team_id"] = [PROBE], PROBE
        row["metadata"]["user_api_key_team_id"] = PROBE
        row["proxy_server_request"] = {}
        rows.append((attempt.end, row))
    return rows


def litellm_lines(calls, nulls):
    """Returns the log's bytes: rows in order of their end, the last one cut in the middle."""
    draw, rows = Draw("rows"), []
    for call in calls:
        for attempt in call.attempts:
            row = row_of(call, attempt, draw)
            if len(call.attempts) == 1:  # attempts are told to belong together by their model_group
                plant_nulls(row, draw, nulls)
            rows.append((attempt.end, row))
    nulls["finish_reason_length"] = sum(
        row["response"].get("choices", [{}])[0].get("finish_reason") == "length" for _, row in rows)
    rows.extend(probe_rows(Draw("probes")))
    rows.sort(key=lambda pair: (pair[0], pair[1]["request_id"]))
    last = Call("short_chat", rows[-1][0] + 500, "chat-small", "web-app", 321, 45, "stop")
    last.session, last.request_id = draw.uuid(), "chatcmpl-" + draw.hex(16)
    last.attempts = [Attempt(last.arrival, last.arrival + 130, last.arrival + 900)]
    rows.append((last.end, row_of(last, last.attempts[0], draw)))
    lines = [json.dumps(row, separators=(",", ":")) for _, row in rows]
    lines[-1] = lines[-1][: len(lines[-1]) * 6 // 10]  # the dump was cut off here
    return "\n".join(lines).encode(), len(lines)


# ---------------------------------------------------------------- the other formats


def azure_csv(answered):
    out = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for call in answered:
        at = (WEEK_START + timedelta(milliseconds=call.arrival)).strftime("%Y-%m-%d %H:%M:%S")
        ticks = call.arrival % 1_000 * 10_000 + call.sub_ms
        out.append(f"{at}.{ticks:07d},{call.input_tokens},{call.output_tokens}")
    return ("\r\n".join(out) + "\r\n").encode()


class Blocks:
    """Hands out block ids densely. Full blocks of shared text are shared; a partly filled last
    block is hashed with what it holds, so it has an id of its own."""

    def __init__(self):
        self.next_id, self.chains = 0, {}

    def fresh(self, n):
        ids = list(range(self.next_id, self.next_id + n))
        self.next_id += n
        return ids

    def of(self, call):
        if call.cache_hit_of is not None and id(call.cache_hit_of) in self.chains:
            return self.chains[id(call.cache_hit_of)]
        full, rest = divmod(call.input_tokens, BLOCK_TOKENS)
        head = {"multi_turn": "assistant", "rag": "retrieval"}.get(call.kind)
        chain = []
        if head and full:
            chain = self.chains.setdefault("system " + head, None) or self.fresh(1)
            self.chains["system " + head] = chain
        if call.kind == "multi_turn":
            chain = self.chains.get(call.session, chain)
        chain = chain[:full] + self.fresh(full - len(chain))
        if call.kind == "multi_turn":
            self.chains[call.session] = chain
        ids = chain + self.fresh(1) if rest else chain
        if call.kind == "short_chat":
            self.chains[id(call)] = ids
        return ids


def mooncake_jsonl(answered):
    blocks, origin, out = Blocks(), answered[0].arrival, []
    for call in answered:
        ids = blocks.of(call)
        row = {"timestamp": call.arrival - origin, "input_length": call.input_tokens,
               "output_length": call.output_tokens, "hash_ids": ids}
        out.append(json.dumps(row, separators=(",", ":")))
    return ("\n".join(out) + "\n").encode(), blocks.next_id


# ---------------------------------------------------------------- the truth


def quantile(values, p):
    """numpy's linear form."""
    values = sorted(values)
    at = p * (len(values) - 1)
    low = math.floor(at)
    high = min(low + 1, len(values) - 1)
    return round(values[low] + (values[high] - values[low]) * (at - low), 6)


def count_by(items):
    counts = {}
    for item in items:
        counts[item] = counts.get(item, 0) + 1
    return dict(sorted(counts.items()))


def scenario_of(call, turns):
    """What a classifier can see: retrieval, then a session of two or more, then a long answer."""
    if call.kind == "rag":
        return "rag"
    if turns.get(call.session, 1) >= 2:
        return "multi_turn"
    return "long_output" if call.output_tokens >= 1_000 else "single"


def lengths_of(values):
    return {"n": len(values), "min": min(values), "max": max(values), "sum": sum(values),
            "p50": quantile(values, 0.5), "p90": quantile(values, 0.9), "p99": quantile(values, 0.99)}


def truth_of(calls, lines, nulls, answered, blocks):
    turns = count_by(call.session for call in calls)
    sizes = [n for n in turns.values() if n >= 2]
    attempts = sum(len(call.attempts) for call in calls)
    probes = len(range(7_000, WEEK_MS, PROBE_EVERY_MS))
    assert lines == attempts + probes + 1
    gaps = {}
    for call in calls:
        gaps.setdefault(call.session, []).append(call)
    thinks = [b.arrival - a.end for turn in gaps.values() for a, b in zip(turn, turn[1:])]
    return {
        "seed": SEED,
        "week": {"first_day": "2026-11-02", "last_day": "2026-11-08", "zone": "UTC"},
        "litellm_week": {
            "lines": lines, "read": lines, "kept": len(calls), "merged": attempts - len(calls),
            "dropped": {"probe": probes}, "rejected": 1,
            "rejected_line": lines, "ends_with_newline": False, "newlines": lines - 1,
            "order": "by endTime, so startTime is not sorted",
        },
        "calls": {
            "total": len(calls),
            "planted_kinds": count_by(call.kind for call in calls),
            "scenarios": count_by(scenario_of(call, turns) for call in calls),
            "status": count_by(call.status for call in calls),
            "failed_by_class": count_by(
                call.attempts[-1].error[1] for call in calls if call.status == "failed"),
            "failure_rows": sum(a.error is not None for call in calls for a in call.attempts),
            "retried": sum(len(call.attempts) > 1 for call in calls),
            "retried_and_answered": sum(
                len(call.attempts) > 1 and call.status != "failed" for call in calls),
            "retried_with_trace_id": sum(call.trace_id is not None for call in calls),
            "fell_back_to_another_model": sum(
                a.group is not None for call in calls for a in call.attempts),
            "hang_ups": sum(call.status == "hang_up" for call in calls),
            "cache_hits": sum(call.cache_hit_of is not None for call in calls),
            "cut_at_max_tokens": sum(call.finish == "length" for call in calls),
            "cut_at_max_tokens_and_logged": nulls.pop("finish_reason_length"),
            "with_cached_tokens": sum(bool(call.cached_tokens) for call in calls),
            "not_streamed": sum(not call.stream for call in calls),
            "spoofed_probe_tags": SPOOFED_TAGS,
            "nulls": dict(sorted(nulls.items())),
        },
        "sessions": {
            "of_two_or_more": len(sizes), "requests_in_them": sum(sizes),
            "by_turns": {str(k): v for k, v in count_by(sizes).items()},
            "one_off_ids": sum(n == 1 for n in turns.values()),
            "think_time_ms": lengths_of(thinks),
        },
        "rag_share_of_calls": round(sum(c.kind == "rag" for c in calls) / len(calls), 6),
        "tokens_of_answered_calls": {
            "input": lengths_of([call.input_tokens for call in answered]),
            "output": lengths_of([call.output_tokens for call in answered]),
        },
        "calls_per_hour": [
            sum(1 for c in calls if c.arrival // HOUR_MS == h) for h in range(WEEK_MS // HOUR_MS)],
        "first_arrival": stamp(calls[0].arrival), "last_arrival": stamp(calls[-1].arrival),
        "laws": {
            "lengths_tokens": LENGTHS, "turn_shares": {str(k): v for k, v in TURN_SHARES.items()},
            "think_time_s": {"median": THINK_MEDIAN_S, "sigma": THINK_SIGMA, "max": THINK_MAX_S},
            "failure_share": FAILURE_SHARE, "incident_failure_share": INCIDENT_FAILURE_SHARE,
            "incident": [stamp(INCIDENT[0]), stamp(INCIDENT[1])],
            "cron_share_of_rag": CRON_SHARE_OF_RAG, "batch_share_of_long": BATCH_SHARE_OF_LONG,
        },
        "azure_style_week": {"rows": len(answered)},
        "mooncake_style_week": {
            "rows": len(answered), "origin": stamp(answered[0].arrival),
            "block_tokens": BLOCK_TOKENS, "distinct_blocks": blocks,
        },
    }


def zipped(data):
    """gzip with neither time nor file name in its header."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, compresslevel=9, mtime=0) as file:
        file.write(data)
    return buffer.getvalue()


def build():
    """Returns the files as {name: uncompressed bytes}."""
    calls = all_calls()
    nulls = dict.fromkeys(["completionStartTime", "model_group", "request_duration_ms_missing",
                           "response_empty", "cache_hit_None"], 0)
    log, lines = litellm_lines(calls, nulls)
    answered = [call for call in calls if call.status != "failed"]
    mooncake, blocks = mooncake_jsonl(answered)
    truth = json.dumps(truth_of(calls, lines, nulls, answered, blocks), indent=1) + "\n"
    return {"litellm-week.jsonl.gz": log, "azure-style-week.csv": azure_csv(answered),
            "mooncake-style-week.jsonl": mooncake, "truth.json": truth.encode()}


def main():
    files, check, wrong = build(), "--check" in sys.argv[1:], []
    for name, data in files.items():
        path, zip_it = HERE / name, name.endswith(".gz")
        if not check:
            path.write_bytes(zipped(data) if zip_it else data)
            continue
        found = path.read_bytes() if path.exists() else b""
        # Another zlib may compress otherwise: what counts is what is inside.
        same = (gzip.decompress(found) if zip_it and found else found) == data
        wrong += [] if same else [name]
        print(f"{name}: {'equal' if same else 'DIFFERENT'}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
