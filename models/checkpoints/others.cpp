// Checkpoints that differ from what most share by a few names and fields.
#include "models/checkpoints/rows.h"

namespace ridge::models {
namespace {

constexpr TensorRule kRotated[] = {{"self_attn.q_proj", "attn_q", {.rows = Rows::rope_pairs}},
                                   {"self_attn.k_proj", "attn_k", {.rows = Rows::rope_pairs}}};
constexpr TensorRule kPostNorms[] = {{"post_attention_layernorm", "post_attention_norm"},
                                     {"post_feedforward_layernorm", "post_ffw_norm"}};

constexpr FieldRule kMistral[] = {
    {"attention.temperature_scale", Kind::real, "rope_parameters.llama_4_scaling_beta"},
    {"rope.scaling.yarn_log_multiplier", Kind::real, "rope_parameters.mscale_all_dim"},
};

constexpr FixedField kSmolLm[] = {{"no_rope_layer_interval", 4, 4}};

constexpr TensorRule kErnie[] = {{"mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias"}};
constexpr FieldRule kErnieExperts[] = {
    {"leading_dense_block_count", Kind::count, "moe_layer_start_index", 0},
    {"interleave_moe_layer_step", Kind::count, "moe_layer_interval", 1},
    {"expert_shared_count", Kind::count, "moe_num_shared_experts", 0},
    {"expert_shared_feed_forward_length", Kind::count, "moe_num_shared_experts * moe_intermediate_size"},
};

constexpr TensorRule kHunyuan[] = {
    {"self_attn.query_layernorm", "attn_q_norm"},
    {"self_attn.key_layernorm", "attn_k_norm"},
    {"mlp.gate.wg", "ffn_gate_inp"},
    {"mlp.shared_mlp.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_mlp.up_proj", "ffn_up_shexp"},
    {"mlp.shared_mlp.down_proj", "ffn_down_shexp"},
};
constexpr FieldRule kHunyuanFields[] = {
    {"rope.scaling.alpha", Kind::real, "rope_parameters.alpha | rope_scaling.alpha", {}, Only::dense}};

constexpr FieldRule kCohere[] = {
    {"attention.layer_norm_epsilon", Kind::real, "layer_norm_eps", 1e-5},
    {"logit_scale", Kind::real, "logit_scale", 1},
};

constexpr FieldRule kMiniMax[] = {
    {"rope.dimension_count", Kind::count, "rotary_dim"},
    {"expert_feed_forward_length", Kind::count, "intermediate_size"},
    {"expert_gating_func", Kind::count, "2"}, // sigmoid
};

} // namespace

constinit const Checkpoint checkpoints::mistral3 = {.tensors = kRotated, .fields = kMistral, .slides_by_default = true};
constinit const Checkpoint checkpoints::smollm3 = {.tensors = kRotated, .fixed = kSmolLm};
constinit const Checkpoint checkpoints::seed_oss = {.tensors = std::span(kPostNorms).first(1)};
constinit const Checkpoint checkpoints::plain = {};
constinit const Checkpoint checkpoints::ernie4_5_moe = {.tensors = kErnie, .fields = kErnieExperts};
constinit const Checkpoint checkpoints::hunyuan = {.tensors = kHunyuan, .fields = kHunyuanFields};
constinit const Checkpoint checkpoints::post_norms = {.tensors = kPostNorms, .layers = {.windows = true}};
constinit const Checkpoint checkpoints::cohere2 = {.fields = kCohere, .layers = {.windows = true}};
constinit const Checkpoint checkpoints::phi3 = {.slides_by_default = true};
constinit const Checkpoint checkpoints::minimax_m2 = {.fields = kMiniMax};

} // namespace ridge::models
