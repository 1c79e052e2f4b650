"""Checks draft heads that `ridge convert` keeps: drafts_check.py RIDGE [NAME...]. The logits of small random heads
(transformers' MtpModel) beside those of `ridge logits --mtp`. Needs torch and transformers."""
import copy
import pathlib
import sys
import tempfile
from unittest import mock

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.modeling_layers import MtpModel

from transformers_check import (DELTA, EXPERTS, GLM, HALF, HALF_SECTIONS, IDS, INDEXED, LATENT, LING_NAMES, MIMO, SIGMOID,
                                STEP, SIGLIP, class_of, fields, renamed, run, shaken)

BOUND = 5e-6
DENSE = dict(DELTA, layer_types=["linear_attention", "full_attention"] * 2)
# As in transformers_check.py, then what a head's layer is said to be, and where it stands in files.
CASES = [
    ("Glm4Moe", "", dict(GLM, use_qk_norm=True), {}, "layers"),
    ("Glm4Moe", "", dict(GLM, use_qk_norm=True), {}, "ling"),
    ("DeepseekV3", "", dict(LATENT, n_group=2, topk_group=1, routed_scaling_factor=2.5, norm_topk_prob=True), {},
     "layers"),
    ("DeepseekV32", "", dict(INDEXED, n_group=2, topk_group=1),
     dict(layer_types=["full_attention"], mlp_layer_types=["sparse"], index_topk=64), "layers"),
    ("Glm4MoeLite", "", dict(LATENT, norm_topk_prob=True), dict(mlp_layer_types=["sparse"]), "layers"),
    ("HYV3", "", SIGMOID, dict(mlp_layer_types=["sparse"]), "layers"),
    ("Qwen3Next", "", dict(DENSE, **EXPERTS, norm_topk_prob=True, rope_parameters=HALF),
     dict(layer_types=["full_attention"]), "aside"),
    ("Qwen3_5", "Qwen3_5Text", dict(DENSE, rope_parameters=HALF_SECTIONS), dict(layer_types=["full_attention"]),
     "aside"),
    ("Qwen3_5Moe", "Qwen3_5MoeText", dict(DENSE, **EXPERTS, rope_parameters=HALF_SECTIONS),
     dict(layer_types=["full_attention"]), "aside"),
    ("Step3p7ForConditionalGeneration", "Step3p7", dict(vision_config=dict(SIGLIP, mlp_ratio=1.0), text_config=STEP),
     dict(layer_types=["sliding_attention"], mlp_layer_types=["dense"], swiglu_limits=None, swiglu_limits_shared=None),
     "step"),
    ("MiMoV2Flash", "", MIMO, dict(layer_types=["sliding_attention"], mlp_layer_types=["dense"]), "mimo"),
]
NAMES = {"mimo": [("mtp_block.post_attention_layernorm", "pre_mlp_layernorm"), ("mtp_block.", ""),
                  ("post_norm.", "final_layernorm.")],
         "ling": [("mtp_block.", ""), ("post_norm.", "final_layernorm.")],
         "layers": [("mtp_block.", ""), ("post_norm.", "shared_head.norm.")],
         "step": [("mtp_block.", ""), ("post_norm.", "transformer.shared_head.norm.")],
         "aside": [("mtp_block.", "layers.0."), ("post_norm.", "norm."), ("eh_proj.", "fc."),
                   ("enorm.", "pre_fc_norm_embedding."), ("hnorm.", "pre_fc_norm_hidden.")]}

PLACES = {"aside": "mtp.", "mimo": "model.mtp.layers.0."}


def head_of(model, own):
    """A head of one layer beside the model, whose configuration differs from a layer's by `own`."""
    text = model.config.get_text_config()
    made = copy.deepcopy(text)
    for key, value in dict(own, num_hidden_layers=1, first_k_dense_replace=0, per_layer_config=None).items():
        setattr(made, key, value)
    if text.is_heterogeneous:
        made.per_layer_config = {0: {"num_attention_heads": text.num_sliding_attention_heads}}
    made._attn_implementation = "eager"
    with mock.patch.object(type(model.config), "get_mtp_config", lambda _: made):
        return shaken(MtpModel(model, 1).float().eval())


def check(ridge, kind, configuration, more, own, place):
    config = getattr(transformers, (configuration or kind) + "Config")(**fields(more))
    config._attn_implementation = "eager"
    model = shaken(getattr(transformers, class_of(kind))(config).float().eval())
    head = head_of(model, own)
    if place == "step":
        model.config.text_config.mtp_layer_types = own["layer_types"]
    ids = torch.tensor([IDS])
    with torch.no_grad(), tempfile.TemporaryDirectory() as tmp:
        folder = pathlib.Path(tmp)
        model.save_pretrained(folder)
        tensors = load_file(folder / "model.safetensors")
        layers = config.get_text_config().num_hidden_layers
        for name, tensor in head.layers[0].state_dict().items():
            for old, new in NAMES[place]:
                name = name.replace(old, new)
            tensors[PLACES.get(place, f"model.layers.{layers}.") + name] = tensor.contiguous()
        save_file(tensors, folder / "model.safetensors")
        if place == "ling":
            ling = dict(num_experts=4, num_shared_experts=1, score_function="sigmoid")
            renamed(folder, "BailingMoeV2ForCausalLM", ling, LING_NAMES, "attention.query_key_value")
        rows = model.get_decoder()(input_ids=ids).last_hidden_state
        if place in ("step", "mimo"):  # of the row before the last norm
            kept = []
            hook = model.get_decoder().norm.register_forward_pre_hook(lambda _, given: kept.append(given[0]))
            model.get_decoder()(input_ids=ids)
            hook.remove()
            rows = kept[0]
        rows = torch.cat([torch.zeros_like(rows[:, :1]), rows[:, :-1]], 1)
        x = head.forward_layer(0, rows, torch.arange(len(IDS))[None], None, input_ids=ids)
        expected = head._project_to_logits(x)[0].double().numpy()
        run(ridge, "convert", folder, "-o", folder / "out.gguf", "--text-only")
        run(ridge, "logits", "-m", folder / "out.gguf", "--mtp", "--ids", ",".join(map(str, IDS)), "--out",
            folder / "out.npy", "--device", "cpu", "--exact")
        found = np.load(folder / "out.npy")
    return ((found - expected) ** 2).sum() / (expected ** 2).sum()


def main():
    ridge, names = sys.argv[1], sys.argv[2:]
    failed = 0
    for kind, *case in CASES:
        if names and not kind.startswith(tuple(names)):
            continue
        torch.manual_seed(1)
        error = check(ridge, kind, *case)
        failed += not error <= BOUND
        print(f"{kind:36} {error:.2e}", flush=True)
    if failed:
        raise SystemExit(f"{failed} differ")
    print(f"transformers {transformers.__version__}: all agree", file=sys.stderr)


if __name__ == "__main__":
    main()
