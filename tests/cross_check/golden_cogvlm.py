"""Makes tests/golden/pictures/cogvlm*: golden_cogvlm.py. A tiny encoder of CogVLM as a recipe, and its rows in NumPy's
double precision, by the definition of files for llama.cpp: the class behind the patches, positions in this order."""
import json
import math

import numpy as np
from PIL import Image

from picture_recipes import GOLDEN, SEED, formula_picture, keys_of, weights

WIDTH, HEADS, FFN, LAYERS, TEXT, HIDDEN, PATCH, IMAGE = 32, 2, 48, 2, 24, 40, 4, 20
MEAN, STD, EPSILON, FC_EPSILON = [0.48, 0.46, 0.41], [0.27, 0.26, 0.28], 1e-6, 1e-5
PAD = (122, 116, 104)


def padded(picture):
    scale = min(np.float32(IMAGE) / np.float32(side) for side in picture.size)
    width, height = (min(max(math.ceil(np.float32(side) * scale), 1), IMAGE) for side in picture.size)
    small = picture.resize((width, picture.height), Image.BICUBIC).resize((width, height), Image.BICUBIC)
    square = Image.new("RGB", (IMAGE, IMAGE), PAD)
    square.paste(small, ((IMAGE - width) // 2, (IMAGE - height) // 2))
    return square


def gelu(x):  # of F16, as F16
    x = x.astype(np.float16).astype(np.float64)
    y = x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return y.astype(np.float16).astype(np.float64)


class Encoder:
    def __init__(self):
        self.tensors = []

    def take(self, name, *shape):
        is_norm = "norm.weight" in name or ".ln" in name and name.endswith("weight")
        amplitude = float(np.float32(0.3 if len(shape) == 1 else 1.5 / np.sqrt(np.prod(shape[1:]))))
        offset = 1.0 if is_norm else 0.0
        self.tensors.append([name, list(shape[::-1]), offset, amplitude])
        return weights(name, int(np.prod(shape)), offset, amplitude).astype(np.float64).reshape(shape)

    def norm(self, x, name, epsilon=EPSILON):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)
        return x * self.take(name + ".weight", x.shape[-1]) + self.take(name + ".bias", x.shape[-1])

    def linear(self, x, name, rows, biased=True):
        y = x @ self.take(name + ".weight", rows, x.shape[-1]).T
        return y + self.take(name + ".bias", rows) if biased else y

    def attention(self, x, block):
        q, k, v = np.split(self.linear(x, block + "attn_qkv", 3 * WIDTH), 3, -1)
        q, k, v = (part.reshape(len(x), HEADS, -1) for part in (q, k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(WIDTH // HEADS)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        return self.linear(np.einsum("hqk,khd->qhd", scores, v).reshape(-1, WIDTH), block + "attn_out", WIDTH)

    def rows(self, picture):
        side = IMAGE // PATCH
        pixels = (np.asarray(padded(picture)).astype(np.float64) / 255 - MEAN) / STD
        x = pixels.reshape(side, PATCH, side, PATCH, 3).transpose(0, 2, 4, 1, 3).reshape(side**2, 3 * PATCH**2)
        x = x @ self.take("v.patch_embd.weight", WIDTH, 3, PATCH, PATCH).reshape(WIDTH, -1).T
        x = np.concatenate([x + self.take("v.patch_embd.bias", WIDTH), self.take("v.class_embd", WIDTH)[None]])
        x = x + self.take("v.position_embd.weight", side**2 + 1, WIDTH)
        for layer in range(LAYERS):
            block = f"v.blk.{layer}."
            x = x + self.norm(self.attention(x, block), block + "ln1")
            hidden = gelu(self.linear(x, block + "ffn_up", FFN))
            x = x + self.norm(self.linear(hidden, block + "ffn_down", WIDTH), block + "ln2")
        x = gelu(self.norm(self.linear(x[:-1], "mm.model.fc", HIDDEN, False), "mm.post_fc_norm", FC_EPSILON))
        gate = self.linear(x, "mm.gate", FFN, False)
        x = self.linear(gate / (1 + np.exp(-gate)) * self.linear(x, "mm.up", FFN, False), "mm.down", TEXT, False)
        return np.concatenate([self.take("v.boi", TEXT)[None], x, self.take("v.eoi", TEXT)[None]])


def write(name, picture):
    encoder = Encoder()
    rows = encoder.rows(formula_picture(*picture))
    metadata = [["general.architecture", 8, "clip"], ["clip.has_vision_encoder", 7, True],
                ["clip.projector_type", 8, "cogvlm"]]
    metadata += keys_of(WIDTH, HEADS, FFN, LAYERS, TEXT, IMAGE, PATCH, MEAN, STD)
    recipe = dict(seed=SEED, metadata=metadata, tensors=encoder.tensors)
    with open(GOLDEN / f"{name}.json", "w") as file:
        json.dump(dict(picture=picture, tokens=[len(rows)], mmproj=recipe), file)
    rows.astype("<f4").tofile(GOLDEN / f"{name}.f32")
    print(name, picture, rows.shape, rows.std())


if __name__ == "__main__":
    write("cogvlm", [20, 20, 21])
    write("cogvlm-wide", [47, 30, 22])
