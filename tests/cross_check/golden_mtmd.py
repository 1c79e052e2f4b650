"""Makes tests/golden/mtmd: golden_mtmd.py PROGRAM [NAME]. Tiny random encoders as recipes, and the rows that llama.cpp
makes with them. PROGRAM is mtmd_rows.cpp, built with llama.cpp. Needs the Python packages gguf and pillow."""
import json
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy as np

from picture_recipes import MASK, SEED, formula_picture, mixed, weights

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "mtmd"
TEXT = 64
WIDTH, HEADS, FFN = 32, 2, 48


def formula_sound(milliseconds, rate, seed):  # as tests/support/recipes/vision_case.h
    h = lambda k: mixed((seed + (k + 1) * 0x9E3779B97F4A7C15) & MASK)
    samples = []
    for i in range(milliseconds * rate // 1000):
        total = (h((1 << 40) + i) >> 54) - 512
        for j in range(3):
            frequency = h(j) % 400 + 80 * (j + 1) ** 2
            phase = (i * frequency * 65536 // rate + i * i * (h(3 + j) % 64) // rate) % 65536
            total += ((abs(phase - 32768) - 16384) * (h(16 + i * 10 // rate * 3 + j) >> 60)) >> 4
        samples.append(min(max(total, -32768), 32767) / 32768)
    return np.array(samples, np.float32)


class Recipe:
    def __init__(self, projector, of_sound):
        self.of_sound = of_sound
        kind = "audio" if of_sound else "vision"
        self.key = lambda name: f"clip.{kind}.{name}"
        self.metadata = [["general.architecture", 8, "clip"], [f"clip.has_{kind}_encoder", 7, True],
                         ["clip.projector_type", 8, projector]]
        self.tensors = []

    def count(self, name, value):
        self.metadata.append([self.key(name), 4, value])

    def common(self, layers, epsilon=1e-5):
        for name, value in (("embedding_length", WIDTH), ("attention.head_count", HEADS), ("feed_forward_length", FFN),
                            ("block_count", layers), ("projection_dim", TEXT)):
            self.count(name, value)
        self.metadata.append([self.key("attention.layer_norm_epsilon"), 6, float(np.float32(epsilon))])

    def tensor(self, name, *dims, offset=0.0, amplitude=None):  # dims in GGUF's order
        if amplitude is None:
            amplitude = 1.5 / np.sqrt(np.prod(dims[:-1])) if len(dims) > 1 else 0.3
        self.tensors.append([name, list(dims), offset, float(np.float32(amplitude))])

    def norm(self, name, width, biased=True):
        self.tensor(name + ".weight", width, offset=1.0)
        if biased:
            self.tensor(name + ".bias", width)

    def linear(self, name, columns, rows, biased=True):
        self.tensor(name + ".weight", columns, rows)
        if biased:
            self.tensor(name + ".bias", rows)

    def write(self, path):
        writer = gguf.GGUFWriter(path, "clip")
        add = {4: writer.add_uint32, 6: writer.add_float32, 7: writer.add_bool, 8: writer.add_string}
        for key, kind, value in self.metadata[1:]:
            add[kind](key, value) if kind != 9 else writer.add_array(key, value["values"])
        for name, dims, offset, amplitude in self.tensors:
            writer.add_tensor(name, weights(name, int(np.prod(dims)), offset, amplitude).reshape(dims[::-1]))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def save(self, program, name, media):
        with tempfile.TemporaryDirectory() as folder:
            self.write(folder + "/mmproj.gguf")
            write_text_model(folder + "/model.gguf")
            if self.of_sound:
                formula_sound(*media).tofile(folder + "/media.f32")
            else:
                formula_picture(*media).save(folder + "/media.ppm")
            out = subprocess.run([program, "model.gguf", "mmproj.gguf", "media.f32" if self.of_sound else "media.ppm",
                                  "rows.f32"], cwd=folder, capture_output=True, text=True)
            if out.returncode != 0:
                sys.exit(f"{name}: {program} ended with {out.returncode}\n{out.stderr[-2000:]}")
            tokens = [int(line) for line in out.stdout.split()]
            rows = np.fromfile(folder + "/rows.f32", np.float32)
        assert rows.size == TEXT * sum(tokens) and np.isfinite(rows).all()
        document = {"sound" if self.of_sound else "picture": media, "tokens": tokens,
                    "mmproj": dict(seed=SEED, metadata=self.metadata, tensors=self.tensors)}
        (GOLDEN / f"{name}.json").write_text(json.dumps(document))
        rows.tofile(GOLDEN / f"{name}.f32")
        print(name, media, tokens, rows.std())


def write_text_model(path):  # one layer of Llama, with which the other program counts tokens
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(4096)
    writer.add_embedding_length(TEXT)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    words = ["<unk>", "<s>", "</s>", "\n\n", "\n"] + [f"<0x{byte:02X}>" for byte in range(256)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([0.0] * len(words))
    writer.add_token_types([2, 3, 3, 1, 1] + [6] * 256)
    for name, rows, columns in (("token_embd", len(words), TEXT), ("output", len(words), TEXT),
                                ("blk.0.attn_q", TEXT, TEXT), ("blk.0.attn_k", TEXT, TEXT),
                                ("blk.0.attn_v", TEXT, TEXT), ("blk.0.attn_output", TEXT, TEXT),
                                ("blk.0.ffn_gate", FFN, TEXT), ("blk.0.ffn_up", FFN, TEXT),
                                ("blk.0.ffn_down", TEXT, FFN)):
        writer.add_tensor(name + ".weight", np.zeros((rows, columns), np.float32))
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(name + ".weight", np.ones(TEXT, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def whisper(projector, stack, bands=40, layers=2):
    r = Recipe(projector, True)
    r.common(layers)
    r.count("num_mel_bins", bands)
    r.count("projector.stack_factor", stack)
    r.tensor("a.conv1d.1.weight", 3, bands, WIDTH)
    r.tensor("a.conv1d.1.bias", 1, WIDTH, amplitude=0.3)
    r.tensor("a.conv1d.2.weight", 3, WIDTH, WIDTH)
    r.tensor("a.conv1d.2.bias", 1, WIDTH, amplitude=0.3)
    r.tensor("a.position_embd.weight", WIDTH, 1500, amplitude=0.5)
    for il in range(layers):
        blk = f"a.blk.{il}."
        r.norm(blk + "ln1", WIDTH)
        r.norm(blk + "ln2", WIDTH)
        for part in ("q", "k", "v", "out"):
            r.linear(blk + "attn_" + part, WIDTH, WIDTH, part != "k")
        r.linear(blk + "ffn_up", WIDTH, FFN)
        r.linear(blk + "ffn_down", FFN, WIDTH)
    r.norm("a.post_ln", WIDTH)
    return r


def glma(program, name, sound):
    stack = 4
    r = whisper("glma", stack)
    r.norm("mm.a.norm_pre", WIDTH)
    r.linear("mm.a.mlp.1", stack * WIDTH, FFN)
    r.linear("mm.a.mlp.2", FFN, TEXT)
    for end in ("v.boi", "v.eoi"):
        r.tensor(end, TEXT, amplitude=1.0)
    r.save(program, name, sound)


def meralion(program, name, sound):
    stack, hidden = 15, 40
    r = whisper("meralion", stack)
    r.norm("mm.a.norm_pre", stack * WIDTH)
    r.linear("mm.a.mlp.0", stack * WIDTH, hidden)
    r.linear("mm.a.mlp.1", hidden, hidden)
    r.linear("mm.a.mlp.2", hidden, hidden)
    r.linear("mm.a.mlp.3", hidden, TEXT)
    r.save(program, name, sound)


def feed_forward(r, blk, which, biased):
    r.norm(blk + "ffn_norm" + which, WIDTH)
    r.linear(blk + "ffn_up" + which, WIDTH, FFN, biased)
    r.linear(blk + "ffn_down" + which, FFN, WIDTH, biased)


def parakeet(program, name, sound):
    bands, channels, kernel, layers = 40, 8, 7, 2
    r = Recipe("parakeet", True)
    r.common(layers)
    r.count("num_mel_bins", bands)
    r.count("subsampling_factor", 8)
    r.count("conv_kernel_size", kernel)
    r.tensor("a.mel_filters", 257, bands, offset=0.5, amplitude=0.5)
    r.tensor("a.window", 400, offset=0.5, amplitude=0.5)
    r.tensor("a.conv1d.0.weight", 3, 3, 1, channels)
    for i in (2, 5):
        r.tensor(f"a.conv1d.{i}.weight", 3, 3, 1, channels)
        r.tensor(f"a.conv1d.{i + 1}.weight", 1, 1, channels, channels)
    for i in (0, 2, 3, 5, 6):
        r.tensor(f"a.conv1d.{i}.bias", 1, 1, channels, amplitude=0.3)
    r.linear("a.pre_encode.out", channels * bands // 8, WIDTH)
    for il in range(layers):
        blk = f"a.blk.{il}."
        feed_forward(r, blk, "", False)
        r.norm(blk + "ln1", WIDTH)
        for part in ("attn_q", "attn_k", "attn_v", "attn_out", "linear_pos"):
            r.linear(blk + part, WIDTH, WIDTH, False)
        for part in "uv":
            r.tensor(blk + "pos_bias_" + part, WIDTH // HEADS, HEADS, amplitude=0.5)
        r.norm(blk + "norm_conv", WIDTH)
        r.linear(blk + "conv_pw1", WIDTH, 2 * WIDTH, False)
        r.tensor(blk + "conv_dw.weight", kernel, WIDTH, amplitude=0.6)
        r.norm(blk + "conv_norm", WIDTH)
        r.tensor(blk + "conv_norm_mean", WIDTH)
        r.tensor(blk + "conv_norm_var", WIDTH, offset=1.0, amplitude=0.5)
        r.linear(blk + "conv_pw2", WIDTH, WIDTH, False)
        feed_forward(r, blk, "_1", False)
        r.norm(blk + "ln2", WIDTH)
    r.norm("mm.a.norm_pre", WIDTH, False)
    r.linear("mm.a.mlp.1", WIDTH, FFN, False)
    r.linear("mm.a.mlp.2", FFN, TEXT, False)
    for i in (0, 1, 3):  # of the encoder of images in the same file
        r.linear(f"mm.model.mlp.{i}", 2, 2, False)
    r.save(program, name, sound)


def granite_speech(program, name, sound, features=()):
    bands, block, kernel, places, window, rate, layers, letters = 40, 12, 7, 16, 6, 3, 4, 10
    r = Recipe("granite_speech", True)
    r.common(layers)
    for key, value in (("num_mel_bins", bands), ("chunk_size", block), ("conv_kernel_size", kernel),
                       ("max_pos_emb", places), ("projector.window_size", window),
                       ("projector.downsample_rate", rate), ("projector.head_count", 4)):
        r.count(key, value)
    if features:
        r.metadata.append([r.key("feature_layer"), 9, {"of": 5, "values": list(features)}])
    r.linear("a.input_projection", bands, WIDTH)
    r.linear("a.enc_ctc_out", WIDTH, letters)
    r.linear("a.enc_ctc_out_mid", letters, WIDTH)
    for il in range(layers):
        blk = f"a.blk.{il}."
        feed_forward(r, blk, "", True)
        r.norm(blk + "ln1", WIDTH)
        for part in ("q", "k", "v", "out"):
            r.linear(blk + "attn_" + part, WIDTH, WIDTH, part == "out")
        r.tensor(blk + "attn_rel_pos_emb", WIDTH // HEADS, 2 * places + 1, amplitude=1.0)
        r.norm(blk + "norm_conv", WIDTH)
        r.linear(blk + "conv_pw1", WIDTH, 2 * WIDTH)
        r.tensor(blk + "conv_dw.weight", kernel, WIDTH, amplitude=0.6)
        r.norm(blk + "conv_norm", WIDTH)
        r.linear(blk + "conv_pw2", WIDTH, WIDTH)
        feed_forward(r, blk, "_1", True)
        r.norm(blk + "ln2", WIDTH)
    r.tensor("a.proj_query", WIDTH, window // rate, amplitude=1.0)
    r.norm("a.proj_norm", WIDTH)
    for il in range(2):
        blk = f"a.proj_blk.{il}."
        seen = WIDTH * (len(features) + 1)
        for kind in ("self", "cross"):
            for part in ("q", "k", "v", "out"):
                r.linear(f"{blk}{kind}_attn_{part}", seen if kind == "cross" and part in "kv" else WIDTH, WIDTH)
            r.norm(f"{blk}{kind}_attn_norm", WIDTH)
        r.linear(blk + "ffn_up", WIDTH, FFN)
        r.linear(blk + "ffn_down", FFN, WIDTH)
        r.norm(blk + "ffn_norm", WIDTH)
    r.linear("a.proj_linear", WIDTH, TEXT)
    r.save(program, name, sound)


def step3vl(program, name, picture):
    patch, side, layers = 42, 336, 2
    r = Recipe("step3vl", False)
    r.common(layers)
    r.count("image_size", side)
    r.count("patch_size", patch)
    for key, values in (("image_mean", [0.48, 0.46, 0.41]), ("image_std", [0.27, 0.26, 0.28])):
        r.metadata.append([r.key(key), 9, {"of": 6, "values": values}])
    r.tensor("v.patch_embd.weight", patch, patch, 3, WIDTH)
    r.tensor("v.patch_embd.bias", WIDTH)
    r.tensor("v.position_embd.weight", WIDTH, (side // patch) ** 2, amplitude=0.5)
    r.norm("v.pre_ln", WIDTH)
    for il in range(layers):
        blk = f"v.blk.{il}."
        for part in ("1", "2"):
            r.norm(blk + "ln" + part, WIDTH)
            r.tensor(f"{blk}ls{part}.weight", WIDTH, offset=0.5)
        r.linear(blk + "attn_qkv", WIDTH, 3 * WIDTH)
        r.linear(blk + "attn_out", WIDTH, WIDTH)
        r.linear(blk + "ffn_up", WIDTH, FFN)
        r.linear(blk + "ffn_down", FFN, WIDTH)
    r.tensor("mm.0.weight", 3, 3, WIDTH, 40)
    r.tensor("mm.0.bias", 40)
    r.tensor("mm.1.weight", 3, 3, 40, 48)
    r.tensor("mm.1.bias", 48)
    r.linear("mm.model.fc", 48, TEXT, False)
    r.save(program, name, picture)


CASES = {
    "glma": lambda *to: glma(*to, [2300, 16000, 21]),
    "meralion": lambda *to: meralion(*to, [1700, 16000, 22]),
    "parakeet": lambda *to: parakeet(*to, [2310, 16000, 23]),
    "parakeet-long": lambda *to: parakeet(*to, [9000, 16000, 24]),
    "granite_speech": lambda *to: granite_speech(*to, [1200, 16000, 25]),
    "granite_speech-features": lambda *to: granite_speech(*to, [735, 16000, 26], (0, 1, 3)),
    "step3vl": lambda *to: step3vl(*to, [120, 110, 27]),
    "step3vl-narrow": lambda *to: step3vl(*to, [100, 60, 28]),
    "step3vl-large": lambda *to: step3vl(*to, [700, 300, 29]),
    "step3vl-sliver": lambda *to: step3vl(*to, [20, 90, 30]),
}

if __name__ == "__main__":
    for wanted in sys.argv[2:] or CASES:
        CASES[wanted](sys.argv[1], wanted)
