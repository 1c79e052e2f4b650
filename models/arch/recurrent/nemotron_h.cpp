// Nemotron-H, Nemotron Nano 2.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

// Nemotron 3 has experts, which may read a narrower input.
static ValueId feed_forward(Builder& b, ValueId x, int64_t il) {
  const ActivationSpec activation = {.activation = {core::Activation::relu_squared}, .gated = false};
  if (b.hparams().experts() == 0) return blocks::ffn(b, x, il, activation);
  b.hparams().get_int("expert_shared_count", 0);
  return blocks::experts(b, x, il,
                         {.normalize = b.hparams().get_bool("expert_weights_norm", false),
                          .gate = core::Gate::sigmoid,
                          .selection_bias = true,
                          .shared = true,
                          .latent = true},
                         activation);
}

static void build(Builder& b) {
  // The numbers of heads and hidden elements tell a layer's kind.
  b.build({.mixer = [&](ValueId x, int64_t il) {
    if (b.hparams().layer_int("feed_forward_length", il) != 0) return feed_forward(b, x, il);
    return b.hparams().has_attention(il) ? blocks::attention(b, x, il, {}) : blocks::mamba2(b, x, il);
  }});
}

static constexpr TensorRule kTensors[] = {
    {"norm", "attn_norm"},
    {"mixer.q_proj", "attn_q"},
    {"mixer.k_proj", "attn_k"},
    {"mixer.v_proj", "attn_v"},
    {"mixer.o_proj", "attn_output"},
    {"mixer.up_proj", "ffn_up"},
    {"mixer.down_proj", "ffn_down"},
    {"mixer.gate", "ffn_gate_inp"},
    {"mixer.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mixer.experts.{}.up_proj", "ffn_up_exps"},
    {"mixer.experts.{}.down_proj", "ffn_down_exps"},
    {"mixer.experts.up_proj", "ffn_up_exps.weight"},
    {"mixer.experts.down_proj", "ffn_down_exps.weight"},
    {"mixer.shared_experts.up_proj", "ffn_up_shexp"},
    {"mixer.shared_experts.down_proj", "ffn_down_shexp"},
    {"mixer.fc1_latent_proj", "ffn_latent_down"},
    {"mixer.fc2_latent_proj", "ffn_latent_up"},
    {"mixer.in_proj", "ssm_in"},
    {"mixer.conv1d", "ssm_conv1d"},
    {"mixer.dt_bias", "ssm_dt.bias"},
    {"mixer.A_log", "ssm_a", {.change = Change::negative_exp, .as = As::column}},
    {"mixer.D", "ssm_d", {.as = As::column}},
    {"mixer.norm", "ssm_norm", {.as = As::by_group}},
    {"mixer.out_proj", "ssm_out"},
};
static constexpr FieldRule kFields[] = {
    // Newer versions of llama.cpp require it beside the common attention.layer_norm_rms_epsilon.
    {"attention.layer_norm_epsilon", Kind::real, "rms_norm_eps | norm_eps | layer_norm_epsilon", 1e-6},
    {"ssm.conv_kernel", Kind::count, "conv_kernel", 4},
    {"ssm.state_size", Kind::count, "ssm_state_size", 128},
    {"ssm.group_count", Kind::count, "n_groups", 8},
    {"ssm.time_step_rank", Kind::count, "mamba_num_heads", 128},
    {"ssm.inner_size", Kind::count, "mamba_num_heads | 128 * mamba_head_dim | 64"},
    {"expert_shared_count", Kind::count, "n_shared_experts", {}, Only::experts},
    {"expert_weights_norm", Kind::flag, "norm_topk_prob", 1, Only::experts},
    {"expert_weights_scale", Kind::real, "routed_scaling_factor", {}, Only::experts},
    {"expert_group_count", Kind::count, "n_group", {}, Only::experts},
    {"expert_group_used_count", Kind::count, "topk_group", {}, Only::experts},
    {"moe_latent_size", Kind::count, "moe_latent_size", {}, Only::experts},
};
static constexpr FixedField kFixed[] = {{"time_step_limit.0", 0, 0}, {"time_step_limit.1", kUnlimited, kUnlimited}};

constinit const ArchitectureFile arch::nemotron_h = {.build = build,
                                                     .checkpoint = {.tensors = kTensors,
                                                                    .fields = kFields,
                                                                    .fixed = kFixed,
                                                                    .layers = {.kv_heads = true, .ffn_widths = true},
                                                                    .activation = "relu2"}};

} // namespace ridge::models
