// Encoders of Whisper's kind: Ultravox, Voxtral, Audio Flamingo 3, Qwen2-Audio, Qwen2.5-Omni, and Qwen3-Omni and
// Qwen3-ASR, whose convolutions go over time and bands.
#include "convert/import/encoders/family.h"
#include "core/error.h"

namespace ridge::convert::import {
namespace {

using models::FieldRule, models::FixedField, models::Kind, models::vision::Media;

constexpr std::string_view kTowers[] = {"audio_tower."};
constexpr EncoderRule kLayer[] = {
    {"self_attn_layer_norm", "ln1"},
    {"final_layer_norm", "ln2"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.out_proj", "attn_out"},
    {"fc1", "ffn_up"},
    {"fc2", "ffn_down"},
};
#define RIDGE_CONVOLUTIONS                                                                                             \
  {"conv1.weight", "a.conv1d.1.weight"}, {"conv1.bias", "a.conv1d.1.bias", Take::one_column},                          \
      {"conv2.weight", "a.conv1d.2.weight"}, {                                                                         \
    "conv2.bias", "a.conv1d.2.bias", Take::one_column                                                                  \
  }
constexpr EncoderRule kTower[] = {
    RIDGE_CONVOLUTIONS,
    {"embed_positions", "a.position_embd"},
    {"layer_norm", "a.post_ln"},
};
constexpr FixedField kFixed[] = {
    {"audio_config.scale_embedding", 0, 0},
    {"audio_config.max_source_positions", 1500, 1500},
};

constexpr EncoderRule kBesideUltravox[] = {
    {"multi_modal_projector.ln_pre", "mm.a.norm_pre"},
    {"multi_modal_projector.linear_1", "mm.a.mlp.1"},
    {"multi_modal_projector.ln_mid", "mm.a.norm_mid"},
    {"multi_modal_projector.linear_2", "mm.a.mlp.2"},
};
constexpr FieldRule kFieldsOfUltravox[] = {{"projector.stack_factor", Kind::count, "stack_factor", 8}};
// Older versions have a norm behind both matrices.
constexpr FixedField kFixedOfUltravox[] = {
    {"audio_config.scale_embedding", 0, 0},
    {"audio_config.max_source_positions", 1500, 1500},
    {"projector_ln_mid", 1, 0},
};

constexpr EncoderRule kBesideVoxtral[] = {
    {"multi_modal_projector.linear_1", "mm.a.mlp.1"},
    {"multi_modal_projector.linear_2", "mm.a.mlp.2"},
};

void read_act(EncoderFields& fields) { fields.require_word("projector_hidden_act", "gelu", "gelu"); }
// Rows of the encoder side by side: as many as make its wider layer.
void read_stack(EncoderFields& fields) {
  const int64_t width = fields.written("embedding_length"), wide = fields.written("feed_forward_length");
  if (width < 1 || wide % width != 0)
    throw_error("{}: rows of {} values cannot be joined into one of {}", fields.where("audio_config"), width, wide);
  fields.set_count("projector.stack_factor", wide / width);
  fields.set_count("projector.pool", 1); // no means of rows
  read_act(fields);
}

void read_projector(EncoderFields& fields) { fields.require_word("projector_act", "swiglu", "swiglu"); }

constexpr EncoderRule kBesideQwen2[] = {{"multi_modal_projector.linear", "mm.a.fc"}};

constexpr EncoderRule kTowerOfOmni[] = {
    RIDGE_CONVOLUTIONS,
    {"", "a.position_embd.weight", Take::sinusoids},
    {"ln_post", "a.post_ln"},
    {"proj", "mm.a.fc"},
};
#undef RIDGE_CONVOLUTIONS
constexpr std::string_view kUnusedOfOmni[] = {"audio_bos_eos_token"};
constexpr FieldRule kFieldsOfOmni[] = {{"chunk_size", Kind::count, "audio_config.n_window * 2", 200}};

constexpr EncoderRule kTower3[] = {
    {"conv2d1.weight", "a.conv2d.1.weight"},
    {"conv2d1.bias", "a.conv2d.1.bias", Take::one_pixel},
    {"conv2d2.weight", "a.conv2d.2.weight"},
    {"conv2d2.bias", "a.conv2d.2.bias", Take::one_pixel},
    {"conv2d3.weight", "a.conv2d.3.weight"},
    {"conv2d3.bias", "a.conv2d.3.bias", Take::one_pixel},
    {"conv_out", "a.conv_out"},
    {"", "a.position_embd.weight", Take::sinusoids},
    {"ln_post", "a.post_ln"},
    {"proj1", "mm.a.mlp.1", Take::all, kOptional},
    {"proj2", "mm.a.mlp.2", Take::all, kOptional},
};
// transformers has the last two matrices beside the encoder.
constexpr EncoderRule kBesideAsr[] = {
    {"multi_modal_projector.linear_1", "mm.a.mlp.1", Take::all, kOptional},
    {"multi_modal_projector.linear_2", "mm.a.mlp.2", Take::all, kOptional},
};
constexpr FixedField kFixed3[] = {
    {"audio_config.scale_embedding", 0, 0},
    {"audio_config.n_window", 50, 50},
    {"audio_config.n_window_infer", 800, 800},
};

constexpr EncoderFamily family(std::string_view projector, std::span<const EncoderRule> beside,
                               void (*more)(EncoderFields&) = nullptr, std::span<const EncoderRule> tower = kTower,
                               std::span<const FixedField> fixed = kFixed) {
  return {.media = Media::sound,
          .section = "audio_config",
          .projector = projector,
          .towers = kTowers,
          .layers = "layers.",
          .tower = tower,
          .layer = kLayer,
          .beside = beside,
          .fixed = fixed,
          .epsilon = 1e-5,
          .kernels = quant::Type::F16,
          .more = more};
}

constexpr EncoderFamily of_ultravox() {
  EncoderFamily made = family("ultravox", kBesideUltravox, read_projector, kTower, kFixedOfUltravox);
  made.fields = kFieldsOfUltravox;
  return made;
}

constexpr EncoderFamily of_omni() {
  EncoderFamily made = family("qwen2a", {}, nullptr, kTowerOfOmni);
  made.unused = kUnusedOfOmni;
  made.fields = kFieldsOfOmni;
  return made;
}

} // namespace

constinit const EncoderFamily families::ultravox = of_ultravox();
constinit const EncoderFamily families::voxtral = family("voxtral", kBesideVoxtral, read_stack);
constinit const EncoderFamily families::audioflamingo3 = family("musicflamingo", kBesideVoxtral, read_act);
constinit const EncoderFamily families::qwen2audio = family("qwen2a", kBesideQwen2);
constinit const EncoderFamily families::qwen25omni = of_omni();
constinit const EncoderFamily families::qwen3omni = family("qwen3a", {}, nullptr, kTower3, kFixed3);
constinit const EncoderFamily families::qwen3asr = family("qwen3a", kBesideAsr, nullptr, kTower3, kFixed3);

} // namespace ridge::convert::import
