"""Checks `ridge convert` of models that read pictures against transformers: pictures_check.py RIDGE [NAME...].

Small random models, saved by save_pretrained, with a tokenizer of single bytes. Compared are what the encoder makes of a
picture and the logits of a prompt around it, in float32. Needs torch, transformers and Pillow.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers
from PIL import Image

HALF = ([0.5] * 3, [0.5] * 3)
CLIP = ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711])
TEXT = dict(vocab_size=300, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, head_dim=16, max_position_embeddings=512, rms_norm_eps=1e-5, pad_token_id=0,
            bos_token_id=1, eos_token_id=2, tie_word_embeddings=False)
DELTA = dict(linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_value_head_dim=16, linear_num_key_heads=2,
             linear_num_value_heads=6, layer_types=["linear_attention", "full_attention", "linear_attention"])
QWEN = dict(depth=4, hidden_size=32, num_heads=2, intermediate_size=48, patch_size=8, out_hidden_size=64)
VIT = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=2, patch_size=8)
MROPE = dict(rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[4, 2, 2]))
QWEN_TOKENS = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>"]


def scaled(image, mean, deviation):
    """[colour, y, x]"""
    pixels = np.asarray(image, np.float32) / 255
    return torch.tensor(((pixels - np.float32(mean)) / np.float32(deviation)).transpose(2, 0, 1))


def blocks(pixels, side):
    """[lines, columns, colour, side, side]."""
    c, h, w = pixels.shape
    return pixels.reshape(c, h // side, side, w // side, side).permute(1, 3, 0, 2, 4)


class Case:
    mean, deviation = HALF
    size = (64, 48)
    special = []
    image_token = None
    preprocessor = {}
    config = {}
    text = {}

    def __init__(self, model, name=""):
        self.model_name, self.name = model, name or model

    def build(self):
        config = dict(dict(tie_word_embeddings=False), **self.config, text_config=dict(TEXT, **self.text))
        made = getattr(transformers, self.model_name + "Config")(**config)
        for part in (made, made.text_config, made.vision_config):
            part._attn_implementation = "eager"
        return getattr(transformers, self.model_name + "ForConditionalGeneration")(made).float().eval()

    def tiles(self, image):  # what the model sees, as images
        return [image]

    def scaled(self, image):
        return [scaled(tile, self.mean, self.deviation) for tile in self.tiles(image)]

    def inputs(self, image):
        return dict(pixel_values=torch.stack(self.scaled(image)))

    def rows(self, model, inputs):
        return torch.cat([part.reshape(-1, part.shape[-1])
                          for part in model.get_image_features(**inputs, return_dict=True).pooler_output])

    def more(self, ids):  # further inputs of the language model
        return {}

    break_id = None  # a token between lines of a picture

    def with_breaks(self, rows, row):
        return rows

    def logits(self, model, ids, inputs, rows):
        return model(input_ids=ids, **inputs, **self.more(ids)).logits


class Qwen(Case):
    special, image_token = QWEN_TOKENS, "<|image_pad|>"
    text = MROPE
    size = (160, 128)

    def inputs(self, image):
        pixels = blocks(self.scaled(image)[0], 8)
        lines, columns = pixels.shape[:2]
        pixels = pixels.reshape(lines // 2, 2, columns // 2, 2, 3, 1, 8, 8).permute(0, 2, 1, 3, 4, 5, 6, 7)
        pixels = pixels.expand(-1, -1, -1, -1, -1, 2, -1, -1).reshape(lines * columns, -1)
        return dict(pixel_values=pixels, image_grid_thw=torch.tensor([[1, lines, columns]]))

    def more(self, ids):
        return dict(mm_token_type_ids=(ids == self.image_id).int())


class Qwen2(Qwen):
    config = dict(vision_config=dict(depth=3, embed_dim=32, hidden_size=64, num_heads=2, mlp_ratio=2, patch_size=8))
    mean, deviation = CLIP


class Qwen25(Qwen):
    config = dict(vision_config=dict(QWEN, window_size=112, fullatt_block_indexes=[1, 3]))
    mean, deviation = CLIP


class Qwen3(Qwen):
    config = dict(vision_config=dict(QWEN, deepstack_visual_indexes=[0, 2], num_position_embeddings=144))

    def rows(self, model, inputs):
        made = model.get_image_features(**inputs, return_dict=True)
        taps = [torch.cat(list(tap)) if isinstance(tap, (list, tuple)) else tap for tap in made.deepstack_features]
        return torch.cat([torch.cat(list(made.pooler_output))] + taps, dim=1)


class Qwen35(Qwen):
    config = dict(vision_config=dict(QWEN, num_position_embeddings=144))
    text = dict(DELTA, rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5,
                                            mrope_section=[2, 1, 1]))


class Gemma3(Case):
    special, image_token = ["<start_of_image>", "<end_of_image>", "<image_soft_token>"], "<image_soft_token>"
    config = dict(vision_config=dict(VIT, image_size=64, vision_use_head=False), mm_tokens_per_image=4)
    text = dict(sliding_window=8, query_pre_attn_scalar=16, tie_word_embeddings=True, num_hidden_layers=7)
    size = (64, 64)

    def more(self, ids):
        return dict(token_type_ids=(ids == self.image_id).int())


class Gemma4(Case):
    special, image_token = ["<|image>", "<image|>", "<|image|>"], "<|image|>"
    config = dict(vision_config=dict(VIT, num_key_value_heads=2, head_dim=16, position_embedding_size=64,
                                     use_clipped_linears=True, standardize=True))
    text = dict(hidden_size_per_layer_input=0, global_head_dim=32, tie_word_embeddings=True, num_hidden_layers=4,
                sliding_window=8, layer_types=["sliding_attention", "full_attention"] * 2,
                use_bidirectional_attention="vision")
    mean, deviation = [0] * 3, [1] * 3
    size = (240, 168)

    def inputs(self, image):
        pixels = blocks(self.scaled(image)[0], 8).permute(0, 1, 3, 4, 2)
        lines, columns = pixels.shape[:2]
        y, x = torch.meshgrid(torch.arange(lines), torch.arange(columns), indexing="ij")
        return dict(pixel_values=pixels.reshape(1, lines * columns, -1),
                    image_position_ids=torch.stack([x, y], -1).reshape(1, -1, 2))

    def more(self, ids):
        return dict(mm_token_type_ids=(ids == self.image_id).int())


class Gemma4Unified(Gemma4):  # a token of 24 pixels, no encoder
    config = dict(vision_config=dict(patch_size=8, pooling_kernel_size=3, mm_embed_dim=32, mm_posemb_size=40,
                                     output_proj_dims=32), audio_config=None, tie_word_embeddings=True)

    def inputs(self, image):
        pixels = blocks(self.scaled(image)[0], 24).permute(0, 1, 3, 4, 2)
        lines, columns = pixels.shape[:2]
        y, x = torch.meshgrid(torch.arange(lines), torch.arange(columns), indexing="ij")
        return dict(pixel_values=pixels.reshape(1, lines * columns, -1),
                    image_position_ids=torch.stack([x, y], -1).reshape(1, -1, 2))

    def logits(self, model, ids, inputs, rows):  # with generate()'s masks: forward()'s own are bidirectional everywhere
        masks = model.create_masks_for_generate(
            config=model.config, inputs_embeds=model.get_input_embeddings()(ids), attention_mask=None, cache=None,
            position_ids=torch.arange(ids.shape[1])[None], **self.more(ids))
        return model(input_ids=ids, attention_mask=masks, **inputs).logits


class Llava(Case):
    special, image_token = ["<image>"], "<image>"
    config = dict(vision_config=dict(VIT, model_type="clip_vision_model", image_size=32, projection_dim=16))
    text = dict(model_type="llama")
    mean, deviation = CLIP
    size = (32, 32)

    def rows(self, model, inputs):
        # llama.cpp and its files count the class last, but take rows as if it came first: so the first patch is left
        # out, and the class is the last one. Positions are those of the table's rows in this order.
        table = model.model.vision_tower.embeddings.position_embedding.weight
        own = table.detach().clone()
        table.data.copy_(torch.cat([own[-1:], own[:-1]]))
        states = model.model.vision_tower(**inputs, output_hidden_states=True).hidden_states[-2]
        table.data.copy_(own)
        return model.model.multi_modal_projector(torch.cat([states[:, 2:], states[:, :1]], dim=1))[0]

    def logits(self, model, ids, inputs, rows):
        embedded = model.get_input_embeddings()(ids)
        embedded[ids == self.image_id] = rows
        return model(inputs_embeds=embedded).logits


class SiglipLlava(Case):  # two layers' outputs side by side
    special, image_token = ["<image>"], "<image>"
    config = dict(vision_config=dict(VIT, model_type="siglip_vision_model", image_size=32, vision_use_head=False),
                  vision_feature_layer=[-3, -2], vision_feature_select_strategy="full")
    text = dict(model_type="qwen2")
    size = (32, 32)


class Pixtral(Case):
    special, image_token = ["[IMG]", "[IMG_BREAK]", "[IMG_END]"], "[IMG]"
    config = dict(vision_config=dict(VIT, model_type="pixtral", head_dim=16, image_size=64, hidden_act="silu"),
                  vision_feature_layer=-1, vision_feature_select_strategy="full")
    text = dict(model_type="mistral")
    mean, deviation = CLIP
    columns, break_id = 8, 257

    def with_breaks(self, rows, row):
        made = []
        for i, each in enumerate(rows):
            made += [row, each] if i > 0 and i % self.columns == 0 else [each]
        return made

    def inputs(self, image):
        return dict(super().inputs(image), image_sizes=torch.tensor([[image.height, image.width]]))


class Mistral(Pixtral):
    config = dict(vision_config=dict(VIT, model_type="pixtral", head_dim=16, image_size=64, hidden_act="silu"),
                  spatial_merge_size=2)
    columns = 4


class InternVL(Case):
    special, image_token = ["<img>", "</img>", "<IMG_CONTEXT>"], "<IMG_CONTEXT>"
    config = dict(vision_config=dict(VIT, image_size=[32, 32], patch_size=[8, 8], attention_bias=True))
    text = dict(model_type="qwen2")
    mean, deviation = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    size = (64, 32)
    preprocessor = dict(min_patches=1, max_patches=12)

    def tiles(self, image):
        return [image.crop((0, 0, 32, 32)), image.crop((32, 0, 64, 32)), image.resize((32, 32), Image.BICUBIC)]


class Idefics(Case):
    special = ["<fake_token_around_image>", "<global-img>", "<image>", "\n\n"] + \
              [f"<row_{row}_col_{col}>" for row in (1, 2) for col in (1, 2)]
    image_token = "<image>"
    config = dict(vision_config=dict(VIT, image_size=32), scale_factor=2)
    text = dict(model_type="llama")
    size = (32, 32)
    preprocessor = dict(size=dict(longest_edge=64))

    def tiles(self, image):
        large = image.resize((64, 64), Image.LANCZOS)
        return [large.crop((x, y, x + 32, y + 32)) for y in (0, 32) for x in (0, 32)] + \
               [large.resize((32, 32), Image.LANCZOS)]

    def inputs(self, image):
        return dict(pixel_values=torch.stack(self.scaled(image))[None])


CASES = [Qwen2("Qwen2VL"), Qwen25("Qwen2_5_VL"), Qwen3("Qwen3VL"), Qwen35("Qwen3_5"), Gemma3("Gemma3"),
         Gemma4("Gemma4"), Gemma4Unified("Gemma4Unified"), Llava("Llava"), SiglipLlava("Llava", "Llava with SigLIP"), Pixtral("Llava", "Pixtral"),
         Mistral("Mistral3"), InternVL("InternVL"), Idefics("SmolVLM"), Idefics("Idefics3")]


def letters():
    """A letter for each byte, as GPT-2 spells them."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    made, extra = {}, 256
    for byte in range(256):
        made[byte] = chr(byte if byte in shown else extra)
        extra += byte not in shown
    return made


def write_tokenizer(folder, special):
    vocab = {letter: byte for byte, letter in letters().items()}
    (folder / "tokenizer.json").write_text(json.dumps(dict(
        model=dict(type="BPE", vocab=vocab, merges=[]),
        pre_tokenizer=dict(type="ByteLevel", add_prefix_space=False, use_regex=True),
        added_tokens=[dict(id=256 + i, content=text, special=True) for i, text in enumerate(special)])))


def tokens_of(text, special):
    ids = []
    while text:
        token = next((t for t in special if text.startswith(t)), None)
        ids += [256 + special.index(token)] if token else list(text[0].encode())
        text = text[len(token or text[0]):]
    return ids


def randomize(model):
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim <= 1 or "lambda" in name:
                p.add_(torch.randn_like(p) * 0.2)
            else:
                p.copy_(torch.randn_like(p) * 0.15)
        for name, p in model.named_buffers():  # limits of matrices
            if name.endswith(("put_min", "put_max")):
                p.fill_(-1.5 if name.endswith("min") else 1.25)


def run(*args):
    done = subprocess.run(list(map(str, args)), capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, args))}: {done.stderr}")
    return done.stdout


def error(found, expected):
    if found.shape != expected.shape:
        raise SystemExit(f"shape {found.shape}, expected {expected.shape}")
    return ((found - expected) ** 2).sum() / (expected ** 2).sum()


def check(ridge, case, folder):
    """The errors of rows and of logits."""
    special = case.special
    case.image_id = 256 + special.index(case.image_token)
    model = case.build()
    for config in (model.config, model.config.text_config):
        for key in ("image_token_id", "image_token_index"):
            if hasattr(config, key):
                setattr(config, key, case.image_id)
    randomize(model)
    model.save_pretrained(folder)
    write_tokenizer(folder, special)
    (folder / "preprocessor_config.json").write_text(json.dumps(dict(
        case.preprocessor, image_mean=case.mean, image_std=case.deviation)))
    width, height = case.size
    image = Image.fromarray(np.random.default_rng(1).integers(0, 256, (height, width, 3), np.uint8))
    picture, out, mmproj = folder / "picture.png", folder / "out.gguf", folder / "mmproj-out.gguf"
    image.save(picture)
    run(ridge, "convert", folder, "-o", out)

    pieces = [json.loads(line) for line in
              run(ridge, "embed", "-m", out, "--mmproj", mmproj, "--image", picture, "--exact").splitlines()]
    found = np.concatenate([np.array(piece["embedding"]) for piece in pieces if "tokens" in piece])
    inputs = case.inputs(image)
    with torch.no_grad():
        rows = case.rows(model, inputs)
        embedding = model.get_input_embeddings().weight
        expected = case.with_breaks(list(rows), embedding[case.break_id] if case.break_id else None)
    ids, is_text = tokens_of("a ", special), [True, True]
    for piece in pieces:
        more = tokens_of(piece["text"], special) if "text" in piece else \
            case.with_breaks([case.image_id] * len(rows), case.break_id) if case.break_id else \
            [case.image_id] * piece["tokens"]
        ids += more
        is_text += ["text" in piece] * len(more)
    ids += tokens_of(" b", special)
    is_text += [True, True]
    run(ridge, "logits", "-m", out, "--mmproj", mmproj, "--image", picture, "-p", "a <__media__> b", "--exact",
        "--device", "cpu", "--out", folder / "logits.npy")
    with torch.no_grad():
        logits = case.logits(model, torch.tensor([ids]), inputs, rows)[0]
    return (error(found, torch.stack(expected).detach().double().numpy()),
            error(np.load(folder / "logits.npy"), logits[torch.tensor(is_text)].double().numpy()))


def main():
    ridge, names = sys.argv[1], sys.argv[2:]
    worst = 0.0
    for case in CASES:
        if names and not case.name.startswith(tuple(names)):
            continue
        torch.manual_seed(1)
        with tempfile.TemporaryDirectory() as tmp:
            errors = check(ridge, case, pathlib.Path(tmp))
        worst = max(worst, *errors)
        print(f"{case.name:20} rows {errors[0]:.2e}, logits {errors[1]:.2e}", flush=True)
    print(f"transformers {transformers.__version__}, worst: {worst:.2e}")
    if not worst <= 5e-6:  # activations round to f16, and GELU is its approximation
        raise SystemExit("too far")


if __name__ == "__main__":
    main()
