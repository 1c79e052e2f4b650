#!/usr/bin/env python3
"""Random tools and schemas for answers against ridge serve, through OpenAI's client: what comes whole, in one piece or
streamed, is valid by the package jsonschema.

    pip install openai jsonschema
    tests/cross_check/tools_check.py build/release/ridge [MODEL.gguf] [--requests 1000]

Without MODEL.gguf the guide answers. The temperature is 2, so that answers are as random as schemas let them be.
"""

import argparse
import collections
import concurrent.futures
import json
import random
import subprocess

import jsonschema
import openai

CHECKER = jsonschema.Draft202012Validator.FORMAT_CHECKER


def random_string(r):
    return r.choice([
        lambda: {"minLength": r.randrange(3), "maxLength": 3 + r.randrange(6)},
        lambda: {"pattern": r.choice(["^[a-f]{2,4}-\\d$", "^(x|yy)+z?$", "^\\w{1,3}[^\\s\"]$"])},
        lambda: {"format": r.choice(["date", "uuid", "ipv4", "email"])},
    ])()


def random_number(r):
    low = r.randrange(-30, 30)
    both = {"exclusiveMinimum": low, "maximum": low + 1 + r.randrange(90)}
    return r.choice([{}, {"minimum": low}, {"maximum": low}, both])


def random_array(r, depth):
    least = r.randrange(3)
    schema = {"type": "array", "minItems": least, "maxItems": least + r.randrange(3)}
    if r.random() < 0.3:
        schema["prefixItems"] = [random_schema(r, depth + 1) for _ in range(1 + r.randrange(2))]
    return {**schema, "items": random_schema(r, depth + 1)}


def random_object(r, depth):
    keys = ["city", "unit", "n", "a b", "é", "$x", "in/out", "k~0"] if depth else ["city", "unit", "n", "k-1"]
    names = r.sample(keys, r.randrange(4))
    schema = {"type": "object", "properties": {name: random_schema(r, depth + 1) for name in names}}
    schema["required"] = [name for name in names if r.random() < 0.6]
    schema["additionalProperties"] = {"type": "boolean"} if depth and r.random() < 0.2 else False
    return schema


VALUES = ["red", "green <b>", 'q"\\', 7, -2.5, None, True, {"k": [1]}, "日本"]


def random_schema(r, depth=0):
    simple = [
        lambda: {"type": "string", **random_string(r)},
        lambda: {"type": r.choice(["integer", "number"]), **random_number(r)},
        lambda: {"type": r.choice(["boolean", "null", ["boolean", "null"]])},
        lambda: {"enum": r.sample(VALUES, 1 + r.randrange(4))},
        lambda: {"const": r.choice(["x", 0, [1, "a"], {"a": None}])},
    ]
    nested = [
        lambda: random_array(r, depth),
        lambda: random_object(r, depth),
        lambda: {"anyOf": [random_schema(r, depth + 1) for _ in range(2)]},
        lambda: {"oneOf": [{"type": "integer", **random_number(r)}, random_object(r, depth + 1)]},
        lambda: {"allOf": [{"type": "integer", "minimum": -5}, {"maximum": 20}]},
        lambda: {"$ref": "#/$defs/tree"},
    ]
    return r.choice(simple if depth > 2 else simple + nested)()


def random_document(r):
    schema = random_object(r, 0)
    tree = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}}}
    schema["$defs"] = {"tree": {**tree, "required": ["next"], "additionalProperties": False}}
    return schema


def check(text, schema):
    jsonschema.Draft202012Validator(schema, format_checker=CHECKER).validate(json.loads(text))


def answer(client, ask, streamed):
    """Its end, text and calls; a stream's calls are put together from their parts."""
    if not streamed:
        choice = client.chat.completions.create(**ask).choices[0]
        calls = [(call.function.name, call.function.arguments) for call in choice.message.tool_calls or []]
        return choice.finish_reason, choice.message.content, calls
    end, text, calls = None, "", []
    for chunk in client.chat.completions.create(**ask, stream=True):
        choice = chunk.choices[0]
        end, text = choice.finish_reason or end, text + (choice.delta.content or "")
        for part in choice.delta.tool_calls or []:
            if part.index == len(calls):
                calls.append((part.function.name, ""))
            name, arguments = calls[part.index]
            calls[part.index] = (name, arguments + (part.function.arguments or ""))
    return end, text, calls


def request(client, seed, limit):
    r = random.Random(seed)
    schemas = {name: random_document(r) for name in ("get_weather", "add", "get")[: 1 + seed % 3]}
    tools = [{"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in schemas.items()]
    ask = {"model": "m", "temperature": 2, "seed": seed}
    ask.update(messages=[{"role": "user", "content": "How is the weather?"}])
    ask.update(tools=tools, max_tokens=limit, tool_choice="required")
    shape = random_document(r)
    if seed % 4 == 3:
        form = {"type": "json_schema", "json_schema": {"name": "n", "schema": shape}}
        ask.update(tool_choice="auto", response_format=form)
    try:
        end, text, calls = answer(client, ask, seed % 2 == 1)
        if end == "stop":
            check(text, shape)
        if end == "tool_calls":
            assert calls
            for name, arguments in calls:
                check(arguments, schemas[name])
        return end, len(calls)
    except openai.BadRequestError as error:
        return "refused: " + error.message[:160], 0
    except Exception as error:
        return f"FAILED with seed {seed}: {error!r}", 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ridge")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--limit", type=int, default=400, help="tokens of an answer")
    options = parser.parse_args()
    model = ["-m", options.model] if options.model else []
    server = subprocess.Popen(
        [options.ridge, "serve", *model, "--port", "0", "--device", "cpu", "--threads", "1", "--parallel", "4"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )
    try:
        address = server.stdout.readline().strip()
        client = openai.OpenAI(base_url=address + "/v1", api_key="none", timeout=600, max_retries=0)
        ends, calls = collections.Counter(), 0
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for end, count in pool.map(lambda seed: request(client, seed, options.limit), range(options.requests)):
                ends[end] += 1
                calls += count if end == "tool_calls" else 0
        print(f"{options.requests} requests, {calls} calls of whole answers", *ends.most_common(), sep="\n")
    finally:
        server.terminate()
        server.wait()
    raise SystemExit(any(end.startswith("FAILED") for end in ends))


if __name__ == "__main__":
    main()
