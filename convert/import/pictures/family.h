// How the encoder of pictures of a Hugging Face checkpoint becomes an mmproj file (docs/images.md): what a family's
// tensors and hyperparameters are called there and in the file. A family is an object of this folder, and a row of
// families.def for each class of checkpoints that has it.
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

// What of a checkpoint's tensor is in the file's.
enum class Take : uint8_t {
  all,
  first_frame,  // of a kernel for the two frames of a video [rows, colours, frame, y, x]
  second_frame, // the other one
  first_third,  // of the rows
  second_third, // of the rows
  last_third,   // of the rows
  rope_pairs,   // of each head: elements i and i + d/2 of the checkpoint turn together, in the file neighbours do
  plus_one,     // a norm whose checkpoint holds w - 1
  class_last,   // a table of positions: the row of the class, the first one, comes last
  colors_first, // a matrix for pixels [y, x, colour] of a patch: in the file [colour, y, x]
};

struct PictureRule {
  // A module, whose .weight and .bias are taken, or a tensor's full name.
  std::string_view from;
  std::string_view to; // without .weight and .bias for a module, the full name for a tensor
  Take take = Take::all;
  bool required = true; // else encoders of the family may be without it
};
inline constexpr bool kOptional = false;

// What is written into the file, and read of the checkpoint, beside tensors.
class PictureFields {
 public:
  // `preprocessor`: what preprocessor_config.json, or its part of processor_config.json, says.
  PictureFields(const Config& config, const Json& preprocessor, gguf::Metadata& metadata);

  // The value of an expression (models::FieldRule) over config.json, with "preprocessor" beside its fields.
  std::optional<double> number(std::string_view expression) const { return config_.evaluate(expression); }
  // The same, an integer in a range; throws Error.
  int64_t count(std::string_view expression, int64_t low, int64_t high, std::optional<int64_t> absent = {}) const;
  const Json* find(std::string_view key) const;                // of vision_config; nullptr: absent or null
  std::optional<std::string> word(std::string_view key) const; // the same, a string
  std::vector<int64_t> layers_of(std::string_view key) const;  // of vision_config: a list of layers, none where absent
  const Config& config() const { return config_; }
  // Throws Error where a field of config.json, or what it is where it is missing, is another word.
  void require_word(std::string_view field, std::string_view word, std::string_view absent) const;
  std::string where(std::string_view field) const { return config_.fields().where(field); }

  // Below "clip.vision.". What was set before stays.
  void set(std::string_view key, gguf::OwnedValue value);
  void set_count(std::string_view key, int64_t value) { set(key, static_cast<uint32_t>(value)); }
  bool has(std::string_view key) const;
  int64_t written(std::string_view key) const; // a count that was set

 private:
  Config config_;
  gguf::Metadata& metadata_;
};

struct PictureFamily {
  std::string_view projector;                     // clip.projector_type
  std::span<const std::string_view> towers;       // what the encoder's tensors begin with: the first one that any has
  std::string_view layers;                        // below the tower, before a layer's number
  std::span<const PictureRule> tower;             // of tensors below the tower
  std::span<const PictureRule> layer;             // below a layer
  std::span<const PictureRule> beside;            // of the checkpoint, mostly of what joins encoder and language model
  std::span<const std::string_view> unused = {};  // parts of names of tensors that pictures do without
  std::span<const models::FieldRule> fields = {}; // before those that most share; "vision_config.depth"
  std::span<const models::FixedField> fixed = {};
  std::string_view activation = "gelu"; // where config.json names none
  double epsilon = 1e-6;                // the same
  std::array<float, 3> mean, deviation; // of colours, where no file says
  void (*more)(PictureFields&) = nullptr;
  // A list of layers in vision_config: "{}" of a rule is a layer's number in this list in `from`, the layer in `to`.
  std::string_view numbered = {};
  std::string_view table_row = {}; // a token whose row of the embedding table is v.token_embd.img_break
};

// The family of a checkpoint's encoder; nullptr: it has none, or none that is known.
const PictureFamily* find_picture_family(const Config& config);

namespace picture_families {
extern const PictureFamily qwen2vl, qwen25vl, qwen3vl, gemma3, gemma4v, pixtral, internvl, internvl_hf, idefics3, llava,
    llava_siglip;
} // namespace picture_families

// Means and deviations of colours: those that CLIP was trained with, and those of most other encoders.
inline constexpr std::array<float, 3> kClipMean = {0.48145466f, 0.4578275f, 0.40821073f},
                                      kClipDeviation = {0.26862954f, 0.26130258f, 0.27577711f},
                                      kHalf = {0.5f, 0.5f, 0.5f};

} // namespace ridge::convert::import
