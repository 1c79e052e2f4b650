#!/usr/bin/env python3
"""Measures what types of KV caches cost by length of context; makes the table of the code and the plot of the docs.

    measure_caches.py measure RIDGE TEXT OUT.csv NAME=FILE=TOKENS... [--exact] [--device cpu] [--jobs 1] [--seconds S] [--chunks-of N]
    measure_caches.py table OUT.csv core/kv_divergence.def "4,080 to 16,383 tokens scored for each"
    measure_caches.py plot core/kv_divergence.def docs/caches-kld.svg

`measure` compares each type with f32 caches, for contexts of 512 tokens, four times as many and so on to TOKENS. What f16
costs in fast mode is mostly the rounding of activations to eight bits, which all types share. A length's tokens are those
of the second halves of its chunks: 256 to 511 for 512. Lengths read the same N tokens of TEXT (8192), longer ones more,
and score half of them; KLD is a lower bound, by the 512 likeliest tokens. `table` writes the table of the code, `plot`
draws it and prints some of it in Markdown. The code's table read all pages of docs/, one after the other, as TEXT.
"""

import argparse
import concurrent.futures
import csv
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

PAIRS = [("f16", "f16"), ("q8_0", "q8_0"), ("q4_0", "q4_0"), ("q5_1", "q5_1"), ("iq4_nl", "iq4_nl"), ("q5_0", "q5_0"),
         ("q8_0", "q4_0"), ("q4_1", "q4_1")]
SHORTEST = 512
BITS = dict(f16=16, q8_0=8.5, q5_1=6, q5_0=5.5, q4_1=5, q4_0=4.5, iq4_nl=4.5)
COLORS = ("#2f6fb0", "#b0562f", "#8a4fb0", "#3c8f4e", "#c0392b", "#1f8a8a", "#777777", "#b08a2f", "#4f5fb0", "#333333")


def lengths(longest):
    return [SHORTEST << i for i in range(0, 20, 2) if SHORTEST << i <= longest]


def measure(args):
    start = time.monotonic()
    models = [(name, file, int(tokens)) for name, file, tokens in (model.split("=") for model in args.models)]
    folder = tempfile.TemporaryDirectory()
    threads = max(1, (os.cpu_count() or 1) // args.jobs)

    def run(file, keys, values, *more):
        left = args.seconds - (time.monotonic() - start)
        if left < 2:
            raise TimeoutError
        command = [args.ridge, "perplexity", "-m", file, *["--exact"] * args.exact, "-ctk", keys, "-ctv", values, "--device", args.device,
                   "-t", str(threads), "--config", "none", "--json", *map(str, more)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=left,
                              env=os.environ | {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"})
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")
        return json.loads(done.stdout)

    base = lambda name, length: f"{folder.name}/{name}-{length}.base"

    def write_base(name, file, length):
        return run(file, "f32", "f32", "-f", args.text, "-c", length, "--chunks", max(1, args.chunks_of // length),
                   "--kl-divergence-base", base(name, length), "--kl-top", 512)

    def compare(name, file, length, keys, values):
        if not bases[name, length].result():
            raise RuntimeError("no base")
        report = run(file, keys, values, "--kl-divergence-base", base(name, length), "--kl-divergence")
        found = report["divergence"]
        return (f"{name},{keys},{values},{length},{found['kld_mean_nats']:.4g},{report['scored_tokens']},"
                f"{found['same_top_share']:.5f},{found['kld_mean_standard_error_nats']:.2g}")

    out = open(args.out, "w", buffering=1)
    print("model,keys,values,tokens,kld_mean_nats,scored_tokens,same_top_share,kld_standard_error_nats", file=out)
    places = [(name, file, length) for length in lengths(1 << 30) for name, file, longest in models if length <= longest]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        bases = {(name, length): pool.submit(write_base, name, file, length) for name, file, length in reversed(places)}
        for pair in PAIRS:
            for done in concurrent.futures.as_completed([pool.submit(compare, *place, *pair) for place in places]):
                try:
                    print(done.result(), file=out)
                except Exception as problem:  # the others go on
                    print(f"{pair}: {type(problem).__name__}: {problem}"[:500], file=sys.stderr)
            print(f"{pair[0]} and {pair[1]}: {time.monotonic() - start:.0f} s", file=sys.stderr)


HEAD = """// RIDGE_KV_DIVERGENCE(model, keys, values, tokens of context, mean nats per token from f32 caches, same likeliest token)
//
// Made by measure/measure_caches.py, lower bounds; {}.
"""


def table(args):
    with open(args.csv) as file:
        rows = list(csv.DictReader(file))
    models = sorted({row["model"] for row in rows}, key=lambda m: max(int(r["tokens"]) for r in rows if r["model"] == m))
    order = lambda row: (models.index(row["model"]), PAIRS.index((row["keys"], row["values"])), int(row["tokens"]))
    lines = [f'RIDGE_KV_DIVERGENCE("{row["model"]}", {row["keys"]}, {row["values"]}, {row["tokens"]}, '
             f'{float(row["kld_mean_nats"]):.2g}, {float(row["same_top_share"]):.4f})' for row in sorted(rows, key=order)]
    pathlib.Path(args.out).write_text(HEAD.format(args.setup) + "\n".join(lines) + "\n")


def read_table(path):
    rows = re.findall(r'^RIDGE_KV_DIVERGENCE\("(.+)", (\w+), (\w+), (\d+), (.+), (.+)\)', pathlib.Path(path).read_text(), re.M)
    return [(model, name_of(keys, values), int(tokens), float(nats)) for model, keys, values, tokens, nats, _ in rows]


def name_of(keys, values):
    return keys if keys == values else f"{keys} keys, {values} values"


def plot(args):
    rows = read_table(args.table)
    models = list(dict.fromkeys(row[0] for row in rows))
    names = [name for name in (name_of(*pair) for pair in PAIRS) if any(row[1] == name for row in rows)]
    longest = max(row[2] for row in rows)
    width, height, top, bottom, gap = 900, 460, 60, 50, 60
    share = (width - 20) / len(models) - gap
    low = math.floor(math.log10(min(row[3] for row in rows)))
    high = math.ceil(math.log10(max(row[3] for row in rows)))
    y = lambda nats: top + (high - math.log10(nats)) / (high - low) * (height - top - bottom)
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>',
           f'<text x="{gap}" y="24" font-size="16">What types of KV caches cost, by length of context</text>',
           f'<text transform="translate(16 {(top + height - bottom) / 2}) rotate(-90)" text-anchor="middle">mean KL divergence from f32 caches, nats</text>']
    for i, model in enumerate(models):
        left = gap + i * (share + gap)
        plot_end = left + share - 118 # names are beside the lines' ends
        x = lambda tokens: left + math.log2(tokens / SHORTEST) / math.log2(longest / SHORTEST) * (plot_end - left)
        svg.append(f'<text x="{left}" y="{top - 12}" font-weight="bold">{model}</text>')
        for tokens in lengths(longest):
            svg.append(f'<line x1="{x(tokens):.1f}" x2="{x(tokens):.1f}" y1="{top}" y2="{height - bottom}" stroke="#e4e4e4"/>'
                       f'<text x="{x(tokens):.1f}" y="{height - bottom + 18}" text-anchor="middle" font-size="10">{tokens:,}</text>')
        for power in range(low, high + 1):
            svg.append(f'<line x1="{left}" x2="{plot_end:.1f}" y1="{y(10 ** power):.1f}" y2="{y(10 ** power):.1f}" stroke="#e4e4e4"/>'
                       f'<text x="{left - 6}" y="{y(10 ** power) + 4:.1f}" text-anchor="end" font-size="10">{10 ** power:g}</text>')
        svg.append(f'<text x="{(left + plot_end) / 2:.1f}" y="{height - 12}" text-anchor="middle">tokens of context</text>')
        ends = []
        for name in names:
            points = [(x(tokens), y(nats)) for _, _, tokens, nats in sorted(row for row in rows if row[:2] == (model, name))]
            color = COLORS[names.index(name) % len(COLORS)]
            svg.append(f'<polyline points="{" ".join(f"{px:.1f},{py:.1f}" for px, py in points)}" fill="none" stroke="{color}" stroke-width="1.6"/>')
            svg += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2.5" fill="{color}"/>' for px, py in points]
            ends.append([points[-1][1], points[-1][0], name, color])
        last = -math.inf
        for py, px, name, color in sorted(ends):
            last = max(py, last + 12)
            svg.append(f'<text x="{px + 6:.1f}" y="{last + 4:.1f}" font-size="10" fill="{color}">{name}</text>')
    pathlib.Path(args.out).write_text("\n".join(svg + ["</svg>\n"]))

    of = lambda model: sorted({row[2] for row in rows if row[0] == model})
    shown = [(model, tokens) for model in models for tokens in (of(model)[0], of(model)[-1])]
    nats = {row[:3]: row[3] for row in rows}
    print("type | bits | " + " | ".join(f"{model}, {tokens:,}" for model, tokens in shown) + "\n---|---:" + "|---:" * len(shown))
    for name in sorted(names, key=lambda name: nats[models[0], name, of(models[0])[0]]):
        bits = sum(BITS[kind] for kind in (name.split()[0], name.split()[-2] if " " in name else name)) / 2
        print(f"{name} | {bits:g} | " + " | ".join(f"{nats[model, name, tokens]:.2g}" for model, tokens in shown))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("measure")
    for name in ("ridge", "text", "out"):
        command.add_argument(name)
    command.add_argument("models", nargs="+")
    command.add_argument("--exact", action="store_true")
    command.add_argument("--device", default="cpu")
    command.add_argument("--jobs", type=int, default=1)
    command.add_argument("--seconds", type=float, default=1e9)
    command.add_argument("--chunks-of", type=int, default=8192)
    command.set_defaults(run=measure)
    command = commands.add_parser("table")
    for name in ("csv", "out", "setup"):
        command.add_argument(name)
    command.set_defaults(run=table)
    command = commands.add_parser("plot")
    command.add_argument("table")
    command.add_argument("out")
    command.set_defaults(run=plot)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
