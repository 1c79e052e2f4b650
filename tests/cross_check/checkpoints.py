"""Small random Hugging Face checkpoints and their logits, computed here with NumPy from Hugging Face's own conventions.

Independent of ridge: rope in halves, weights as torch.nn.Linear has them. Needs numpy, safetensors, tokenizers,
ml_dtypes. import_check.py uses it.
"""
import json
import math
import pathlib

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

BF16 = ml_dtypes.bfloat16


def base_config(kind, **more):
    config = dict(hidden_size=128, intermediate_size=192, num_hidden_layers=2, num_attention_heads=4,
                  num_key_value_heads=2, vocab_size=320, max_position_embeddings=512, rms_norm_eps=1e-5,
                  rope_theta=10000.0, hidden_act="silu", tie_word_embeddings=False, architectures=[kind],
                  torch_dtype="float32", model_type="llama")
    if kind == "MixtralForCausalLM":
        config.update(num_local_experts=4, num_experts_per_tok=2, sliding_window=None)
    if kind == "Qwen3MoeForCausalLM":
        config.update(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64, norm_topk_prob=True,
                      decoder_sparse_step=1, mlp_only_layers=[])
    if kind.startswith("Qwen3"):
        config.update(head_dim=64)
    config.update(more)
    return config


def head_dim(c):
    return c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]


def linears(c):
    """Every linear of the layers: name -> (rows, cols)."""
    kind, w, hd = c["architectures"][0], c["hidden_size"], head_dim(c)
    q, kv, ff = c["num_attention_heads"] * hd, c["num_key_value_heads"] * hd, c["intermediate_size"]
    out = {}
    for il in range(c["num_hidden_layers"]):
        p = f"model.layers.{il}."
        out |= {p + "self_attn.q_proj": (q, w), p + "self_attn.k_proj": (kv, w), p + "self_attn.v_proj": (kv, w),
                p + "self_attn.o_proj": (w, q)}
        if kind == "MixtralForCausalLM":
            for e in range(c["num_local_experts"]):
                b = p + f"block_sparse_moe.experts.{e}."
                out |= {b + "w1": (ff, w), b + "w3": (ff, w), b + "w2": (w, ff)}
        elif kind == "Qwen3MoeForCausalLM":
            f = c["moe_intermediate_size"]
            for e in range(c["num_experts"]):
                b = p + f"mlp.experts.{e}."
                out |= {b + "gate_proj": (f, w), b + "up_proj": (f, w), b + "down_proj": (w, f)}
        else:
            out |= {p + "mlp.gate_proj": (ff, w), p + "mlp.up_proj": (ff, w), p + "mlp.down_proj": (w, ff)}
    return out


def random_weights(c, rng):
    kind, w = c["architectures"][0], c["hidden_size"]
    t = {"model.embed_tokens.weight": rng.standard_normal((c["vocab_size"], w)) * 0.5,
         "model.norm.weight": 1 + 0.1 * rng.standard_normal(w)}
    if not c["tie_word_embeddings"]:
        t["lm_head.weight"] = rng.standard_normal((c["vocab_size"], w)) / math.sqrt(w)
    for name, (rows, cols) in linears(c).items():
        t[name + ".weight"] = rng.standard_normal((rows, cols)) / math.sqrt(cols)
        if kind == "Qwen2ForCausalLM" and name.endswith(("q_proj", "k_proj", "v_proj")):
            t[name + ".bias"] = 0.2 * rng.standard_normal(rows)
        if c.get("attention_bias") and "self_attn" in name:
            t[name + ".bias"] = 0.2 * rng.standard_normal(rows)
    for il in range(c["num_hidden_layers"]):
        p = f"model.layers.{il}."
        t[p + "input_layernorm.weight"] = 1 + 0.1 * rng.standard_normal(w)
        t[p + "post_attention_layernorm.weight"] = 1 + 0.1 * rng.standard_normal(w)
        if kind.startswith("Qwen3"):
            t[p + "self_attn.q_norm.weight"] = 1 + 0.1 * rng.standard_normal(head_dim(c))
            t[p + "self_attn.k_norm.weight"] = 1 + 0.1 * rng.standard_normal(head_dim(c))
        if kind == "MixtralForCausalLM":
            t[p + "block_sparse_moe.gate.weight"] = rng.standard_normal((c["num_local_experts"], w)) / math.sqrt(w)
        if kind == "Qwen3MoeForCausalLM":
            t[p + "mlp.gate.weight"] = rng.standard_normal((c["num_experts"], w)) / math.sqrt(w)
    return {k: v.astype(np.float32) for k, v in t.items()}


def inverse_frequencies(c):
    d, base = head_dim(c), c["rope_theta"]
    inv = 1.0 / base ** (np.arange(0, d, 2) / d)
    s = c.get("rope_scaling") or {}
    kind = s.get("rope_type", s.get("type", "default"))
    if kind == "linear":
        return inv / s["factor"], 1.0
    if kind == "llama3":
        low, high, old = s["low_freq_factor"], s["high_freq_factor"], s["original_max_position_embeddings"]
        wave = 2 * math.pi / inv
        out = np.where(wave > old / low, inv / s["factor"], inv)
        smooth = (old / wave - low) / (high - low)
        mid = (1 - smooth) * inv / s["factor"] + smooth * inv
        medium = ~(wave < old / high) & ~(wave > old / low)
        return np.where(medium, mid, out), 1.0
    if kind == "yarn":
        old, factor = s["original_max_position_embeddings"], s["factor"]
        def dim_of(rot):
            return d * math.log(old / (rot * 2 * math.pi)) / (2 * math.log(base))
        low = max(math.floor(dim_of(s.get("beta_fast", 32))), 0)
        high = min(math.ceil(dim_of(s.get("beta_slow", 1))), d - 1)
        ramp = np.clip((np.arange(d // 2) - low) / max(high - low, 0.001), 0, 1)
        mask = 1 - ramp
        return inv / factor * (1 - mask) + inv * mask, s.get("attention_factor") or 0.1 * math.log(factor) + 1
    return inv, 1.0


def forward(c, t, ids):
    """Logits [len(ids), vocab] in float64."""
    t = {k: v.astype(np.float64) for k, v in t.items()}
    kind, hd, eps = c["architectures"][0], head_dim(c), c["rms_norm_eps"]
    nh, nkv, n = c["num_attention_heads"], c["num_key_value_heads"], len(ids)
    inv, magnitude = inverse_frequencies(c)
    angle = np.arange(n)[:, None] * inv[None, :]
    cos, sin = np.concatenate([np.cos(angle)] * 2, 1) * magnitude, np.concatenate([np.sin(angle)] * 2, 1) * magnitude

    def norm(x, w):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w

    def rope(x):  # [n, heads, hd]
        half = np.concatenate([-x[..., hd // 2:], x[..., :hd // 2]], -1)
        return x * cos[:, None] + half * sin[:, None]

    def linear(x, name):
        y = x @ t[name + ".weight"].T
        return y + t[name + ".bias"] if name + ".bias" in t else y

    def silu(x):
        return x / (1 + np.exp(-x))

    x = t["model.embed_tokens.weight"][ids]
    for il in range(c["num_hidden_layers"]):
        p = f"model.layers.{il}."
        h = norm(x, t[p + "input_layernorm.weight"])
        q = linear(h, p + "self_attn.q_proj").reshape(n, nh, hd)
        k = linear(h, p + "self_attn.k_proj").reshape(n, nkv, hd)
        v = linear(h, p + "self_attn.v_proj").reshape(n, nkv, hd)
        if kind.startswith("Qwen3"):
            q, k = norm(q, t[p + "self_attn.q_norm.weight"]), norm(k, t[p + "self_attn.k_norm.weight"])
        q, k = rope(q), rope(k)
        k, v = np.repeat(k, nh // nkv, 1), np.repeat(v, nh // nkv, 1)
        score = np.einsum("ihd,jhd->hij", q, k) / math.sqrt(hd)
        score = np.where(np.tril(np.ones((n, n), bool))[None], score, -np.inf)
        score = np.exp(score - score.max(-1, keepdims=True))
        score /= score.sum(-1, keepdims=True)
        x = x + linear(np.einsum("hij,jhd->ihd", score, v).reshape(n, nh * hd), p + "self_attn.o_proj")
        h = norm(x, t[p + "post_attention_layernorm.weight"])
        if kind in ("MixtralForCausalLM", "Qwen3MoeForCausalLM"):
            mixtral = kind == "MixtralForCausalLM"
            b = p + ("block_sparse_moe." if mixtral else "mlp.")
            gate, up, down = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
            share = linear(h, b + "gate")
            share = np.exp(share - share.max(-1, keepdims=True))
            share /= share.sum(-1, keepdims=True)
            out = np.zeros_like(h)
            for i in range(n):
                top = np.argsort(-share[i])[:c["num_experts_per_tok"]]
                for e in top:
                    g = b + f"experts.{e}."
                    y = linear(silu(linear(h[i], g + gate)) * linear(h[i], g + up), g + down)
                    out[i] += y * share[i, e] / share[i, top].sum()
            x = x + out
        else:
            m = p + "mlp."
            x = x + linear(silu(linear(h, m + "gate_proj")) * linear(h, m + "up_proj"), m + "down_proj")
    x = norm(x, t["model.norm.weight"])
    return x @ (t["model.embed_tokens.weight"] if c["tie_word_embeddings"] else t["lm_head.weight"]).T


def save(folder, config, tensors, shards=1):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {k: np.ascontiguousarray(v) for k, v in tensors.items()}
    if shards == 1:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return
    names, index = sorted(tensors), {}
    for s in range(shards):
        file = f"model-{s + 1:05}-of-{shards:05}.safetensors"
        part = {k: tensors[k] for k in names[s::shards]}
        save_file(part, folder / file, metadata={"format": "pt"})
        index |= {k: file for k in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
