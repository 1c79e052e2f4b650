#!/usr/bin/env python3
"""EAGLE-3 heads of ridge against numpy: the draft's logits of a tiny random model, by EAGLE-3's definition.

    eagle3_check.py RIDGE            writes a model and heads of every kind, and compares `ridge logits --mtp`,
                                     with heads as GGUF files and as checkpoints that `ridge convert` takes
    eagle3_check.py --golden FILE    writes the logits that tests/models/eagle3_test.cpp compares with

Needs numpy, gguf and safetensors. The definition, in f64: a row of the model is what goes into three of its layers, side by side,
normed where the head says so, times fc. Row k of the head is made of token k and the model's row of token k - 1, from
token 1 on. Its layer's attention has the norms of the token's embedding and of that row side by side as its input; the
row, or its norm, is what attention adds to. Logits are of the head's vocabulary, whose tokens d2t names; the first guess
is at position 0. The next guess has the row that came out of the layer, before the last norm, instead of the model's.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

HEADS, KV_HEADS, DIM, FFN, VOCAB, LAYERS = 4, 2, 16, 96, 48, 5
EPSILON, NEVER = 1e-5, -1e30
IDS = [(i * i * 7 + 3 * i + 5) % VOCAB for i in range(20)]

# As tests/models/eagle3_test.cpp has them: name, head's width, own table, own output, own vocabulary, layers, norms.
KINDS = [
    ("plain", 64, False, True, 24, [1, 2, 4], False, False),
    ("own", 32, True, True, 24, [0, 3, 5], True, False),
    ("shared", 64, False, False, 0, [2, 2, 2], False, True),
]


def weights(name, shape):
    """As EaglePair::weight of tests/support/drafts/eagle_pair.h."""
    h = 14695981039346656037
    for c in name.encode():
        h = (h ^ c) * 1099511628211 % 2**64
    x = np.array([(h + 0x9E3779B97F4A7C15 * (i + 1)) % 2**64 for i in range(int(np.prod(shape)))], np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    unit = (x >> np.uint64(40)).astype(np.float64) / 2**24 * 2 - 1
    values = 1 + 0.3 * unit if len(shape) == 1 else 2 * unit / np.sqrt(shape[1])
    return values.astype(np.float32).reshape(shape)


def layer_tensors(il, width, inputs):
    shapes = {"attn_norm": (width,), "attn_q": (HEADS * DIM, inputs), "attn_k": (KV_HEADS * DIM, inputs),
              "attn_v": (KV_HEADS * DIM, inputs), "attn_output": (width, HEADS * DIM), "ffn_norm": (width,),
              "ffn_gate": (FFN, width), "ffn_up": (FFN, width), "ffn_down": (width, FFN)}
    return {f"blk.{il}.{n}.weight": s for n, s in shapes.items()}


def model_tensors(width=64):
    shapes = {"token_embd.weight": (VOCAB, width)}
    for il in range(LAYERS):
        shapes |= layer_tensors(il, width, width)
    return shapes | {"output_norm.weight": (width,), "output.weight": (VOCAB, width)}


def head_tensors(kind, model_width=64):
    _, width, own_table, own_output, own_vocab, layers, norm_fc, _ = kind
    shapes = {"fc.weight": (width, len(layers) * model_width)}
    if norm_fc:
        shapes["enc.output_norm.weight"] = (len(layers) * model_width,)
    if own_table:
        shapes["token_embd.weight"] = (VOCAB, width)
    shapes |= layer_tensors(0, width, 2 * width) | {"blk.0.attn_norm_2.weight": (width,), "output_norm.weight": (width,)}
    if own_output:
        shapes["output.weight"] = (own_vocab or VOCAB, width)
    return shapes


def rms(x, w):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * w


def rope(x, positions):
    angle = positions[:, None, None] * 10000.0 ** (-2 * np.arange(DIM // 2) / DIM)
    out = np.empty_like(x)
    out[..., 0::2] = x[..., 0::2] * np.cos(angle) - x[..., 1::2] * np.sin(angle)
    out[..., 1::2] = x[..., 0::2] * np.sin(angle) + x[..., 1::2] * np.cos(angle)
    return out


def attention(x, w, blk):
    """From [tokens, inputs] to what is added to the residual stream."""
    n = len(x)
    of = lambda name, heads: (x @ w[f"{blk}{name}.weight"].T).reshape(n, heads, DIM)
    positions = np.arange(n)
    q, k, v = rope(of("attn_q", HEADS), positions), rope(of("attn_k", KV_HEADS), positions), of("attn_v", KV_HEADS)
    out = np.empty((n, HEADS, DIM))
    for h in range(HEADS):
        scores = q[:, h] @ k[:, h * KV_HEADS // HEADS].T / np.sqrt(DIM)
        scores[np.triu_indices(n, 1)] = -np.inf
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        out[:, h] = shares / shares.sum(-1, keepdims=True) @ v[:, h * KV_HEADS // HEADS]
    return out.reshape(n, -1) @ w[f"{blk}attn_output.weight"].T


def ffn(x, w, blk):
    gate, up = x @ w[f"{blk}ffn_gate.weight"].T, x @ w[f"{blk}ffn_up.weight"].T
    return (gate / (1 + np.exp(-gate)) * up) @ w[f"{blk}ffn_down.weight"].T


def load(shapes):
    return {name: weights(name, shape).astype(np.float64) for name, shape in shapes.items()}


def draft_logits(kind, ids):
    """[tokens - 1, VOCAB] of rows 1 on, and of one guess more, which goes on with the last row and the likeliest token."""
    _, width, own_table, own_output, own_vocab, layers, norm_fc, norm_residual = kind
    model, head = load(model_tensors()), load(head_tensors(kind))
    x, inputs = model["token_embd.weight"][ids], []
    for il in range(LAYERS):
        inputs.append(x)
        x = x + attention(rms(x, model[f"blk.{il}.attn_norm.weight"]), model, f"blk.{il}.")
        x = x + ffn(rms(x, model[f"blk.{il}.ffn_norm.weight"]), model, f"blk.{il}.")
    inputs.append(x)
    rows = np.concatenate([inputs[il] for il in layers], -1)
    if norm_fc:
        rows = rms(rows, head["enc.output_norm.weight"])
    rows = (rows @ head["fc.weight"].T)[:-1]
    table = (head if own_table else model)["token_embd.weight"]
    output = (head if own_output else model)["output.weight"]

    def run(tokens, rows):
        e, g = rms(table[tokens], head["blk.0.attn_norm.weight"]), rms(rows, head["blk.0.attn_norm_2.weight"])
        x = (g if norm_residual else rows) + attention(np.concatenate([e, g], -1), head, "blk.0.")
        x = x + ffn(rms(x, head["blk.0.ffn_norm.weight"]), head, "blk.0.")
        drafted = rms(x, head["output_norm.weight"]) @ output.T
        logits = np.full((len(tokens), VOCAB), NEVER)
        logits[:, 2 * np.arange(own_vocab) if own_vocab else slice(None)] = drafted
        return x, logits

    own, logits = run(ids[1:], rows)
    guess = int(logits[-1].argmax())
    _, further = run(ids[1:] + [guess], np.concatenate([rows, own[-1:]]))
    return np.concatenate([logits, further[-1:]])


def write(path, architecture, width, layers, shapes, kind=None):
    import gguf
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(layers)
    writer.add_context_length(512)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(DIM)
    writer.add_value_length(DIM)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_dimension_count(DIM)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("none")
    if kind:
        writer.add_array("eagle3.target_layers", kind[5])
        writer.add_uint32("eagle3.target_hidden_size", 64)
        writer.add_bool("eagle3.norm_before_fc", kind[6])
        writer.add_bool("eagle3.norm_before_residual", kind[7])
    for name, shape in shapes.items():
        writer.add_tensor(name, weights(name, shape))
    if kind and kind[4]:
        writer.add_tensor("d2t", 2 * np.arange(kind[4], dtype=np.int64), raw_dtype=gguf.GGMLQuantizationType.I64)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


HF_NAMES = {"attn_norm": "input_layernorm", "attn_norm_2": "hidden_norm", "attn_q": "self_attn.q_proj",
            "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
            "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
            "ffn_down": "mlp.down_proj", "fc": "fc", "enc.output_norm": "input_norm", "token_embd": "embed_tokens",
            "output_norm": "norm", "output": "lm_head"}


def write_checkpoint(folder, kind):
    """The head as SpecForge writes it, or, where it has a table of its own, as Speculators do."""
    from safetensors.numpy import save_file
    _, width, own_table, _, own_vocab, layers, norm_fc, norm_residual = kind
    tensors = {}
    for name, shape in head_tensors(kind).items():
        values, module = weights(name, shape), name.removesuffix(".weight").removeprefix("blk.0.")
        if module in ("attn_q", "attn_k"):  # checkpoints pair row i with i + DIM / 2
            values = values.reshape(-1, DIM // 2, 2, shape[1]).swapaxes(1, 2).reshape(shape)
        layer = ("layers.0." if own_table else "midlayer.") if name.startswith("blk.") else ""
        tensors[f"{layer}{HF_NAMES[module]}.weight"] = np.ascontiguousarray(values)
    if own_vocab:
        tensors["d2t"] = np.arange(own_vocab)  # 2 i, as the difference to i
        tensors["t2d"] = np.arange(VOCAB) % 2 == 0
    layer = dict(hidden_size=width, intermediate_size=FFN, num_hidden_layers=1, num_attention_heads=HEADS,
                 num_key_value_heads=KV_HEADS, head_dim=DIM, vocab_size=VOCAB, max_position_embeddings=512,
                 rms_norm_eps=EPSILON, rope_theta=10000.0)
    config = dict(draft_vocab_size=own_vocab or VOCAB, norm_before_fc=norm_fc, norm_before_residual=norm_residual)
    if own_table:
        config |= dict(architectures=["Eagle3Speculator"], transformer_layer_config=layer,
                       eagle_aux_hidden_state_layer_ids=layers)
    else:
        config |= dict(layer, architectures=["LlamaForCausalLM"],
                       eagle_config=dict(eagle_aux_hidden_state_layer_ids=[il - 1 for il in layers]))
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "model.safetensors")


def check(ridge):
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write(folder / "model.gguf", "llama", 64, LAYERS, model_tensors())
        for kind in KINDS:
            write(folder / "head.gguf", "eagle3", kind[1], 1, head_tensors(kind), kind)
            write_checkpoint(folder / "head", kind)
            subprocess.run([ridge, "convert", folder / "head", "-o", folder / "converted.gguf"], check=True,
                           stdout=subprocess.DEVNULL)
            wanted = draft_logits(kind, IDS)[:-1]
            for head in ("head", "converted"):
                subprocess.run([ridge, "logits", "-m", folder / "model.gguf", "--mtp", "--draft-model",
                                folder / f"{head}.gguf", "--exact", "--device", "cpu", "--ids",
                                ",".join(map(str, IDS)), "--out", folder / "x.npy"], check=True)
                found = np.load(folder / "x.npy")[1:]
                known = wanted > NEVER / 2
                assert (found[~known] < NEVER / 2).all()
                error = ((found - wanted)[known] ** 2).sum() / (wanted[known] ** 2).sum()
                worst = max(worst, error)
                print(f"{kind[0]:8} {head:10} NMSE {error:.1e}")
    sys.exit(0 if worst < 1e-9 else "wrong logits")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ridge", nargs="?")
    parser.add_argument("--golden", type=pathlib.Path)
    args = parser.parse_args()
    if args.golden:
        args.golden.write_bytes(b"".join(draft_logits(kind, IDS).astype(np.float32).tobytes() for kind in KINDS))
    else:
        check(args.ridge)


if __name__ == "__main__":
    main()
