// Qwen2-VL, Qwen2.5-VL, Qwen3-VL, Qwen 3.5. A picture fills both frames of the kernels.
#include "convert/import/encoders/family.h"
#include "core/error.h"

#include <cmath>
#include <vector>

namespace ridge::convert::import {
namespace {

using models::FieldRule, models::FixedField, models::Kind;

constexpr std::string_view kTowers[] = {"visual."};

constexpr EncoderRule kTower2[] = {
    {"patch_embed.proj.weight", "v.patch_embd.weight", Take::first_frame},
    {"patch_embed.proj.weight", "v.patch_embd.weight.1", Take::second_frame},
    {"merger.ln_q", "v.post_ln"},
    {"merger.mlp.0", "mm.0"},
    {"merger.mlp.2", "mm.2"},
};
constexpr EncoderRule kLayer2[] = {
    {"norm1", "ln1"},
    {"norm2", "ln2"},
    {"attn.qkv", "attn_q", Take::first_third},
    {"attn.qkv", "attn_k", Take::second_third},
    {"attn.qkv", "attn_v", Take::last_third},
    {"attn.proj", "attn_out"},
    {"mlp.fc1", "ffn_up"},
    {"mlp.fc2", "ffn_down"},
};
constexpr EncoderRule kLayer25[] = {
    {"norm1", "ln1"},
    {"norm2", "ln2"},
    {"attn.qkv", "attn_q", Take::first_third},
    {"attn.qkv", "attn_k", Take::second_third},
    {"attn.qkv", "attn_v", Take::last_third},
    {"attn.proj", "attn_out"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};
constexpr FieldRule kFields2[] = {
    {"embedding_length", Kind::count, "vision_config.embed_dim"},
    {"feed_forward_length", Kind::count, "vision_config.embed_dim * vision_config.mlp_ratio | 4"},
    {"spatial_merge_size", Kind::count, "vision_config.spatial_merge_size", 2},
    {"image_size", Kind::count, "560"},
};
constexpr FieldRule kFields25[] = {
    {"spatial_merge_size", Kind::count, "vision_config.spatial_merge_size", 2},
    {"image_size", Kind::count, "560"},
};
constexpr FieldRule kFields3[] = {{"spatial_merge_size", Kind::count, "vision_config.spatial_merge_size", 2}};
constexpr FixedField kFixed2[] = {{"vision_config.spatial_merge_size", 2, 2},
                                  {"vision_config.temporal_patch_size", 2, 2}};
constexpr FixedField kFixed25[] = {{"vision_config.spatial_merge_size", 2, 2},
                                   {"vision_config.temporal_patch_size", 2, 2},
                                   {"vision_config.window_size", 112, 112}};

// Layers with full attention: a list in the checkpoint, every n-th in the file.
void read_windows(EncoderFields& fields) {
  const int64_t layers = fields.written("block_count");
  std::vector<bool> sees_all(layers);
  for (const int64_t layer : fields.layers_of("fullatt_block_indexes")) sees_all[layer] = true;
  int64_t every = 1;
  while (every <= layers && !sees_all[every - 1]) ++every;
  for (int64_t il = 0; il < layers; ++il)
    if (sees_all[il] != ((il + 1) % every == 0))
      throw_error("{}: are not every {}th layer: this variant is not supported yet",
                  fields.where("vision_config.fullatt_block_indexes"), every);
  fields.set_count("n_wa_pattern", every == 1 ? 0 : every);
}

constexpr EncoderRule kTower3[] = {
    {"patch_embed.proj.weight", "v.patch_embd.weight", Take::first_frame},
    {"patch_embed.proj.weight", "v.patch_embd.weight.1", Take::second_frame},
    {"patch_embed.proj.bias", "v.patch_embd.bias"},
    {"pos_embed", "v.position_embd"},
    {"merger.norm", "v.post_ln"},
    {"merger.linear_fc1", "mm.0"},
    {"merger.linear_fc2", "mm.2"},
    // "{}": index of deepstack_visual_indexes; in the file, layer
    {"deepstack_merger_list.{}.norm", "v.deepstack.{}.norm"},
    {"deepstack_merger_list.{}.linear_fc1", "v.deepstack.{}.fc1"},
    {"deepstack_merger_list.{}.linear_fc2", "v.deepstack.{}.fc2"},
};
constexpr EncoderRule kLayer3[] = {
    {"norm1", "ln1"},
    {"norm2", "ln2"},
    {"attn.qkv", "attn_qkv"},
    {"attn.proj", "attn_out"},
    {"mlp.linear_fc1", "ffn_up"},
    {"mlp.linear_fc2", "ffn_down"},
};

// The position table is a square.
void read_table_and_taps(EncoderFields& fields) {
  constexpr int64_t kMaxPositions = 1 << 20;
  const int64_t positions = fields.count("vision_config.num_position_embeddings", 1, kMaxPositions, 2304);
  const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(positions))));
  if (side * side != positions)
    throw_error("{}: is {}, expected a square", fields.where("vision_config.num_position_embeddings"), positions);
  fields.set_count("image_size", side * fields.written("patch_size"));
  std::vector<bool> tapped(fields.written("block_count"));
  for (const int64_t layer : fields.layers_of("deepstack_visual_indexes")) tapped[layer] = true;
  fields.set("is_deepstack_layers", tapped);
}

} // namespace

constinit const EncoderFamily families::qwen2vl = {.projector = "qwen2vl_merger",
                                                   .towers = kTowers,
                                                   .layers = "blocks.",
                                                   .tower = kTower2,
                                                   .layer = kLayer2,
                                                   .fields = kFields2,
                                                   .fixed = kFixed2,
                                                   .activation = "quick_gelu",
                                                   .mean = kClipMean,
                                                   .deviation = kClipDeviation};

constinit const EncoderFamily families::qwen25vl = {.projector = "qwen2.5vl_merger",
                                                    .towers = kTowers,
                                                    .layers = "blocks.",
                                                    .tower = kTower2,
                                                    .layer = kLayer25,
                                                    .fields = kFields25,
                                                    .fixed = kFixed25,
                                                    .activation = "silu",
                                                    .mean = kClipMean,
                                                    .deviation = kClipDeviation,
                                                    .more = read_windows};

constinit const EncoderFamily families::qwen3vl = {.projector = "qwen3vl_merger",
                                                   .towers = kTowers,
                                                   .layers = "blocks.",
                                                   .tower = kTower3,
                                                   .layer = kLayer3,
                                                   .fields = kFields3,
                                                   .fixed = kFixed2,
                                                   .mean = kHalf,
                                                   .deviation = kHalf,
                                                   .more = read_table_and_taps,
                                                   .numbered = "deepstack_visual_indexes"};

} // namespace ridge::convert::import
