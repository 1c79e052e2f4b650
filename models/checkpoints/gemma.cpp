// Gemma and Muse Glimmer.
#include "models/checkpoints/rows.h"

namespace ridge::models {
namespace {

constexpr TensorRule kNorms1[] = {
    {"input_layernorm", "attn_norm", {.change = Change::plus_one}},
    {"post_attention_layernorm", "ffn_norm", {.change = Change::plus_one}},
    {"norm", "output_norm", {.change = Change::plus_one}},
};
constexpr TensorRule kNorms[] = {
    {"input_layernorm", "attn_norm", {.change = Change::plus_one}},
    {"post_attention_layernorm", "post_attention_norm", {.change = Change::plus_one}},
    {"pre_feedforward_layernorm", "ffn_norm", {.change = Change::plus_one}},
    {"post_feedforward_layernorm", "post_ffw_norm", {.change = Change::plus_one}},
    {"self_attn.q_norm", "attn_q_norm", {.change = Change::plus_one}},
    {"self_attn.k_norm", "attn_k_norm", {.change = Change::plus_one}},
    {"norm", "output_norm", {.change = Change::plus_one}},
};
constexpr FieldRule kFields[] = {
    {"attn_logit_softcapping", Kind::real, "attn_logit_softcapping"},
    {"final_logit_softcapping", Kind::real, "final_logit_softcapping"},
};

constexpr FieldRule kEmbedding[] = {{"attention.causal", Kind::flag, "0"}};

constexpr TensorRule kNorms4[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"layer_scalar", "layer_output_scale.weight"},

    {"post_feedforward_layernorm_1", "post_ffw_norm_1"},
    {"pre_feedforward_layernorm_2", "pre_ffw_norm_2"},
    {"post_feedforward_layernorm_2", "post_ffw_norm_2"},
    {"router.proj", "ffn_gate_inp"},
    {"router.scale", "ffn_gate_inp.scale"},
    {"router.per_expert_scale", "ffn_down_exps.scale"},
    {"experts.gate_up_proj", "ffn_gate_exps.weight", {.rows = Rows::first_half}},
    {"experts.gate_up_proj", "ffn_up_exps.weight", {.rows = Rows::second_half}},
    {"experts.down_proj", "ffn_down_exps.weight"},

    {"embed_tokens_per_layer", "per_layer_token_embd"},
    {"per_layer_model_projection", "per_layer_model_proj"},
    {"per_layer_projection_norm", "per_layer_proj_norm"},
    {"per_layer_input_gate", "inp_gate"},
    {"per_layer_projection", "proj"},
    {"post_per_layer_input_norm", "post_norm"},
};
constexpr FieldRule kFields4[] = {
    {"final_logit_softcapping", Kind::real, "final_logit_softcapping", 0},
    {"attention.shared_kv_layers", Kind::count, "num_kv_shared_layers", 0},
    {"embedding_length_per_layer_input", Kind::count, "hidden_size_per_layer_input", 0},
};

constexpr TensorRule kTensors3n[] = {
    {"altup_projections.{}", "altup_proj"},
    {"altup_unembed_projections.{}", "altup_unembd_proj"},
    {"altup.correct_output_scale", "altup_correct_scale.weight"},
    {"altup.correction_coefs", "altup_correct_coef"},
    {"altup.prediction_coefs", "altup_predict_coef"},
    {"altup.modality_router", "altup_router"},
    {"altup.router_norm", "altup_router_norm"},
    {"laurel.linear_left", "laurel_l"},
    {"laurel.linear_right", "laurel_r"},
    {"laurel.post_laurel_norm", "laurel_post_norm"},
};
constexpr FieldRule kFields3n[] = {
    {"feed_forward_length", Kind::counts, "intermediate_size"},
    {"altup.num_inputs", Kind::count, "altup_num_inputs", 4},
    {"altup.active_idx", Kind::count, "altup_active_idx", 0},
};
constexpr FixedField kFixed3n[] = {
    {"num_hidden_layers + -1 * num_kv_shared_layers", 20, 20}, // layers with their own caches
    {"activation_sparsity_pattern = 0.95", 10, 10},
    {"altup_coef_clip", 120, 120},
    {"altup_correct_scale", 1, 1},
};

constexpr TensorRule kMuse[] = {
    {"input_layernorm", "attn_norm", {.change = Change::plus_one}},
    {"post_attention_layernorm", "post_attention_norm", {.change = Change::plus_one}},
    {"pre_feedforward_layernorm", "ffn_norm", {.change = Change::plus_one}},
    {"post_feedforward_layernorm", "post_ffw_norm", {.change = Change::plus_one}},
    {"self_attn.q_proj", "attn_q", {.rows = Rows::rope_pairs}},
    {"self_attn.k_proj", "attn_k", {.rows = Rows::rope_pairs}},
    {"self_attn.gate_proj", "attn_gate"},
    {"", "attn_q_norm.weight", {.scale = "qk_scale_factor | 3.87"}}, // the norms have no weights, but queries are
                                                                     // scaled
    {"", "attn_k_norm.weight"},
};
constexpr FieldRule kMuseFields[] = {
    {"final_logit_softcapping", Kind::real, "final_logit_softcapping", 20},
    {"logit_scale", Kind::real, "output_multiplier", 0.19611613513818404},
};
constexpr FixedField kMuseFixed[] = {{"post_norm_eps", 1e-8, 1e-8}};

} // namespace

constinit const Checkpoint checkpoints::gemma1 = {.tensors = kNorms1, .activation = "gelu_pytorch_tanh | gelu"};
constinit const Checkpoint checkpoints::gemma = {
    .tensors = kNorms, .fields = kFields, .layers = {.windows = true}, .activation = "gelu_pytorch_tanh"};
constinit const Checkpoint checkpoints::gemma4 = {.tensors = kNorms4,
                                                  .fields = kFields4,
                                                  .layers = {.windows = true, .two_heads = true},
                                                  .activation = "gelu_pytorch_tanh"};
constinit const Checkpoint checkpoints::gemma3n = {.base = &gemma4,
                                                   .tensors = kTensors3n,
                                                   .fields = kFields3n,
                                                   .fixed = kFixed3n,
                                                   .layers = {.windows = true},
                                                   .activation = "gelu_pytorch_tanh"};
constinit const Checkpoint checkpoints::gemma_embedding = {
    .base = &gemma, .fields = kEmbedding, .layers = {.windows = true}, .activation = "gelu_pytorch_tanh"};
constinit const Checkpoint checkpoints::muse_glimmer = {
    .tensors = kMuse, .fields = kMuseFields, .fixed = kMuseFixed, .layers = {.windows = true}};

} // namespace ridge::models
