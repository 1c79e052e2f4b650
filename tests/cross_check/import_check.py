"""Checks `ridge convert` against NumPy: import_check.py RIDGE [FILTER]. Prints the NMSE of each checkpoint's logits."""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import checkpoints as ck

IDS = [1, 2, 3, 100, 200, 250, 17, 42, 99, 128, 7, 9, 301, 5, 5, 80]


def run(ridge, *args):
    done = subprocess.run([ridge, *map(str, args)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, args))}: {done.stderr}")
    return done.stdout


def logits(ridge, gguf, *more):
    out = gguf.with_suffix(".npy")
    run(ridge, "logits", "-m", gguf, "--ids", ",".join(map(str, IDS)), "--out", out, *more)
    return np.load(out)


def nmse(a, b):
    return ((a - b) ** 2).sum() / (b ** 2).sum()


def plain_cases():
    llama = "LlamaForCausalLM"
    yield "llama f32", ck.base_config(llama), np.float32, 1
    yield "llama bf16, 3 shards", ck.base_config(llama), ck.BF16, 3
    yield "llama f16 tied", ck.base_config(llama, tie_word_embeddings=True), np.float16, 1
    yield "llama attention bias", ck.base_config(llama, attention_bias=True), np.float32, 1
    yield "llama3 rope", ck.base_config(llama, head_dim=64, rope_scaling=dict(
        rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=64)), np.float32, 1
    yield "llama linear rope", ck.base_config(llama, rope_scaling=dict(type="linear", factor=4.0)), np.float32, 1
    yield "llama yarn", ck.base_config(llama, rope_scaling=dict(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=128)), np.float32, 1
    yield "llama yarn, own attention factor", ck.base_config(llama, rope_scaling=dict(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=128, attention_factor=1.0,
        beta_fast=16, beta_slow=2)), np.float32, 1
    yield "mistral", ck.base_config("MistralForCausalLM", sliding_window=64, head_dim=16), ck.BF16, 1
    yield "mixtral", ck.base_config("MixtralForCausalLM"), ck.BF16, 2
    yield "qwen2", ck.base_config("Qwen2ForCausalLM", rope_theta=1e6), ck.BF16, 1
    yield "qwen3", ck.base_config("Qwen3ForCausalLM", tie_word_embeddings=True), ck.BF16, 1
    yield "qwen3moe", ck.base_config("Qwen3MoeForCausalLM"), ck.BF16, 1


def main():
    ridge, wanted = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    rng = np.random.default_rng(1)
    worst = 0.0
    with tempfile.TemporaryDirectory() as tmp:
        for name, config, dtype, shards in plain_cases():
            if wanted not in name:
                continue
            folder = pathlib.Path(tmp) / name.replace(" ", "_").replace(",", "")
            stored = {k: v.astype(dtype) for k, v in ck.random_weights(config, rng).items()}
            ck.save(folder, config, stored, shards)
            expected = ck.forward(config, stored, IDS)
            for type_flags in ([], ["--type", "bf16"], ["--type", "f16"], ["--type", "f32"]):
                gguf = folder / "out.gguf"
                run(ridge, "convert", folder, "-o", gguf, *type_flags)
                error = nmse(logits(ridge, gguf, "--device", "cpu", "--exact"), expected)
                print(f"{name:40} {' '.join(type_flags):12} {error:.2e}")
                if not type_flags:
                    worst = max(worst, error)
    print(f"worst, types kept: {worst:.2e}")
    if not worst <= 1e-4:
        raise SystemExit("too far")


if __name__ == "__main__":
    main()
