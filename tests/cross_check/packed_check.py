"""Checks `ridge convert` of packed checkpoints against transformers: packed_check.py RIDGE [FORM...]. Small random
models of transformers_check.py, whose matrices are packed by packed.py, beside transformers with what they stand for.
Needs torch, transformers and ml_dtypes."""
import json
import pathlib
import re
import sys
import tempfile

import ml_dtypes
import numpy as np
import torch
import transformers
from safetensors.numpy import save_file
from safetensors.torch import load_file

import packed
from transformers_check import CASES, IDS, fields, run, shaken, class_of

BOUND = 1e-5
FORMS = {
    "fp8-blocks": (packed.fp8, dict(block=(128, 128))),
    "fp8-rows": (packed.fp8, dict(by_row=True)),
    "compressed-int4": (packed.pack_quantized, dict(symmetric=True)),
    "compressed-int4-zeros": (packed.pack_quantized, dict(symmetric=False)),
    "nvfp4-modelopt": (packed.nvfp4, {}),
    "mxfp4": (packed.mxfp4, {}),
    "gptq": (packed.gptq, {}),
    "awq": (packed.awq, dict(group=32)),
}
FAMILIES = ["Llama", "Qwen3Moe", "Glm4Moe", "DeepseekV3", "Qwen3_5Moe", "Qwen3Next", "MiniMaxM2", "Phi3", "Gemma3",
            "GraniteMoeHybrid", "KimiLinear", "Llama4", "MiMoV2Flash", "Olmo2"]
WIDE = dict(moe_intermediate_size=64, shared_expert_intermediate_size=64, shared_intermediate_size=64, q_lora_rank=64,
            kv_lora_rank=64, v_head_dim=16, linear_value_head_dim=128,
            linear_key_head_dim=128)  # whole groups of columns
MATRIX = re.compile(r"layers\.\d+\..*(_proj|\.w[123]|in_proj_\w+)\.weight$")


def save(tensors, folder):
    save_file({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})


def check(ridge, kind, configuration, more, form):
    more = dict(more, **{key: width for key, width in WIDE.items() if more.get(key)})
    more.setdefault("intermediate_size", 128)
    config = getattr(transformers, (configuration or kind) + "Config")(**fields(more))
    config._attn_implementation = "eager"
    model_class = getattr(transformers, class_of(kind))
    model = shaken(model_class(config).float().eval())
    pack, options = FORMS[form]
    with tempfile.TemporaryDirectory() as tmp, torch.no_grad():
        plain, folder = pathlib.Path(tmp) / "plain", pathlib.Path(tmp) / "packed"
        for place in (plain, folder):
            model.save_pretrained(place)
        tensors = {name: t.numpy() for name, t in load_file(plain / "model.safetensors").items()}
        widths = 64 if form.startswith(("fp8", "nvfp4")) else 32
        linears = {name[:-7]: tensors[name] for name in tensors
                   if MATRIX.search(name) and tensors[name].ndim == 2 and tensors[name].shape[1] % widths == 0
                   and (form != "awq" or tensors[name].shape[0] % 8 == 0)
                   and (form not in ("gptq", "compressed-int4-zeros") or tensors[name].shape[0] % 32 == 0)}
        made, decoded, quantization = pack(linears, np.random.default_rng(1), **options)
        rest = {name: t for name, t in tensors.items() if name[:-7] not in linears}
        biases = {name for name in made if name.endswith(".bias") and name in rest}
        save({**{n: t for n, t in made.items() if n not in biases}, **rest}, folder)
        save({**rest, **{name + ".weight": w.astype(np.float32) for name, w in decoded.items()}}, plain)
        text = json.loads((folder / "config.json").read_text())
        text["quantization_config"] = quantization
        (folder / "config.json").write_text(json.dumps(text))
        model = model_class.from_pretrained(plain, dtype=torch.float32, attn_implementation="eager").eval()
        expected = model(torch.tensor([IDS])).logits[0].double().numpy()
        run(ridge, "convert", folder, "-o", folder / "out.gguf", "--text-only")
        run(ridge, "logits", "-m", folder / "out.gguf", "--ids", ",".join(map(str, IDS)), "--out", folder / "out.npy",
            "--device", "cpu", "--exact")
        found = np.load(folder / "out.npy")
    return len(linears), ((found - expected) ** 2).sum() / (expected ** 2).sum()


def main():
    ridge, forms = sys.argv[1], sys.argv[2:] or list(FORMS)
    failed = 0
    for family in FAMILIES:
        kind, configuration, more = next(case for case in CASES if case[0] == family)
        for form in forms:
            torch.manual_seed(1)
            try:
                count, error = check(ridge, kind, configuration, more, form)
                right, said = error <= BOUND, f"{count:3} matrices, {error:.2e}"
            except ValueError as reason:
                right, said = False, str(reason)
            failed += not right
            print(f"{family:20} {form:24} {said}", flush=True)
    if failed:
        raise SystemExit(f"{failed} differ, or could not be compared")


if __name__ == "__main__":
    main()
