"""Checks `ridge convert` against transformers: transformers_check.py RIDGE [--table] [NAME...]. Small random models, saved
by save_pretrained, and their logits, or hidden states, in float32. A NAME is the beginning of a model class. --table
writes the rows of docs/models.md. Needs torch and transformers."""
import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
from unittest import mock

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

BOUND = 5e-6  # Gemma's activation rounds to f16, other models differ by 1e-8 at most
# Sparse gates, and attention whose scores are not divided: a small difference becomes a large one from layer to layer.
BOUNDS = {"Gemma3n": 1e-3, "T5ForConditionalGeneration": 5e-4, "MT5ForConditionalGeneration": 5e-4,
          "UMT5ForConditionalGeneration": 5e-4}
IDS = [1, 2, 3, 60, 70, 80, 17, 42, 90, 28, 7, 9, 31, 5, 5, 80, 11, 33, 64, 50]
WRITTEN = [5, 44, 9, 2, 71, 71, 13]  # by a decoder
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
NO_KV = dict(NO_DIM, num_key_value_heads=None)
GPT2 = dict(NO_KV, intermediate_size=None, num_hidden_layers=None, hidden_size=None, num_attention_heads=None,
            max_position_embeddings=None, n_embd=64, n_layer=4, n_head=4, n_positions=256, tie_word_embeddings=True)
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
T5 = dict(NO_KV, hidden_size=None, intermediate_size=None, num_hidden_layers=None, num_attention_heads=None,
          max_position_embeddings=None, rms_norm_eps=None, d_model=64, d_kv=16, d_ff=96, num_layers=4, num_heads=4)
BLOOM = dict(NO_KV, intermediate_size=None, num_hidden_layers=None, num_attention_heads=None,
             max_position_embeddings=None, n_layer=4, n_head=4, tie_word_embeddings=True)
MPT = dict(NO_KV, intermediate_size=None, num_hidden_layers=None, num_attention_heads=None, hidden_size=None,
           max_position_embeddings=None, d_model=64, n_layers=4, n_heads=4, max_seq_len=256, tie_word_embeddings=True)
INDEXED = dict(LATENT, index_head_dim=16, index_n_heads=32, index_topk=8)  # fewer heads tie at 0
JAMBA = dict(NO_DIM, num_experts=4, num_experts_per_tok=2, mamba_d_state=16, mamba_dt_rank=4, attn_layer_period=2,
             attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1, use_mamba_kernels=False)
WHOLE = dict(rope_type="default", rope_theta=1e6, partial_rotary_factor=1.0)
SIGMOID = dict(moe_intermediate_size=32, num_experts=4, num_experts_per_tok=2)
FAR = dict(rope_type="default", rope_theta=15000.0)
STEP = dict(n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, share_expert_dim=48, sliding_window=8,
            moe_router_scaling_factor=1.5, num_sliding_attention_heads=6, mlp_layer_types=["dense"] + ["sparse"] * 3,
            swiglu_limits=[0.0, None, 0.5, 0.3], swiglu_limits_shared=[0.0, 0.0, 0.4, None],
            layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
            rope_parameters=dict(full_attention=dict(LLAMA3, partial_rotary_factor=0.5),
                                 sliding_attention=dict(rope_type="default", rope_theta=500.0)))
QWEN4 = dict(DELTA, **EXPERTS, intermediate_size=None, rope_parameters=HALF_SECTIONS, hc_lowrank=24, ple_layer_ids=[2],
             ngram_vocab_size_base=50, heads_per_ngram=2, split_ngram_parts=4, make_ngram_vocab_size_divisible_by=8,
             indexer_n_heads=32, indexer_kv_heads=1, indexer_head_dim=16, indexer_budget=8, indexer_compress_ratio=4,
             output_gate_type="sigmoid")
MIMO = dict(SIGMOID, n_routed_experts=4, num_experts=None, v_head_dim=12, sliding_window_size=7, head_dim=24,
            norm_topk_prob=True, n_group=2, topk_group=1, routed_scaling_factor=1.5,
            layer_types=["full_attention", "sliding_attention"] * 2)
DEEPSEEK4 = dict(num_key_value_heads=1, head_dim=32, intermediate_size=None, q_lora_rank=24, moe_intermediate_size=32,
                 n_routed_experts=4, num_experts_per_tok=2, hc_mult=4, hc_sinkhorn_iters=3, o_groups=2, o_lora_rank=16,
                 index_n_heads=8, index_head_dim=16, index_topk=3, sliding_window=8, partial_rotary_factor=0.25,
                 swiglu_limit=0.5, routed_scaling_factor=1.5, mlp_layer_types=["hash_moe"] + ["moe"] * 3,
                 layer_types=["sliding_attention"] + ["heavily_compressed_attention"] +
                 ["compressed_sparse_attention"] * 2)
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
    ("Phimoe", "", dict(NO_DIM, **MIXTRAL, attention_bias=True, lm_head_bias=True, router_jitter_noise=0.2)),
    ("Phimoe", "", dict(NO_DIM, num_local_experts=8, num_experts_per_tok=2, sliding_window=64,
                        router_jitter_noise=0.3, rope_parameters=dict(LONG, short_mscale=1.2, long_mscale=1.2))),
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
    ("Gemma", "", {}),
    ("Gemma3n", "Gemma3nText",
     dict(num_hidden_layers=25, vocab_size_per_layer_input=96, hidden_size_per_layer_input=16, laurel_rank=64,
          num_kv_shared_layers=5, layer_types=(["sliding_attention"] * 4 + ["full_attention"]) * 5, sliding_window=8,
          activation_sparsity_pattern=[0.95] * 10 + [0.0] * 15, tie_word_embeddings=True)),
    ("KimiLinear", "", dict(NO_DIM, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=12,
                            moe_intermediate_size=32, num_experts=4, num_experts_per_token=2, linear_head_dim=16,
                            linear_num_heads=4, num_key_value_heads=4,
                            layer_types=["linear_attention", "full_attention"] * 2)),
    ("Cohere2Moe", "", dict(num_experts=4, num_experts_per_tok=2, num_shared_experts=1, sliding_window=8,
                            tie_word_embeddings=True)),
    ("Glm", "", {}),
    ("BertModel", "Bert", NO_KV), ("RobertaModel", "Roberta", NO_KV), ("XLMRobertaModel", "XLMRoberta", NO_KV),
    ("NomicBertModel", "NomicBert", NO_KV), ("JinaEmbeddingsV3Model", "JinaEmbeddingsV3", NO_KV),
    ("ModernBertModel", "ModernBert", dict(NO_KV, local_attention=8)), ("EuroBertModel", "EuroBert", {}),
    ("Gemma3TextModel", "Gemma3Text", dict(GEMMA3, use_bidirectional_attention=True)),
    ("T5EncoderModel", "T5", T5), ("T5EncoderModel", "T5", dict(T5, feed_forward_proj="gated-gelu")),
    ("UMT5EncoderModel", "UMT5", T5),
    ("Llama4", "Llama4Text", dict(num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=2,
                                  intermediate_size_mlp=80)),
    ("Llama4", "Llama4Text", dict(num_local_experts=4, num_experts_per_tok=2, interleave_moe_layer_step=1)),
    ("DeepseekV32", "", dict(INDEXED, n_group=2, topk_group=1)), ("GlmMoeDsa", "", INDEXED),
    ("GlmMoeDsa", "", dict(INDEXED, indexer_types=["full", "full", "shared", "full"])),
    ("Glm4MoeLite", "", dict(LATENT, norm_topk_prob=True)), ("Mistral4", "", dict(LATENT, num_key_value_heads=4)),
    ("MiniCPM3", "", dict(NO_DIM, num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=32, qk_nope_head_dim=16,
                          qk_rope_head_dim=8, v_head_dim=12)),
    ("Phi", "", dict(NO_DIM, partial_rotary_factor=0.5)),
    ("Olmo", "", NO_DIM), ("Olmo", "", dict(NO_DIM, clip_qkv=0.5)),
    ("Olmoe", "", dict(NO_DIM, num_experts=4, num_experts_per_tok=2)),
    ("Cohere", "", dict(logit_scale=0.25, tie_word_embeddings=True)),
    ("Cohere", "", dict(logit_scale=0.25, tie_word_embeddings=True, use_qk_norm=True)),
    ("StableLm", "", dict(NO_DIM, use_qkv_bias=True)), ("Starcoder2", "", dict(NO_DIM, sliding_window=None)),
    ("GPT2LMHeadModel", "GPT2", GPT2), ("GPTNeoX", "", NO_KV), ("GPTNeoX", "", dict(NO_KV, use_parallel_residual=False)),
    ("Nemotron", "", {}), ("Arcee", "", dict(rope_scaling=YARN)), ("Apertus", "", dict(rope_parameters=LLAMA3)),
    ("Jais2", "", {}), ("Dots1", "", GLM), ("SolarOpen", "", dict(GLM, first_k_dense_replace=0, rope_parameters=WHOLE)),
    ("ExaoneMoe", "", dict(SIGMOID, n_group=2, topk_group=1, sliding_window=8)),
    ("HYV3", "", SIGMOID), ("Afmoe", "", dict(SIGMOID, num_dense_layers=1, mup_enabled=True, sliding_window=8)),
    ("Mamba", "", dict(state_size=16, intermediate_size=128)),
    ("FalconMamba", "", dict(state_size=16, intermediate_size=128)), ("Jamba", "", JAMBA),
    ("Laguna", "", dict(SIGMOID, shared_expert_intermediate_size=48, sliding_window=8, num_hidden_layers=4,
                        layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
                        num_attention_heads_per_layer=[4, 8, 8, 4])),
    ("Mellum", "", dict(SIGMOID, sliding_window=8, num_local_experts=4, norm_topk_prob=True,
                        rope_parameters=dict(full_attention=FAR, sliding_attention=FAR),
                        layer_types=["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"])),
    ("T5ForConditionalGeneration", "T5", dict(T5, tie_word_embeddings=None)),
    ("T5ForConditionalGeneration", "T5", dict(T5, feed_forward_proj="gated-gelu", num_decoder_layers=2)),
    ("MT5ForConditionalGeneration", "MT5", dict(T5, feed_forward_proj="gated-gelu", num_decoder_layers=6)),
    ("UMT5ForConditionalGeneration", "UMT5", dict(T5, feed_forward_proj="gated-gelu")),
    ("GPTBigCode", "", GPT2), ("Bloom", "", BLOOM), ("Falcon", "", dict(NO_KV, tie_word_embeddings=True)),
    ("Falcon", "", dict(NO_KV, num_kv_heads=2, new_decoder_architecture=True)),
    ("Falcon", "", dict(NO_KV, num_kv_heads=2, new_decoder_architecture=True, num_ln_in_parallel_attn=1)),
    ("Mpt", "", dict(MPT, attn_config=dict(alibi=True, clip_qkv=2.0))),
    ("MiniMax", "", dict(MIXTRAL, rms_norm_eps=1e-6, linear_attn_alpha_factor=1.5, full_attn_alpha_factor=1.5,
                         mlp_alpha_factor=1.5, rope_parameters=FAR)),
    ("MiMoV2Flash", "", MIMO),
    ("Step3p7ForConditionalGeneration", "Step3p7", dict(vision_config=dict(SIGLIP, mlp_ratio=1.0),
                                                       text_config=STEP)),
    ("MiniMaxM3SparseForConditionalGeneration", "MiniMaxM3VL",
     dict(vision_config=SIGLIP, text_config=dict(
         MIXTRAL, intermediate_size=32, dense_intermediate_size=96, shared_intermediate_size=48, rotary_dim=8,
         rope_parameters=HALF, index_n_heads=2, index_head_dim=16, index_block_size=4,
         mlp_layer_types=["dense"] + ["sparse"] * 3, layer_types=["full_attention"] + ["minimax_m3_sparse"] * 3))),
    ("BitNet", "", NO_DIM), ("BitNet", "", dict(NO_DIM, tie_word_embeddings=True)),
    ("DeepseekV4", "", DEEPSEEK4),
    ("DeepseekV4", "", dict(DEEPSEEK4, rope_parameters=dict(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=64, beta_fast=32.0, beta_slow=1.0))),
    ("HYV4", "", dict(INDEXED, first_k_dense_replace=None, index_n_heads=8, n_shared_experts=1, hc_magnitude=1.5,
                      swiglu_limit=0.5, indexer_types=["full", "shared", "full", "full"])),
    ("Qwen4Exp", "Qwen4ExpText", QWEN4), ("Qwen4Exp", "Qwen4ExpText", dict(QWEN4, ple_layer_ids=[])),
    ("GraniteSWA", "", dict(GRANITE, sliding_window=8, layer_rope_theta=[0, 1e4, 1e4, 0])),
    ("GraniteMoeSWA", "", dict(GRANITE, **MIXTRAL, sliding_window=8, shared_intermediate_size=48)),
]


# Classes that transformers has not, as models of another class with other names: the class, the other one, its fields,
# other fields of config.json, and names with what takes their place. q, k and v may become one matrix.
LLAMA_NAMES = [("self_attn.o_proj", "attention.wo"), ("input_layernorm", "attention_norm"),
               ("post_attention_layernorm", "ffn_norm"), ("mlp.gate_proj", "feed_forward.w1"),
               ("mlp.up_proj", "feed_forward.w3"), ("mlp.down_proj", "feed_forward.w2"),
               ("embed_tokens", "tok_embeddings"), ("lm_head", "output")]
EXAONE_NAMES = [("self_attn.o_proj", "attn.attention.out_proj"), ("self_attn", "attn.attention"),
                ("post_attention_layernorm", "ln_2"), ("input_layernorm", "ln_1"), ("gate_proj", "c_fc_0"),
                ("up_proj", "c_fc_1"), ("down_proj", "c_proj"), ("model.layers", "transformer.h"),
                ("model.norm", "transformer.ln_f"), ("model.embed_tokens", "transformer.wte")]
LING_NAMES = [("self_attn.o_proj", "attention.dense"), ("self_attn.q_norm", "attention.query_layernorm"),
              ("self_attn.k_norm", "attention.key_layernorm"), ("embed_tokens", "word_embeddings"),
              ("gate.e_score_correction_bias", "gate.expert_bias")]
LLADA_NAMES = [("self_attn.o_proj", "attn_out"), ("self_attn.", ""), ("post_attention_layernorm", "ff_norm"),
               ("input_layernorm", "attn_norm"), ("mlp.gate_proj", "ff_proj"), ("mlp.up_proj", "up_proj"),
               ("mlp.down_proj", "ff_out"), ("lm_head", "model.transformer.ff_out"),
               ("model.layers", "model.transformer.blocks"), ("model.norm", "model.transformer.ln_f"),
               ("model.embed_tokens", "model.transformer.wte")]
LLADA_FIELDS = dict(d_model=64, n_heads=4, n_kv_heads=2, n_layers=4, mlp_hidden_size=96, max_sequence_length=256)
SEE_ALL = {"LLaDAModelLM", "LLaDAMoEModelLM", "DreamModel", "RND1LM"}  # tokens see later ones
RENAMED = [
    ("LLaDAModelLM", "Llama", {}, LLADA_FIELDS, LLADA_NAMES, ""),
    ("LLaDAMoEModelLM", "Qwen3Moe", dict(EXPERTS, norm_topk_prob=False), {}, [], ""),
    ("DreamModel", "Qwen2", NO_DIM, {}, [], ""),
    ("RND1LM", "Qwen3Moe", dict(EXPERTS, norm_topk_prob=True), {}, [], ""),
    ("InternLM2ForCausalLM", "Llama", {}, {}, LLAMA_NAMES, "grouped attention.wqkv"),
    ("ExaoneForCausalLM", "Llama", dict(rope_scaling=LLAMA3), dict(num_layers=4), EXAONE_NAMES, ""),
    ("MiniCPMForCausalLM", "Granite", dict(NO_DIM, embedding_multiplier=12.0, residual_multiplier=0.7,
                                           attention_multiplier=0.25, logits_scaling=0.25),
     dict(scale_emb=12.0, scale_depth=1.4, dim_model_base=256), [], ""),
    ("BailingMoeV2ForCausalLM", "Glm4Moe", dict(GLM, use_qk_norm=True),
     dict(num_experts=4, num_shared_experts=1, score_function="sigmoid"), LING_NAMES, "attention.query_key_value"),
    ("DeepseekForCausalLM", "Qwen2Moe", dict(NO_DIM, **EXPERTS, norm_topk_prob=False, qkv_bias=False,
                                             mlp_only_layers=[0]),
     dict(n_routed_experts=4, n_shared_experts=2, first_k_dense_replace=1, mlp_only_layers=None),
     [("shared_expert.", "shared_experts.")], "ungated"),
]


def renamed(folder, hf_class, more, names, fused):
    """Makes the checkpoint in the folder one of another class."""
    config = json.loads((folder / "config.json").read_text())
    config.update(more, architectures=[hf_class], model_type="other")
    (folder / "config.json").write_text(json.dumps(config))
    tensors = load_file(folder / "model.safetensors")
    if fused == "ungated":  # a gate of 0 halves what the shared expert gives
        tensors = {name: tensor / 2 if "shared_expert.down_proj" in name else tensor for name, tensor in tensors.items()
                   if "shared_expert_gate" not in name}
        fused = ""
    for name in [n for n in tensors if ".q_proj." in n and fused]:
        q, k, v = (tensors.pop(name.replace("q_proj", f"{part}_proj")) for part in "qkv")
        if fused.startswith("grouped"):
            q, k, v = (t.reshape(config["num_key_value_heads"], -1, *t.shape[1:]) for t in (q, k, v))
            whole = torch.cat([q, k, v], 1).flatten(0, 1)
        else:
            whole = torch.cat([q, k, v])
        tensors[name.replace("self_attn.q_proj", fused.split()[-1])] = whole.contiguous()
    for old, new in names:
        tensors = {name.replace(old, new): tensor for name, tensor in tensors.items()}
    save_file(tensors, folder / "model.safetensors")


def fields(more):
    own = dict(COMMON, **{k: v for k, v in more.items() if k not in ("text_config", "vision_config")})
    if "text_config" in more:
        own = dict(text_config=dict(COMMON, **more["text_config"]), vision_config=more["vision_config"],
                   tie_word_embeddings=False)
    return {k: v for k, v in own.items() if v is not None or k not in COMMON}


def class_of(kind):
    return kind if kind.endswith(("Generation", "Model", "LM")) else kind + "ForCausalLM"


def shaken(model, zero="nothing"):
    """Random weights large enough to tell a wrong place from a right one, norms and biases among them."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if zero in name:
                p.zero_()
            elif p.ndim <= 1 or "conv" in name:
                p.add_(torch.randn_like(p) * 0.2)
            else:
                p.copy_(torch.randn_like(p) * 0.15)
        for name, p in model.named_buffers():
            if "bias" in name and p.is_floating_point():
                p.add_(torch.randn_like(p) * 0.1)
    return model


def as_in_files(kind):
    """Gemma 3n's sparse gates cut at a deviation. transformers divides it by n, files of GGUF mean one by n - 1."""
    deviation = torch.std
    return mock.patch("torch.std", lambda x, **more: deviation(x, **dict(more, unbiased=True))) if kind == "Gemma3n" \
        else contextlib.nullcontext()


def comparable(kind, rows):
    """Qwen 3.8's attention sees whole blocks of four positions. With files of GGUF it sees the same number of positions
    at each place, so a part of one more block, unless three positions follow the last whole block or all are seen."""
    return [row for row in range(rows) if row < 11 or row % 4 == 2] if kind == "Qwen4Exp" else slice(None)


def run(ridge, *args):
    done = subprocess.run([ridge, *map(str, args)], capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError(done.stderr.strip())


def check(ridge, kind, configuration, more, rename=lambda folder: None, sees_all=False, zero="nothing"):
    """The normalized mean squared error of ridge's logits, or of its embeddings where the class gives these."""
    config = getattr(transformers, (configuration or kind) + "Config")(**fields(more))
    config._attn_implementation = "eager"
    model = shaken(getattr(transformers, class_of(kind))(config).float().eval(), zero)
    with tempfile.TemporaryDirectory() as tmp:
        folder = pathlib.Path(tmp)
        model.save_pretrained(folder)
        rename(folder)
        with torch.no_grad(), as_in_files(kind):
            mask = torch.zeros(1, 1, len(IDS), len(IDS)) if sees_all else None
            if kind.endswith("5ForConditionalGeneration"):  # the text behind an encoder: the start token, then this
                made = model(torch.tensor([IDS]), decoder_input_ids=torch.tensor([[0] + WRITTEN]))
            else:
                made = model(torch.tensor([IDS]), attention_mask=mask)
        embeds = not hasattr(made, "logits")
        expected = (made.last_hidden_state if embeds else made.logits)[0].double().numpy()
        command = ["embed", "--pooling", "none"] if embeds else ["logits"]
        ids = IDS + [0] + WRITTEN if hasattr(made, "encoder_last_hidden_state") else IDS
        run(ridge, "convert", folder, "-o", folder / "out.gguf", "--text-only")
        run(ridge, *command, "-m", folder / "out.gguf", "--ids", ",".join(map(str, ids)), "--out", folder / "out.npy",
            "--device", "cpu", "--exact")
        found = np.load(folder / "out.npy")
    expected, found = (logits[comparable(kind, len(logits))] for logits in (expected, found))
    return ((found - expected) ** 2).sum() / (expected ** 2).sum()


def main():
    ridge, names = sys.argv[1], [name for name in sys.argv[2:] if name != "--table"]
    worst, failed = {}, 0
    cases = [(case[0], *case, lambda folder: None) for case in CASES]
    for kind, base, more, *other in RENAMED:
        cases.append((kind, base, "", more, lambda folder, kind=kind, other=other: renamed(folder, kind, *other),
                      kind in SEE_ALL, "shared_expert_gate" if kind == "DeepseekForCausalLM" else "nothing"))
    for kind, *case in cases:
        if names and not kind.startswith(tuple(names)):
            continue
        torch.manual_seed(1)
        more = case[2]
        try:
            error = check(ridge, *case)
        except ValueError as reason:
            error = reason
        right = not isinstance(error, ValueError) and error <= BOUNDS.get(kind, BOUND)
        failed += not right
        worst[kind] = max(worst.get(kind, 0), error) if right else float("inf")
        if "--table" not in sys.argv:
            print(f"{kind:36} {str(more)[:60]:60} {error if isinstance(error, ValueError) else f'{error:.2e}'}",
                  flush=True)
    if "--table" in sys.argv:
        for kind, error in worst.items():
            print(f"| `{class_of(kind)}` | {error:.0e} |")
    if failed:
        raise SystemExit(f"{failed} differ, or could not be compared")
    print(f"transformers {transformers.__version__}: all agree", file=sys.stderr)


if __name__ == "__main__":
    main()
