"""Checks `ridge convert` against transformers: transformers_check.py RIDGE [NAME...]. Small random models, saved by
save_pretrained, and their logits in float32. A NAME is the beginning of a model class. Needs torch and transformers."""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers

IDS = [1, 2, 3, 60, 70, 80, 17, 42, 90, 28, 7, 9, 31, 5, 5, 80, 11, 33, 64, 50]
COMMON = dict(vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
              num_key_value_heads=2, head_dim=16, max_position_embeddings=256, tie_word_embeddings=False,
              rms_norm_eps=1e-5, pad_token_id=0, bos_token_id=1, eos_token_id=2)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64, rope_theta=10000.0)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=128, rope_theta=10000.0)
MINISTRAL = dict(rope_type="yarn", rope_theta=1e6, factor=4.0, original_max_position_embeddings=64, beta_fast=32.0,
                 beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1)
LONG = dict(rope_type="longrope", rope_theta=1e4, short_factor=[1 + 0.1 * i for i in range(8)],
            long_factor=[2 + 0.3 * i for i in range(8)], original_max_position_embeddings=64)
SECTIONS = dict(rope_type="default", rope_theta=1e6, mrope_section=[4, 2, 2])
HALF_SECTIONS = dict(rope_type="default", rope_theta=1e6, partial_rotary_factor=0.5, mrope_section=[2, 1, 1])
HALF = dict(rope_type="default", rope_theta=1e6, partial_rotary_factor=0.5)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=48)
WIDER = dict(EXPERTS, moe_intermediate_size=40)  # gate and up are not as wide as the model together
MIXTRAL = dict(num_local_experts=4, num_experts_per_tok=2)
DELTA = dict(linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_value_head_dim=16, linear_num_key_heads=2,
             linear_num_value_heads=6)
VISION = dict(depth=1, hidden_size=32, num_heads=2, intermediate_size=32, out_hidden_size=64)
NO_DIM = dict(head_dim=None)  # taken out of the common fields
CONV = dict(NO_DIM, norm_eps=1e-5, layer_types=["conv", "full_attention", "conv", "conv"])
NEMOTRON = dict(mamba_num_heads=8, mamba_head_dim=16, ssm_state_size=16, n_groups=2, conv_kernel=4, expand=2,
                chunk_size=16, layer_norm_epsilon=1e-5)
GRANITE = dict(NO_DIM, embedding_multiplier=3.0, residual_multiplier=0.5, attention_multiplier=0.3, logits_scaling=2.0)
HYBRID = dict(GRANITE, mamba_n_heads=8, mamba_d_head=16, mamba_n_groups=2, mamba_d_state=16, mamba_d_conv=4,
              mamba_expand=2, mamba_chunk_size=16, shared_intermediate_size=48,
              layer_types=["mamba", "mamba", "attention", "mamba"])
FALCON = dict(mamba_d_ssm=128, mamba_n_heads=8, mamba_d_head=16, mamba_n_groups=2, mamba_d_state=16, mamba_d_conv=4,
              mamba_chunk_size=16)
MULTIPLIERS = dict(attention_in_multiplier=0.5, attention_out_multiplier=0.7, key_multiplier=1.5,
                   ssm_in_multiplier=1.3, ssm_out_multiplier=0.6, mlp_multipliers=[1.2, 0.8],
                   ssm_multipliers=[1.1, 0.9, 1.2, 0.8, 0.7], embedding_multiplier=2.0, lm_head_multiplier=0.5)
GLM = dict(moe_intermediate_size=32, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1,
           first_k_dense_replace=1, routed_scaling_factor=1.5, norm_topk_prob=True, n_group=1, topk_group=1)
LATENT = dict(NO_DIM, num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8,
              v_head_dim=12, moe_intermediate_size=32, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=2,
              first_k_dense_replace=1)
GEMMA3 = dict(num_hidden_layers=7, sliding_window=8, query_pre_attn_scalar=16, tie_word_embeddings=True)
GEMMA4 = dict(num_hidden_layers=6, sliding_window=8, global_head_dim=32, tie_word_embeddings=True,
              layer_types=["sliding_attention", "full_attention"] * 3)
SIGLIP = dict(hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=28,
              patch_size=14)
FAR = dict(rope_type="default", rope_theta=15000.0)
# Model class, configuration class where it is not the model's, fields.
CASES = [
    ("Llama", "", {}), ("Llama", "", dict(rope_scaling=LLAMA3)), ("Llama", "", dict(rope_scaling=YARN)),
    ("Llama", "", dict(tie_word_embeddings=True, attention_bias=True)), ("Mistral", "", dict(sliding_window=64)),
    ("Mixtral", "", MIXTRAL), ("Qwen2", "", NO_DIM), ("Qwen2Moe", "", dict(NO_DIM, **EXPERTS)), ("Qwen3", "", {}),
    ("Qwen3Moe", "", dict(EXPERTS, norm_topk_prob=True)),
    ("Qwen3VLForConditionalGeneration", "Qwen3VL", dict(vision_config=dict(VISION, deepstack_visual_indexes=[0]),
                                                       text_config=dict(rope_parameters=SECTIONS))),
    ("Qwen3VLMoeForConditionalGeneration", "Qwen3VLMoe",
     dict(vision_config=dict(VISION, deepstack_visual_indexes=[0]),
          text_config=dict(WIDER, rope_parameters=SECTIONS, norm_topk_prob=True))),
    ("Qwen3Next", "", dict(DELTA, **EXPERTS, norm_topk_prob=True, rope_parameters=HALF)),
    ("Qwen3_5", "Qwen3_5Text", dict(DELTA, rope_parameters=HALF_SECTIONS)),
    ("Qwen3_5Moe", "Qwen3_5MoeText", dict(DELTA, **EXPERTS, rope_parameters=HALF_SECTIONS)),
    ("Qwen3_5ForConditionalGeneration", "Qwen3_5",
     dict(vision_config=VISION, text_config=dict(DELTA, rope_parameters=HALF_SECTIONS))),
    ("Lfm2", "", dict(CONV, block_multiple_of=32, block_auto_adjust_ff_dim=True, block_ffn_dim_multiplier=1.0)),
    ("Lfm2Moe", "", dict(CONV, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, num_dense_layers=1)),
    ("NemotronH", "", dict(NEMOTRON, layers_block_type=["mamba", "mlp", "attention", "mamba"])),
    ("NemotronH", "", dict(NEMOTRON, layers_block_type=["mamba", "moe", "attention", "moe"], num_experts_per_tok=2,
                           n_routed_experts=4, n_shared_experts=1, moe_intermediate_size=32, n_group=1, topk_group=1,
                           moe_shared_expert_intermediate_size=48, norm_topk_prob=True, routed_scaling_factor=2.5)),
    ("Granite", "", GRANITE), ("GraniteMoe", "", dict(GRANITE, **MIXTRAL)),
    ("GraniteMoeShared", "", dict(GRANITE, **MIXTRAL, shared_intermediate_size=48)),
    ("GraniteMoeHybrid", "", dict(HYBRID, **MIXTRAL)),
    ("GraniteMoeHybrid", "", dict(HYBRID, num_local_experts=0, num_experts_per_tok=0, position_embedding_type="nope")),
    ("GraniteMoeHybrid", "", dict(HYBRID, num_local_experts=0, num_experts_per_tok=0, position_embedding_type="rope",
                                  layer_types=["attention"] * 4)),
    ("FalconH1", "", dict(FALCON, **MULTIPLIERS, mamba_rms_norm=False)),
    ("FalconH1", "", dict(FALCON, mamba_rms_norm=True, mamba_norm_before_gate=False, tie_word_embeddings=True)),
    ("Mamba2", "", dict(state_size=16, num_heads=8, head_dim=16, n_groups=2, conv_kernel=4, expand=2, chunk_size=16)),
    ("Ministral3", "", dict(rope_parameters=MINISTRAL)),
    ("Phi3", "", dict(NO_DIM, sliding_window=None)),
    ("Phi3", "", dict(NO_DIM, sliding_window=None, original_max_position_embeddings=64, rope_parameters=LONG)),
    ("MiniMaxM2", "", dict(MIXTRAL, intermediate_size=32, rotary_dim=8)),
    ("Olmo2", "", NO_DIM), ("Olmo3", "", dict(NO_DIM, sliding_window=8)), ("SmolLM3", "", NO_DIM), ("SeedOss", "", {}),
    ("HunYuanDenseV1", "", {}), ("HunYuanMoEV1", "", dict(num_experts=4, moe_topk=2)),
    ("Exaone4", "", dict(sliding_window=None, layer_types=["full_attention"] * 4)),
    ("Cohere2", "", dict(layer_norm_eps=1e-5, sliding_window=8, logit_scale=0.25, tie_word_embeddings=True)),
    ("Ernie4_5", "", {}),
    ("Ernie4_5_Moe", "", dict(moe_num_experts=4, moe_k=2, moe_num_shared_experts=1, moe_intermediate_size=32,
                              moe_layer_start_index=1)),
    ("Glm4", "", {}), ("Glm4Moe", "", dict(GLM, use_qk_norm=True)),
    ("DeepseekV2", "", dict(LATENT, q_lora_rank=None, routed_scaling_factor=1.0, norm_topk_prob=False,
                            topk_method="greedy")),
    ("Gemma2", "", dict(sliding_window=8, query_pre_attn_scalar=16, attn_logit_softcapping=20.0,
                        final_logit_softcapping=10.0, tie_word_embeddings=True)),
    ("Gemma3", "Gemma3Text", GEMMA3),
    ("Gemma3ForConditionalGeneration", "Gemma3", dict(text_config=GEMMA3, vision_config=SIGLIP)),
    ("Gemma4", "Gemma4Text", dict(GEMMA4, hidden_size_per_layer_input=0)),
    ("Gemma4", "Gemma4Text", dict(GEMMA4, hidden_size_per_layer_input=16, vocab_size_per_layer_input=96,
                                  num_kv_shared_layers=2, use_double_wide_mlp=True)),
    ("Gemma4", "Gemma4Text", dict(GEMMA4, hidden_size_per_layer_input=0, attention_k_eq_v=True, enable_moe_block=True,
                                  num_global_key_value_heads=1, num_experts=4, top_k_experts=2,
                                  moe_intermediate_size=32)),
    ("MuseGlimmerForConditionalGeneration", "MuseGlimmer",
     dict(text_config=dict(sliding_window=8, rope_parameters=FAR),
          vision_config=dict(SIGLIP, num_hidden_layers=1))),
    ("GptOss", "", dict(MIXTRAL, intermediate_size=32, sliding_window=8, rope_parameters=FAR)),
    ("GptOss", "", dict(MIXTRAL, intermediate_size=32, sliding_window=8)),
    ("DeepseekV3", "", dict(LATENT, n_group=2, topk_group=1, routed_scaling_factor=2.5, norm_topk_prob=True)),
]


def fields(more):
    own = dict(COMMON, **{k: v for k, v in more.items() if k not in ("text_config", "vision_config")})
    if "text_config" in more:
        own = dict(text_config=dict(COMMON, **more["text_config"]), vision_config=more["vision_config"],
                   tie_word_embeddings=False)
    return {k: v for k, v in own.items() if k != "head_dim" or v is not None}


def main():
    ridge, names = sys.argv[1], sys.argv[2:]
    torch.manual_seed(1)
    worst = 0.0
    for kind, configuration, more in CASES:
        if names and not kind.startswith(tuple(names)):
            continue
        with tempfile.TemporaryDirectory() as tmp:
            folder = pathlib.Path(tmp)
            config = getattr(transformers, (configuration or kind) + "Config")(**fields(more))
            config._attn_implementation = "eager"
            model_class = kind if kind.endswith("Generation") else kind + "ForCausalLM"
            model = getattr(transformers, model_class)(config).float().eval()
            with torch.no_grad():
                for name, p in model.named_parameters():
                    if p.ndim <= 1 or "conv" in name:
                        p.add_(torch.randn_like(p) * 0.2)
                    else:
                        p.copy_(torch.randn_like(p) * 0.15)
                for name, p in model.named_buffers():
                    if "bias" in name:
                        p.add_(torch.randn_like(p) * 0.1)
            model.save_pretrained(folder)
            with torch.no_grad():
                expected = model(torch.tensor([IDS])).logits[0].double().numpy()
            for args in (["convert", folder, "-o", folder / "out.gguf", "--text-only"],
                         ["logits", "-m", folder / "out.gguf", "--ids", ",".join(map(str, IDS)), "--out",
                          folder / "out.npy", "--device", "cpu", "--exact"]):
                done = subprocess.run([ridge, *map(str, args)], capture_output=True, text=True)
                if done.returncode != 0:
                    raise SystemExit(f"{kind} {more}: {done.stderr}\n{(folder / 'config.json').read_text()}")
            found = np.load(folder / "out.npy")
            error = ((found - expected) ** 2).sum() / (expected ** 2).sum()
            worst = max(worst, error)
            print(f"{kind:36} {str(more)[:60]:60} {error:.2e}", flush=True)
    print(f"transformers {transformers.__version__}, worst: {worst:.2e}")
    if not worst <= 5e-6:  # Gemma's activation rounds to f16, other models differ by 1e-10 at most
        raise SystemExit("too far")


if __name__ == "__main__":
    main()
