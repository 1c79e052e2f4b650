// Picture encoders to mmproj files (docs/images.md): a family object here, and a row in families.def per class.
#pragma once

#include "convert/import/config.h"
#include "gguf/metadata.h"
#include "models/checkpoint.h"

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
  colors_first, // patch matrix: [y, x, colour] to [colour, y, x]
};

struct PictureRule {
  // A module (.weight, .bias) or tensor.
  std::string_view from;
  std::string_view to;
  Take take = Take::all;
  bool required = true;
};
inline constexpr bool kOptional = false;

class PictureFields {
 public:
  // `preprocessor`: preprocessor_config.json, or from processor_config.json.
  PictureFields(const Config& config, const Json& preprocessor, gguf::Metadata& metadata);

  // A models::FieldRule expression over config.json, extended by "preprocessor".
  std::optional<double> number(std::string_view expression) const { return config_.evaluate(expression); }
  int64_t count(std::string_view expression, int64_t low, int64_t high, std::optional<int64_t> absent = {}) const;
  const Json* find(std::string_view key) const; // in vision_config; nullptr: absent or null
  std::optional<std::string> word(std::string_view key) const;
  std::vector<int64_t> layers_of(std::string_view key) const; // list of layers in vision_config; empty if absent
  const Config& config() const { return config_; }
  // Throws Error unless the field, or its default `absent`, equals `word`.
  void require_word(std::string_view field, std::string_view word, std::string_view absent) const;
  std::string where(std::string_view field) const { return config_.fields().where(field); }

  // "clip.vision." + key; never overwrites.
  void set(std::string_view key, gguf::OwnedValue value);
  void set_count(std::string_view key, int64_t value) { set(key, static_cast<uint32_t>(value)); }
  bool has(std::string_view key) const;
  int64_t written(std::string_view key) const;

 private:
  Config config_;
  gguf::Metadata& metadata_;
};

struct PictureFamily {
  std::string_view projector;               // clip.projector_type
  std::span<const std::string_view> towers; // tensor prefixes; the first that exists is used
  std::string_view layers;
  std::span<const PictureRule> tower;
  std::span<const PictureRule> layer;
  std::span<const PictureRule> beside;           // the rest, usually the projector
  std::span<const std::string_view> unused = {}; // substrings of unneeded tensors
  std::span<const models::FieldRule> fields = {};
  std::span<const models::FixedField> fixed = {};
  std::string_view activation = "gelu";
  double epsilon = 1e-6;
  std::array<float, 3> mean, deviation;
  void (*more)(PictureFields&) = nullptr;
  // Layers in vision_config: "{}" is the index in `from`, the layer in `to`.
  std::string_view numbered = {};
  std::string_view table_row = {}; // the token for v.token_embd.img_break
};

// nullptr: none, or unknown.
const PictureFamily* find_picture_family(const Config& config);

namespace picture_families {
extern const PictureFamily qwen2vl, qwen25vl, qwen3vl, gemma3, gemma4v, pixtral, internvl, internvl_hf, idefics3, llava,
    llava_siglip;
} // namespace picture_families

inline constexpr std::array<float, 3> kClipMean = {0.48145466f, 0.4578275f, 0.40821073f},
                                      kClipDeviation = {0.26862954f, 0.26130258f, 0.27577711f},
                                      kHalf = {0.5f, 0.5f, 0.5f};

} // namespace ridge::convert::import
