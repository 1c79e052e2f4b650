// Hyper-connections: DeepSeek V4, Hunyuan 4. Names are the makers' and, where they differ, those that transformers
// writes.
#include "models/checkpoints/rows.h"

namespace ridge::models {
namespace {

constexpr TensorRule kDeepSeek[] = {
    {"hc_head_fn", "output_hc_fn.weight"},
    {"hc_head_base", "output_hc_base.weight"},
    {"hc_head_scale", "output_hc_scale.weight"},
    {"hc_head.hc_fn", "output_hc_fn.weight"},
    {"hc_head.hc_base", "output_hc_base.weight"},
    {"hc_head.hc_scale", "output_hc_scale.weight"},
    {"hc_attn_fn", "hc_attn_fn.weight"},
    {"hc_attn_base", "hc_attn_base.weight"},
    {"hc_attn_scale", "hc_attn_scale.weight"},
    {"hc_ffn_fn", "hc_ffn_fn.weight"},
    {"hc_ffn_base", "hc_ffn_base.weight"},
    {"hc_ffn_scale", "hc_ffn_scale.weight"},
    {"attn_norm", "attn_norm"},
    {"attn.wq_a", "attn_q_a"},
    {"attn.q_norm", "attn_q_a_norm"},
    {"attn.wq_b", "attn_q_b"},
    {"attn.wkv", "attn_kv"},
    {"attn.kv_norm", "attn_kv_a_norm"},
    {"attn.norm", "attn_kv_a_norm"},
    {"attn.attn_sink", "attn_sinks.weight"},
    {"attn.wo_a", "attn_output_a", {.rows = Rows::output_groups}},
    {"attn.wo_b", "attn_output_b"},
    {"attn.compressor.wkv", "attn_compressor_kv"},
    {"attn.compressor.wgate", "attn_compressor_gate"},
    {"attn.compressor.ape", "attn_compressor_ape.weight"},
    {"attn.compressor.norm", "attn_compressor_norm"},
    {"attn.indexer.wq_b", "indexer.attn_q_b"},
    {"attn.indexer.weights_proj", "indexer.proj"},
    {"attn.indexer.compressor.wkv", "indexer_compressor_kv"},
    {"attn.indexer.compressor.wgate", "indexer_compressor_gate"},
    {"attn.indexer.compressor.ape", "indexer_compressor_ape.weight"},
    {"attn.indexer.compressor.norm", "indexer_compressor_norm"},
    {"ffn.gate.weight", "ffn_gate_inp.weight"},
    {"ffn.gate.bias", "exp_probs_b.bias"},
    {"ffn.gate.tid2eid", "ffn_gate_tid2eid.weight", {.as = As::integers}},
    {"ffn.experts.{}.w1", "ffn_gate_exps"},
    {"ffn.experts.{}.w3", "ffn_up_exps"},
    {"ffn.experts.{}.w2", "ffn_down_exps"},
    {"ffn.shared_experts.w1", "ffn_gate_shexp"},
    {"ffn.shared_experts.w3", "ffn_up_shexp"},
    {"ffn.shared_experts.w2", "ffn_down_shexp"},
};
constexpr FieldRule kDeepSeekFields[] = {
    {"attention.q_lora_rank", Kind::count, "q_lora_rank"},
    {"attention.sliding_window", Kind::count, "sliding_window", 128},
    {"attention.compress_ratios", Kind::counts, "compress_ratios"},
    {"attention.compress_rope_freq_base", Kind::real, "compress_rope_theta | rope_parameters.compress.rope_theta",
     160000},
    {"attention.output_group_count", Kind::count, "o_groups", 8},
    {"attention.output_lora_rank", Kind::count, "o_lora_rank", 1024},
    {"attention.indexer.head_count", Kind::count, "index_n_heads", 64},
    {"attention.indexer.key_length", Kind::count, "index_head_dim", 128},
    {"attention.indexer.top_k", Kind::count, "index_topk", 512},
    {"hyper_connection.count", Kind::count, "hc_mult", 4},
    {"hyper_connection.sinkhorn_iterations", Kind::count, "hc_sinkhorn_iters", 20},
    {"hyper_connection.epsilon", Kind::real, "hc_eps", 1e-6},
    {"hash_layer_count", Kind::count, "num_hash_layers | mlp_layer_types = hash_moe", 0},
    {"rope.dimension_count", Kind::count, "qk_rope_head_dim"},
    {"expert_shared_count", Kind::count, "n_shared_experts", 1},
    {"expert_gating_func", Kind::count, "1 + scoring_func = sigmoid + 3 * scoring_func = sqrtsoftplus", 4},
    {"expert_weights_norm", Kind::flag, "norm_topk_prob", 1},
    {"expert_weights_scale", Kind::real, "routed_scaling_factor", 1.5},
    {"swiglu_clamp_exp", Kind::reals, "swiglu_limit"},
};

constexpr TensorRule kHunyuan[] = {
    {"hc_pre.hc_head.hc_head_fn", "output_hc_fn.weight"},
    {"hc_pre.hc_head.hc_head_base", "output_hc_base.weight"},
    {"hc_pre.hc_head.hc_head_scale", "output_hc_scale.weight"},
    {"hc_pre.hc_attn_layer.hc_fn", "hc_attn_fn.weight"},
    {"hc_pre.hc_attn_layer.hc_base", "hc_attn_base.weight"},
    {"hc_pre.hc_attn_layer.hc_scale", "hc_attn_scale.weight"},
    {"hc_pre.hc_mlp_layer.hc_fn", "hc_ffn_fn.weight"},
    {"hc_pre.hc_mlp_layer.hc_base", "hc_ffn_base.weight"},
    {"hc_pre.hc_mlp_layer.hc_scale", "hc_ffn_scale.weight"},
    {"self_attn.q_b_proj", "attn_q_b", {.rows = Rows::rope_pairs}},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", {.rows = Rows::rope_pairs}},
    {"self_attn.indexer.wq_b", "indexer.attn_q_b", {.rows = Rows::rope_pairs}},
    {"self_attn.indexer.wk", "indexer.attn_k", {.rows = Rows::rope_pairs}},
    {"self_attn.indexer.k_norm", "indexer.k_norm", {.rows = Rows::rope_pairs}},
    {"self_attn.learnable_sink_param", "attn_sinks.weight"},
    {"self_attn.linear_gate", "attn_gate"},
    {"mlp.linear_gate", "ffn_gate"},
    {"mlp.shared_experts.linear_gate", "ffn_gate_shexp"},
};
constexpr FieldRule kHunyuanFields[] = {
    {"leading_dense_block_count", Kind::count, "first_k_dense_replace | mlp_layer_types = dense", 1},
    {"expert_weights_scale", Kind::real, "routed_scaling_factor", 2.827},
    {"hyper_connection.count", Kind::count, "hc_mult", 4},
    {"hyper_connection.epsilon", Kind::real, "hc_eps", 1e-6},
    {"hyper_connection.magnitude", Kind::real, "hc_magnitude", 2},
    {"swiglu_clamp_exp", Kind::reals, "swiglu_limit"},
};
constexpr FixedField kHunyuanFixed[] = {{"n_group", 1, 1}, {"attention_bias", 0, 0}};

} // namespace

constinit const Checkpoint checkpoints::deepseek4 = {
    .tensors = kDeepSeek, .fields = kDeepSeekFields, .layers = {.compress_ratios = true}, .rotated = 0.125};
constinit const Checkpoint checkpoints::hy_v4 = {
    .base = &deepseek32, .tensors = kHunyuan, .fields = kHunyuanFields, .fixed = kHunyuanFixed};

} // namespace ridge::models
