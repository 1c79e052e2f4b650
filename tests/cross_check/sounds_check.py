"""Checks `ridge convert` of models that hear against transformers: sounds_check.py RIDGE [NAME...].

As pictures_check.py does for pictures: small random models and what their encoders make of a sound, in float32. The
spectrum is computed here, by its definition. Needs torch, transformers and safetensors.
"""
import json
import pathlib
import sys
import tempfile
import wave

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.audio_utils import mel_filter_bank

from pictures_check import TEXT, error, randomize, run, write_tokenizer

RATE, HOP, BANDS = 16000, 160, 40
WHISPER = dict(d_model=32, encoder_ffn_dim=128, encoder_layers=2, encoder_attention_heads=2, num_mel_bins=BANDS)
VOXTRAL = dict(hidden_size=32, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2, num_mel_bins=BANDS)


def powers(samples, frames, window, size):
    """Squares of the transforms' sizes [frames, size / 2 + 1], of samples that silence follows."""
    samples = np.concatenate([samples, np.zeros(frames * HOP + size)])
    return np.stack([np.abs(np.fft.rfft(samples[i * HOP:i * HOP + size] * window)) ** 2 for i in range(frames)])


def hann(length, size, first=0, periodic=True):
    made = np.zeros(size)
    made[first:first + length] = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / (length - (not periodic)))
    return made


def bands(size, count, scale, norm):
    return mel_filter_bank(size // 2 + 1, count, 0, RATE / 2, RATE, norm=norm, mel_scale=scale)


def whisper_spectrum(samples, frames, mirrors_end=False):
    padded = np.concatenate([samples[200:0:-1], samples])
    if mirrors_end:
        padded = np.concatenate([padded, samples[-2:-202:-1]])
    made = np.log10(np.maximum(powers(padded, frames, hann(400, 400), 400) @ bands(400, BANDS, "slaney", "slaney"), 1e-10))
    return torch.tensor((np.maximum(made, made.max() - 8) + 4) / 4, dtype=torch.float32)


def part(model, name):
    return next(module for path, module in model.named_modules() if path.endswith(name))


class Case:
    config = {}
    text = dict(model_type="llama")
    seconds = 3.37
    special = ["<|AUDIO|>"]

    def __init__(self, name, model):
        self.name, self.model_name = name, model

    def build(self):
        config = dict(self.config, text_config=dict(TEXT, **self.text), tie_word_embeddings=False)
        made = getattr(transformers, self.model_name + "Config")(**config)
        return getattr(transformers, self.model_name + "ForConditionalGeneration")(made).float().eval()

    def save(self, model, folder):
        model.save_pretrained(folder)

    def rows(self, model, samples):  # of a sound shorter than 30 seconds, and the silence behind it
        spectrum = whisper_spectrum(samples, 3000).T[None]
        encoded = part(model, "audio_tower")(spectrum, **self.mask).last_hidden_state
        return part(model, "multi_modal_projector")(encoded.reshape(1, -1, self.stack * encoded.shape[-1]))[0]

    mask, stack = {}, 1


class Qwen2Audio(Case):
    config = dict(audio_config=WHISPER)
    text = dict(model_type="qwen2")


class AudioFlamingo(Qwen2Audio):
    config = dict(audio_config=VOXTRAL)
    mask = dict(input_features_mask=torch.ones(1, 3000, dtype=torch.long))


class Voxtral(Case):
    config = dict(audio_config=VOXTRAL)
    stack = 4


class Ultravox(Case):  # whose own code is no part of transformers
    def build(self):
        encoder = transformers.WhisperModel(transformers.WhisperConfig(
            **WHISPER, decoder_layers=1, decoder_attention_heads=1, decoder_ffn_dim=8, vocab_size=300,
            pad_token_id=0, bos_token_id=0, eos_token_id=0, decoder_start_token_id=0)).encoder
        text = transformers.LlamaForCausalLM(transformers.LlamaConfig(**TEXT))
        norm = transformers.models.llama.modeling_llama.LlamaRMSNorm
        projector = torch.nn.ModuleDict(dict(ln_pre=norm(256), linear_1=torch.nn.Linear(256, 96, bias=False),
                                             ln_mid=norm(48), linear_2=torch.nn.Linear(48, 64, bias=False)))
        return torch.nn.ModuleDict(dict(audio_tower=encoder, multi_modal_projector=projector, language_model=text)).eval()

    def save(self, model, folder):
        text = dict(model.language_model.config.to_dict(), architectures=["LlamaForCausalLM"])
        (folder / "config.json").write_text(json.dumps(dict(
            architectures=["UltravoxModel"], model_type="ultravox", audio_config=model.audio_tower.config.to_dict(),
            text_config=text, stack_factor=8, projector_act="swiglu", projector_ln_mid=True)))
        save_file({name: t.clone().contiguous() for name, t in model.state_dict().items()}, folder / "model.safetensors")

    def rows(self, model, samples):
        rows = model.audio_tower(whisper_spectrum(samples, 3000).T[None]).last_hidden_state[0]
        rows = torch.nn.functional.pad(rows, (0, 0, 0, -len(rows) % 8)).reshape(-1, 256)
        p = model.multi_modal_projector
        value, gate = p.linear_1(p.ln_pre(rows)).chunk(2, dim=-1)
        return p.linear_2(p.ln_mid(torch.nn.functional.silu(gate) * value))


class Qwen25Omni(Case):
    seconds = 5.371
    text = dict(rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[4, 2, 2]))
    config = dict(audio_config=dict(WHISPER, output_dim=64),
                  vision_config=dict(depth=1, hidden_size=32, num_heads=2, intermediate_size=48, patch_size=8,
                                     out_hidden_size=64))

    def build(self):
        text = dict(TEXT, **self.text)
        text.pop("head_dim")
        made = getattr(transformers, self.model_name + "ThinkerConfig")(**self.config, text_config=text)
        return getattr(transformers, self.model_name + "ThinkerForConditionalGeneration")(made).float().eval()

    def save(self, model, folder):  # as published: the part that thinks is one of three
        model.save_pretrained(folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(dict(
            architectures=[self.model_name + "ForConditionalGeneration"], thinker_config=config)))
        tensors = load_file(folder / "model.safetensors")
        save_file({"thinker." + name: t for name, t in tensors.items()}, folder / "model.safetensors")

    def frames(self, samples):
        return whisper_spectrum(samples, -(-len(samples) // HOP))

    def rows(self, model, samples):
        spectrum = self.frames(samples)
        return part(model, "audio_tower")(spectrum.T, feature_lens=torch.tensor([len(spectrum)])).last_hidden_state


class Qwen3Omni(Qwen25Omni):
    text = dict(rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[4, 2, 2]), num_experts=4,
                num_experts_per_tok=2, moe_intermediate_size=32)
    config = dict(audio_config=dict(WHISPER, output_dim=64, downsample_hidden_size=12),
                  vision_config=dict(depth=1, hidden_size=32, num_heads=2, intermediate_size=48, patch_size=8,
                                     out_hidden_size=64, deepstack_visual_indexes=[0], num_position_embeddings=144))

    def frames(self, samples):  # with the zeros that fill up a block
        made = whisper_spectrum(samples, len(samples) // HOP + 1, True)
        return torch.nn.functional.pad(made, (0, 0, 0, -len(made) % 100))


class Qwen3Asr(Qwen3Omni):
    config = dict(audio_config=dict(WHISPER, output_dim=64, downsample_hidden_size=12))
    text = dict(model_type="qwen3")
    build, save = Case.build, Case.save

    def rows(self, model, samples):
        spectrum = self.frames(samples)
        mask = torch.ones(1, len(spectrum), dtype=torch.long)
        rows = model.model.audio_tower(spectrum.T[None], mask).last_hidden_state
        return model.model.multi_modal_projector(rows)


class Gemma4(Case):
    config = dict(audio_config=dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, output_proj_dims=24),
                  vision_config=dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
                                     num_key_value_heads=2, head_dim=16, patch_size=8, position_embedding_size=64))
    text = dict(hidden_size_per_layer_input=0, global_head_dim=32, tie_word_embeddings=True, num_hidden_layers=2,
                sliding_window=8, layer_types=["sliding_attention", "full_attention"])

    def rows(self, model, samples):
        frames = (max(0, len(samples) + 160 - 321)) // HOP + 1
        made = np.sqrt(powers(np.concatenate([np.zeros(160), samples]), frames, hann(320, 512), 512))
        spectrum = torch.tensor(np.log(np.maximum(made @ bands(512, 128, "htk", None), 1e-3)), dtype=torch.float32)
        mask = torch.ones(1, frames, dtype=torch.bool)
        return model.model.get_audio_features(spectrum[None], mask, return_dict=True).pooler_output.reshape(-1, 64)


class Gemma4Unified(Gemma4):  # no encoder
    config = dict(audio_config=dict(audio_embed_dim=640), vision_config=None)

    def rows(self, model, samples):
        frames = np.pad(samples, (0, -len(samples) % 640)).reshape(1, -1, 640)
        mask = torch.ones(frames.shape[:2], dtype=torch.bool)
        features = model.model.get_audio_features(torch.tensor(frames, dtype=torch.float32), mask, return_dict=True)
        return features.pooler_output.reshape(-1, 64)


class Lfm2Audio(Case):  # whose encoder is Parakeet's, with a projector behind it
    NAMES = [("subsampling.layers.", "pre_encode.conv."), ("subsampling.linear", "pre_encode.out"),
             ("self_attn.bias_", "self_attn.pos_bias_"), ("self_attn.relative_k_proj", "self_attn.linear_pos"),
             ("self_attn.o_proj", "self_attn.linear_out"), ("conv.norm", "conv.batch_norm")] + \
            [(f"self_attn.{which}_proj", f"self_attn.linear_{which}") for which in "qkv"]

    def build(self):
        encoder = transformers.ParakeetEncoder(transformers.ParakeetEncoderConfig(
            hidden_size=512, num_hidden_layers=2, num_attention_heads=8, intermediate_size=2048, num_mel_bins=BANDS,
            subsampling_conv_channels=8, scale_input=False, attention_bias=True, convolution_bias=True))
        text = transformers.Lfm2ForCausalLM(transformers.Lfm2Config(
            **{**TEXT, "tie_word_embeddings": True}, layer_types=["conv", "full_attention", "conv"], block_auto_adjust_ff_dim=False))
        adapter = torch.nn.Sequential(torch.nn.LayerNorm(512), torch.nn.Linear(512, 48), torch.nn.GELU(),
                                      torch.nn.Linear(48, 64))
        return torch.nn.ModuleDict(dict(conformer=encoder, adapter=adapter, lfm=text)).eval()

    def save(self, model, folder):
        config = dict(model.lfm.config.to_dict(), architectures=["Lfm2ForCausalLM"])
        (folder / "config.json").write_text(json.dumps(dict(
            architectures=["Lfm2AudioForConditionalGeneration"], lfm=config,
            encoder=dict(feat_in=BANDS, n_layers=2, d_model=512, n_heads=8, ff_expansion_factor=4, conv_kernel_size=9,
                         subsampling_factor=8))))
        tensors = {}
        for name, t in model.conformer.state_dict().items():
            for own, published in self.NAMES:
                name = name.replace(own, published)
            tensors["conformer." + name] = t
        for name, t in model.adapter.state_dict().items():
            tensors["audio_adapter.model." + name] = t
        for name, t in model.lfm.model.state_dict().items():
            tensors["lfm." + name] = t
        save_file({name: t.clone().contiguous() for name, t in tensors.items()}, folder / "model.safetensors")

    def rows(self, model, samples):
        emphasized = np.concatenate([np.zeros(256), samples[:1], samples[1:] - 0.97 * samples[:-1]])
        count = len(samples) // HOP
        made = powers(emphasized, count + 1, hann(400, 512, 56, False), 512) @ bands(512, BANDS, "slaney", "slaney")
        made = np.log(made + 2.0 ** -24)[:count]
        made = (made - made.mean(0)) / (made.std(0, ddof=1) + 1e-5)
        made = np.concatenate([made, np.zeros((1, BANDS))])
        rows = model.conformer(torch.tensor(made[None], dtype=torch.float32)).last_hidden_state
        return model.adapter(rows)[0]


CASES = [Ultravox("Ultravox", ""), Voxtral("Voxtral", "Voxtral"), Qwen2Audio("Qwen2Audio", "Qwen2Audio"),
         AudioFlamingo("AudioFlamingo3", "AudioFlamingo3"), Qwen25Omni("Qwen2.5-Omni", "Qwen2_5Omni"), Qwen3Omni("Qwen3-Omni", "Qwen3OmniMoe"),
         Qwen3Asr("Qwen3-ASR", "Qwen3ASR"), Gemma4("Gemma4", "Gemma4"),
         Gemma4Unified("Gemma4-unified", "Gemma4Unified"), Lfm2Audio("LFM2-Audio", "")]


def check(ridge, case, folder):
    """The error of rows."""
    model = case.build()
    randomize(model)
    with torch.no_grad():
        for name, p in model.named_buffers():  # of batch norms
            if name.endswith("running_mean"):
                p.copy_(torch.randn_like(p) * 0.3)
            elif name.endswith("running_var"):
                p.copy_(torch.rand_like(p) + 0.5)
    case.save(model, folder)
    write_tokenizer(folder, case.special)
    rng = np.random.default_rng(1)
    count = int(case.seconds * RATE)  # so loud that the least loudness follows from the largest
    sound = np.round(rng.standard_normal(count) * 3000 + 20000 * np.sin(0.17 * np.arange(count)))
    sound = sound.clip(-32768, 32767).astype(np.int16)
    with wave.open(str(folder / "sound.wav"), "wb") as file:
        file.setparams((1, 2, RATE, len(sound), "NONE", ""))
        file.writeframes(sound.tobytes())
    out, mmproj = folder / "out.gguf", folder / "mmproj-out.gguf"
    run(ridge, "convert", folder, "-o", out)
    pieces = [json.loads(line) for line in run(ridge, "embed", "-m", out, "--mmproj", mmproj, "--audio",
                                               folder / "sound.wav", "--exact").splitlines()]
    found = np.concatenate([np.array(piece["embedding"]) for piece in pieces if "tokens" in piece])
    with torch.no_grad():
        expected = case.rows(model, sound / 32768.0).double().numpy()
    return error(found, expected)


def main():
    ridge, names = sys.argv[1], sys.argv[2:]
    worst = 0.0
    for case in CASES:
        if names and not case.name.startswith(tuple(names)):
            continue
        torch.manual_seed(1)
        with tempfile.TemporaryDirectory() as tmp:
            own = check(ridge, case, pathlib.Path(tmp))
        worst = max(worst, own)
        print(f"{case.name:14} rows {own:.2e}", flush=True)
    print(f"transformers {transformers.__version__}, worst: {worst:.2e}")
    if not worst <= 1e-6:  # convolutions of some are F16
        raise SystemExit("too far")


if __name__ == "__main__":
    main()
