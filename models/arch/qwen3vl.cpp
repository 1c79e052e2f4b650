// qwen3vl and qwen3vlmoe: the language models of Qwen3-VL, dense and with experts. For text they are qwen3 and
// qwen3moe, but for pairs of rope that belong to no axis.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  b.skip("cls.output.weight");                  // scores of the rerankers
  b.hparams().get_int("n_deepstack_layers", 0); // layers that images enter at
  const bool experts = b.hparams().architecture() == "qwen3vlmoe";
  b.transformer({.rope = Rope::split, .qk_norm = true, .rope_axes = RopeAxes::interleaved}, [&](ValueId x, int64_t il) {
    return experts ? b.experts(x, il, {.normalize = true, .gate = core::Gate::softmax}) : b.ffn(x, il);
  });
}

static constexpr TensorRule kTensors[] = {
    {"mlp.experts.gate_up_proj", "ffn_gate_exps.weight", {.rows = Rows::first_half, .transposed = true}},
    {"mlp.experts.gate_up_proj", "ffn_up_exps.weight", {.rows = Rows::second_half, .transposed = true}},
    {"mlp.experts.down_proj", "ffn_down_exps.weight", {.transposed = true}}};
static constexpr FieldRule kFields[] = {
    {"n_deepstack_layers", Kind::count, "vision_config.deepstack_visual_indexes", 0}};
static constexpr FixedField kFixed[] = {{"norm_topk_prob", 1, 1, Only::experts},
                                        {"decoder_sparse_step", 1, 1, Only::experts}};

constinit const ArchitectureFile arch::qwen3vl = {
    .build = build, .checkpoint = {.tensors = kTensors, .fields = kFields, .fixed = kFixed}};

} // namespace ridge::models
