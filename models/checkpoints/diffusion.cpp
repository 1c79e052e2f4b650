// LLaDA, Dream, RND1.
#include "models/checkpoints/rows.h"

namespace ridge::models {
namespace {

constexpr FieldRule kSeesAll = {"attention.causal", Kind::flag, "0"};

// A token's logits are for its own position, not the next.
constexpr FieldRule kInPlace[] = {kSeesAll, {"diffusion.shift_logits", Kind::flag, "0"}};
constexpr FieldRule kBehind[] = {kSeesAll};

constexpr TensorRule kLlada[] = {
    {"q_proj", "attn_q", {.rows = Rows::rope_pairs}},
    {"k_proj", "attn_k", {.rows = Rows::rope_pairs}},
    {"v_proj", "attn_v"},
    {"attn_out", "attn_output"},
    {"attn_norm", "attn_norm"},
    {"ff_norm", "ffn_norm"},
    {"ff_proj", "ffn_gate"},
    {"up_proj", "ffn_up"},
    {"ff_out", "ffn_down"},
};
constexpr FixedField kLladaFixed[] = {{"rope", 1, 1}, {"alibi", 0, 0}, {"weight_tying", 0, 0}, {"scale_logits", 0, 0}};
constexpr FixedField kLladaMoe[] = {{"norm_topk_prob", 0, 0}};
constexpr FixedField kRnd1[] = {{"norm_topk_prob", 1, 1}};

} // namespace

constinit const Checkpoint checkpoints::llada = {.tensors = kLlada, .fields = kInPlace, .fixed = kLladaFixed};
constinit const Checkpoint checkpoints::llada_moe = {.fields = kInPlace, .fixed = kLladaMoe};
constinit const Checkpoint checkpoints::dream = {.fields = kBehind};
constinit const Checkpoint checkpoints::rnd1 = {.fields = kBehind, .fixed = kRnd1};

} // namespace ridge::models
