#!/usr/bin/env python3
"""Writes logs to measure `ingest` with: litellm_log.py {lean,real,azure} FILE [--size BYTES] [--seed N].

lean   LiteLLM_SpendLogs rows of about 1,300 bytes: 25 top-level fields, nested usage and metadata
real   rows of about 10.7 kB as proxies write them: metadata with many keys, request tags, empty
       or cut bodies
azure  a CSV of TIMESTAMP,ContextTokens,GeneratedTokens; --size counts rows here

Equal seeds give equal bytes. All values are invented; sizes are in bytes, 10^9 unless told. Plain
Python, standard library.
"""
import argparse
import datetime
import json
import random

MODELS = [("gpt-4o-mini", "chat-small", "openai"), ("gpt-4o", "chat-large", "openai"),
          ("claude-sonnet-4-5", "chat-claude", "anthropic"), ("qwen2.5-72b-instruct", "chat-local", "hosted_vllm")]
START = datetime.datetime(2026, 11, 24, tzinfo=datetime.timezone.utc)
TRUNCATED = "... (litellm_truncated 48213 chars)"


def stamp(micros):
    return (START + datetime.timedelta(microseconds=micros)).isoformat(timespec="microseconds")


def hexa(rng, digits):
    return f"{rng.getrandbits(4 * digits):0{digits}x}"


def uuid(rng):
    text = hexa(rng, 32)
    return "-".join([text[:8], text[8:12], text[12:16], text[16:20], text[20:]])


class World:
    """What repeats from row to row: keys, teams, users, open sessions."""

    def __init__(self, rng):
        self.keys = [(hexa(rng, 64), f"key-{n}", f"team-{n % 40}") for n in range(300)]
        self.users = [f"user-{hexa(rng, 8)}" for _ in range(5000)]
        self.sessions = [uuid(rng) for _ in range(2000)]
        self.models = [(*model, hexa(rng, 64)) for model in MODELS]


def usage_of(prompt, completion, cached, reasoning):
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": None},
            "completion_tokens_details": {"reasoning_tokens": reasoning, "audio_tokens": None}}


def base_row(rng, world, arrival):
    key, alias, team = rng.choice(world.keys)
    model, group, provider, model_id = rng.choices(world.models, [60, 20, 15, 5])[0]
    if rng.random() < 0.3:
        world.sessions[rng.randrange(len(world.sessions))] = uuid(rng)
    prompt = int(rng.lognormvariate(6.8, 1.0)) + 1
    completion = int(rng.lognormvariate(4.8, 0.9)) + 1
    wait = int(rng.lognormvariate(12.9, 0.5))
    duration = wait + completion * rng.randrange(9_000, 30_000)
    is_failure = rng.random() < 0.02
    row = {
        "request_id": f"chatcmpl-{hexa(rng, 32)}", "call_type": "acompletion", "api_key": key,
        "spend": 0.0 if is_failure else round(prompt * 1.5e-7 + completion * 6e-7, 9),
        "total_tokens": 0 if is_failure else prompt + completion,
        "prompt_tokens": 0 if is_failure else prompt, "completion_tokens": 0 if is_failure else completion,
        "startTime": stamp(arrival), "endTime": stamp(arrival + duration),
        "completionStartTime": stamp(arrival + wait), "model": model, "model_id": model_id,
        "model_group": group, "custom_llm_provider": provider, "user": "default_user_id",
        "team_id": team, "end_user": rng.choice(world.users) if rng.random() < 0.7 else "",
        "cache_hit": "False", "cache_key": "Cache OFF", "session_id": rng.choice(world.sessions),
        "status": "failure" if is_failure else "success",
    }
    cached = prompt // 128 * 128 if rng.random() < 0.4 else 0
    usage = usage_of(prompt, completion, cached, completion // 2 if rng.random() < 0.1 else 0)
    metadata = {
        "user_api_key": key, "user_api_key_alias": alias, "user_api_key_team_id": team,
        "status": row["status"], "usage_object": usage, "applied_guardrails": [], "attempted_retries": 0,
    }
    if is_failure:
        metadata["error_information"] = {"error_code": "429", "error_class": "RateLimitError"}
    return row, metadata


def lean_row(rng, world, arrival):
    row, metadata = base_row(rng, world, arrival)
    row |= {"metadata": metadata, "request_tags": ["team:demo"], "organization_id": None, "requester_ip_address": "",
            "messages": {}, "response": {}, "proxy_server_request": {}}
    return row


def deployment(rng, cost):
    names = ["input_cost_per_token", "output_cost_per_token", "cache_creation_input_token_cost",
             "cache_read_input_token_cost", "input_cost_per_character", "input_cost_per_token_above_128k_tokens",
             "input_cost_per_query", "input_cost_per_second", "input_cost_per_audio_token", "output_cost_per_audio_token",
             "output_cost_per_character", "output_cost_per_reasoning_token", "output_vector_size",
             "search_context_cost_per_query", "tpm", "rpm", "regional_processing_uplift"]
    flags = ["supports_system_messages", "supports_response_schema", "supports_vision", "supports_function_calling",
             "supports_tool_choice", "supports_assistant_prefill", "supports_prompt_caching", "supports_audio_input",
             "supports_audio_output", "supports_pdf_input", "supports_embedding_image_input", "supports_native_streaming",
             "supports_web_search", "supports_url_context", "supports_reasoning", "supports_computer_use"]
    parameters = ["frequency_penalty", "logit_bias", "logprobs", "top_logprobs", "max_tokens", "max_completion_tokens",
                  "modalities", "prediction", "n", "presence_penalty", "seed", "stop", "stream", "stream_options",
                  "temperature", "top_p", "tools", "tool_choice", "function_call", "functions", "max_retries",
                  "extra_headers", "parallel_tool_calls", "audio", "web_search_options", "response_format", "user"]
    return {**{name: rng.choice([None, cost]) for name in names}, **{flag: rng.random() < 0.5 for flag in flags},
            "supported_openai_params": parameters}


def real_row(rng, world, arrival):
    row, metadata = base_row(rng, world, arrival)
    error = "Traceback (most recent call last):\n  File \"/app/proxy/server.py\", line 4217, in chat\n" * 3
    metadata |= {
        "user_api_key_org_id": None, "user_api_key_user_id": "default_user_id", "user_api_key_team_alias": "invented",
        "spend_logs_metadata": None, "requester_ip_address": "", "proxy_server_request": None, "batch_models": None,
        "guardrail_information": None, "cold_storage_object_key": None, "litellm_overhead_time_ms": 4.2,
        "mcp_tool_call_metadata": None, "vector_store_request_metadata": None, "additional_usage_values": {
            **usage_of(1, 1, 0, 0), "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
        "cost_breakdown": {"input_cost": 1.1e-4, "output_cost": 3.2e-4, "total_cost": 4.3e-4, "tool_usage_cost": 0.0,
                           "original_cost": 4.3e-4, "discount_percent": None, "discount_amount": None},
        "model_map_information": {"model_map_key": row["model"], "model_map_value": deployment(rng, 1.5e-7)},
        "hidden_params": {
            "model_id": row["model_id"], "cache_key": None, "api_base": "https://api.example.test/v1/",
            "response_cost": 4.3e-4, "litellm_overhead_time_ms": 4.2, "batch_models": None, "litellm_model_name": row["model"],
            "usage_object": usage_of(1, 1, 0, 0), "additional_headers": {
                f"llm_provider-{name}": value for name, value in [
                    ("date", "Tue, 24 Nov 2026 09:15:05 GMT"), ("content-type", "application/json"),
                    ("x-request-id", hexa(rng, 32)), ("openai-processing-ms", "2871"), ("openai-version", "2020-10-01"),
                    ("x-ratelimit-limit-requests", "30000"), ("x-ratelimit-limit-tokens", "150000000"),
                    ("x-ratelimit-remaining-requests", "29999"), ("x-ratelimit-remaining-tokens", "149998713"),
                    ("x-ratelimit-reset-requests", "2ms"), ("x-ratelimit-reset-tokens", "0s"),
                    ("strict-transport-security", "max-age=31536000; includeSubDomains; preload"),
                    ("alt-svc", "h3=\":443\"; ma=86400"), ("server", "edge"), ("cf-cache-status", "DYNAMIC")]}},
        "router": [{"deployment": uuid(rng), "weight": n, "healthy": True, "limits": {"tpm": 10_000 * n, "rpm": None},
                    "info": {"id": hexa(rng, 64), "db_model": False, "updated_at": stamp(0), "tags": ["eu", "a\"b"]}}
                   for n in range(1, 9)],
        "trace": {f"span_{n}": {"id": hexa(rng, 16), "ms": n * 1.5, "ok": True, "parent": None} for n in range(52)},
    }
    if row["status"] == "failure":
        metadata["error_information"] |= {"traceback": error, "error_message": "limit reached \u2013 try again"}
    row |= {
        "request_duration_ms": 3500, "api_base": "https://api.example.test/v1", "organization_id": None,
        "requester_ip_address": "", "metadata": metadata,
        "request_tags": ["User-Agent: python", "User-Agent: python/1.2", *[f"tag:{n}:{hexa(rng, 6)}" for n in range(6)]],
        "mcp_namespaced_tool_name": None, "agent_id": None,
        "messages": {}, "response": {}, "proxy_server_request": {},
    }
    if rng.random() < 0.15:
        text = "Lorem ipsum dolor sit amet, \"quoted\" and\nbroken. " * 12 + TRUNCATED
        row["proxy_server_request"] = {"model": row["model_group"], "stream": True, "max_tokens": 800,
                                       "messages": [{"role": "user", "content": text}]}
        row["response"] = {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}
    return row


def write_json(path, make, size, rng):
    world, arrival, written = World(rng), 0, 0
    # A pool of rows of which each is written often, with times and ids of its own: the bytes are
    # made at the speed of a copy.
    pool = []
    with open(path, "w", encoding="utf-8") as file:
        while written < size:
            arrival += int(rng.expovariate(1 / 120_000))
            if len(pool) < 4_000:
                row = make(rng, world, arrival)
                line = json.dumps(row, separators=(",", ":"), ensure_ascii=False)
                pool.append((line, row["request_id"], [row[name] for name in ("startTime", "endTime", "completionStartTime")], arrival))
            else:
                line, request, times, then = rng.choice(pool)
                line = line.replace(request, f"chatcmpl-{hexa(rng, 32)}")
                for time in times:
                    moved = datetime.datetime.fromisoformat(time) + datetime.timedelta(microseconds=arrival - then)
                    line = line.replace(f'"{time}"', f'"{moved.isoformat(timespec="microseconds")}"', 1)
            file.write(line)
            file.write("\n")
            written += len(line.encode()) + 1


def write_azure(path, rows, rng):
    at = 0.0
    with open(path, "w", encoding="ascii") as file:
        file.write("TIMESTAMP,ContextTokens,GeneratedTokens\n")
        for _ in range(rows):
            at += rng.expovariate(200)
            when = START + datetime.timedelta(seconds=at)
            context, generated = int(rng.lognormvariate(6.5, 1.0)) + 1, int(rng.lognormvariate(4.5, 1.0)) + 1
            file.write(f"{when:%Y-%m-%d %H:%M:%S.%f}0,{context},{generated}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["lean", "real", "azure"])
    parser.add_argument("file")
    parser.add_argument("--size", type=int, help="bytes, for azure rows")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    if options.kind == "azure":
        write_azure(options.file, options.size or 10_000_000, rng)
    else:
        make = {"lean": lean_row, "real": real_row}[options.kind]
        write_json(options.file, make, options.size or 1_000_000_000, rng)


if __name__ == "__main__":
    main()
