// Windows in some layers: Laguna, Mellum, Granite, MiMo V2, Step 3.5, SmallThinker.
#include "models/checkpoints/drafts.h"
#include "models/checkpoints/rows.h"

namespace ridge::models {
namespace {

constexpr TensorRule kLaguna[] = {{"self_attn.g_proj", "attn_gate"}};
constexpr FieldRule kLagunaFields[] = {
    {"attention.head_count", Kind::counts, "num_attention_heads_per_layer"},
    {"leading_dense_block_count", Kind::count, "mlp_layer_types = dense", 0},
    {"expert_gating_func", Kind::count, "2"},
    {"expert_weights_norm", Kind::flag, "1"},
    {"expert_weights_scale", Kind::real, "moe_routed_scaling_factor", 1},
};
constexpr FixedField kLagunaFixed[] = {{"moe_apply_router_weight_on_input", 0, 0},
                                       {"moe_router_logit_softcapping", 0, 0}};

constexpr FieldRule kMellum[] = {{"expert_feed_forward_length", Kind::count, "moe_intermediate_size"}};
constexpr FixedField kMellumFixed[] = {
    {"norm_topk_prob", 1, 0},
    // Layers with a window must have the same base.
    {"rope_parameters.sliding_attention.rope_theta + -1 * rope_parameters.full_attention.rope_theta", 0, 0}};

constexpr TensorRule kGraniteSwa[] = {{"block_sparse_moe.router", "ffn_gate_inp"}};

constexpr TensorRule kMimo[] = {{"self_attn.attention_sink_bias", "attn_sinks.weight"},
                                {"pre_mlp_layernorm", "ffn_norm"}}; // of draft heads
constexpr FieldRule kMimoFields[] = {
    {"attention.layer_norm_rms_epsilon", Kind::real, "rms_norm_eps | layernorm_epsilon", 1e-5},
    {"attention.value_length", Kind::count, "v_head_dim"},
    {"attention.value_scale", Kind::real, "attention_value_scale"},
    {"attention.sliding_window", Kind::count, "sliding_window_size + 1"}, // of earlier tokens
};
constexpr FixedField kMimoFixed[] = {
    {"norm_topk_prob", 1, 1},
    {"attention_bias", 0, 0},
    {"swa_head_dim + -1 * head_dim", 0, 0},
    {"swa_v_head_dim + -1 * v_head_dim", 0, 0},
    {"swa_num_attention_heads + -1 * num_attention_heads", 0, 0},
};

constexpr TensorRule kStep[] = {
    {"norm", "output_norm", {.change = Change::plus_one}},
    {"input_layernorm", "attn_norm", {.change = Change::plus_one}},
    {"post_attention_layernorm", "ffn_norm", {.change = Change::plus_one}},
    {"self_attn.q_norm", "attn_q_norm", {.change = Change::plus_one}},
    {"self_attn.k_norm", "attn_k_norm", {.change = Change::plus_one}},
    {"self_attn.g_proj", "attn_gate"},
    {"moe.gate", "ffn_gate_inp"},
    {"moe.router_bias", "exp_probs_b.bias"},
    {"moe.gate_proj", "ffn_gate_exps"},
    {"moe.up_proj", "ffn_up_exps"},
    {"moe.down_proj", "ffn_down_exps"},
    {"share_expert.gate_proj", "ffn_gate_shexp"},
    {"share_expert.up_proj", "ffn_up_shexp"},
    {"share_expert.down_proj", "ffn_down_shexp"},
};
constexpr TensorRule kStepDrafts[] = {
    {"eh_proj", "nextn.eh_proj"},
    {"enorm", "nextn.enorm", {.change = Change::plus_one}},
    {"hnorm", "nextn.hnorm", {.change = Change::plus_one}},
    {"transformer.shared_head.norm", "nextn.shared_head_norm", {.change = Change::plus_one}},
    {"transformer.shared_head.output", "nextn.shared_head_head"},
    {"embed_tokens", "nextn.embed_tokens"},
};
constexpr FieldRule kStepFields[] = {
    {"rope.dimension_count", Kind::count, "head_dim"},
    {"expert_shared_feed_forward_length", Kind::count, "share_expert_dim | share_expert_dims"},
    {"expert_gating_func", Kind::count, "2"},
    {"expert_weights_norm", Kind::flag, "norm_expert_weight", 1},
    {"expert_weights_scale", Kind::real, "moe_router_scaling_factor", 1},
    {"swiglu_clamp_exp", Kind::reals, "swiglu_limits"},
    {"swiglu_clamp_shexp", Kind::reals, "swiglu_limits_shared"},
};
constexpr FixedField kStepFixed[] = {{"zero_centered", 1, 1},
                                     {"use_head_wise_attn_gate", 1, 1},
                                     {"use_bidirectional_attention", 0, 0},
                                     {"query_pre_attn_scalar + -1 * head_dim", 0, 0},
                                     {"moe_every_n_layer", 1, 1}};

constexpr TensorRule kSmallThinker[] = {
    {"block_sparse_moe.primary_router", "ffn_gate_inp"},
    {"block_sparse_moe.experts.{}.gate", "ffn_gate_exps"},
    {"block_sparse_moe.experts.{}.up", "ffn_up_exps"},
    {"block_sparse_moe.experts.{}.down", "ffn_down_exps"},
};
constexpr FieldRule kSmallThinkerFields[] = {
    {"feed_forward_length", Kind::count, "moe_ffn_hidden_size"},
    {"expert_feed_forward_length", Kind::count, "moe_ffn_hidden_size"},
    {"expert_gating_func", Kind::count, "2 + -1 * moe_primary_router_apply_softmax", 2},
};
constexpr FixedField kSmallThinkerFixed[] = {
    {"moe_enable_early_router", 1, 1},
    {"moe_enable_secondary_experts", 0, 0},
    {"moe_layer_layout = 0", 0, 0},
    {"sliding_window_size", 4096, 4096},
};

} // namespace

constinit const Checkpoint checkpoints::granite_swa = {
    .base = &granite, .tensors = kGraniteSwa, .layers = {.windows = true, .rope_pattern = true}};
constinit const Checkpoint checkpoints::laguna = {
    .tensors = kLaguna, .fields = kLagunaFields, .fixed = kLagunaFixed, .layers = {.windows = true}};
constinit const Checkpoint checkpoints::mimo2 = {
    .base = &dots1,
    .tensors = kMimo,
    .fields = kMimoFields,
    .fixed = kMimoFixed,
    .drafts = kDraftLayers,
    .layers = {.windows = true,
               .drafts_slide = true,
               .sliding_kv_heads = {"swa_num_key_value_heads", "2 * num_key_value_heads"}}};
constinit const Checkpoint checkpoints::step35 = {
    .tensors = kStep,
    .fields = kStepFields,
    .fixed = kStepFixed,
    .drafts = kStepDrafts,
    .layers = {.windows = true,
               .sliding_heads = {"attention_other_setting.num_attention_heads", "num_sliding_attention_heads"},
               .sliding_kv_heads = {"attention_other_setting.num_attention_groups"}},
    .kv_heads = "num_attention_groups | num_key_value_heads",
    .rotated = 0.5,
    .half_rope = true};
constinit const Checkpoint checkpoints::smallthinker = {
    .tensors = kSmallThinker, .fields = kSmallThinkerFields, .fixed = kSmallThinkerFixed, .layers = {.windows = true}};
constinit const Checkpoint checkpoints::mellum = {
    .fields = kMellum, .fixed = kMellumFixed, .layers = {.windows = true}};

} // namespace ridge::models
