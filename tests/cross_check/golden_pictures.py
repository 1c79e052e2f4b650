"""Makes tests/golden/pictures: golden_pictures.py. Tiny encoders of pictures as recipes, and what transformers makes of
a picture with the same weights, in double precision. For kinds of encoders that nothing else is compared with. Needs
torch, torchvision and transformers."""
import json

import numpy as np
import torch
import transformers

from picture_recipes import GOLDEN, SEED, formula_picture, keys_of, weights
class Encoder:
    """Gives a module's parameters the weights of a recipe, by GGUF's names."""

    def __init__(self, projector, keys):
        self.metadata = [["general.architecture", 8, "clip"], ["clip.has_vision_encoder", 7, True],
                         ["clip.projector_type", 8, projector]] + keys
        self.tensors = []

    def set(self, parameter, name, shape=None):
        values = list(shape or parameter.shape)
        is_norm = len(values) == 1 and name.endswith("weight")
        amplitude = 0.3 if len(values) == 1 else 1.5 / np.sqrt(np.prod(values[1:]))
        offset, amplitude = (1.0 if is_norm else 0.0), float(np.float32(1.0 if "embd" in name else amplitude))
        with torch.no_grad():
            made = weights(name, parameter.numel(), offset, amplitude).reshape(values)
            parameter.copy_(torch.from_numpy(made).reshape(parameter.shape))
        self.tensors.append([name, values[::-1], offset, amplitude])

    def linear(self, module, name):
        self.set(module.weight, name + ".weight")
        if getattr(module, "bias", None) is not None:
            self.set(module.bias, name + ".bias")

    def write(self, name, picture, tiles, rows):
        recipe = dict(seed=SEED, metadata=self.metadata, tensors=self.tensors)
        with open(GOLDEN / f"{name}.json", "w") as file:
            json.dump(dict(picture=picture, tokens=tiles, mmproj=recipe), file)
        rows.detach().numpy().astype("<f4").tofile(GOLDEN / f"{name}.f32")
        print(name, picture, tiles, tuple(rows.shape), float(rows.detach().std()))


def minicpm_v46(name, picture, mode):
    from transformers.models.minicpmv4_6 import modeling_minicpmv4_6 as code
    from transformers.models.minicpmv4_6.image_processing_pil_minicpmv4_6 import MiniCPMV4_6ImageProcessorPil
    width, heads, ffn, layers, text, patch, image, insert = 32, 2, 48, 3, 24, 4, 64, 1
    vision = code.MiniCPMV4_6VisionConfig(hidden_size=width, num_attention_heads=heads, intermediate_size=ffn,
                                          num_hidden_layers=layers, patch_size=patch, image_size=70 * patch,
                                          insert_layer_id=insert, layer_norm_eps=1e-6)
    tower = code.MiniCPMV4_6VisionModel(vision).double().eval()
    merger = code.MiniCPMV4_6DownsampleMLP(width, text).double().eval()
    keys = keys_of(width, heads, ffn, layers, text, image, patch, [0.5] * 3, [0.5] * 3)
    keys += [["clip.vision.projector.scale_factor", 4, 2 if mode == "4x" else 4],
             ["clip.vision.wa_layer_indexes", 9, {"of": 5, "values": [insert]}]]
    encoder = Encoder("minicpmv4_6", keys)
    encoder.linear(tower.embeddings.patch_embedding, "v.patch_embd")
    encoder.set(tower.embeddings.position_embedding.weight, "v.position_embd.weight")

    def attention(module, prefix):
        for part in ("q", "k", "v"):
            encoder.linear(getattr(module, part + "_proj"), prefix + "attn_" + part)
        encoder.linear(module.out_proj, prefix + "attn_out")

    for i, layer in enumerate(tower.encoder.layers):
        block = f"v.blk.{i}."
        encoder.linear(layer.layer_norm1, block + "ln1")
        encoder.linear(layer.layer_norm2, block + "ln2")
        attention(layer.self_attn, block)
        encoder.linear(layer.mlp.fc1, block + "ffn_up")
        encoder.linear(layer.mlp.fc2, block + "ffn_down")
    encoder.linear(tower.post_layernorm, "v.post_ln")
    if mode != "4x":
        attention(tower.vit_merger.self_attn, "v.vit_merger.")
        encoder.linear(tower.vit_merger.layer_norm1, "v.vit_merger.ln1")
        encoder.linear(tower.vit_merger.pre_norm, "v.vit_merger.ds_ln")
        encoder.linear(tower.vit_merger.linear_1, "v.vit_merger.ds_ffn_up")
        encoder.linear(tower.vit_merger.linear_2, "v.vit_merger.ds_ffn_down")
    encoder.linear(merger.pre_norm, "mm.input_norm")
    encoder.linear(merger.linear_1, "mm.up")
    encoder.linear(merger.linear_2, "mm.down")

    class Processor(MiniCPMV4_6ImageProcessorPil):
        def resize(self, image, size, **more):  # columns first: Pillow 13 begins with what is cheaper
            size_of = type(size)
            image = super().resize(image, size=size_of(height=image.shape[-2], width=size.width), **more)
            return super().resize(image, size=size, **more)

    processor = Processor(scale_resolution=image, patch_size=patch, downsample_mode=mode,
                          image_mean=[0.5] * 3, image_std=[0.5] * 3)
    inputs = processor(images=[formula_picture(*picture)], return_tensors="pt")
    sizes = inputs["target_sizes"]
    hidden = tower(inputs["pixel_values"].double(), target_sizes=sizes, use_vit_merger=mode != "4x").last_hidden_state
    sizes = sizes // (1 if mode == "4x" else 2)
    rows, tokens, start = [], [], 0
    for lines, columns in sizes.tolist():
        x = hidden[0, start:start + lines * columns].view(lines // 2, 2, columns // 2, 2, width)
        start += lines * columns
        rows.append(merger(x.permute(0, 2, 1, 3, 4).reshape(-1, 4 * width)))
        tokens.append(len(rows[-1]))
    encoder.write(name, picture, tokens, torch.cat(rows))


def nemotron(name, picture):
    from transformers.models.nemotron_h_omni import modeling_nemotron_h_omni as code
    from transformers.models.radio import RadioConfig, RadioModel
    width, heads, ffn, layers, text, patch, image, registers = 32, 2, 48, 2, 24, 8, 64, 10
    tower = RadioModel(RadioConfig(hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
                                   mlp_ratio=ffn / width, patch_size=patch, max_img_size=image, num_cls_tokens=3,
                                   num_registers=registers - 3)).double().eval()
    tower.make_preprocessor_external()
    projector = code.NemotronH_Omni_Reasoning_V3MultiModalProjector(4 * width, 40, text).double().eval()
    encoder = Encoder("nemotron_v2_vl", keys_of(width, heads, ffn, layers, text, image, patch, [0.48, 0.46, 0.41],
                                                [0.27, 0.26, 0.28]))
    encoder.metadata.append(["clip.vision.projector.scale_factor", 4, 2])
    encoder.set(tower.embeddings.patch_projection.weight, "v.patch_embd.weight", [width, 3, patch, patch])
    encoder.set(tower.embeddings.position_embedding, "v.position_embd.weight")
    encoder.set(tower.embeddings.cls_register_token, "v.class_embd")
    for i, layer in enumerate(tower.encoder.layer):
        block = f"v.blk.{i}."
        encoder.linear(layer.norm1, block + "ln1")
        encoder.linear(layer.norm2, block + "ln2")
        parts = [getattr(layer.attention, part) for part in ("q_proj", "k_proj", "v_proj")]
        qkv = torch.nn.Linear(width, 3 * width).double()
        encoder.linear(qkv, block + "attn_qkv")
        with torch.no_grad():
            for j, part in enumerate(parts):
                part.weight.copy_(qkv.weight[j * width:(j + 1) * width])
                part.bias.copy_(qkv.bias[j * width:(j + 1) * width])
        encoder.linear(layer.attention.o_proj, block + "attn_out")
        encoder.linear(layer.mlp.fc1, block + "ffn_up")
        encoder.linear(layer.mlp.fc2, block + "ffn_down")
    encoder.linear(projector.layer_norm, "mm.model.mlp.0")
    encoder.linear(projector.linear_1, "mm.model.mlp.1")
    encoder.linear(projector.linear_2, "mm.model.mlp.3")
    pixels = torch.from_numpy(np.array(formula_picture(*picture))).double().permute(2, 0, 1) / 255
    mean, std = (torch.tensor(next(v["values"] for k, _, v in encoder.metadata if k.endswith(key)))[:, None, None]
                 for key in ("image_mean", "image_std"))
    side = image // patch
    x = tower(((pixels - mean) / std)[None]).features.view(1, side, side, width)
    x = code.NemotronH_Omni_Reasoning_V3.pixel_shuffle(None, x, 0.5)
    rows = projector(x.reshape(-1, 4 * width))
    encoder.write(name, picture, [len(rows)], rows)


if __name__ == "__main__":
    torch.manual_seed(1)
    GOLDEN.mkdir(exist_ok=True)
    minicpm_v46("minicpmv46", [90, 61, 5], "16x")
    minicpm_v46("minicpmv46-slices", [170, 101, 6], "16x")
    minicpm_v46("minicpmv46-4x", [60, 41, 7], "4x")
    nemotron("nemotron_v2_vl", [64, 64, 8])
