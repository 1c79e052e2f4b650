// Routed experts after dense layers.
#include "models/checkpoints/drafts.h"
#include "models/checkpoints/rows.h"

namespace ridge::models {
namespace {

constexpr std::string_view kDense = "first_k_dense_replace | num_dense_layers | mlp_layer_types = dense";
constexpr FieldRule kFields[] = {
    {"leading_dense_block_count", Kind::count, kDense, 0},
    {"expert_shared_count", Kind::count, "n_shared_experts | num_shared_experts", 0},
    {"expert_gating_func", Kind::count, "2"},
    {"expert_weights_norm", Kind::flag, "norm_topk_prob | route_norm", 1},
    {"expert_weights_scale", Kind::real, "routed_scaling_factor | router_scaling_factor | route_scale", 1},
    {"expert_group_count", Kind::count, "n_group"},
    {"expert_group_used_count", Kind::count, "topk_group"},
};

constexpr TensorRule kRotated[] = {{"self_attn.q_proj", "attn_q", {.rows = Rows::rope_pairs}},
                                   {"self_attn.k_proj", "attn_k", {.rows = Rows::rope_pairs}}};
constexpr FieldRule kDeepSeek[] = {
    {"expert_gating_func", Kind::count, "1"},
    {"expert_weights_norm", Kind::flag, "norm_topk_prob", 0},
    {"expert_weights_scale", Kind::real, "1"},
};
constexpr FixedField kDeepSeekFixed[] = {{"norm_topk_prob", 0, 0}, {"moe_layer_freq", 1, 1}};

constexpr TensorRule kLing[] = {
    {"attention.query_layernorm", "attn_q_norm"},
    {"attention.key_layernorm", "attn_k_norm"},
    {"attention.query_key_value", "attn_qkv"},
};
constexpr TensorRule kLingDrafts[] = {{"eh_proj", "nextn.eh_proj"},
                                      {"enorm", "nextn.enorm"},
                                      {"hnorm", "nextn.hnorm"},
                                      {"final_layernorm", "layer_output_norm"}};
constexpr FieldRule kLingFields[] = {
    {"expert_shared_feed_forward_length", Kind::count, "moe_shared_expert_intermediate_size"},
    {"expert_shared_feed_forward_length", Kind::count, "num_shared_experts * moe_intermediate_size"}};

constexpr FixedField kOlmoe[] = {{"norm_topk_prob", 0, 0}};
constexpr FieldRule kOlmoeFields[] = {{"attention.clamp_kqv", Kind::real, "clip_qkv"}};

constexpr FieldRule kLlama4[] = {
    {"feed_forward_length", Kind::count, "intermediate_size_mlp"},
    {"expert_feed_forward_length", Kind::count, "intermediate_size"},
    {"interleave_moe_layer_step", Kind::count, "interleave_moe_layer_step", 1},
};
constexpr TensorRule kLlama4Tensors[] = {
    {"feed_forward.experts.gate_up_proj", "ffn_gate_exps.weight", {.rows = Rows::first_half, .transposed = true}},
    {"feed_forward.experts.gate_up_proj", "ffn_up_exps.weight", {.rows = Rows::second_half, .transposed = true}},
    {"feed_forward.experts.down_proj", "ffn_down_exps.weight", {.transposed = true}},
    {"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"feed_forward.shared_expert.up_proj", "ffn_up_shexp"},
    {"feed_forward.shared_expert.down_proj", "ffn_down_shexp"},
};
constexpr FixedField kLlama4Fixed[] = {
    {"attention_chunk_size", 8192, 8192},
    {"no_rope_layer_interval", 4, 4},
    {"attn_scale", 0.1, 0.1},
    {"floor_scale", 8192, 8192},
    {"use_qk_norm + num_local_experts = 128", 1, 1}, // the largest has no norms
};

constexpr TensorRule kAfmoe[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_mlp_layernorm", "ffn_norm"},
    {"post_mlp_layernorm", "post_ffw_norm"},
    {"self_attn.gate_proj", "attn_gate"},
};
constexpr FieldRule kAfmoeFields[] = {
    {"expert_shared_feed_forward_length", Kind::count, "num_shared_experts * moe_intermediate_size"}};
constexpr FixedField kAfmoeFixed[] = {{"mup_enabled", 1, 0}, {"global_attn_every_n_layers", 4, 4}};

constexpr FixedField kQwen2Moe[] = {{"norm_topk_prob", 0, 0}, {"decoder_sparse_step", 1, 1}};
constexpr FixedField kQwen3Moe[] = {{"norm_topk_prob", 1, 0}, {"decoder_sparse_step", 1, 1}};

} // namespace

constinit const Checkpoint checkpoints::qwen2moe = {.fixed = kQwen2Moe};
constinit const Checkpoint checkpoints::qwen3moe = {.fixed = kQwen3Moe};
constinit const Checkpoint checkpoints::dots1 = {.fields = kFields};
constinit const Checkpoint checkpoints::exaone_moe = {.fields = kFields, .layers = {.windows = true}};
constinit const Checkpoint checkpoints::hy_v3 = {.fields = std::span(kFields).subspan(1),
                                                 .drafts = checkpoints::kDraftLayers};
constinit const Checkpoint checkpoints::deepseek = {
    .base = &dots1, .tensors = kRotated, .fields = kDeepSeek, .fixed = kDeepSeekFixed};
constinit const Checkpoint checkpoints::bailingmoe2 = {
    .base = &dots1, .tensors = kLing, .fields = kLingFields, .drafts = kLingDrafts};
constinit const Checkpoint checkpoints::olmoe = {.fields = kOlmoeFields, .fixed = kOlmoe};
constinit const Checkpoint checkpoints::llama4 = {.tensors = kLlama4Tensors, .fields = kLlama4, .fixed = kLlama4Fixed};
constinit const Checkpoint checkpoints::afmoe = {
    .base = &dots1, .tensors = kAfmoe, .fields = kAfmoeFields, .fixed = kAfmoeFixed, .layers = {.windows = true}};

} // namespace ridge::models
