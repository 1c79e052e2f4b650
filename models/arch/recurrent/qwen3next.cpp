// Qwen3-Next. Adjacent value heads share a key head.
#include "models/architecture.h"
#include "models/blocks/blocks.h"
#include "models/checkpoints/drafts.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const AttentionSpec attention = {.rope = Rope::split, .qk_norm = true, .output_gate = true};
  b.build({.mixer =
               [&](ValueId x, int64_t il) {
                 return b.hparams().is_recurrent(il) ? blocks::delta_net(b, x, il, true)
                                                     : blocks::attention(b, x, il, attention);
               },
           .ffn =
               [&](ValueId x, int64_t il) {
                 return blocks::experts(b, x, il, {.normalize = true, .gate = core::Gate::softmax, .shared = true});
               },
           .ffn_norm = "post_attention_norm",
           .drafts = Drafts::normed});
}

static constexpr TensorRule kTensors[] = {
    {"input_layernorm", "attn_norm", {.change = Change::plus_one}},
    {"post_attention_layernorm", "post_attention_norm", {.change = Change::plus_one}},
    {"self_attn.q_norm", "attn_q_norm", {.change = Change::plus_one}},
    {"self_attn.k_norm", "attn_k_norm", {.change = Change::plus_one}},
    {"norm", "output_norm", {.change = Change::plus_one}},
    {"linear_attn.in_proj_qkvz", "attn_qkv", {.rows = Rows::grouped_mixed}},
    {"linear_attn.in_proj_qkvz", "attn_gate", {.rows = Rows::grouped_z}},
    {"linear_attn.in_proj_ba", "ssm_ba"},
    {"linear_attn.conv1d", "ssm_conv1d"},
    {"linear_attn.A_log", "ssm_a", {.change = Change::negative_exp}},
    {"linear_attn.dt_bias", "ssm_dt.bias"},
    {"linear_attn.norm", "ssm_norm"},
    {"linear_attn.out_proj", "ssm_out"},
};
static constexpr FieldRule kFields[] = {
    {"ssm.conv_kernel", Kind::count, "linear_conv_kernel_dim", 4},
    {"ssm.state_size", Kind::count, "linear_key_head_dim", 128},
    {"ssm.group_count", Kind::count, "linear_num_key_heads", 16},
    {"ssm.time_step_rank", Kind::count, "linear_num_value_heads", 32},
    {"ssm.inner_size", Kind::count, "linear_num_value_heads | 32 * linear_value_head_dim | 128"},
    {"full_attention_interval", Kind::count, "full_attention_interval", 4},
};
static constexpr FixedField kFixed[] = {{"norm_topk_prob", 1, 1}, {"decoder_sparse_step", 1, 1}};

constinit const ArchitectureFile arch::qwen3next = {.build = build,
                                                    .checkpoint = {.tensors = kTensors,
                                                                   .fields = kFields,
                                                                   .fixed = kFixed,
                                                                   .drafts = checkpoints::kDraftAside,
                                                                   .layers = {.recurrent_layers = true},
                                                                   .rotated = 0.25}};

} // namespace ridge::models
