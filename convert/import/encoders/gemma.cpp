// Gemma 3 (SigLIP), Gemma 4, and Gemma 4 without an encoder.
#include "convert/import/encoders/family.h"
#include "core/error.h"

#include <cmath>

namespace ridge::convert::import {
namespace {

using models::FieldRule, models::FixedField, models::Kind;

constexpr std::string_view kTowers3[] = {"vision_tower.vision_model.", "vision_tower."};
constexpr std::string_view kUnused3[] = {".head."};

constexpr EncoderRule kTower3[] = {
    {"embeddings.patch_embedding", "v.patch_embd"},
    {"embeddings.position_embedding", "v.position_embd"},
    {"post_layernorm", "v.post_ln"},
};
constexpr EncoderRule kLayer3[] = {
    {"layer_norm1", "ln1"},         {"layer_norm2", "ln2"},         {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"}, {"self_attn.v_proj", "attn_v"}, {"self_attn.out_proj", "attn_out"},
    {"mlp.fc1", "ffn_up"},          {"mlp.fc2", "ffn_down"},
};
constexpr EncoderRule kBeside3[] = {
    {"multi_modal_projector.mm_soft_emb_norm", "mm.soft_emb_norm", Take::plus_one},
    {"multi_modal_projector.mm_input_projection_weight", "mm.input_projection.weight"},
};

// Patches per side of a token.
void read_pooling(EncoderFields& fields) {
  const int64_t patches = fields.count("vision_config.image_size", 1, 8192) / fields.written("patch_size");
  const int64_t tokens = fields.count("mm_tokens_per_image", 1, 1 << 20, 256);
  const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(tokens))));
  if (side * side != tokens || side > patches || patches % side != 0)
    throw_error("{}: {} tokens do not form a square that divides one of {} patches per side",
                fields.where("mm_tokens_per_image"), tokens, patches);
  fields.set_count("projector.scale_factor", patches / side);
}

constexpr std::string_view kTowers4[] = {"vision_tower."};

constexpr EncoderRule kTower4[] = {
    {"patch_embedder.input_proj.weight", "v.patch_embd.weight", Take::colors_first},
    {"patch_embedder.position_embedding_table", "v.position_embd.weight"},
    {"std_bias", "v.std_bias", Take::all, kOptional},
    {"std_scale", "v.std_scale", Take::all, kOptional},
};
// Each matrix is in a module with limits of its inputs and outputs.
#define RIDGE_CLIPPED(from, to)                                                                                        \
  {from ".linear", to}, RIDGE_LIMIT(from, to, ".input_min"), RIDGE_LIMIT(from, to, ".input_max"),                      \
      RIDGE_LIMIT(from, to, ".output_min"), RIDGE_LIMIT(from, to, ".output_max")
#define RIDGE_LIMIT(from, to, which)                                                                                   \
  { from which, to which, Take::all, kOptional }
constexpr EncoderRule kLayer4[] = {
    {"input_layernorm", "ln1"},
    {"post_attention_layernorm", "attn_post_norm"},
    {"pre_feedforward_layernorm", "ln2"},
    {"post_feedforward_layernorm", "ffn_post_norm"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    RIDGE_CLIPPED("self_attn.q_proj", "attn_q"),
    RIDGE_CLIPPED("self_attn.k_proj", "attn_k"),
    RIDGE_CLIPPED("self_attn.v_proj", "attn_v"),
    RIDGE_CLIPPED("self_attn.o_proj", "attn_out"),
    RIDGE_CLIPPED("mlp.gate_proj", "ffn_gate"),
    RIDGE_CLIPPED("mlp.up_proj", "ffn_up"),
    RIDGE_CLIPPED("mlp.down_proj", "ffn_down"),
    {"layer_scalar", "out_scale.weight", Take::all, kOptional},
};
#undef RIDGE_CLIPPED
#undef RIDGE_LIMIT
constexpr EncoderRule kBeside4[] = {{"embed_vision.embedding_projection", "mm.input_projection"}};
constexpr FieldRule kFields4[] = {
    {"embedding_length", Kind::count, "vision_config.hidden_size", 768},
    {"feed_forward_length", Kind::count, "vision_config.intermediate_size", 3072},
    {"block_count", Kind::count, "vision_config.num_hidden_layers", 16},
    {"attention.head_count", Kind::count, "vision_config.num_attention_heads", 12},
    {"attention.head_count_kv", Kind::count, "vision_config.num_key_value_heads | vision_config.num_attention_heads"},
    {"attention.head_dim", Kind::count, "vision_config.head_dim", 64},
    {"patch_size", Kind::count, "vision_config.patch_size", 16},
    {"projector.scale_factor", Kind::count, "vision_config.pooling_kernel_size", 3},
    {"image_size", Kind::count, "224"},
};
constexpr FixedField kFixed4[] = {
    {"vision_config.rope_parameters.rope_theta", 100, 100},
};

constexpr std::string_view kTowersUnified[] = {"vision_embedder."};
constexpr EncoderRule kTowerUnified[] = {
    {"patch_ln1", "v.patch_norm.1", Take::colors_first},
    {"patch_dense.weight", "v.patch_embd.weight", Take::colors_first},
    {"patch_dense.bias", "v.patch_embd.bias"},
    {"patch_ln2", "v.patch_norm.2"},
    {"pos_embedding", "v.position_embd.weight", Take::axes_first},
    {"pos_norm", "v.patch_norm.3"},
};
constexpr FieldRule kFieldsUnified[] = {
    {"embedding_length", Kind::count, "vision_config.mm_embed_dim", 3840},
    {"feed_forward_length", Kind::count, "1"},
    {"block_count", Kind::count, "0"},
    {"attention.head_count", Kind::count, "1"},
    {"patch_size", Kind::count, "vision_config.patch_size", 16},
    {"projector.scale_factor", Kind::count, "vision_config.pooling_kernel_size", 3},
    {"image_size", Kind::count, "224"},
};

constexpr std::string_view kTowersOfSamples[] = {"embed_audio."};
constexpr EncoderRule kTowerOfSamples[] = {{"embedding_projection", "mm.a.input_projection"}};
constexpr FieldRule kFieldsOfSamples[] = {
    {"embedding_length", Kind::count, "audio_config.audio_embed_dim", 640},
    {"feed_forward_length", Kind::count, "1"},
    {"block_count", Kind::count, "0"},
    {"attention.head_count", Kind::count, "1"},
    {"num_mel_bins", Kind::count, "audio_config.audio_embed_dim", 640},
};
constexpr FixedField kFixedOfSamples[] = {
    {"audio_config.audio_embed_dim", 640, 640},
    {"audio_config.rms_norm_eps", 1e-6, 1e-6},
};

} // namespace

constinit const EncoderFamily families::gemma3 = {.projector = "gemma3",
                                                  .towers = kTowers3,
                                                  .layers = "encoder.layers.",
                                                  .tower = kTower3,
                                                  .layer = kLayer3,
                                                  .beside = kBeside3,
                                                  .unused = kUnused3,
                                                  .mean = kHalf,
                                                  .deviation = kHalf,
                                                  .more = read_pooling};

constinit const EncoderFamily families::gemma4v = {.projector = "gemma4v",
                                                   .towers = kTowers4,
                                                   .layers = "encoder.layers.",
                                                   .tower = kTower4,
                                                   .layer = kLayer4,
                                                   .beside = kBeside4,
                                                   .fields = kFields4,
                                                   .fixed = kFixed4,
                                                   .mean = {},
                                                   .deviation = {1, 1, 1}};

constinit const EncoderFamily families::gemma4uv = {.projector = "gemma4uv",
                                                    .towers = kTowersUnified,
                                                    .layers = "",
                                                    .tower = kTowerUnified,
                                                    .layer = {},
                                                    .beside = kBeside4,
                                                    .fields = kFieldsUnified,
                                                    .mean = {},
                                                    .deviation = {1, 1, 1}};

constinit const EncoderFamily families::gemma4ua = {.media = models::vision::Media::sound,
                                                    .section = "audio_config",
                                                    .projector = "gemma4ua",
                                                    .towers = kTowersOfSamples,
                                                    .layers = "",
                                                    .tower = kTowerOfSamples,
                                                    .layer = {},
                                                    .beside = {},
                                                    .fields = kFieldsOfSamples,
                                                    .fixed = kFixedOfSamples};

} // namespace ridge::convert::import
