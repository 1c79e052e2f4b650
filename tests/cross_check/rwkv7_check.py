"""Checks RWKV 7 from checkpoint to logits: rwkv7_check.py RIDGE. A small random checkpoint with the names and the
config.json of flash-linear-attention, whose kernels need a GPU, and the plain PyTorch form of that model. Needs torch."""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

BOUND = 1e-9
VOCAB, WIDTH, DIM, LAYERS, HIDDEN = 96, 128, 64, 3, 160
RANKS = dict(w=24, a=16, v=8, g=32)
IDS = [1, 2, 3, 60, 70, 80, 17, 42, 90, 28, 7, 9, 31, 5, 5, 80, 11, 33, 64, 50]
CONFIG = dict(architectures=["RWKV7ForCausalLM"], model_type="rwkv7", vocab_size=VOCAB, hidden_size=WIDTH, head_dim=DIM,
              num_hidden_layers=LAYERS, intermediate_size=HIDDEN, hidden_ratio=4.0, norm_eps=1e-5, norm_first=True,
              norm_bias=True, hidden_act="sqrelu", decay_low_rank_dim=RANKS["w"], a_low_rank_dim=RANKS["a"],
              v_low_rank_dim=RANKS["v"], gate_low_rank_dim=RANKS["g"], max_position_embeddings=256,
              tie_word_embeddings=False, attn=None)


def random_checkpoint():
    tensors = {}

    def add(name, *shape, offset=0.0, scale=0.3):
        tensors[name] = offset + torch.randn(*shape) * scale

    def linear(name, rows, cols):
        add(f"{name}.weight", rows, cols, scale=cols**-0.5)

    def norm(name):
        add(f"{name}.weight", WIDTH, offset=1)
        add(f"{name}.bias", WIDTH)

    linear("model.embeddings", VOCAB, WIDTH)
    linear("lm_head", VOCAB, WIDTH)
    norm("model.norm")
    norm("model.layers.0.pre_norm")
    for il in range(LAYERS):
        layer = f"model.layers.{il}"
        for name in ("attn_norm", "ffn_norm", "attn.g_norm"):
            norm(f"{layer}.{name}")
        for which in "rwkvag":
            add(f"{layer}.attn.x_{which}", 1, 1, WIDTH, offset=0.5)
        for which in "rkvo":
            linear(f"{layer}.attn.{which}_proj", WIDTH, WIDTH)
        for which, rank in RANKS.items():
            if which == "v" and il == 0:
                continue
            linear(f"{layer}.attn.{which}_lora.lora.0", rank, WIDTH)
            linear(f"{layer}.attn.{which}_lora.lora.2", WIDTH, rank)
            if which != "g":
                add(f"{layer}.attn.{which}_lora.lora.2.bias", WIDTH)
        add(f"{layer}.attn.k_k", WIDTH, offset=0.7)
        add(f"{layer}.attn.k_a", WIDTH, offset=1)
        add(f"{layer}.attn.r_k", WIDTH // DIM, DIM)
        add(f"{layer}.ffn.x_k", WIDTH, offset=0.5)
        linear(f"{layer}.ffn.key", HIDDEN, WIDTH)
        linear(f"{layer}.ffn.value", WIDTH, HIDDEN)
    return tensors


def logits(tensors, ids):
    w = {name: tensor.double() for name, tensor in tensors.items()}

    def norm(x, name):
        return F.layer_norm(x, (WIDTH,), w[f"{name}.weight"], w[f"{name}.bias"], 1e-5)

    def lora(x, name, activation):
        return F.linear(activation(F.linear(x, w[f"{name}.lora.0.weight"])), w[f"{name}.lora.2.weight"],
                        w.get(f"{name}.lora.2.bias"))

    def shifted(x):
        return F.pad(x, (0, 0, 1, -1)) - x

    def attention(x, layer, first):
        x_of = {c: x + shifted(x) * w[f"{layer}.x_{c}"].flatten() for c in "rwkvag"}
        r, k, v = (F.linear(x_of[c], w[f"{layer}.{c}_proj.weight"]) for c in "rkv")
        decay = torch.exp(-np.exp(-0.5) * torch.sigmoid(lora(x_of["w"], f"{layer}.w_lora", torch.tanh)))
        identity = lambda x: x
        if first is None:
            first = v
        else:
            v = torch.lerp(v, first, torch.sigmoid(lora(x_of["v"], f"{layer}.v_lora", identity)))
        a = torch.sigmoid(lora(x_of["a"], f"{layer}.a_lora", identity))
        g = lora(x_of["g"], f"{layer}.g_lora", torch.sigmoid)
        heads = lambda x: x.view(len(ids), -1, DIM)
        kk = F.normalize(heads(k * w[f"{layer}.k_k"]), dim=-1)
        k = k + k * (a - 1) * w[f"{layer}.k_a"]
        r, decay, k, v, a = map(heads, (r, decay, k, v, a))
        state = torch.zeros(WIDTH // DIM, DIM, DIM, dtype=torch.float64)  # of v, of k
        out = []
        for t in range(len(ids)):
            found = torch.einsum("hvk,hk->hv", state, -kk[t])
            state = (state * decay[t][:, None] + found[..., None] * (kk[t] * a[t])[:, None]
                     + v[t][..., None] * k[t][:, None])
            out.append(torch.einsum("hvk,hk->hv", state, r[t]).flatten())
        y = F.group_norm(torch.stack(out), WIDTH // DIM, w[f"{layer}.g_norm.weight"], w[f"{layer}.g_norm.bias"],
                         DIM * 1e-5)
        y = y + ((r * k * w[f"{layer}.r_k"]).sum(-1, keepdim=True) * v).flatten(1)
        return F.linear(y * g, w[f"{layer}.o_proj.weight"]), first

    x = norm(w["model.embeddings.weight"][ids], "model.layers.0.pre_norm")
    first = None
    for il in range(LAYERS):
        layer = f"model.layers.{il}"
        mixed, first = attention(norm(x, f"{layer}.attn_norm"), f"{layer}.attn", first)
        x = x + mixed
        y = norm(x, f"{layer}.ffn_norm")
        hidden = F.relu(F.linear(y + shifted(y) * w[f"{layer}.ffn.x_k"], w[f"{layer}.ffn.key.weight"])) ** 2
        x = x + F.linear(hidden, w[f"{layer}.ffn.value.weight"])
    return F.linear(norm(x, "model.norm"), w["lm_head.weight"]).numpy()


def main():
    ridge = sys.argv[1]
    torch.manual_seed(1)
    tensors = random_checkpoint()
    expected = logits(tensors, IDS)
    with tempfile.TemporaryDirectory() as tmp:
        folder = pathlib.Path(tmp)
        save_file(tensors, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(CONFIG))
        for args in (["convert", folder, "-o", folder / "out.gguf"],
                     ["logits", "-m", folder / "out.gguf", "--ids", ",".join(map(str, IDS)), "--out",
                      folder / "out.npy", "--device", "cpu", "--exact"]):
            done = subprocess.run([ridge, *map(str, args)], capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemExit(done.stderr.strip())
        found = np.load(folder / "out.npy")
    error = ((found - expected) ** 2).sum() / (expected**2).sum()
    print(f"RWKV7ForCausalLM {error:.1e}")
    if not error <= BOUND:
        raise SystemExit("differs")


if __name__ == "__main__":
    main()
