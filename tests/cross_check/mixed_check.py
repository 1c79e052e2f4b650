#!/usr/bin/env python3
"""Requests of all kinds at once, good, bad, killed and slow, against `ridge serve`: good ones get whole answers with
every token, bad ones an error of their API and never a 5xx, and the server's memory does not grow.

    tests/cross_check/mixed_check.py build/release/ridge [--requests 100000 | --seconds 3600] [-- OPTIONS]

OPTIONS go to `ridge serve`. The guide answers unless they name a model. The program may be one of `./dev build asan` or
`./dev build tsan`: a finding of the sanitizer is a failure.
"""

import argparse
import asyncio
import collections
import json
import multiprocessing
import random
import re
import socket
import struct
import subprocess
import sys
import time
import urllib.request

TOOL_SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
               "required": ["city", "days"], "additionalProperties": False}
QUESTIONS = ["What is ridge?", "How do I open a window?", "Which formats are there?", "é 日本 🙂", "a " * 200, "1 + 1 = ?"]


def post(path, body):
    return "POST", path, json.dumps(body).encode()


def good(r):
    """A request, and a check of its status's body: returns what is wrong, or nothing."""
    tokens, question = r.randrange(1, 9), r.choice(QUESTIONS)
    messages = [{"role": "user", "content": question}]
    common = {"max_tokens": tokens, "temperature": r.choice([0, 0.8]), "seed": r.randrange(1000)}
    stream = {"stream": True, "stream_options": {"include_usage": True}}
    kind = r.choices(range(12), [4, 4, 4, 4, 1, 1, 4, 4, 4, 4, 4, 4])[0]
    if kind == 0:
        return post("/v1/completions", {"prompt": question, "ignore_eos": True, **common}), generated(tokens)
    if kind == 1:
        return post("/v1/completions", {"prompt": question, "ignore_eos": True, **common, **stream}), streamed(tokens)
    if kind == 2:
        return post("/v1/chat/completions", {"messages": messages, "ignore_eos": True, **common}), generated(tokens)
    if kind == 3:
        return post("/v1/chat/completions", {"messages": messages, "ignore_eos": True, **common, **stream}), streamed(tokens)
    if kind == 4:
        schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": TOOL_SCHEMA}}
        return post("/v1/chat/completions", {"messages": messages, "response_format": schema, **common, "max_tokens": 100}), fits
    if kind == 5:
        tool = {"type": "function", "function": {"name": "weather", "parameters": TOOL_SCHEMA}}
        body = {"messages": messages, "tools": [tool], "tool_choice": "required", "parallel_tool_calls": False, **common, "max_tokens": 100}
        return post("/v1/chat/completions", body), calls
    if kind == 6:
        return post("/v1/messages", {"model": "guide", "messages": messages, "max_tokens": tokens}), has(b'"stop_reason"')
    if kind == 7:
        return post("/v1/responses", {"input": question, "max_output_tokens": tokens}), has(b'"status"')
    if kind == 8:
        return post("/api/chat", {"model": "guide", "messages": messages, "options": {"num_predict": tokens}}), has(b'"done":true')
    if kind == 9:
        return post("/tokenize", {"content": question}), has(b'"tokens"')
    if kind == 10:
        return post("/apply-template", {"messages": messages}), has(b'"prompt"')
    return ("GET", r.choice(["/health", "/v1/models", "/metrics", "/props", "/api/tags", "/slots"]), b""), has(b"")


def generated(tokens):
    def check(body):
        got = json.loads(body)["usage"]["completion_tokens"]
        return got != tokens and f"{got} tokens instead of {tokens}"
    return check


def streamed(tokens):
    def check(body):
        usage = re.search(rb'"completion_tokens":(\d+)', body)
        if b"data: [DONE]" not in body or not usage or int(usage[1]) != tokens:
            return f"not {tokens} tokens: {body[-300:]}"
    return check


def fits(body):
    choice = json.loads(body)["choices"][0]
    if choice["finish_reason"] == "stop":
        value = json.loads(choice["message"]["content"])
        return not 1 <= value["days"] <= 9 and f"does not fit: {value}"


def calls(body):
    choice = json.loads(body)["choices"][0]
    if choice["finish_reason"] == "tool_calls":
        value = json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])
        return not 1 <= value["days"] <= 9 and f"does not fit: {value}"


def has(text):
    return lambda body: text not in body and f"no {text}: {body[:300]}"


def head_of(method, path, body, headers=""):
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode()


def bad(r):
    """Bytes that are an error of the client's."""
    (method, path, body), _ = good(r)
    kind = r.randrange(9)
    if kind == 0:
        return head_of(method, "/nothing/" + path, body) + body
    if kind == 1:
        return head_of("DELETE" if r.random() < 0.5 else "PUT", "/v1/chat/completions", body) + body
    if kind == 2:
        body = b"[" * r.randrange(1, 100_000)
        return head_of("POST", "/v1/chat/completions", body) + body
    if kind == 3:
        body = json.dumps({"messages": r.choice([None, [], [{"role": "nobody", "content": "a"}], [1], "text", [[]] * 1000])}).encode()
        return head_of("POST", "/v1/chat/completions", body) + body
    if kind == 4:
        body = json.dumps({"prompt": "a", "max_tokens": r.choice(["many", -5, 1e30]), "temperature": r.choice([-1, "hot"])}).encode()
        return head_of("POST", "/v1/completions", body) + body
    if kind == 5:
        return f"GET /health HTTP/1.1\r\nHost: localhost\r\n{'X: ' + 'y' * 200_000}\r\n\r\n".encode()
    if kind == 6:
        return b"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    if kind == 7:
        return head_of("POST", "/v1/completions", body, "Origin: http://evil.example\r\n") + body
    body = json.dumps({"prompt": "a " * 10_000, "max_tokens": 4}).encode()
    return head_of("POST", "/v1/completions", body) + body


def mutated(r):
    """A good request with some bytes changed: any answer but a 5xx."""
    (method, path, body), _ = good(r)
    data = bytearray(head_of(method, path, body) + body)
    for _ in range(r.randrange(1, 6)):
        at = r.randrange(len(data))
        data[at:at + r.randrange(3)] = r.randbytes(r.randrange(3))
    return bytes(data)


async def answer_of(reader):
    """Status and body; status 0 where the connection ends before."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return 0, b""
    status = int(head.split(b" ", 2)[1])
    length = re.search(rb"(?i)content-length: (\d+)", head)
    if length:
        return status, await reader.readexactly(int(length[1]))
    body = b""
    while b"chunked" in head.lower():
        size = int((await reader.readline()).split(b";")[0], 16)
        body += await reader.readexactly(size)
        await reader.readexactly(2)
        if size == 0:
            break
    return status, body


def reset(writer):
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Client:
    def __init__(self, port, seed, counts, failures):
        self.port, self.r, self.counts, self.failures = port, random.Random(seed), counts, failures
        self.seed, self.kept = seed, None

    async def connect(self):
        return await asyncio.open_connection("127.0.0.1", self.port, local_addr=(f"127.0.0.{self.r.randrange(2, 40)}", 0), limit=1 << 24)

    def fail(self, text):
        self.failures.append(f"client {self.seed}: {text}")

    async def ask_good(self):
        """Over a connection that is kept, most often."""
        (method, path, body), check = good(self.r)
        if not self.kept:
            self.kept = await self.connect()
        reader, writer = self.kept
        writer.write(head_of(method, path, body) + body)
        status, answer = await answer_of(reader)
        wrong = check(answer) if status == 200 else f"status {status}: {answer[:300]}"
        if wrong:
            self.fail(f"{path}: {wrong}")
        if status == 0 or self.r.random() < 0.1:
            writer.close()
            self.kept = None

    async def ask_bad(self, data, must_fail):
        reader, writer = await self.connect()
        try:
            writer.write(data)
            writer.write_eof()
            status, answer = await answer_of(reader)
            if status >= 500 and status != 505 or (must_fail and (status < 400 or b"error" not in answer)):
                self.fail(f"{data[:60]}… got status {status}: {answer[:200]}")
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # closed while the request was still being sent
        finally:
            writer.close()

    async def ask_killed(self):
        (method, path, body), _ = good(self.r)
        data = head_of(method, path, body) + body
        reader, writer = await self.connect()
        try:
            writer.write(data[:self.r.choice([len(data), self.r.randrange(len(data))])])
            if self.r.random() < 0.5:
                await asyncio.sleep(self.r.random() * 0.02)
        finally:
            if self.r.random() < 0.5:
                reset(writer)
            else:
                writer.close()

    async def ask_slow(self):
        """A whole request, piece by piece, whose answer is read slowly."""
        (method, path, body), check = good(self.r)
        data = head_of(method, path, body) + body
        reader, writer = await self.connect()
        try:
            for piece in range(0, len(data), len(data) // 5 + 1):
                writer.write(data[piece:piece + len(data) // 5 + 1])
                await asyncio.sleep(self.r.random() * 0.1)
            await asyncio.sleep(self.r.random() * 0.5)
            status, answer = await answer_of(reader)
            wrong = check(answer) if status == 200 else f"status {status}: {answer[:300]}"
            if wrong:
                self.fail(f"slow {path}: {wrong}")
        finally:
            writer.close()

    async def run(self, left):
        while left():
            kind = self.r.choices(["good", "bad", "mutated", "killed", "slow"], [50, 15, 15, 18, 2])[0]
            try:
                if kind == "bad":
                    await self.ask_bad(bad(self.r), True)
                elif kind == "mutated":
                    await self.ask_bad(mutated(self.r), False)
                else:
                    await getattr(self, f"ask_{kind}")()
            except Exception as error:  # of a good or slow one, most likely
                self.kept = None
                self.fail(f"{kind}: {type(error).__name__} {error}")
            self.counts[kind] += 1


def play(port, clients, seed, requests, end, results):
    counts, failures = collections.Counter(), []

    def left():
        return counts.total() < requests and time.time() < end

    async def all_clients():
        await asyncio.gather(*(Client(port, seed + i, counts, failures).run(left) for i in range(clients)))

    asyncio.run(all_clients())
    results.put((counts, failures))


def resident_mib(process, port):
    """Of the server, and what of it the prefix cache holds, which may grow to its limit."""
    with open(f"/proc/{process}/status") as status:
        resident = int(re.search(r"VmRSS:\s+(\d+)", status.read())[1]) / 1024
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as metrics:
        cached = int(re.search(rb"(?m)^ridge_prefix_cache_bytes (\d+)", metrics.read())[1]) / (1 << 20)
    return resident, cached


def round_of(port, arguments, seed, requests, end):
    results, count = multiprocessing.Queue(), arguments.processes
    playing = [multiprocessing.Process(target=play, args=(port, arguments.clients // count, seed + 1000 * i, requests // count, end, results))
               for i in range(count)]
    for process in playing:
        process.start()
    counts, failures = collections.Counter(), []
    for _ in playing:
        some, wrong = results.get()
        counts += some
        failures += wrong
    for process in playing:
        process.join()
    return counts, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ridge")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, help="for so long instead")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--processes", type=int, default=2, help="that play the clients")
    parser.add_argument("--rounds", type=int, default=10, help="after each one a line of figures")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 20))
    parser.add_argument("--log", default="/tmp/mixed_check.log", help="a file for the server's standard error")
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    arguments = parser.parse_args(sys.argv[1:split])
    print(f"seed {arguments.seed}", flush=True)
    command = [arguments.ridge, "serve", "--port", "0", "--parallel", "8", "-c", "1024", *sys.argv[split + 1:]]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=open(arguments.log, "wb"), text=True)
    port = int(server.stdout.readline().rsplit(":", 1)[1])
    start, failures, first = time.time(), [], None
    for i in range(arguments.rounds):
        requests = (1 << 60) if arguments.seconds else arguments.requests // arguments.rounds
        end = start + arguments.seconds * (i + 1) / arguments.rounds if arguments.seconds else float("inf")
        counts, wrong = round_of(port, arguments, arguments.seed + 100_000 * i, requests, end)
        failures += wrong
        resident, cached = resident_mib(server.pid, port)
        last = resident - cached
        first = first or last
        print(f"{time.time() - start:7.0f} s  {dict(counts)}  {len(wrong)} wrong  "
              f"resident {resident:.0f} MiB, {cached:.0f} of them the prefix cache", flush=True)
        for line in wrong[:5]:
            print("  " + line, flush=True)
    server.terminate()
    status = server.wait()
    with open(arguments.log, errors="replace") as log:
        findings = [line for line in log if "Sanitizer" in line or "runtime error" in line]
    print(f"{len(failures)} wrong, the server ended with {status}, {len(findings)} findings of sanitizers, "
          f"resident without the prefix cache {last / first:.2f} of what it was after the first round")
    for line in findings[:10]:
        print("  " + line.strip())
    sys.exit(bool(failures or findings or status))


if __name__ == "__main__":
    main()
