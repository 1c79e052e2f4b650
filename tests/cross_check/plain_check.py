"""Checks `ridge convert` for classes that transformers has not: plain_check.py RIDGE [NAME...]. Small random
checkpoints and their logits, or hidden states, computed here with PyTorch. Needs torch, numpy, safetensors."""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

BOUND = 5e-6
IDS = [1, 2, 3, 60, 70, 80, 17, 42, 90, 28, 7, 9, 31, 5, 5, 80, 11, 33, 64, 50]
WIDTH, VOCAB, HEADS, KV_HEADS, DIM = 64, 96, 4, 2, 16


def norm(x, weight, eps=1e-5):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def rope(x, base):
    """[tokens, heads, DIM]; pairs i with i + DIM / 2."""
    inverse = base ** (-torch.arange(0, DIM, 2) / DIM)
    angle = torch.outer(torch.arange(x.shape[0]), inverse)[:, None]
    a, b = x.chunk(2, -1)
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def attention(x, t, layer, base=None):
    q, k, v = ((x @ t[f"{layer}self_attn.{n}_proj.weight"].T).view(len(x), -1, DIM) for n in "qkv")
    if base:
        q, k = rope(q, base), rope(k, base)
    k, v = (y.repeat_interleave(HEADS // KV_HEADS, 1).transpose(0, 1) for y in (k, v))
    y = F.scaled_dot_product_attention(q.transpose(0, 1), k, v, is_causal=True)
    return y.transpose(0, 1).flatten(1) @ t[layer + "self_attn.o_proj.weight"].T


def common(layers):
    t = {"model.embed_tokens.weight": (VOCAB, WIDTH), "lm_head.weight": (VOCAB, WIDTH), "model.norm.weight": (WIDTH,)}
    for il in range(layers):
        p = f"model.layers.{il}."
        t |= {p + "self_attn.q_proj.weight": (HEADS * DIM, WIDTH), p + "self_attn.o_proj.weight": (WIDTH, HEADS * DIM),
              p + "input_layernorm.weight": (WIDTH,), p + "post_attention_layernorm.weight": (WIDTH,)}
        t |= {p + f"self_attn.{n}_proj.weight": (KV_HEADS * DIM, WIDTH) for n in "kv"}
    return t


def random(shapes):
    return {name: 1 + 0.2 * torch.randn(shape) if len(shape) == 1 else torch.randn(shape) * 0.15
            for name, shape in shapes.items()}


def config(hf_class, layers, **more):
    return dict(architectures=[hf_class], vocab_size=VOCAB, hidden_size=WIDTH, num_hidden_layers=layers,
                num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=DIM, max_position_embeddings=256,
                rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=False, torch_dtype="float32", **more)


def small_thinker(windows, softmax):
    """The rows before attention choose experts, whose gates let values above 0 through."""
    layers, experts, used, inner = 5, 4, 2, 32
    turns = [0 if windows and il % 4 == 0 else 1 for il in range(layers)]
    shapes = common(layers)
    for il in range(layers):
        p = f"model.layers.{il}.block_sparse_moe."
        shapes[p + "primary_router.weight"] = (experts, WIDTH)
        for e in range(experts):
            shapes |= {f"{p}experts.{e}.{n}.weight": (inner, WIDTH) for n in ("gate", "up")}
            shapes[f"{p}experts.{e}.down.weight"] = (WIDTH, inner)
    t = random(shapes)
    x = t["model.embed_tokens.weight"][IDS]
    for il in range(layers):
        p = f"model.layers.{il}."
        m = p + "block_sparse_moe."
        scores, chosen = (x @ t[m + "primary_router.weight"].T).topk(used)
        shares = scores.softmax(-1) if softmax else scores.sigmoid() / scores.sigmoid().sum(-1, keepdim=True)
        x = x + attention(norm(x, t[p + "input_layernorm.weight"]), t, p, 10000.0 if turns[il] else None)
        h = norm(x, t[p + "post_attention_layernorm.weight"])
        y = torch.zeros_like(x)
        for e in range(experts):
            gate, up, down = (t[f"{m}experts.{e}.{n}.weight"] for n in ("gate", "up", "down"))
            y += ((h @ gate.T).relu() * (h @ up.T)) @ down.T * (shares * (chosen == e)).sum(-1, keepdim=True)
        x = x + y
    fields = config("SmallThinkerForCausalLM", layers, moe_num_primary_experts=experts, moe_ffn_hidden_size=inner,
                    moe_num_active_primary_experts=used, moe_primary_router_apply_softmax=softmax, rope_layout=turns,
                    sliding_window_layout=turns if windows else [0] * layers, sliding_window_size=4096)
    return fields, t, norm(x, t["model.norm.weight"]) @ t["lm_head.weight"].T


def jina2(code):
    """Jina Embeddings 2: BERT with ALiBi and gates. Code models also norm q and k, and add the layer's input twice."""
    layers, inner = 4, 96
    shapes = {"embeddings.word_embeddings.weight": (VOCAB, WIDTH), "embeddings.token_type_embeddings.weight": (2, WIDTH),
              "embeddings.LayerNorm.weight": (WIDTH,), "embeddings.LayerNorm.bias": (WIDTH,)}
    linears = {"attention.self.query": (WIDTH, WIDTH), "attention.self.key": (WIDTH, WIDTH),
               "attention.self.value": (WIDTH, WIDTH), "attention.output.dense": (WIDTH, WIDTH),
               "mlp.down_layer" if code else "mlp.wo": (WIDTH, inner)}
    norms = ["attention.output.LayerNorm"] + (["attention.self.layer_norm_q", "attention.self.layer_norm_k",
                                               "layer_norm_1", "layer_norm_2"] if code else ["mlp.layernorm"])
    for il in range(layers):
        p = f"encoder.layer.{il}."
        for name, (rows, cols) in linears.items():
            shapes |= {f"{p}{name}.weight": (rows, cols), f"{p}{name}.bias": (rows,)}
        shapes |= {f"{p}{name}.{part}": (WIDTH,) for name in norms for part in ("weight", "bias")}
        shapes[p + ("mlp.up_gated_layer.weight" if code else "mlp.gated_layers.weight")] = (2 * inner, WIDTH)
    t = random(shapes)

    def linear(x, name):
        return x @ t[name + ".weight"].T + t.get(name + ".bias", 0)

    def normed(x, name):
        return F.layer_norm(x, (WIDTH,), t[name + ".weight"], t[name + ".bias"], 1e-12)

    places = torch.arange(len(IDS))
    slopes = 2.0 ** (-8 / HEADS * (1 + torch.arange(HEADS)))
    bias = -slopes[:, None, None] * (places[:, None] - places[None]).abs()
    x = t["embeddings.word_embeddings.weight"][IDS] + t["embeddings.token_type_embeddings.weight"][0]
    x = normed(x, "embeddings.LayerNorm")
    for il in range(layers):
        p = f"encoder.layer.{il}."
        q, k, v = (linear(x, f"{p}attention.self.{n}") for n in ("query", "key", "value"))
        if code:
            q, k = normed(q, p + "attention.self.layer_norm_q"), normed(k, p + "attention.self.layer_norm_k")
        q, k, v = (y.view(len(x), HEADS, DIM).transpose(0, 1) for y in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(0, 1).flatten(1)
        y = normed(linear(y, p + "attention.output.dense") + x, p + "attention.output.LayerNorm")
        if code:
            y = normed(y + x, p + "layer_norm_1")
        first, second = linear(y, p + ("mlp.up_gated_layer" if code else "mlp.gated_layers")).chunk(2, -1)
        z = F.gelu(second) * first if code else F.gelu(first) * second
        x = normed(linear(z, p + ("mlp.down_layer" if code else "mlp.wo")) + y,
                   p + ("layer_norm_2" if code else "mlp.layernorm"))
    fields = dict(config("JinaBertForMaskedLM", layers, position_embedding_type="alibi", feed_forward_type="geglu",
                         hidden_act="gelu", layer_norm_eps=1e-12, intermediate_size=inner, type_vocab_size=2),
                  num_key_value_heads=HEADS)
    return fields, t, x


CASES = {
    "Jina 2, texts": lambda: jina2(False),
    "Jina 2, code": lambda: jina2(True),
    "SmallThinker, windows": lambda: small_thinker(True, False),
    "SmallThinker, softmax": lambda: small_thinker(False, True),
}


def check(ridge, case):
    """The normalized mean squared error of ridge's logits, or of hidden states of encoders."""
    fields, tensors, expected = case()
    command = ["embed", "--pooling", "none"] if "Bert" in fields["architectures"][0] else ["logits"]
    with tempfile.TemporaryDirectory() as tmp:
        folder = pathlib.Path(tmp)
        (folder / "config.json").write_text(json.dumps(fields))
        save_file({name: t.contiguous() for name, t in tensors.items()}, folder / "model.safetensors")
        for args in (["convert", folder, "-o", folder / "out.gguf"],
                     [*command, "-m", folder / "out.gguf", "--ids", ",".join(map(str, IDS)), "--out",
                      folder / "out.npy", "--device", "cpu", "--exact"]):
            done = subprocess.run([ridge, *map(str, args)], capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemExit(done.stderr.strip())
        found, expected = np.load(folder / "out.npy"), expected.double().numpy()
    return ((found - expected) ** 2).sum() / (expected ** 2).sum()


def main():
    failed = 0
    for name, case in CASES.items():
        if len(sys.argv) > 2 and not name.startswith(tuple(sys.argv[2:])):
            continue
        torch.manual_seed(1)
        error = check(sys.argv[1], case)
        failed += not error <= BOUND
        print(f"{name:40} {error:.2e}", flush=True)
    if failed:
        raise SystemExit(f"{failed} differ")


if __name__ == "__main__":
    main()
