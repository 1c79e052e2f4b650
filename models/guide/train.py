#!/usr/bin/env python3
"""Trains the built-in guide: corpus -> tokenizer -> llama model -> Hugging Face folder.

    train.py OUT_DIR [--steps 3000] [--seed 1]

Needs torch, transformers, tokenizers and a GPU for a few minutes (see README.md). ridge converts the folder:

    ridge convert OUT_DIR -o guide-f16.gguf && ridge quantize guide-f16.gguf guide.gguf Q6_K

Rows are 1024 tokens of concatenated conversations, so that every position is trained. The user's tokens have a small
weight in the loss (kUserWeight), because questions are deliberately noisy.
"""

import argparse
import math
import multiprocessing
import pathlib
import random
import time

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import make_corpus
from score import grade

kVocabulary = 4096
kContext = 1024
kUserWeight = 0.1
kConversations = 400_000
# qwen2's pattern, which splits numbers into digits
kPattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
kTemplate = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
             "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def conversations(job):
    seed, count = job
    corpus, rng = make_corpus.Corpus(), random.Random(seed)
    return [corpus.conversation(rng) for _ in range(count)]


def train_tokenizer(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(kPattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=kVocabulary, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"]))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>",
                                   chat_template=kTemplate, model_max_length=kContext, clean_up_tokenization_spaces=False)


def rows(tokenizer, all_conversations):
    """Ids [n, 1025] and their weights as targets."""
    turns = [(turn["role"] == "assistant", turn["content"]) for c in all_conversations for turn in c]
    encoded = tokenizer.backend_tokenizer.encode_batch_fast([text for _, text in turns], add_special_tokens=False)
    start, end = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    word = {role: tokenizer.encode(role, add_special_tokens=False) for role in ("user", "assistant")}
    newline = tokenizer.encode("\n", add_special_tokens=False)
    heads = {True: [start, *word["assistant"], *newline], False: [start, *word["user"], *newline]}
    ids, weights = [], []
    for (ours, _), e in zip(turns, encoded):
        body = e.ids + [end]
        ids += heads[ours] + body + newline
        weights += [0] * len(heads[ours]) + [1.0 if ours else kUserWeight] * len(body) + [0] * len(newline)
    n = (len(ids) - 1) // kContext
    cut = lambda x, kind: torch.tensor(x[:n * kContext + 1], dtype=kind).unfold(0, kContext + 1, kContext)
    return cut(ids, torch.int16), cut(weights, torch.float16)


def answers(model, tokenizer, questions, most=96):
    """Greedy answers in one batch, without a cache."""
    stop = tokenizer.convert_tokens_to_ids("<|im_end|>")
    texts = [tokenizer.encode(f"<|im_start|>user\n{q}<|im_end|>\n<|im_start|>assistant\n", add_special_tokens=False) for q in questions]
    out = [[] for _ in texts]
    length = max(map(len, texts)) + most
    ids = torch.zeros(len(texts), length, dtype=torch.long, device="cuda")
    ends = torch.tensor([len(t) for t in texts], device="cuda")
    for i, t in enumerate(texts):
        ids[i, :len(t)] = torch.tensor(t)
    done = [False] * len(texts)
    for _ in range(most):
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
            logits = model(ids).logits
        best = logits[torch.arange(len(texts)), ends - 1].argmax(-1)
        ids[torch.arange(len(texts)), ends] = best
        ends += 1
        for i, token in enumerate(best.tolist()):
            done[i] = done[i] or token == stop
            if not done[i]:
                out[i].append(token)
        if all(done):
            break
    return [tokenizer.decode(o) for o in out]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--batch", type=int, default=64, help="rows of 1024 tokens")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    begin = time.time()
    jobs = [(f"{args.seed}/{i}", kConversations // 64) for i in range(64)]
    with multiprocessing.Pool() as pool:
        parts = pool.map(conversations, jobs)
    everything = [c for part in parts for c in part]
    tokenizer = train_tokenizer(turn["content"] for part in parts[:8] for c in part for turn in c)
    ids, weights = rows(tokenizer, everything)
    print(f"{len(everything)} conversations, {ids.numel() / 1e6:.1f} M tokens, vocabulary {len(tokenizer)}, {time.time() - begin:.0f} s", flush=True)

    config = LlamaConfig(vocab_size=kVocabulary, hidden_size=512, intermediate_size=768, num_hidden_layers=5, num_attention_heads=8,
                         num_key_value_heads=2, max_position_embeddings=kContext, rms_norm_eps=1e-5, rope_theta=10000.0,
                         tie_word_embeddings=True, bos_token_id=None, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id)
    model = LlamaForCausalLM(config).cuda()
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters", flush=True)
    matrices = [p for p in model.parameters() if p.ndim == 2]
    vectors = [p for p in model.parameters() if p.ndim == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
                                  lr=args.rate, betas=(0.9, 0.98), fused=True)
    ids, weights = ids.cuda(), weights.cuda()

    @torch.compile
    def loss_of(x, y, w):
        logits = model(x).logits.float()
        losses = torch.nn.functional.cross_entropy(logits.view(-1, kVocabulary), y.reshape(-1), reduction="none")
        return (losses * w.reshape(-1)).sum() / w.sum()

    generator = torch.Generator().manual_seed(args.seed)
    order = torch.randperm(len(ids), generator=generator)
    begin, at = time.time(), 0
    for step in range(args.steps):
        if at + args.batch > len(order):
            order, at = torch.randperm(len(ids), generator=generator), 0
        batch, at = order[at:at + args.batch].cuda(), at + args.batch
        x = ids[batch].long()
        rate = args.rate * min(1.0, (step + 1) / 100) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / args.steps)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        with torch.autocast("cuda", torch.bfloat16):
            loss = loss_of(x[:, :-1], x[:, 1:], weights[batch][:, 1:].float())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if (step + 1) % max(1, args.steps // 10) == 0:
            done = (step + 1) * args.batch * kContext
            print(f"step {step + 1} loss {loss.item():.4f}, {done / 1e6:.0f} M tokens, {time.time() - begin:.0f} s", flush=True)
    model.eval()
    model.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)
    grade(lambda questions: answers(model, tokenizer, questions))
    for q in ("hello", "what is q4_k", "tell me a story about a fox", "What does GQA save?", "who is Bob Dylan?", "tell me a joke"):
        print(f"> {q}\n{answers(model, tokenizer, [q])[0]}")


if __name__ == "__main__":
    main()
