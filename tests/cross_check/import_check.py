"""Checks `ridge convert` against NumPy: import_check.py RIDGE [FILTER]. Prints the NMSE of each checkpoint's logits."""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import checkpoints as ck
import packed

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


def packed_cases():
    for bits in (2, 3, 4, 8):
        for symmetric in (True, False):
            for act_order in (False, True):
                more = dict(bits=bits, symmetric=symmetric, act_order=act_order)
                name = f"gptq {bits} bits{' sym' if symmetric else ''}{' act-order' if act_order else ''}"
                yield name + " v1", packed.gptq, more
                yield name + " v2", packed.gptq, more | dict(v2=True)
    yield "gptq, no g_idx", packed.gptq, dict(g_idx=False)
    yield "gptq, one group per row", packed.gptq, dict(group=-1, symmetric=False)
    yield "awq", packed.awq, {}
    yield "awq, groups of 32", packed.awq, dict(group=32)
    for kind in ("nf4", "fp4"):
        for nested in (True, False):
            yield f"{kind}{' double' if nested else ''}", packed.bitsandbytes4, dict(kind=kind, nested=nested)
    yield "int8", packed.int8, {}
    yield "fp8 per tensor", packed.fp8, {}
    yield "fp8 per row", packed.fp8, dict(by_row=True)
    yield "fp8 blocks", packed.fp8, dict(block=(128, 128))
    for bits in (4, 8):
        for symmetric in (True, False):
            yield f"compressed-tensors {bits} bits{' sym' if symmetric else ''}", packed.pack_quantized, dict(
                bits=bits, symmetric=symmetric)
    yield "compressed-tensors act-order", packed.pack_quantized, dict(act_order=True)
    yield "compressed-tensors per row", packed.pack_quantized, dict(group=-1)
    yield "nvfp4 modelopt", packed.nvfp4, {}
    yield "nvfp4 compressed-tensors", packed.nvfp4, dict(modelopt=False)
    yield "mxfp4 compressed-tensors", packed.mxfp4, {}


def packed_checkpoint(folder, kind, pack, options, rng):
    """Writes it; gives the logits of the weights that it stands for."""
    config = ck.base_config(kind)
    weights = ck.random_weights(config, rng)
    linears = {k: weights.pop(k + ".weight") for k in ck.linears(config)}
    tensors, decoded, config["quantization_config"] = pack(linears, rng, **options)
    stored = {k: v.astype(ck.BF16) for k, v in weights.items()}
    ck.save(folder, config, {**tensors, **stored})
    return ck.forward(config, {**stored, **{k + ".weight": v for k, v in decoded.items()}}, IDS)


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
            for type_flags in ([], ["--type", "bf16"], ["--type", "f16"], ["--type", "f32"], ["--type", "q8_0"]):
                gguf = folder / "out.gguf"
                run(ridge, "convert", folder, "-o", gguf, *type_flags)
                error = nmse(logits(ridge, gguf, "--device", "cpu", "--exact"), expected)
                print(f"{name:40} {' '.join(type_flags):12} {error:.2e}")
                if not type_flags:
                    worst = max(worst, error)
        kinds = ("LlamaForCausalLM", "Qwen3ForCausalLM", "MixtralForCausalLM")
        for name, pack, options in packed_cases():
            for kind in kinds:
                act_order_experts = options.get("act_order") and kind.startswith("Mixtral")
                if wanted not in name or act_order_experts:
                    continue
                folder = pathlib.Path(tmp) / f"{name} {kind}".replace(" ", "_").replace(",", "")
                expected = packed_checkpoint(folder, kind, pack, options, rng)
                gguf = folder / "out.gguf"
                run(ridge, "convert", folder, "-o", gguf)
                exact = nmse(logits(ridge, gguf, "--device", "cpu", "--exact"), expected)
                fast = nmse(logits(ridge, gguf, "--device", "cpu"), expected)
                print(f"{name:40} {kind[:-11]:8} exact {exact:.2e}  fast {fast:.2e}")
                worst = max(worst, exact)
    print(f"worst, types kept: {worst:.2e}")
    if not worst <= 1e-4:
        raise SystemExit("too far")


if __name__ == "__main__":
    main()
