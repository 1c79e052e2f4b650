"""Writes tests/golden/NAME.bin of the formats that live in memory only: random blocks, then what NumPy decodes them to."""
import pathlib

import ml_dtypes
import numpy as np

from packed import E2M1, FP4, NF4

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
WEIGHTS = 4 * 512
rng = np.random.default_rng(4)


def nibbles(qs, run):
    """[blocks, runs, run bytes]: low nibbles are the first `run` codes, high nibbles the next."""
    qs = qs.reshape(len(qs), -1, run)
    return np.concatenate([qs & 15, qs >> 4], -1).reshape(len(qs), -1)


def e4m3(bits):
    return bits.view(ml_dtypes.float8_e4m3fn).astype(np.float32)


def save(name, parts, weights):
    blocks = np.concatenate([p.reshape(len(p), -1).view(np.uint8) for p in parts], 1)
    assert weights.dtype == np.float32 and weights.size == WEIGHTS
    (GOLDEN / f"{name}.bin").write_bytes(blocks.tobytes() + weights.tobytes())
    print(name, blocks.shape[1], "bytes per block")


def uniform(shape):
    return rng.uniform(0.001, 0.1, shape).astype(np.float32)


n = WEIGHTS // 64
d, z = uniform((n, 2)).astype(np.float16), rng.integers(0, 17, (n, 2)).astype(np.int8)
qs = rng.integers(0, 256, (n, 32)).astype(np.uint8)
code = nibbles(qs, 16).reshape(n, 2, 32).astype(np.int32) - z[..., None]
save("AFFINE4", [d, z, qs], (d.astype(np.float32)[..., None] * code.astype(np.float32)).reshape(-1))

n = WEIGHTS // 32
d, m, q = uniform((n, 1)), -uniform((n, 1)), rng.integers(-128, 128, (n, 32)).astype(np.int8)
save("AFFINE8", [d, m, q], (d * q.astype(np.float32) + m).reshape(-1))

def in_two_parts(high, low):
    """[blocks, 64] each: 32 high parts, their low parts, and so on. + 0: no negative zeros."""
    return (np.stack([high.reshape(-1, 2, 32), low.reshape(-1, 2, 32)], 2) + np.float32(0)).astype(np.float32).reshape(-1)


n = WEIGHTS // 64
for name, levels in (("NF4", NF4), ("FP4", FP4)):
    d, qs = uniform((n, 1)), rng.integers(0, 256, (n, 32)).astype(np.uint8)
    codes = np.round(levels.astype(np.float64) * 127).astype(np.float32) + np.float32(0)
    save(name, [d, qs], (d / np.float32(127) * codes[nibbles(qs, 16)]).reshape(-1))

n = WEIGHTS // 128
for name, levels in (("NF4", NF4), ("FP4", FP4)):
    d, qs = uniform((n, 1)), rng.integers(0, 256, (n, 32)).astype(np.uint8)
    high = np.round(levels.astype(np.float64) * 127)
    low = np.round((levels.astype(np.float64) * 127 - high) * 254)
    scale = d * np.float32(1 / 127)
    q = nibbles(qs, 16)
    save(name + "_PARTS", [d, qs], in_two_parts(scale * high.astype(np.float32)[q],
                                     scale * np.float32(1 / 254) * low.astype(np.float32)[q]))

d, q = uniform((n, 1)), rng.integers(0, 256, (n, 64)).astype(np.uint8)
q[(q & 0x7f) == 0x7f] = 0
value = e4m3(q).astype(np.float64).reshape(n, 4, 16)
unit = 2.0 ** (np.maximum(np.floor(np.log2(np.maximum(np.abs(value).max(-1, keepdims=True), 2.0 ** -6))), -6) + 7 - 20)
number = np.sign(value) * np.floor(np.abs(value) / unit + 0.5)
high = np.sign(number) * np.floor((np.abs(number) + 64) / 128)
low = number - 128 * high
d3, unit = d[:, None, :], unit.astype(np.float32)
save("FP8_E4M3", [d, q], in_two_parts((d3 * (unit * 128) * high.astype(np.float32)), (d3 * unit * low.astype(np.float32))))

n = WEIGHTS // 64
m, d, qs = uniform((n, 1)), rng.integers(0, 0x7f, (n, 4)).astype(np.uint8), rng.integers(0, 256, (n, 32)).astype(np.uint8)
scale = m * (e4m3(d) / 2)
save("NVFP4_SCALED", [m, d, qs], (np.repeat(scale, 16, 1) * (2 * E2M1[nibbles(qs, 8)] + 0)).astype(np.float32).reshape(-1))
