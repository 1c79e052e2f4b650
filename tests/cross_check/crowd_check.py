#!/usr/bin/env python3
"""What a crowd of idle and slow connections costs those that are served: streaming clients and /health, first alone, then
beside the crowd, in turns.

    tests/cross_check/crowd_check.py build/release/ridge MODEL.gguf [--idle 10000] [--slow 1000] [--streams 100] [-- OPTIONS]

OPTIONS go to `ridge serve`. Connections come from 20 loopback addresses. A slow client sends a byte every 4 seconds and
comes again when it is refused. Prints the time of /health (median, p99) and between tokens (median, mean).
"""

import argparse
import json
import multiprocessing
import re
import resource
import selectors
import socket
import statistics
import subprocess
import sys
import time

ADDRESSES = [f"127.0.0.{i}" for i in range(2, 22)]
TOKEN = b'"finish_reason":null'


def connect(port, number):
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    connection.bind((ADDRESSES[number % len(ADDRESSES)], 0))
    connection.settimeout(20)
    connection.connect(("127.0.0.1", port))
    return connection


def crowd(port, idle, slow, ready, stop):
    """Idle connections and slow clients, in a process of their own."""
    waiting = [connect(port, i) for i in range(idle)]
    dripping = [connect(port, i) for i in range(slow)]
    ready.set()
    refused = 0
    while not stop.wait(4):
        for i, connection in enumerate(dripping):
            try:
                connection.sendall(b"G")
            except OSError:
                refused += 1
                dripping[i] = connect(port, i)
    closed = 0
    for connection in waiting:
        connection.setblocking(False)
        try:
            closed += connection.recv(1) == b""
        except BlockingIOError:
            pass
        except OSError:
            closed += 1
    print(f"  crowd: {idle} idle ({closed} closed by the server), {slow} slow ({refused} refused and come again)")


def health(port, stop, times):
    while not stop.is_set():
        before = time.perf_counter()
        connection = connect(port, 0)
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = b""
        while piece := connection.recv(4096):
            answer += piece
        connection.close()
        if b" 200 " not in answer[:20]:
            sys.exit(f"/health: {answer}")
        times.put(time.perf_counter() - before)
        time.sleep(0.005)


def streams(port, count, tokens):
    """Gaps between tokens of all streams."""
    body = json.dumps({"prompt": "ridge", "max_tokens": tokens, "ignore_eos": True, "stream": True, "temperature": 1}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    selector, gaps = selectors.DefaultSelector(), []
    for i in range(count):
        connection = connect(port, i)
        connection.setblocking(False)
        connection.send(head.encode() + body)
        selector.register(connection, selectors.EVENT_READ, {"last": None, "tail": b""})
    while selector.get_map():
        for key, _ in selector.select(60):
            state, data = key.data, key.fileobj.recv(1 << 16)
            now = time.perf_counter()
            if not data:
                if b"data: [DONE]" not in state["tail"]:
                    sys.exit(f"a stream has no end: {state['tail'][-300:]}")
                selector.unregister(key.fileobj)
                key.fileobj.close()
                continue
            text = state["tail"] + data
            for _ in range(text.count(TOKEN, max(0, len(state["tail"]) - len(TOKEN) + 1))):
                if state["last"]:
                    gaps.append(now - state["last"])
                state["last"] = now
            state["tail"] = text[-2000:]
    return gaps


def measure(port, arguments, name):
    stop, times = multiprocessing.Event(), multiprocessing.Queue()
    asking = multiprocessing.Process(target=health, args=(port, stop, times))
    asking.start()
    gaps = streams(port, arguments.streams, arguments.tokens)
    stop.set()
    healths = []
    while not times.empty() or asking.is_alive():
        try:
            healths.append(times.get(timeout=0.2))
        except Exception:
            pass
    asking.join()
    healths.sort()
    p99 = healths[int(len(healths) * 0.99)]
    print(f"{name}: /health {1e3 * statistics.median(healths):.2f} ms, p99 {1e3 * p99:.2f} ms ({len(healths)} times); "
          f"between tokens {1e3 * statistics.median(gaps):.3f} ms, mean {1e3 * statistics.mean(gaps):.3f} ms", flush=True)
    return statistics.mean(gaps)


def resident_mib(process):
    with open(f"/proc/{process}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1]) / 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ridge")
    parser.add_argument("model")
    parser.add_argument("--idle", type=int, default=10_000)
    parser.add_argument("--slow", type=int, default=1_000)
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=2)
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    arguments = parser.parse_args(sys.argv[1:split])
    arguments.options = sys.argv[split + 1:]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server = subprocess.Popen([arguments.ridge, "serve", "-m", arguments.model, "--port", "0", "--parallel",
                               str(arguments.streams), "--max-connections", "20000", *arguments.options],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = int(server.stdout.readline().rsplit(":", 1)[1])
        streams(port, arguments.streams, 16)  # warm
        before, ratios = resident_mib(server.pid), []
        for _ in range(arguments.rounds):
            alone = measure(port, arguments, "alone  ")
            ready, stop = multiprocessing.Event(), multiprocessing.Event()
            others = multiprocessing.Process(target=crowd, args=(port, arguments.idle, arguments.slow, ready, stop))
            others.start()
            ready.wait()
            ratios.append(measure(port, arguments, "crowded") / alone)
            stop.set()
            others.join()
        print(f"between tokens, crowded to alone: {', '.join(f'{ratio:.3f}' for ratio in ratios)}; "
              f"resident {before:.0f} MiB before, {resident_mib(server.pid):.0f} MiB after")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
