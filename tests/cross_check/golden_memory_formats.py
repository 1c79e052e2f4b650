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

n = WEIGHTS // 64
for name, levels in (("NF4", NF4), ("FP4", FP4)):
    d, qs = uniform((n, 1)), rng.integers(0, 256, (n, 32)).astype(np.uint8)
    save(name, [d, qs], (d * levels.astype(np.float32)[nibbles(qs, 16)]).reshape(-1))

n = WEIGHTS // 64
d, q = uniform((n, 1)), rng.integers(0, 256, (n, 64)).astype(np.uint8)
q[(q & 0x7f) == 0x7f] = 0
save("FP8_E4M3", [d, q], (d * e4m3(q)).reshape(-1))

n = WEIGHTS // 64
m, d, qs = uniform((n, 1)), rng.integers(0, 0x7f, (n, 4)).astype(np.uint8), rng.integers(0, 256, (n, 32)).astype(np.uint8)
scale = m * (e4m3(d) / 2)
save("NVFP4_SCALED", [m, d, qs], (np.repeat(scale, 16, 1) * (2 * E2M1[nibbles(qs, 8)] + 0)).astype(np.float32).reshape(-1))
