"""Makes tests/golden/pictures/minimax_m3*: golden_minimax_m3.py. A tiny encoder of MiniMax M3 as a recipe, and its rows in
NumPy's double precision, by the definition of the checkpoint: parts of a head lie as there, halves of all axes apart."""
import json
import math

import numpy as np
from PIL import Image

from picture_recipes import GOLDEN, SEED, formula_picture, keys_of, weights

WIDTH, HEADS, FFN, LAYERS, TEXT, HIDDEN, PATCH, SIDE = 40, 2, 48, 2, 24, 28, 4, 2
MEAN, STD, EPSILON, THETA = [0.48, 0.46, 0.41], [0.27, 0.26, 0.28], 1e-6, 1e4
DIM = WIDTH // HEADS
AXIS = 2 * (2 * (DIM // 2) // 3 // 2)  # elements of a head that one axis turns


def smart_size(height, width, factor, least, most):
    lines, columns = (max(factor, round(side / factor) * factor) for side in (height, width))
    beta = math.sqrt(height * width / most)
    if lines * columns > most:
        return math.floor(height / beta / factor) * factor, math.floor(width / beta / factor) * factor
    beta = math.sqrt(least / (height * width))
    if lines * columns < least:
        return math.ceil(height * beta / factor) * factor, math.ceil(width * beta / factor) * factor
    return lines, columns


def layer_norm(x, scale, bias):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * scale + bias


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


class Encoder:
    def __init__(self):
        self.tensors = []

    def take(self, name, *shape):
        is_norm = len(shape) == 1 and name.endswith("weight")
        amplitude = float(np.float32(0.3 if len(shape) == 1 else 1.5 / np.sqrt(np.prod(shape[1:]))))
        offset = 1.0 if is_norm else 0.0
        if name not in [tensor[0] for tensor in self.tensors]:
            self.tensors.append([name, list(shape[::-1]), offset, amplitude])
        return weights(name, int(np.prod(shape)), offset, amplitude).astype(np.float64).reshape(shape)

    def norm(self, x, name):
        return layer_norm(x, self.take(name + ".weight", x.shape[-1]), self.take(name + ".bias", x.shape[-1]))

    def linear(self, x, name, rows):
        return x @ self.take(name + ".weight", rows, x.shape[-1]).T + self.take(name + ".bias", rows)

    def turned(self, x, name, cos, sin):  # files have the halves of an axis side by side
        half, own = 3 * AXIS // 2, AXIS // 2
        place = [start + axis * own + i for axis in range(3) for start in (0, half) for i in range(own)]
        place += range(3 * AXIS, DIM)
        heads = np.empty((len(x), HEADS, DIM))
        heads[..., place] = self.linear(x, name, WIDTH).reshape(-1, HEADS, DIM)
        turns, rest = heads[..., :3 * AXIS], heads[..., 3 * AXIS:]
        swapped = np.concatenate([-turns[..., half:], turns[..., :half]], -1)
        return np.concatenate([turns * cos[:, None] + swapped * sin[:, None], rest], -1)

    def attention(self, x, block, cos, sin):
        q, k = (self.turned(x, f"{block}attn_{part}", cos, sin) for part in "qk")
        v = self.linear(x, block + "attn_v", WIDTH).reshape(-1, HEADS, DIM)
        scores = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(DIM)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        return self.linear(np.einsum("hqk,khd->qhd", scores, v).reshape(-1, WIDTH), block + "attn_out", WIDTH)

    def rows(self, picture):
        factor = PATCH * SIDE
        height, width = smart_size(picture.height, picture.width, factor, 4 * factor**2, 576 * factor**2)
        picture = picture.resize((width, picture.height), Image.BICUBIC)  # columns first, whatever Pillow prefers
        pixels = np.asarray(picture.resize((width, height), Image.BICUBIC)).astype(np.float64) / 255
        pixels = (pixels - MEAN) / STD
        lines, columns = height // PATCH, width // PATCH
        # patches square by square
        x = pixels.reshape(lines // SIDE, SIDE, PATCH, columns // SIDE, SIDE, PATCH, 3).transpose(0, 3, 1, 4, 6, 2, 5)
        x = x.reshape(lines * columns, 3 * PATCH**2)
        x = sum(x @ self.take(f"v.patch_embd.weight{frame}", WIDTH, 3, PATCH, PATCH).reshape(WIDTH, -1).T
                for frame in ("", ".1"))
        at = np.stack(np.meshgrid(np.arange(lines), np.arange(columns), indexing="ij"), -1)
        at = at.reshape(lines // SIDE, SIDE, columns // SIDE, SIDE, 2).transpose(0, 2, 1, 3, 4).reshape(-1, 2)
        frequency = THETA ** (-np.arange(0, AXIS, 2) / AXIS)
        angles = np.concatenate([axis[:, None] * frequency for axis in (0 * at[:, 0], at[:, 0], at[:, 1])], -1)
        angles = np.concatenate([angles, angles], -1)
        x = self.norm(x, "v.pre_ln")
        for layer in range(LAYERS):
            block = f"v.blk.{layer}."
            x = x + self.attention(self.norm(x, block + "ln1"), block, np.cos(angles), np.sin(angles))
            hidden = gelu(self.linear(self.norm(x, block + "ln2"), block + "ffn_up", FFN))
            x = x + self.linear(hidden, block + "ffn_down", WIDTH)
        x = self.linear(gelu(self.linear(x, "mm.1", HIDDEN)), "mm.2", TEXT)
        x = x.reshape(-1, SIDE**2 * TEXT)
        return self.linear(gelu(self.linear(x, "mm.merger.fc1", HIDDEN)), "mm.merger.fc2", TEXT)


def write(name, picture):
    encoder = Encoder()
    rows = encoder.rows(formula_picture(*picture))
    metadata = [["general.architecture", 8, "clip"], ["clip.has_vision_encoder", 7, True],
                ["clip.projector_type", 8, "minimax_m3"], ["clip.vision.spatial_merge_size", 4, SIDE]]
    metadata += keys_of(WIDTH, HEADS, FFN, LAYERS, TEXT, 64, PATCH, MEAN, STD)
    recipe = dict(seed=SEED, metadata=metadata, tensors=encoder.tensors)
    with open(GOLDEN / f"{name}.json", "w") as file:
        json.dump(dict(picture=picture, tokens=[len(rows)], mmproj=recipe), file)
    rows.astype("<f4").tofile(GOLDEN / f"{name}.f32")
    print(name, picture, rows.shape, rows.std())


if __name__ == "__main__":
    write("minimax_m3", [45, 30, 9])
    write("minimax_m3-small", [9, 22, 10])
    write("minimax_m3-large", [430, 120, 11])
