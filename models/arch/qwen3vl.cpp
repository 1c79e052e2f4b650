// Language models of Qwen3-VL, and Qwen3-TTS. Image tokens have extra rows for the first layers' outputs.
#include "core/error.h"
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

template <bool experts>
static void build(Builder& b) {
  b.skip("cls.output.weight");
  const int64_t entries = b.hparams().get_int("n_deepstack_layers", 0); // number of layers whose output gets image
                                                                        // rows
  if (entries < 0 || entries > b.hparams().layers())
    throw_error("n_deepstack_layers is {}, but the model has {} layers", entries, b.hparams().layers());
  const AttentionSpec attention = {.rope = Rope::split, .qk_norm = true, .rope_axes = RopeAxes::interleaved};
  b.build({.mixer = [&](ValueId x, int64_t il) { return blocks::attention(b, x, il, attention); },
           .ffn =
               [&](ValueId x, int64_t il) {
                 return experts ? blocks::experts(b, x, il, {.normalize = true, .gate = core::Gate::softmax})
                                : blocks::ffn(b, x, il);
               },
           .end_layer =
               [&](ValueId x, int64_t il) {
                 if (!b.takes_pictures() || il >= entries) return x;
                 const std::string name = b.layer_name(il) + "picture";
                 const ValueId row = b.input_row_slice(il + 1, name);
                 return b.add(x, il + 1 == b.hparams().layers() ? b.gather(row) : row, name + "_add");
               }});
}

static constexpr TensorRule kTensors[] = {
    {"mlp.experts.gate_up_proj", "ffn_gate_exps.weight", {.rows = Rows::first_half, .transposed = true}},
    {"mlp.experts.gate_up_proj", "ffn_up_exps.weight", {.rows = Rows::second_half, .transposed = true}},
    {"mlp.experts.down_proj", "ffn_down_exps.weight", {.transposed = true}}};
static constexpr FieldRule kFields[] = {
    {"n_deepstack_layers", Kind::count, "vision_config.deepstack_visual_indexes", 0}};
static constexpr FixedField kFixed[] = {{"norm_topk_prob", 1, 1, Only::experts},
                                        {"decoder_sparse_step", 1, 1, Only::experts}};

static constexpr Checkpoint kCheckpoint = {.tensors = kTensors, .fields = kFields, .fixed = kFixed};
constinit const ArchitectureFile arch::qwen3vl = {.build = build<false>, .checkpoint = kCheckpoint};
constinit const ArchitectureFile arch::qwen3vl_moe = {.build = build<true>, .checkpoint = kCheckpoint};

} // namespace ridge::models
