// Granite 3 and 4, and MiniCPM, whose older files do not state the scales.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <cmath>

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  const bool minicpm = h.architecture() == "minicpm";
  // In these files rope.scaling.finetuned = false means no rope.
  const bool rope = minicpm || h.get_bool("rope.scaling.finetuned", true);
  AttentionSpec attention = {.rope = rope ? Rope::adjacent : Rope::none};
  if (h.architecture() == "granite_swa") attention = {.rope = Rope::adjacent, .sinks = true};
  Builder::Model model = {
      .mixer =
          [&](ValueId x, int64_t il) {
            if (!h.has_attention(il)) return b.mamba2(x, il);
            AttentionSpec spec = attention;
            if (spec.sinks) {
              spec.window = h.slides(il, 0) ? h.get_int("attention.sliding_window") : 0;
              if (h.layer_int("attention.rope_pattern", il, 1) == 0) spec.rope = Rope::none;
            }
            return b.attention(x, il, spec);
          },
      .ffn =
          [&](ValueId x, int64_t il) {
            return h.experts() == 0
                       ? b.ffn(x, il)
                       : b.experts(x, il, {.normalize = true, .gate = core::Gate::softmax, .shared = true});
          },
      .scaled = true};
  if (minicpm) {
    model.embedding_scale = 12;
    model.residual_scale = 1.4 / std::sqrt(static_cast<double>(h.layers()));
    model.logit_scale = static_cast<double>(h.width()) / 256;
  }
  b.build(model);
}

static constexpr TensorRule kTensors[] = {
    {"self_attn.q_proj", "attn_q", {.rows = Rows::rope_pairs}},
    {"self_attn.k_proj", "attn_k", {.rows = Rows::rope_pairs}},
    {"block_sparse_moe.router.layer", "ffn_gate_inp"},
    {"block_sparse_moe.input_linear", "ffn_gate_exps", {.rows = Rows::first_half}},
    {"block_sparse_moe.input_linear", "ffn_up_exps", {.rows = Rows::second_half}},
    {"block_sparse_moe.output_linear", "ffn_down_exps"},
    {"shared_mlp.input_linear", "ffn_gate", {.rows = Rows::first_half, .only = Only::dense}},
    {"shared_mlp.input_linear", "ffn_up", {.rows = Rows::second_half, .only = Only::dense}},
    {"shared_mlp.output_linear", "ffn_down", {.only = Only::dense}},
    {"shared_mlp.input_linear", "ffn_gate_shexp", {.rows = Rows::first_half, .only = Only::experts}},
    {"shared_mlp.input_linear", "ffn_up_shexp", {.rows = Rows::second_half, .only = Only::experts}},
    {"shared_mlp.output_linear", "ffn_down_shexp", {.only = Only::experts}},
    {"mamba.in_proj", "ssm_in"},
    {"mamba.conv1d", "ssm_conv1d"},
    {"mamba.dt_bias", "ssm_dt.bias"},
    {"mamba.A_log", "ssm_a", {.change = Change::negative_exp, .as = As::column}},
    {"mamba.D", "ssm_d", {.as = As::column}},
    {"mamba.norm", "ssm_norm", {.as = As::by_group}},
    {"mamba.out_proj", "ssm_out"},
};
static constexpr FieldRule kFields[] = {
    {"rope.scaling.finetuned", Kind::flag, "position_embedding_type = rope | 0 * mamba_n_heads", 1},
    {"feed_forward_length", Kind::count, "shared_intermediate_size | intermediate_size", {}, Only::dense},
    {"attention.scale", Kind::real, "attention_multiplier", 1},
    {"embedding_scale", Kind::real, "embedding_multiplier", 1},
    {"residual_scale", Kind::real, "residual_multiplier", 1},
    {"logit_scale", Kind::real, "logits_scaling", 1},
    {"ssm.conv_kernel", Kind::count, "mamba_d_conv"},
    {"ssm.state_size", Kind::count, "mamba_d_state"},
    {"ssm.group_count", Kind::count, "mamba_n_groups"},
    {"ssm.time_step_rank", Kind::count, "mamba_n_heads"},
    {"ssm.inner_size", Kind::count, "mamba_expand * hidden_size"},
};
static constexpr FixedField kFixed[] = {{"time_step_limit.0", 0, 0}, {"time_step_limit.1", kUnlimited, kUnlimited}};

constinit const ArchitectureFile arch::granite = {
    .build = build,
    .checkpoint = {.tensors = kTensors, .fields = kFields, .fixed = kFixed, .layers = {.kv_heads = true}}};

} // namespace ridge::models
