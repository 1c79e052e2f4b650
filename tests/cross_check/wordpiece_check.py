#!/usr/bin/env python3
"""WordPiece against Hugging Face's tokenizers: the same ids for thousands of random texts of all scripts.

    pip install tokenizers
    tests/cross_check/wordpiece_check.py build/nocuda/ridge [TEXTS [SEED]]
"""

import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import BertWordPieceTokenizer

SEPARATOR = "zqseparatorzq"  # a word between texts, so that one run tokenizes them all
MARK = "\u2581"
SPACES = " \t\n\r\u00a0\u2003\u3000\u2028\x0b\x85"
ODD = "\x00\x01\x7f\ufffd\u200b\u200d\ufeff\u00ad\u0301\u0327\u0130\u1e9e\u00c5\u212b\uac00\u1112\u1161\ue000"


def make_vocabulary(rng):
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,;!?-'\"()[]{}<>#@&%$*+=/\\|~^_`"
    letters += "äöüßéèñçαβγδωабвгдежñ你好世界漢字あいうアイウ한국ㄱ가أبتשלוםनमस्ते☃€√∑😀"
    words = {"".join(rng.choices(letters, k=rng.randint(2, 6))) for _ in range(600)}
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", SEPARATOR]
    for piece in sorted(set(letters) | words):
        vocabulary += [piece, "##" + piece] if rng.random() < 0.9 else [piece]
    return list(dict.fromkeys(vocabulary))


def write_gguf(path, vocabulary, lowercase):
    def text(s):
        data = s.encode()
        return struct.pack("<Q", len(data)) + data

    def key(name, kind, data):
        return text(name) + struct.pack("<I", kind) + data

    def marked(token):  # as converters write WordPiece: words begin with a mark, pieces within lose theirs
        if token.startswith("[") and token.endswith("]") and len(token) > 2 and token[1:-1].isupper():
            return token
        return token[2:] if token.startswith("##") and len(token) > 2 else MARK + token

    tokens = [marked(t) for t in vocabulary]
    kinds = [3 if t == v else 1 for t, v in zip(tokens, vocabulary)]
    keys = [
        key("general.architecture", 8, text("bert")),
        key("tokenizer.ggml.model", 8, text("bert")),
        key("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, len(tokens)) + b"".join(map(text, tokens))),
        key("tokenizer.ggml.token_type", 9, struct.pack("<IQ", 5, len(kinds)) + struct.pack(f"<{len(kinds)}i", *kinds)),
        key("tokenizer.ggml.unknown_token_id", 4, struct.pack("<I", 1)),
        key("tokenizer.ggml.bos_token_id", 4, struct.pack("<I", 2)),
        key("tokenizer.ggml.seperator_token_id", 4, struct.pack("<I", 3)),
    ]
    if not lowercase:
        keys.append(key("tokenizer.ggml.normalizer.lowercase", 7, b"\x00"))
    path.write_bytes(struct.pack("<IIQQ", 0x46554747, 3, 0, len(keys)) + b"".join(keys))


def random_text(rng, vocabulary):
    parts = []
    for _ in range(rng.randint(0, 12)):
        kind = rng.random()
        if kind < 0.45:
            word = rng.choice(vocabulary[6:]).removeprefix("##")
            parts.append(word.upper() if rng.random() < 0.2 else word)
        elif kind < 0.6:
            parts.append(rng.choice(SPACES))
        elif kind < 0.65:
            parts.append(rng.choice(ODD))
        elif kind < 0.8:
            parts.append(chr(rng.randint(0x20, 0x2FF)))
        else:
            c = chr(rng.choice([rng.randint(0x300, 0xD7FF), rng.randint(0xE000, 0xFFFD), rng.randint(0x10000, 0x2FA1F)]))
            if unicodedata.ucd_3_2_0.category(c) != "Cn":  # what is assigned depends on the version of Unicode
                parts.append(c)
        if rng.random() < 0.3:
            parts.append(" ")
    return "".join(parts)


def ids_between(ids, separator):
    texts, now = [], []
    for i in ids:
        if i == separator:
            texts.append(now)
            now = []
        else:
            now.append(i)
    return texts + [now]


def main():
    ridge = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 5000
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    rng = random.Random(seed)
    vocabulary = make_vocabulary(rng)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        texts = [random_text(rng, vocabulary) for _ in range(count)]
        (pathlib.Path(folder) / "texts").write_text(f" {SEPARATOR} ".join(texts), encoding="utf-8", newline="")
        (pathlib.Path(folder) / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
        for lowercase in (True, False):
            model = pathlib.Path(folder) / "model.gguf"
            write_gguf(model, vocabulary, lowercase)
            theirs = BertWordPieceTokenizer(str(pathlib.Path(folder) / "vocab.txt"), lowercase=lowercase)
            out = subprocess.run(
                [ridge, "tokenize", "-m", model, "-f", pathlib.Path(folder) / "texts", "--ids", "--no-bos"],
                capture_output=True, text=True, check=True,
            ).stdout
            ours = ids_between(map(int, out.split()), vocabulary.index(SEPARATOR))
            assert len(ours) == len(texts), (len(ours), len(texts))
            for text, ids in zip(texts, ours):
                expected = theirs.encode(text, add_special_tokens=False).ids
                if ids != expected:
                    wrong += 1
                    if wrong <= 10:
                        print(f"{text!r}: {ids}, expected {expected}")
    print(f"{2 * count} texts, {wrong} differ (seed {seed})")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
