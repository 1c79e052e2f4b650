// Gemma's checkpoints: norms hold w - 1 up to Gemma 3, and come before and behind each block.
#include "models/checkpoints/rows.h"

namespace ridge::models {
namespace {

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

} // namespace

constinit const Checkpoint checkpoints::gemma = {
    .tensors = kNorms, .fields = kFields, .layers = {.windows = true}, .activation = "gelu_pytorch_tanh"};

} // namespace ridge::models
