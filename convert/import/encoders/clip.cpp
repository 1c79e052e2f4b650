// LLaVA 1.5, SmolVLM, Idefics 3.
#include "convert/import/encoders/family.h"
#include "core/error.h"

#include <algorithm>
#include <functional>

namespace ridge::convert::import {
namespace {

using models::FieldRule, models::FixedField, models::Kind;

constexpr EncoderRule kLayer[] = {
    {"layer_norm1", "ln1"},         {"layer_norm2", "ln2"},         {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"}, {"self_attn.v_proj", "attn_v"}, {"self_attn.out_proj", "attn_out"},
    {"mlp.fc1", "ffn_up"},          {"mlp.fc2", "ffn_down"},
};

constexpr std::string_view kTowersOfIdefics[] = {"vision_model."};
constexpr EncoderRule kTowerOfIdefics[] = {
    {"embeddings.patch_embedding", "v.patch_embd"},
    {"embeddings.position_embedding", "v.position_embd"},
    {"post_layernorm", "v.post_ln"},
};
constexpr EncoderRule kBesideIdefics[] = {{"connector.modality_projection.proj", "mm.model.fc"}};
constexpr FieldRule kFieldsOfIdefics[] = {
    {"embedding_length", Kind::count, "vision_config.hidden_size", 1152},
    {"feed_forward_length", Kind::count, "vision_config.intermediate_size", 3072},
    {"block_count", Kind::count, "vision_config.num_hidden_layers", 12},
    {"attention.head_count", Kind::count, "vision_config.num_attention_heads", 16},
    {"image_size", Kind::count, "vision_config.image_size", 224},
    {"patch_size", Kind::count, "vision_config.patch_size", 32},
    {"projector.scale_factor", Kind::count, "scale_factor", 2},
    {"preproc_image_size", Kind::count, "preprocessor.size.longest_edge"},
};

constexpr std::string_view kTowersOfLlava[] = {"vision_tower.vision_model.", "vision_tower."};
constexpr std::string_view kUnusedOfLlava[] = {"post_layernorm", ".head."};
constexpr EncoderRule kTowerOfLlava[] = {
    {"embeddings.patch_embedding", "v.patch_embd"},
    {"embeddings.class_embedding", "v.class_embd"},
    {"embeddings.position_embedding", "v.position_embd"},
    {"pre_layrnorm", "v.pre_ln"},
};
constexpr EncoderRule kTowerOfSiglip[] = {
    {"embeddings.patch_embedding", "v.patch_embd"},
    {"embeddings.position_embedding", "v.position_embd"},
};
constexpr EncoderRule kBesideLlava[] = {
    {"multi_modal_projector.linear_1", "mm.0"},
    {"multi_modal_projector.linear_2", "mm.2"},
};

// The layers that give the output; default: the second last. 0: the first layer's input.
void read_features(EncoderFields& fields) {
  const int64_t layers = fields.written("block_count");
  const Json* chosen = fields.config().fields().find("vision_feature_layer");
  const std::string where = fields.where("vision_feature_layer");
  std::vector<int32_t> features;
  const auto add = [&](const Json& number) {
    const int64_t given = number.is_number_integer() ? number.get<int64_t>() : layers + 1;
    const int64_t layer = given < 0 ? layers + 1 + given : given;
    if (layer < 1 || layer > layers) throw_error("{}: expected layers of an encoder with {}", where, layers);
    features.push_back(static_cast<int32_t>(layer));
  };
  if (chosen && chosen->is_array())
    std::ranges::for_each(*chosen, add);
  else if (chosen)
    add(*chosen);
  if (std::ranges::adjacent_find(features, std::greater_equal()) != features.end())
    throw_error("{}: expected them in ascending order", where);
  const bool usual = features.empty() || features == std::vector<int32_t>{static_cast<int32_t>(layers - 1)};
  if (!usual) fields.set("feature_layer", features);
}

// All patches without the class row.
void read_clip(EncoderFields& fields) {
  read_features(fields);
  fields.require_word("vision_feature_select_strategy", "default", "default");
}
void read_siglip(EncoderFields& fields) {
  read_features(fields);
  fields.require_word("vision_feature_select_strategy", "full", "default");
}

} // namespace

constinit const EncoderFamily families::idefics3 = {.projector = "idefics3",
                                                    .towers = kTowersOfIdefics,
                                                    .layers = "encoder.layers.",
                                                    .tower = kTowerOfIdefics,
                                                    .layer = kLayer,
                                                    .beside = kBesideIdefics,
                                                    .fields = kFieldsOfIdefics,
                                                    .mean = kHalf,
                                                    .deviation = kHalf};

constinit const EncoderFamily families::llava = {.projector = "mlp",
                                                 .towers = kTowersOfLlava,
                                                 .layers = "encoder.layers.",
                                                 .tower = kTowerOfLlava,
                                                 .layer = kLayer,
                                                 .beside = kBesideLlava,
                                                 .unused = kUnusedOfLlava,
                                                 .activation = "quick_gelu",
                                                 .epsilon = 1e-5,
                                                 .mean = kClipMean,
                                                 .deviation = kClipDeviation,
                                                 .more = read_clip};

constinit const EncoderFamily families::llava_siglip = {.projector = "mlp",
                                                        .towers = kTowersOfLlava,
                                                        .layers = "encoder.layers.",
                                                        .tower = kTowerOfSiglip,
                                                        .layer = kLayer,
                                                        .beside = kBesideLlava,
                                                        .unused = kUnusedOfLlava,
                                                        .mean = kHalf,
                                                        .deviation = kHalf,
                                                        .more = read_siglip};

} // namespace ridge::convert::import
