"""Checks `ridge convert` against transformers: transformers_check.py RIDGE. Small random models, saved by
save_pretrained, and their logits in float32. Needs torch and transformers."""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers

IDS = [1, 2, 3, 100, 200, 250, 17, 42, 99, 128, 7, 9, 301, 5, 5, 80]
COMMON = dict(hidden_size=128, intermediate_size=192, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, vocab_size=320, max_position_embeddings=512)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64, rope_theta=10000.0)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=128, rope_theta=10000.0)
CASES = [
    ("Llama", {}), ("Llama", dict(rope_scaling=LLAMA3, head_dim=64)), ("Llama", dict(rope_scaling=YARN)),
    ("Llama", dict(tie_word_embeddings=True, attention_bias=True)), ("Mistral", dict(sliding_window=64)),
    ("Mixtral", dict(num_local_experts=4, num_experts_per_tok=2)), ("Qwen2", {}),
    ("Qwen3", dict(head_dim=64)),
    ("Qwen3Moe", dict(head_dim=64, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64,
                      norm_topk_prob=True)),
]


def main():
    ridge = sys.argv[1]
    torch.manual_seed(1)
    worst = 0.0
    for kind, more in CASES:
        with tempfile.TemporaryDirectory() as tmp:
            folder = pathlib.Path(tmp)
            config = getattr(transformers, kind + "Config")(**COMMON, **more)
            model = getattr(transformers, kind + "ForCausalLM")(config).float().eval()
            with torch.no_grad():
                for name, p in model.named_parameters():
                    p.copy_(1 + 0.1 * torch.randn_like(p) if "norm" in name else torch.randn_like(p) * 0.09)
            model.save_pretrained(folder)
            with torch.no_grad():
                expected = model(torch.tensor([IDS])).logits[0].double().numpy()
            for args in (["convert", folder, "-o", folder / "out.gguf"],
                         ["logits", "-m", folder / "out.gguf", "--ids", ",".join(map(str, IDS)), "--out",
                          folder / "out.npy", "--device", "cpu", "--exact"]):
                done = subprocess.run([ridge, *map(str, args)], capture_output=True, text=True)
                if done.returncode != 0:
                    raise SystemExit(f"{kind} {more}: {done.stderr}\n{(folder / 'config.json').read_text()}")
            found = np.load(folder / "out.npy")
            error = ((found - expected) ** 2).sum() / (expected ** 2).sum()
            worst = max(worst, error)
            print(f"{kind:10} {str(more)[:60]:60} {error:.2e}", flush=True)
    print(f"transformers {transformers.__version__}, worst: {worst:.2e}")
    if not worst <= 1e-4:
        raise SystemExit("too far")


if __name__ == "__main__":
    main()
