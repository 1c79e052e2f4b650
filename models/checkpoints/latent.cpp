// Multi-head latent attention: DeepSeek V2, V3 and R1, Kimi K2. One matrix of the checkpoint makes keys and values of
// all heads; GGUF has one for keys, transposed, and one for values, with a matrix per head.
#include "models/checkpoints/rows.h"

namespace ridge::models {
namespace {

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
    {"expert_gating_func", Kind::count, "1 + scoring_func = sigmoid | model_type = deepseek_v3", 1},
    {"expert_weights_norm", Kind::flag, "norm_topk_prob", 0},
    {"expert_weights_scale", Kind::real, "routed_scaling_factor", 1},
    {"expert_group_count", Kind::count, "n_group", {}, Only::experts},
    {"expert_group_used_count", Kind::count, "topk_group", {}, Only::experts},
};

} // namespace

constinit const Checkpoint checkpoints::deepseek2 = {.tensors = kTensors, .fields = kFields};

} // namespace ridge::models
