#!/usr/bin/env python3
"""Trains the guide's draft: an EAGLE-3 head that guesses what the guide says next (docs/speculation.md).

    train_draft.py OUT.gguf [--tokens 160000] [--epochs 4] [--seed 1] [--threads 1]

Needs torch, transformers, tokenizers and gguf; a CPU suffices (see README.md). The guide is unchanged: it reads
conversations once, and the head learns its probabilities from rows of three layers. As in EAGLE-3, the head is trained
on its own rows for a few steps, which it also uses to guess several tokens.

Row i combines token i and the guide's rows of token i - 1. It predicts token i + 1.
"""

import argparse
import math
import pathlib
import random
import time

import gguf
import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import make_corpus
from train import kPattern, rows

HERE = pathlib.Path(__file__).parent
kLayers = [2, 4, 5]  # layers whose inputs the head takes; 5: the last output
kWidth, kHeads, kHeadDim, kFfn = 96, 3, 32, 256
kDraftVocabulary = 1024
kRow, kBatch = 512, 2
kSteps = 3        # consecutive guesses trained
kLaterStep = 0.8  # relative weight of each further guess
kEpsilon = 1e-5
kHeldOut = 16 * kRow  # tokens for measurement, of questions not trained on


def rms(x, weight):
    return F.rms_norm(x, x.shape[-1:], weight, kEpsilon)


def rope(x, positions):
    """Rotates elements (0,1) (2,3) ... of x [batch, heads, rows, dim]."""
    half = x.shape[-1] // 2
    angles = positions[:, None] * 10000.0 ** (-torch.arange(half) / half)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), -1).flatten(-2)


class Guide:
    """The committed file, in f32."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.w = {t.name: torch.from_numpy(gguf.dequantize(t.data, t.tensor_type).copy()) for t in reader.tensors}
        field = lambda key: reader.fields[key].contents()
        self.layers, self.heads, self.kv_heads = (field(f"llama.{k}") for k in ("block_count", "attention.head_count", "attention.head_count_kv"))
        tokens, merges = field("tokenizer.ggml.tokens"), field("tokenizer.ggml.merges")
        tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges]))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(kPattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer)

    @torch.no_grad()
    def read(self, ids):
        """Concatenated rows of kLayers, and logits."""
        w, (batch, length) = self.w, ids.shape
        x, kept = w["token_embd.weight"][ids], {}
        positions = torch.arange(length).float()
        for il in range(self.layers):
            kept[il] = x
            of = lambda name: w[f"blk.{il}.{name}.weight"]
            h = rms(x, of("attn_norm"))
            q, k, v = (F.linear(h, of(f"attn_{n}")).view(batch, length, -1, 64).transpose(1, 2) for n in "qkv")
            a = F.scaled_dot_product_attention(rope(q, positions), rope(k, positions), v, is_causal=True, enable_gqa=True)
            x = x + F.linear(a.transpose(1, 2).flatten(2), of("attn_output"))
            h = rms(x, of("ffn_norm"))
            x = x + F.linear(F.silu(F.linear(h, of("ffn_gate"))) * F.linear(h, of("ffn_up")), of("ffn_down"))
        kept[self.layers] = x
        return torch.cat([kept[il] for il in kLayers], -1), F.linear(rms(x, w["output_norm.weight"]), w["token_embd.weight"])


class Head(torch.nn.Module):
    def __init__(self, embedding, words):
        super().__init__()
        target = embedding.shape[1]
        matrix = lambda rows, cols: torch.nn.Parameter(torch.randn(rows, cols) / math.sqrt(cols))
        ones = lambda n: torch.nn.Parameter(torch.ones(n))
        _, _, directions = torch.linalg.svd(embedding, full_matrices=False)
        table = embedding @ directions[:kWidth].T  # projects the guide's embeddings to kWidth
        table /= table.std()
        self.names, values = zip(*{
            "token_embd.weight": torch.nn.Parameter(table),
            "enc.output_norm.weight": ones(len(kLayers) * target),
            "fc.weight": matrix(kWidth, len(kLayers) * target),
            "blk.0.attn_norm.weight": ones(kWidth),
            "blk.0.attn_norm_2.weight": ones(kWidth),
            "blk.0.attn_q.weight": matrix(kHeads * kHeadDim, 2 * kWidth),
            "blk.0.attn_k.weight": matrix(kHeadDim, 2 * kWidth),
            "blk.0.attn_v.weight": matrix(kHeadDim, 2 * kWidth),
            "blk.0.attn_output.weight": matrix(kWidth, kHeads * kHeadDim),
            "blk.0.ffn_norm.weight": ones(kWidth),
            "blk.0.ffn_gate.weight": matrix(kFfn, kWidth),
            "blk.0.ffn_up.weight": matrix(kFfn, kWidth),
            "blk.0.ffn_down.weight": matrix(kWidth, kFfn),
            "output_norm.weight": ones(kWidth),
            "output.weight": torch.nn.Parameter(table[words] / math.sqrt(kWidth)),
        }.items())
        self.values = torch.nn.ParameterList(values)

    def __getitem__(self, name):
        return self.values[self.names.index(name + ".weight")]

    def fuse(self, features):
        return F.linear(rms(features, self["enc.output_norm"]), self["fc"])

    def step(self, ids, hidden, before):
        """Logits and hidden rows of all tokens. Appends keys and values to `before`, those of earlier steps."""
        batch, length = ids.shape
        place, w = len(before), lambda name: self[f"blk.0.{name}"]
        x = torch.cat((rms(self["token_embd"][ids], w("attn_norm")), rms(hidden, w("attn_norm_2"))), -1)
        positions = torch.arange(length).float()
        heads = lambda name: F.linear(x, w(name)).view(batch, length, -1, kHeadDim).transpose(1, 2)
        q, k, v = rope(heads("attn_q"), positions), rope(heads("attn_k"), positions), heads("attn_v")
        before.append((k, v))
        # Rows from the guide, up to `place` rows before; then one row of each further step, this one last.
        scores = [(q @ before[0][0].transpose(-1, -2)).masked_fill(
            torch.ones(length, length, dtype=torch.bool).tril(-place).logical_not(), -1e30)]
        back = lambda rows, count: F.pad(rows, (0, 0, count, 0))[:, :, :length]
        for i in range(1, place + 1):
            scores.append((q * back(before[i][0], place - i)).sum(-1, keepdim=True))
        shares = (torch.cat(scores, -1) / math.sqrt(kHeadDim)).softmax(-1)
        out = shares[..., :length] @ before[0][1]
        for i in range(1, place + 1):
            out = out + shares[..., length + i - 1, None] * back(before[i][1], place - i)
        x = hidden + F.linear(out.transpose(1, 2).flatten(2), w("attn_output"))
        h = rms(x, w("ffn_norm"))
        x = x + F.linear(F.silu(F.linear(h, w("ffn_gate"))) * F.linear(h, w("ffn_up")), w("ffn_down"))
        return F.linear(rms(x, self["output_norm"]), self["output"]), x

    def write(self, path, words, target):
        writer = gguf.GGUFWriter(path, "eagle3")
        writer.add_type("model")
        writer.add_name("the guide's draft")
        writer.add_block_count(1)
        writer.add_context_length(1024)
        writer.add_embedding_length(kWidth)
        writer.add_feed_forward_length(kFfn)
        writer.add_head_count(kHeads)
        writer.add_head_count_kv(1)
        writer.add_key_length(kHeadDim)
        writer.add_value_length(kHeadDim)
        writer.add_rope_dimension_count(kHeadDim)
        writer.add_rope_freq_base(10000.0)
        writer.add_layer_norm_rms_eps(kEpsilon)
        writer.add_array("eagle3.target_layers", kLayers)
        writer.add_uint32("eagle3.target_hidden_size", target)
        writer.add_bool("eagle3.norm_before_fc", True)
        writer.add_bool("eagle3.norm_before_residual", False)
        writer.add_tokenizer_model("none")
        for name, value in zip(self.names, self.values):
            data = value.detach().numpy()
            if data.ndim == 1:
                writer.add_tensor(name, data)
            else:
                kind = gguf.GGMLQuantizationType.Q8_0
                writer.add_tensor(name, gguf.quantize(data, kind), raw_dtype=kind)
        writer.add_tensor("d2t", words.numpy().astype(np.int64), raw_dtype=gguf.GGMLQuantizationType.I64)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def losses_of(head, ids, features, wanted, counts):
    """Per step: the loss, and the share of guesses that are right along with all before them."""
    # The head starts with the second token, because the first has no previous row.
    ids, hidden, wanted, counts = ids[:, 1:], head.fuse(features[:, :-1]), wanted[:, 1:], counts[:, 1:]
    length, before, found = ids.shape[1], [], []
    right = together = torch.ones_like(counts)  # indexed by the first guess's row
    for step in range(kSteps):
        logits, own = head.step(ids, hidden, before)
        student, teacher, counted = logits[:, step:], wanted[:, step:].float(), counts[:, step:]
        right = right[:, :length - step] & (student.argmax(-1) == teacher.argmax(-1))
        together = together[:, :length - step] & counted
        loss = -(teacher * student.log_softmax(-1)).sum(-1)
        found.append((loss[counted].mean(), right[together].float().mean().item()))
        hidden = F.pad(own[:, :-1], (0, 0, 1, 0))
    return found


def conversations(guide, seed, tokens, held_out=False):
    """Corpus tokens [rows, kRow], and whether the next token is the guide's."""
    corpus, rng = make_corpus.Corpus(), random.Random(f"draft/{seed}")
    count = tokens // kRow
    texts, weights = rows(guide.tokenizer, [corpus.conversation(rng, held_out) for _ in range(tokens // 60)])
    cut = lambda x: x[:, :-1].reshape(-1, kRow)[:count]
    return cut(texts.long()), F.pad(cut(weights)[:, 1:] == 1, (0, 1))


def read(guide, ids, words):
    """The guide's rows for the head, and its probabilities."""
    features, wanted = [], []
    for at in range(0, len(ids), kBatch):
        rows_of_layers, logits = guide.read(ids[at:at + kBatch])
        features.append(rows_of_layers.half())
        wanted.append(logits.softmax(-1)[..., words].half())
    return torch.cat(features), torch.cat(wanted)


def shown(sums, count):
    return "loss " + " ".join(f"{loss / count:.3f}" for loss, _ in sums) + ", right " + " ".join(f"{right / count:.3f}" for _, right in sums)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=160_000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    begin = time.time()
    guide = Guide(HERE / "guide.gguf")
    table = guide.w["token_embd.weight"]
    ids, ours = conversations(guide, args.seed, args.tokens)
    words = torch.bincount(ids[:, 1:][ours[:, :-1]], minlength=len(table))
    words = words.topk(kDraftVocabulary).indices.sort().values  # the guide's most frequent ones
    features, wanted = read(guide, ids, words)
    print(f"{ids.numel()} tokens, {wanted.float().sum(-1)[ours].mean():.4f} of what the guide says is in the draft's vocabulary,"
          f" {time.time() - begin:.0f} s", flush=True)

    head = Head(table, words)
    print(f"{sum(p.numel() for p in head.parameters())} weights", flush=True)
    optimizer = torch.optim.AdamW(head.parameters(), lr=args.rate, betas=(0.9, 0.98), weight_decay=0.01)
    batches = len(ids) // kBatch
    steps = args.epochs * batches
    every = max(1, steps // 20)
    for step in range(steps):
        if step % batches == 0:
            order = torch.randperm(len(ids))
        if step % every == 0:
            sums = torch.zeros(kSteps, 2)
        batch = order[step % batches * kBatch:][:kBatch]
        for group in optimizer.param_groups:
            group["lr"] = args.rate * min(1.0, (step + 1) / 50) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / steps)))
        found = losses_of(head, ids[batch], features[batch].float(), wanted[batch], ours[batch])
        sum(kLaterStep**i * loss for i, (loss, _) in enumerate(found)).backward()
        torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        sums += torch.tensor([(loss.item(), right) for loss, right in found])
        if (step + 1) % every == 0:
            print(f"step {step + 1} of {steps}: {shown(sums, every)}, {time.time() - begin:.0f} s", flush=True)
    head.write(args.out, words, table.shape[1])

    ids, ours = conversations(guide, args.seed, kHeldOut, held_out=True)
    features, wanted = read(guide, ids, words)
    sums = torch.zeros(kSteps, 2)
    with torch.no_grad():
        for i in range(0, len(ids), kBatch):
            found = losses_of(head, ids[i:i + kBatch], features[i:i + kBatch].float(), wanted[i:i + kBatch], ours[i:i + kBatch])
            sums += torch.tensor([(loss.item(), right) for loss, right in found])
    print(f"held-out questions: {shown(sums, len(ids) / kBatch)}")


if __name__ == "__main__":
    main()
