// InternVL 2.5 to 3.5, also "-hf".
#include "convert/import/encoders/family.h"
#include "core/error.h"

#include <cmath>

namespace ridge::convert::import {
namespace {

using models::FieldRule, models::FixedField, models::Kind;

constexpr std::string_view kTowers[] = {"vision_model."};
constexpr EncoderRule kTower[] = {
    {"embeddings.patch_embedding", "v.patch_embd"},
    {"embeddings.class_embedding", "v.class_embd"},
    {"embeddings.position_embedding", "v.position_embd.weight", Take::class_last},
};
constexpr EncoderRule kLayer[] = {
    {"norm1", "ln1"},
    {"norm2", "ln2"},
    {"attn.qkv", "attn_q", Take::first_third},
    {"attn.qkv", "attn_k", Take::second_third},
    {"attn.qkv", "attn_v", Take::last_third},
    {"attn.q_norm", "attn_q_norm", Take::all, kOptional},
    {"attn.k_norm", "attn_k_norm", Take::all, kOptional},
    {"attn.proj", "attn_out"},
    {"ls1", "ls1.weight"},
    {"ls2", "ls2.weight"},
    {"mlp.fc1", "ffn_up"},
    {"mlp.fc2", "ffn_down"},
};
constexpr EncoderRule kBeside[] = {
    {"mlp1.0", "mm.model.mlp.0"},
    {"mlp1.1", "mm.model.mlp.1"},
    {"mlp1.3", "mm.model.mlp.3"},
};

constexpr std::string_view kTowersOfHf[] = {"vision_tower."};
constexpr EncoderRule kTowerOfHf[] = {
    {"embeddings.patch_embeddings.projection", "v.patch_embd"},
    {"embeddings.cls_token", "v.class_embd"},
    {"embeddings.position_embeddings", "v.position_embd.weight", Take::class_last},
    {"layernorm", "v.post_ln", Take::all, kOptional},
};
constexpr EncoderRule kLayerOfHf[] = {
    {"layernorm_before", "ln1"},
    {"layernorm_after", "ln2"},
    {"attention.q_proj", "attn_q"},
    {"attention.k_proj", "attn_k"},
    {"attention.v_proj", "attn_v"},
    {"attention.q_norm", "attn_q_norm", Take::all, kOptional},
    {"attention.k_norm", "attn_k_norm", Take::all, kOptional},
    {"attention.projection_layer", "attn_out"},
    {"lambda_1", "ls1.weight"},
    {"lambda_2", "ls2.weight"},
    {"mlp.fc1", "ffn_up"},
    {"mlp.fc2", "ffn_down"},
};
constexpr EncoderRule kBesideHf[] = {
    {"multi_modal_projector.layer_norm", "mm.model.mlp.0"},
    {"multi_modal_projector.linear_1", "mm.model.mlp.1"},
    {"multi_modal_projector.linear_2", "mm.model.mlp.3"},
};

constexpr FieldRule kFields[] = {
    {"preproc_min_tiles", Kind::count, "min_dynamic_patch | preprocessor.min_patches"},
    {"preproc_max_tiles", Kind::count, "max_dynamic_patch | preprocessor.max_patches"},
};
constexpr FixedField kFixed[] = {{"select_layer | vision_feature_layer", -1, -1}};

void read_shuffle(EncoderFields& fields) {
  const double ratio = fields.number("downsample_ratio").value_or(0.5), factor = std::round(1 / ratio);
  if (!(ratio > 0 && ratio <= 1 && std::abs(factor * ratio - 1) < 1e-6))
    throw_error("{}: is {}, expected a fraction of 1", fields.where("downsample_ratio"), ratio);
  fields.set_count("projector.scale_factor", static_cast<int64_t>(factor));
  fields.require_word("ps_version", "v2", "v2");                               // v2: rows are lines of the picture
  fields.require_word("vision_feature_select_strategy", "default", "default"); // without the class
  // Only this size has RMS and query/key norms.
  constexpr int64_t kWidthOf6b = 3200, kLayersOf6b = 45;
  const bool is_6b = fields.written("embedding_length") == kWidthOf6b && fields.written("block_count") == kLayersOf6b;
  const bool rms = fields.word("norm_type").value_or("layer_norm") == "rms_norm";
  const bool qk_norm = fields.number("vision_config.qk_normalization | vision_config.use_qk_norm").value_or(0) != 0;
  if (rms != is_6b || qk_norm != is_6b)
    throw_error("{}: RMS norms and query-key norms are supported only together (as in the 6B encoder)",
                fields.where("vision_config.norm_type"));
}

} // namespace

static constexpr std::array<float, 3> kMean = {0.485f, 0.456f, 0.406f}, kDeviation = {0.229f, 0.224f, 0.225f};

constinit const EncoderFamily families::internvl = {.projector = "internvl",
                                                    .towers = kTowers,
                                                    .layers = "encoder.layers.",
                                                    .tower = kTower,
                                                    .layer = kLayer,
                                                    .beside = kBeside,
                                                    .fields = kFields,
                                                    .fixed = kFixed,
                                                    .mean = kMean,
                                                    .deviation = kDeviation,
                                                    .more = read_shuffle};

constinit const EncoderFamily families::internvl_hf = {.projector = "internvl",
                                                       .towers = kTowersOfHf,
                                                       .layers = "encoder.layer.",
                                                       .tower = kTowerOfHf,
                                                       .layer = kLayerOfHf,
                                                       .beside = kBesideHf,
                                                       .fields = kFields,
                                                       .fixed = kFixed,
                                                       .mean = kMean,
                                                       .deviation = kDeviation,
                                                       .more = read_shuffle};

} // namespace ridge::convert::import
