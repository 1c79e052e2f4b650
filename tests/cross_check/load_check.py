#!/usr/bin/env python3
"""What HTTP costs when many clients ask at once: `ridge bench --clients` plays a load to the scheduler, then this program
plays the same load to `ridge serve`, with streamed completions, and compares.

    tests/cross_check/load_check.py build/release/ridge MODEL.gguf --clients 32 -p 128 -n 128 [--shared 64] [-- OPTIONS]

OPTIONS go to both, such as `--device cpu`; `--rounds 3` repeats both, one after the other. MODEL.gguf may be written by
`ridge bench --shape llama-8b:Q4_K_M --save MODEL.gguf`. All clients run in one thread that only waits for sockets, so
that they take little from the server on the same machine.
"""

import argparse
import json
import random
import re
import selectors
import socket
import subprocess
import sys
import time

TOKEN = b'"finish_reason":null'  # in the event of each token, and in no other
END = b"\r\n0\r\n\r\n"  # of a response in chunks
KEPT = 2000  # bytes of a response's end, in which its usage is


class Client:
    """A connection that is kept, and the answer that comes over it."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request):
        self.tail, self.first_token, self.gaps = b"", None, []
        self.before = time.perf_counter()
        self.socket.sendall(request)

    def take(self):
        """Reads what has come. Returns whether the answer is whole then."""
        data = self.socket.recv(1 << 16)
        now = time.perf_counter()
        if not data:
            sys.exit(f"the server closed a connection: {self.tail.decode(errors='replace')}")
        start = max(0, len(self.tail) - len(TOKEN) + 1)  # a token's event may come in two pieces
        text = self.tail + data
        for _ in range(text.count(TOKEN, start)):
            if self.first_token is None:
                self.first_token = now - self.before
            else:
                self.gaps.append(now - self.before)
            self.before = now
        self.tail = text[-KEPT:]
        return text.endswith(END)

    def generated(self):
        usage = re.search(rb'"completion_tokens":(\d+)', self.tail)
        if not usage or b"data: [DONE]" not in self.tail:
            sys.exit(f"no whole answer: {self.tail.decode(errors='replace')}")
        return int(usage[1])


class Load:
    def __init__(self, args, port):
        self.args = args
        self.clients = [Client(port) for _ in range(args.clients)]
        self.shared = self.tokens(-1, args.shared)

    @staticmethod
    def tokens(seed, count):
        r = random.Random(seed)
        return [r.randrange(3, 259) for _ in range(count)]

    def request(self, number):
        r = random.Random(number)
        own = self.tokens(number, r.choice(self.args.prompt) - self.args.shared)
        body = {"prompt": self.shared + own, "max_tokens": r.choice(self.args.generated), "seed": number,
                "stream": True, "stream_options": {"include_usage": True}}
        text = json.dumps(body)
        return f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()

    def play(self, first, count):
        requests = [self.request(number) for number in range(first, first + count)]
        requests.reverse()
        first_token, gaps, generated, running = [], [], 0, 0
        with selectors.DefaultSelector() as selector:
            start = time.perf_counter()
            for client in self.clients[:count]:
                selector.register(client.socket, selectors.EVENT_READ, client)
                client.ask(requests.pop())
                running += 1
            while running:
                for key, _ in selector.select():
                    client = key.data
                    if not client.take():
                        continue
                    generated += client.generated()
                    first_token.append(client.first_token)
                    gaps += client.gaps
                    if requests:
                        client.ask(requests.pop())
                    else:
                        selector.unregister(client.socket)
                        running -= 1
            seconds = time.perf_counter() - start
        return {"seconds": seconds, "generated_tokens": generated, "generated_tokens_per_second": generated / seconds,
                "first_token_seconds": percentiles(first_token), "between_tokens_seconds": percentiles(gaps)}


def percentiles(times):
    times.sort()

    def quantile(q):
        at = q * (len(times) - 1)
        low = int(at)
        return times[low] + (at - low) * (times[min(low + 1, len(times) - 1)] - times[low])

    return {"median": quantile(0.5), "p90": quantile(0.9), "p99": quantile(0.99)} if times else {}


def over_http(args, requests):
    context = max(args.prompt) + max(args.generated)
    command = [args.ridge, "serve", "-m", args.model, "--port", "0", "--parallel", str(args.clients), "-c", str(context),
               "--ignore-eos", *args.serve, *args.options]
    log = open(args.log, "ab")
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        address = server.stdout.readline()
        if not address:
            sys.exit(f"ridge serve does not start: see {args.log}")
        load = Load(args, int(address.rsplit(":", 1)[1]))
        load.play(requests, args.clients)  # a round of others, as bench has it
        return load.play(0, requests)
    finally:
        server.terminate()
        server.wait()


def of_the_engine(args, requests):
    lengths = ["-p", ",".join(map(str, args.prompt)), "-n", ",".join(map(str, args.generated))]
    command = [args.ridge, "bench", "-m", args.model, "--clients", str(args.clients), "--requests", str(requests),
               "--shared", str(args.shared), *lengths, "-o", "json", *args.options]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["loads"][0]


def show(name, row):
    def times(key):
        return " / ".join(f"{1e3 * row[key][q]:.2f}" for q in ("median", "p90", "p99"))

    print(f"{name:8} {row['generated_tokens_per_second']:9.1f} tokens/s   first token {times('first_token_seconds')} ms   "
          f"between tokens {times('between_tokens_seconds')} ms   {row['generated_tokens']} tokens in "
          f"{row['seconds']:.2f} s", flush=True)


def main():
    def lengths(text):
        return [int(n) for n in text.split(",")]

    argv = sys.argv[1:]
    options = argv[argv.index("--") + 1:] if "--" in argv else []
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ridge")
    parser.add_argument("model")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("-p", "--prompt", type=lengths, default=[128])
    parser.add_argument("-n", "--generated", type=lengths, default=[128])
    parser.add_argument("--shared", type=int, default=0)
    parser.add_argument("--requests", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--serve", type=str.split, default=[], help="further options of ridge serve alone")
    parser.add_argument("--log", default="/dev/null", help="a file for the server's log")
    args = parser.parse_args(argv[:len(argv) - len(options) - bool("--" in argv)])
    args.options = options
    requests = args.requests or 4 * args.clients
    for _ in range(args.rounds):
        engine = of_the_engine(args, requests)
        show("engine", engine)
        http = over_http(args, requests)
        show("HTTP", http)
        print(f"HTTP gives {100 * http['generated_tokens_per_second'] / engine['generated_tokens_per_second']:.1f} % of "
              "the engine's tokens/s", flush=True)


if __name__ == "__main__":
    main()
