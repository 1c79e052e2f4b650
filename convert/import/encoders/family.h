// Encoders of pictures and sounds to mmproj files (docs/images.md): a family object here, and a row in families.def per
// class.
#pragma once

#include "convert/import/config/config.h"
#include "gguf/metadata.h"
#include "models/checkpoints/checkpoint.h"
#include "models/vision/projector.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::convert::import {

enum class Take : uint8_t {
  all,
  first_frame, // of a two-frame kernel [rows, colours, frame, y, x]
  second_frame,
  first_third,
  second_third,
  last_third,
  rope_pairs,   // per head: i and i + d/2 become neighbours
  plus_one,     // norm stored as w - 1
  class_last,   // positions: the class row moves to the end
  colors_first, // columns of a patch matrix, or its norm: [y, x, colour] to [colour, y, x]
  axes_first,   // positions: [place, axis, width] to [axis, place, width]
  // of encoders of sound
  squeezed,    // without dimensions of 1
  one_column,  // vector [n] as [n, 1]
  one_pixel,   // vector [n] as [n, 1, 1]
  softplus,    // ln(1 + e^w)
  norm_factor, // of a batch norm: weight / sqrt(variance + 1e-5)
  norm_shift,  // bias - mean * factor
  sinusoids,   // no tensor of the checkpoint: [1500, width], sines then cosines
};

struct EncoderRule {
  // A module (.weight, .bias) or tensor.
  std::string_view from;
  std::string_view to;
  Take take = Take::all;
  bool required = true;
};
inline constexpr bool kOptional = false;

struct EncoderFamily;

class EncoderFields {
 public:
  // `preprocessor`: preprocessor_config.json, or from processor_config.json.
  EncoderFields(const EncoderFamily& family, const Config& config, const Json& preprocessor, gguf::Metadata& metadata);

  // A models::FieldRule expression over config.json, extended by "preprocessor".
  std::optional<double> number(std::string_view expression) const { return config_.evaluate(expression); }
  int64_t count(std::string_view expression, int64_t low, int64_t high, std::optional<int64_t> absent = {}) const;
  const Json* find(std::string_view key) const; // in the encoder's section; nullptr: absent or null
  std::optional<std::string> word(std::string_view key) const;
  std::vector<int64_t> layers_of(std::string_view key) const; // list of layers in the section; empty if absent
  const Config& config() const { return config_; }
  // Throws Error unless the field, or its default `absent`, equals `word`.
  void require_word(std::string_view field, std::string_view word, std::string_view absent) const;
  std::string where(std::string_view field) const { return config_.fields().where(field); }

  // "clip.vision." or "clip.audio." + key; never overwrites.
  void set(std::string_view key, gguf::OwnedValue value);
  void set_count(std::string_view key, int64_t value) { set(key, static_cast<uint32_t>(value)); }
  bool has(std::string_view key) const;
  int64_t written(std::string_view key) const;

 private:
  std::string in_file(std::string_view key) const;

  const EncoderFamily& family_;
  Config config_;
  gguf::Metadata& metadata_;
};

struct EncoderFamily {
  models::vision::Media media = models::vision::Media::picture;
  std::string_view section = "vision_config"; // of config.json
  std::string_view projector;                 // clip.projector_type
  std::span<const std::string_view> towers;   // tensor prefixes; the first that exists is used
  std::string_view layers;
  std::span<const EncoderRule> tower;
  std::span<const EncoderRule> layer;            // empty: there are none
  std::span<const EncoderRule> beside;           // the rest, usually the projector
  std::span<const std::string_view> unused = {}; // substrings of unneeded tensors
  std::span<const models::FieldRule> fields = {};
  std::span<const models::FixedField> fixed = {};
  std::string_view activation = "gelu";
  double epsilon = 1e-6;
  std::array<float, 3> mean = {}, deviation = {};
  quant::Type kernels = quant::Type::F32; // of convolutions of sounds
  void (*more)(EncoderFields&) = nullptr;
  // Layers in the section: "{}" is the index in `from`, the layer in `to`.
  std::string_view numbered = {};
  std::string_view table_row = {}; // the token for v.token_embd.img_break
};

// nullptr: none, or unknown.
const EncoderFamily* find_family(const Config& config, models::vision::Media media);

namespace families {
extern const EncoderFamily qwen2vl, qwen25vl, qwen3vl, gemma3, gemma4v, gemma4uv, pixtral, internvl, internvl_hf,
    idefics3, llava, llava_siglip, ultravox, voxtral, audioflamingo3, qwen2audio, qwen25omni, qwen3omni, qwen3asr,
    gemma4a, gemma4ua, lfm2audio;
} // namespace families

inline constexpr std::array<float, 3> kClipMean = {0.48145466f, 0.4578275f, 0.40821073f},
                                      kClipDeviation = {0.26862954f, 0.26130258f, 0.27577711f},
                                      kHalf = {0.5f, 0.5f, 0.5f};

} // namespace ridge::convert::import
