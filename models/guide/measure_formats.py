#!/usr/bin/env python3
"""Measures the guide in each format: prints a Markdown table, plots KL divergence by bits per weight.

    measure_formats.py RIDGE guide-f16.gguf IMATRIX.gguf OUT.svg

Compares files with one format for all matrices (--pure), with and without an importance matrix, with the F16 file on
heldout.txt. The importance matrix must come from other conversations.
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile

FORMATS = ("BF16 Q8_0 Q6_K Q5_1 Q5_0 Q5_K Q4_1 Q4_0 Q4_K IQ4_NL IQ4_XS MXFP4 NVFP4 Q3_K IQ3_S IQ3_XXS Q2_K IQ2_S IQ2_XS IQ2_XXS IQ1_M IQ1_S "
           "TQ2_0 TQ1_0 Q2_0 Q1_0").split()
FAMILIES = {"Q_K": "#2f6fb0", "IQ": "#b0562f", "Q_0": "#777777", "float": "#3c8f4e", "ternary": "#8a4fb0"}


def family(name):
    if name.startswith("IQ"):
        return "IQ"
    if name.startswith("TQ"):
        return "ternary"
    return "float" if "F" in name else "Q_K" if name.endswith("_K") else "Q_0"


def measure(ridge, f16, name, imatrix):
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/{name}.gguf"
        run = lambda *args: json.loads(subprocess.run([ridge, *args, "--json"], check=True, capture_output=True, text=True).stdout)
        recipe = "IQ2_M" if name == "IQ2_S" else name  # the recipe named IQ2_S consists of IQ2_XS
        bits = run("quantize", f16, out, recipe, "--pure", *(["--imatrix", imatrix] if imatrix else []))["bits_per_weight"]
        heldout = pathlib.Path(__file__).parent / "heldout.txt"
        report = run("perplexity", "-m", out, "-f", str(heldout), "--parse-special", "--chunks", "40", "--against", f16)
        return bits, report["perplexity"], report["divergence"]["kld_mean_nats"], report["divergence"]["same_top_share"]


def plot(rows, path):
    width, height, left, right, top, bottom = 900, 560, 70, 30, 46, 54
    x = lambda bits: left + (bits - 1) / 8 * (width - left - right)
    low, high = -4.3, 1.0
    y = lambda kld: top + (high - math.log10(kld)) / (high - low) * (height - top - bottom)
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>',
           f'<text x="{left}" y="24" font-size="16">What formats cost the built-in guide (hollow: with importance matrix)</text>']
    for bits in range(1, 10):
        svg.append(f'<line x1="{x(bits)}" x2="{x(bits)}" y1="{top}" y2="{height - bottom}" stroke="#e4e4e4"/>'
                   f'<text x="{x(bits)}" y="{height - bottom + 18}" text-anchor="middle">{bits}</text>')
    for power in range(-4, 2):
        svg.append(f'<line x1="{left}" x2="{width - right}" y1="{y(10 ** power)}" y2="{y(10 ** power)}" stroke="#e4e4e4"/>'
                   f'<text x="{left - 8}" y="{y(10 ** power) + 4}" text-anchor="end">{10 ** power:g}</text>')
    svg.append(f'<text x="{(left + width - right) / 2}" y="{height - 14}" text-anchor="middle">bits per weight</text>')
    svg.append(f'<text transform="translate(18 {(top + height - bottom) / 2}) rotate(-90)" text-anchor="middle">mean KL divergence from F16, nats</text>')
    taken = [(x(bits) - 4, y(kld) - 4, x(bits) + 4, y(kld) + 4) for _, (bits, _, kld, _), _ in rows]

    def label(px, py, name, color):
        """A label beside its point that overlaps nothing."""
        size = 6.2 * len(name)
        for dx, dy in ((dx, dy) for dy in (4, 15, -7, 26, -18, 37, -29) for dx in (7, -7 - size)):
            box = (px + dx, py + dy - 9, px + dx + size, py + dy + 1)
            if all(box[2] < b[0] or b[2] < box[0] or box[3] < b[1] or b[3] < box[1] for b in taken):
                break
        taken.append(box)
        return f'<text x="{box[0]:.1f}" y="{box[3] - 1:.1f}" font-size="10" fill="{color}">{name}</text>'

    for name, (bits, _, kld, _), with_imatrix in rows:
        if bits > 9:
            continue
        color = FAMILIES[family(name)]
        svg.append(f'<circle cx="{x(bits):.1f}" cy="{y(kld):.1f}" r="4" fill="{color}"/>')
        if with_imatrix:
            svg.append(f'<circle cx="{x(bits):.1f}" cy="{y(with_imatrix[2]):.1f}" r="4" fill="none" stroke="{color}" stroke-width="1.5"/>'
                       f'<line x1="{x(bits):.1f}" x2="{x(bits):.1f}" y1="{y(kld):.1f}" y2="{y(with_imatrix[2]):.1f}" stroke="{color}" opacity="0.5"/>')
        svg.append(label(x(bits), y(kld), name, color))
    pathlib.Path(path).write_text("\n".join(svg + ["</svg>\n"]))


def main():
    ridge, f16, imatrix, out = sys.argv[1:]
    rows = [(name, measure(ridge, f16, name, None), None if name in ("BF16", "Q8_0") else measure(ridge, f16, name, imatrix)) for name in FORMATS]
    rows.sort(key=lambda row: row[1][2])
    print("| format | bits per weight | PPL | mean KLD, nats | same likeliest token | KLD with imatrix |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, (bits, ppl, kld, same), better in rows:
        print(f"| {name} | {bits:.2f} | {ppl:.2f} | {kld:.2g} | {100 * same:.1f} % | {f'{better[2]:.2g}' if better else '–'} |")
    plot([row for row in rows if row[1][2] > 0], out)


if __name__ == "__main__":
    main()
