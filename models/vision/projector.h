// Encodes images into rows that replace tokens, from an mmproj file (architecture "clip").
// An image is cut into tiles with text around them. Each tile, of a size known at build time, goes through stages:
// Programs with the same ops as language models. Rows of the first stage are patches, rows of a later one concatenate
// rows of the previous one, and rows of the last have the language model's width.
#pragma once

#include "core/program.h"
#include "gguf/gguf.h"
#include "media/pictures/picture.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::models::vision {

class Builder;
class Hparams;

// A file may have one encoder of each.
enum class Media : uint8_t { picture, sound };

// A picture of whole patches.
struct Tile : media::Picture {
  Tile(media::Picture picture) : Picture(std::move(picture)) {} // NOLINT: every picture is a tile
  // Its pixels, where resizing keeps fractions [height][width][3], 0 to 255; else empty.
  std::vector<float> levels = {};
};

// Text or a tile.
struct Part {
  std::string text = {};
  std::string otherwise = {}; // replaces `text` if that is no token
  std::optional<Tile> tile = {};
};

struct Stage {
  core::Program program = {};     // has an input and an output
  int64_t group = 1;              // rows of the previous stage per row
  std::vector<int32_t> from = {}; // [rows][group], -1: zeros; in the first stage, patches line by line or audio rows
  std::vector<int32_t> axes = {}; // core::Batch::axes; empty: none
  std::vector<int32_t> block_ends = {}; // core::Batch::block_ends

  int64_t rows() const { return std::ssize(from) / group; }
  int64_t width() const { return program.values[program.output].width; }
};

struct Encoder {
  std::vector<Stage> stages;
  float pixel_scale = 1, pixel_shift = 0; // applied to normalized pixels
  int64_t patch = 0;                      // pixels; 0: audio
  int64_t input_width = 0;                // elements per input row of the first stage
  std::vector<int32_t> tokens;            // rows of the last stage in text order; -1 - i: row i of `further`
  std::vector<float> further;             // rows from the file, such as line ends
  int64_t columns = 0, lines = 0;         // grid of tokens, or 0
  bool framed = false;                    // a token before and after the grid
  // Squares of a tile that are encoded separately: stages are for one of them, `tokens` counts the rows of all.
  int64_t squares = 1;

  int64_t width() const { return stages.back().width(); }
};

struct ProjectorFile {
  std::vector<Part> (*cut)(const Hparams&, const media::Picture&);
  void (*build)(Builder&);
  // Whether image tokens attend to later ones in a language model of this width.
  bool (*sees_ahead)(int64_t text_width) = nullptr; // null: never
};

struct Projector {
  std::string_view name;
  const ProjectorFile& file;
  std::string_view models;
};

std::span<const Projector> projector_table();
std::string projectors_as_markdown();

// The vision encoder of an mmproj file.
class Model {
 public:
  // The file must outlive it. Throws Error if it has no known vision encoder.
  explicit Model(const gguf::File& file);

  const Projector& projector() const { return projector_; }
  bool sees_ahead(int64_t text_width) const {
    return projector_.file.sees_ahead && projector_.file.sees_ahead(text_width);
  }
  std::vector<Part> cut(const media::Picture& picture) const;
  // Throws Error for missing, misshapen or unused tensors and bad hyperparameters.
  Encoder build(int64_t width, int64_t height) const;
  // Normalization of pixels in 0 to 1: (x - mean) / deviation, per color.
  const std::array<float, 3>& mean() const { return mean_; }
  const std::array<float, 3>& deviation() const { return deviation_; }

 private:
  const gguf::File& file_;
  const Projector& projector_;
  std::array<float, 3> mean_, deviation_;
};

namespace projectors {
#define RIDGE_PROJECTOR(name, file, models) extern const ProjectorFile file;
#include "models/vision/projectors.def"
#undef RIDGE_PROJECTOR
} // namespace projectors

} // namespace ridge::models::vision
