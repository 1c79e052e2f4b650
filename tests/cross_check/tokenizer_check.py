"""Checks the tokenizers that `ridge convert` carries over: tokenizer_check.py RIDGE. Trains small ones with Hugging
Face's tokenizers and with sentencepiece, and compares ids on texts of many kinds."""
import json
import pathlib
import random
import sys
import tempfile

import numpy as np
import sentencepiece as spm
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import checkpoints as ck
from import_check import run

HERE = pathlib.Path(__file__).resolve().parent
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
TEXTS = [
    "Hello world", " leading", "two  spaces   three", "trailing \n\n", "I'd've DON'T we'll 12345 3.14 a1b22",
    "caf\u00e9 \u4f60\u597d \u3053\u3093\u306b\u3061\u306f \u041f\u0440\u0438\u0432\u0435\u0442 \U0001f600 \u0e2a\u0e27\u0e31\u0e2a",
    "for (int i = 0; i < n; ++i) { x[i] += 'a'; }\t// tab\r\nend", "<|end|>not special <|end", "\n \n\t x!!! ...??",
]


def corpus():
    root = HERE.parent.parent
    return [p.read_text() for pattern in ("docs/**/*.md", "models/*.cpp", "README.md") for p in root.glob(pattern)]


def bpe(pre, **more):
    tokenizer = Tokenizer(models.BPE(**more))
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=1200, special_tokens=["<|begin|>", "<|end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def hf_cases():
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    yield "gpt-2", bpe(level)
    yield "smollm", bpe(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), level]))
    yield "llama-bpe", bpe(split(LLAMA3 % r"\p{N}{1,3}"), ignore_merges=True)
    yield "dbrx", bpe(split(LLAMA3 % r"\p{N}{1,3}"))
    qwen = bpe(split(LLAMA3 % r"\p{N}"))
    qwen.normalizer = normalizers.NFC()
    yield "qwen2", qwen
    with_bos = bpe(split(LLAMA3 % r"\p{N}{1,3}"), ignore_merges=True)
    with_bos.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", 0)])])
    with_bos.add_tokens([AddedToken("<think>", normalized=False)])
    yield "llama-bpe, BOS", with_bos


def sentencepiece_cases(tmp):
    (tmp / "corpus.txt").write_text("\n".join(corpus()))
    for kind, more in (("bpe", {}), ("unigram", {"normalization_rule_name": "nfkc"})):
        spm.SentencePieceTrainer.train(input=str(tmp / "corpus.txt"), model_prefix=str(tmp / kind), model_type=kind,
                                       vocab_size=700, byte_fallback=True, character_coverage=0.995,
                                       minloglevel=2, **({"normalization_rule_name": "identity",
                                                          "remove_extra_whitespaces": False} | more))
        yield kind, (tmp / f"{kind}.model")


def as_tokenizer_json(model_path):
    """The SentencePiece BPE model in tokenizers' format, as transformers' converter writes it."""
    sp = spm.SentencePieceProcessor(str(model_path))
    vocab = {sp.id_to_piece(i): i for i in range(sp.vocab_size())}
    merges = []
    for piece, rank in vocab.items():
        local = [(piece[:i], piece[i:]) for i in range(1, len(piece)) if piece[:i] in vocab and piece[i:] in vocab]
        if not sp.is_control(rank) and not sp.is_byte(rank) and not sp.is_unknown(rank):
            merges += sorted(local, key=lambda m: (vocab[m[0]], vocab[m[1]]))
    tokenizer = Tokenizer(models.BPE(vocab, merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


def ids_of(ridge, gguf, text, *flags):
    path = gguf.with_suffix(".txt")
    path.write_bytes(text.encode())
    return [int(i) for i in run(ridge, "tokenize", "-m", gguf, "-f", path, "--ids", *flags).split()]


def make(folder, ridge, vocab, settings, **files):
    config = ck.base_config("LlamaForCausalLM", vocab_size=vocab, num_hidden_layers=1)
    ck.save(folder, config, ck.random_weights(config, np.random.default_rng(0)))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_bytes(content)
    run(ridge, "convert", folder, "-o", folder / "out.gguf")
    return folder / "out.gguf"


def compare(name, ridge, gguf, encode, flags, texts):
    wrong = [t for t in texts if ids_of(ridge, gguf, t, *flags) != encode(t)]
    print(f"{name:32} {len(texts) - len(wrong)} of {len(texts)} texts")
    for t in wrong[:3]:
        print("  ", repr(t[:60]), ids_of(ridge, gguf, t, *flags)[:30], encode(t)[:30])
    return not wrong


def main():
    ridge = sys.argv[1]
    rng = random.Random(1)
    texts = TEXTS + [d[a:a + 300] for d in corpus() for a in [rng.randrange(max(1, len(d) - 300))]]
    good = True
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        for name, tokenizer in hf_cases():
            gguf = make(tmp / name.replace(", ", "_"), ridge, tokenizer.get_vocab_size() + 30, {"eos_token": "<|end|>"},
                        tokenizer__json=tokenizer.to_str().encode())
            special = name.endswith("BOS")  # tokenizers always matches special tokens
            good &= compare(name, ridge, gguf, lambda t: tokenizer.encode(t).ids,
                            ["--special"], texts + (["<think>a</think><|end|>"] if special else []))
        for kind, model in sentencepiece_cases(tmp):
            sp = spm.SentencePieceProcessor(str(model))
            gguf = make(tmp / ("sp_" + kind), ridge, sp.vocab_size() + 1, {"add_bos_token": False},
                        tokenizer__model=model.read_bytes())
            good &= compare(f"tokenizer.model, {kind}", ridge, gguf, lambda t: sp.encode(t), ["--no-bos"], texts)
            if kind == "bpe":
                tokenizer = as_tokenizer_json(model)
                gguf = make(tmp / "sp_json", ridge, sp.vocab_size(), {"bos_token": "<s>", "eos_token": {"content": "</s>"}},
                            tokenizer__json=tokenizer.to_str().encode())
                good &= compare("the same as tokenizer.json", ridge, gguf, lambda t: tokenizer.encode(t).ids,
                                ["--no-bos"], texts)
    if not good:
        raise SystemExit("ids differ")


if __name__ == "__main__":
    main()
