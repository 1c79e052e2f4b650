"""Tiny encoders of pictures as recipes: what golden_pictures.py and golden_minimax_m3.py share."""
import pathlib

import numpy as np
from PIL import Image

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "pictures"
SEED = 20260928
MASK = (1 << 64) - 1


def mixed(z):
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return z ^ z >> 31


def formula_picture(width, height, seed):  # as tests/support/recipes/vision_case.h
    h = lambda k: mixed((seed + (k + 1) * 0x9E3779B97F4A7C15) & MASK)
    square = 5 + h(6) % 12
    slopes = [h(k) % 97 for k in range(6)]
    pixels = np.zeros((height, width, 3), np.uint8)
    for y in range(height):
        for x in range(width):
            for c in range(3):
                at = (y * width + x) * 3 + c
                value = slopes[c] * x // width + slopes[3 + c] * y // height
                value += (h(16 + (y // square * 4096 + x // square) * 3 + c) >> 57) * 3 // 4 + (h((1 << 40) + at) >> 60)
                pixels[y, x, c] = min(value, 255)
    return Image.fromarray(pixels)


def weights(name, count, offset, amplitude):  # as tests/support/recipes/recipe.h
    state = 0xCBF29CE484222325
    for byte in name.encode():
        state = ((state ^ byte) * 0x100000001B3) & MASK
    state ^= SEED
    units = [np.float32((mixed((state + (i + 1) * 0x9E3779B97F4A7C15) & MASK) >> 40) * 2.0**-23) - np.float32(1)
             for i in range(count)]
    return np.float32(offset) + np.float32(amplitude) * np.array(units, np.float32)


def keys_of(width, heads, ffn, layers, text_width, image, patch, mean, std):
    key = lambda name: "clip.vision." + name
    return [[key("embedding_length"), 4, width], [key("attention.head_count"), 4, heads],
            [key("feed_forward_length"), 4, ffn], [key("block_count"), 4, layers], [key("projection_dim"), 4, text_width],
            [key("attention.layer_norm_epsilon"), 6, float(np.float32(1e-6))], [key("image_size"), 4, image],
            [key("patch_size"), 4, patch], [key("image_mean"), 9, {"of": 6, "values": mean}],
            [key("image_std"), 9, {"of": 6, "values": std}], ["clip.use_gelu", 7, True]]
