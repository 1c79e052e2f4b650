// Latent attention. The checkpoint's key-value matrix becomes two tensors with a matrix per head, that for keys
// transposed.
#include "models/checkpoints/drafts.h"
#include "models/checkpoints/rows.h"

namespace ridge::models {
namespace {

using checkpoints::kDraftLayers;

constexpr TensorRule kTensors[] = {
    {"self_attn.q_a_proj", "attn_q_a"},
    {"self_attn.q_a_layernorm", "attn_q_a_norm"},
    {"self_attn.q_b_proj", "attn_q_b"},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    {"self_attn.kv_b_proj", "attn_k_b", {.rows = Rows::mla_keys}},
    {"self_attn.kv_b_proj", "attn_v_b", {.rows = Rows::mla_values}},
};
constexpr FieldRule kFields[] = {
    {"attention.q_lora_rank", Kind::count, "q_lora_rank"},
    {"attention.kv_lora_rank", Kind::count, "kv_lora_rank", 512},
    {"attention.head_count_kv", Kind::count, "1"},
    {"attention.key_length", Kind::count, "kv_lora_rank + qk_rope_head_dim"},
    {"attention.value_length", Kind::count, "kv_lora_rank"},
    {"attention.key_length_mla", Kind::count, "qk_nope_head_dim + qk_rope_head_dim"},
    {"attention.value_length_mla", Kind::count, "v_head_dim"},
    {"rope.dimension_count", Kind::count, "qk_rope_head_dim"},
    {"rope.scaling.yarn_log_multiplier", Kind::real,
     "0.1 * rope_parameters.mscale_all_dim | rope_scaling.mscale_all_dim"},
    {"leading_dense_block_count", Kind::count, "first_k_dense_replace", 0},
    {"expert_shared_count", Kind::count, "n_shared_experts", 0},
    {"expert_gating_func", Kind::count, "1 + scoring_func = sigmoid | model_type = deepseek_v3 / glm4_moe_lite", 1},
    {"expert_weights_norm", Kind::flag, "norm_topk_prob", 0},
    {"expert_weights_scale", Kind::real, "routed_scaling_factor", 1},
    {"expert_group_count", Kind::count, "n_group", {}, Only::experts},
    {"expert_group_used_count", Kind::count, "topk_group", {}, Only::experts},
};

constexpr FieldRule kMistral4[] = {
    {"attention.temperature_scale", Kind::real, "rope_parameters.llama_4_scaling_beta"},
    {"attention.temperature_length", Kind::count, "rope_parameters.original_max_position_embeddings"},
    {"expert_gating_func", Kind::count, "1"},
};

// DeepSeek V3.2 and GLM-5, with an indexer.
constexpr TensorRule kIndexed[] = {
    {"self_attn.indexer.wq_b", "indexer.attn_q_b"},
    {"self_attn.indexer.wk", "indexer.attn_k"},
    {"self_attn.indexer.k_norm", "indexer.k_norm"},
    {"self_attn.indexer.weights_proj", "indexer.proj"},
};
constexpr FieldRule kIndexedFields[] = {
    {"leading_dense_block_count", Kind::count, "first_k_dense_replace | mlp_layer_types = dense", 0},
    {"expert_gating_func", Kind::count, "2"},
    {"expert_weights_norm", Kind::flag, "norm_topk_prob", 1},
    {"attention.indexer.head_count", Kind::count, "index_n_heads"},
    {"attention.indexer.key_length", Kind::count, "index_head_dim"},
    {"attention.indexer.top_k", Kind::count, "index_topk"},
    {"attention.indexer.types", Kind::flags, "indexer_types = full"},
};

constexpr TensorRule kKimi[] = {
    {"self_attn.q_conv1d", "ssm_conv1d_q"},
    {"self_attn.k_conv1d", "ssm_conv1d_k"},
    {"self_attn.v_conv1d", "ssm_conv1d_v"},
    {"self_attn.f_a_proj", "ssm_f_a"},
    {"self_attn.f_b_proj", "ssm_f_b"},
    {"self_attn.g_a_proj", "ssm_g_a"},
    {"self_attn.g_b_proj", "ssm_g_b"},
    {"self_attn.b_proj", "ssm_beta"},
    {"self_attn.A_log", "ssm_a", {.change = Change::negative_exp, .as = As::column}},
    {"self_attn.dt_bias", "ssm_dt.bias"},
    {"self_attn.o_norm", "ssm_norm"},
    {"block_sparse_moe.gate_proj", "ffn_gate"},
    {"block_sparse_moe.up_proj", "ffn_up"},
    {"block_sparse_moe.down_proj", "ffn_down"},
};
constexpr FieldRule kKimiFields[] = {
    {"kda.head_dim", Kind::count, "linear_head_dim | linear_attn_config.head_dim"},
    {"ssm.conv_kernel", Kind::count, "linear_conv_kernel_dim | linear_attn_config.short_conv_kernel_size"},
    {"leading_dense_block_count", Kind::count, "first_k_dense_replace | mlp_layer_types = dense", 0},
    {"expert_shared_count", Kind::count, "num_shared_experts", 0},
    {"expert_gating_func", Kind::count, "2"},
    {"expert_weights_norm", Kind::flag, "1"},
    {"expert_group_count", Kind::count, "num_expert_group"},
};
constexpr FixedField kKimiFixed[] = {
    {"moe_renormalize", 1, 1},
    {"linear_num_heads + -1 * num_attention_heads", 0, 0},
    {"linear_attn_config.num_heads + -1 * num_attention_heads", 0, 0},
};

constexpr TensorRule kMiniCpm3[] = {{"self_attn.kv_b_proj", "attn_kv_b"}};
constexpr FieldRule kMiniCpm3Fields[] = {
    {"attention.head_count_kv", Kind::count, "num_key_value_heads"},
    {"attention.key_length", Kind::count, "qk_nope_head_dim + qk_rope_head_dim"},
    {"attention.value_length", Kind::count, "v_head_dim"},
};
constexpr FixedField kMiniCpm3Fixed[] = {
    {"scale_emb", 12, 12}, {"scale_depth", 1.4, 1.4}, {"dim_model_base", 256, 256}};

} // namespace

constinit const Checkpoint checkpoints::deepseek2 = {.tensors = kTensors, .fields = kFields, .drafts = kDraftLayers};
constinit const Checkpoint checkpoints::mistral4 = {.base = &deepseek2, .fields = kMistral4};
constinit const Checkpoint checkpoints::deepseek32 = {
    .base = &deepseek2, .tensors = kIndexed, .fields = kIndexedFields, .drafts = kDraftLayers};
constinit const Checkpoint checkpoints::kimi_linear = {
    .base = &deepseek2, .tensors = kKimi, .fields = kKimiFields, .fixed = kKimiFixed, .layers = {.kv_heads = true}};
constinit const Checkpoint checkpoints::minicpm3 = {
    .base = &deepseek2, .tensors = kMiniCpm3, .fields = kMiniCpm3Fields, .fixed = kMiniCpm3Fixed};

} // namespace ridge::models
