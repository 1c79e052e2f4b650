// From a picture to rows that a language model reads in place of tokens: what an mmproj file (architecture "clip")
// says.
//
// A picture is first cut: resized to what the encoder takes, for some families to several tiles, with text around them.
// Each tile then goes through some Programs, one after another: stages. Rows of the first are patches, squares of
// pixels; all of them see one another. Rows of each further stage are what some rows of the one before became, side by
// side, such as neighbouring patches. The last stage makes rows of the language model's width. All are Programs of the
// same ops as language models, so that every executor runs them. They are built for one size of tile.
#pragma once

#include "core/program.h"
#include "gguf/gguf.h"
#include "media/picture.h"

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

// What an encoder takes. A file may have one of each kind.
enum class Media : uint8_t { picture, sound };

// What stands in a prompt for a picture, in order: text, or a tile whose sides are whole patches.
struct Part {
  std::string text = {};
  std::string otherwise = {}; // instead, where it is not empty and the vocabulary has no token for the text
  std::optional<media::Picture> tile = {};
};

// A Program, and where its rows come from.
struct Stage {
  core::Program program = {};           // it has an input and an output
  int64_t group = 1;                    // rows of the stage before that are side by side in one of its rows
  std::vector<int32_t> from = {};       // [rows][group]: which; -1: zeros. In the first stage: patches, line by line,
                                        // or what is given of a sound
  std::vector<int32_t> axes = {};       // of each row: core::Batch::axes; empty: nothing turns by them
  std::vector<int32_t> block_ends = {}; // core::Batch::block_ends

  int64_t rows() const { return std::ssize(from) / group; }
  int64_t width() const { return program.values[program.output].width; } // of what it gives
};

// The stages for tiles of one size.
struct Encoder {
  std::vector<Stage> stages;
  float pixel_scale = 1, pixel_shift = 0; // of normalized pixels
  int64_t patch = 0;                      // pixels of a patch's side; 0: of a sound
  int64_t input_width = 0;                // elements of a row that the first stage is given
  std::vector<int32_t> tokens;            // rows of the last stage in the order of the text; -1 - i: row i of `further`
  std::vector<float> further;             // rows that the file has, such as for the end of a line of patches
  int64_t columns = 0, lines = 0;         // of tokens, where they make a grid
  bool framed = false;                    // a token stands before that grid and one behind it
  // Squares side by side that a tile consists of, which see nothing of one another: the stages are for one of them, and
  // `tokens` counts the rows of all, one square after the other.
  int64_t squares = 1;

  int64_t width() const { return stages.back().width(); } // of a token
};

// What a projector's file defines.
struct ProjectorFile {
  std::vector<Part> (*cut)(const Hparams&, const media::Picture&);
  void (*build)(Builder&);
  // Whether a picture's tokens see one another in the language model, too, which has such a width.
  bool (*sees_ahead)(int64_t text_width) = nullptr; // null: they do not
};

struct Projector {
  std::string_view name; // clip.projector_type
  const ProjectorFile& file;
  std::string_view models; // for people
};

std::span<const Projector> projector_table(); // rows of projectors.def in their order
std::string projectors_as_markdown();         // the table of docs/images.md

// The encoder of pictures that an mmproj file has.
class Model {
 public:
  // The file must outlive it. Throws Error where the file has none, or one of an unknown kind.
  explicit Model(const gguf::File& file);

  const Projector& projector() const { return projector_; }
  bool sees_ahead(int64_t text_width) const {
    return projector_.file.sees_ahead && projector_.file.sees_ahead(text_width);
  }
  std::vector<Part> cut(const media::Picture& picture) const;
  // Throws Error for a tensor that is missing or has another shape, a hyperparameter out of range, and a tensor that no
  // op uses.
  Encoder build(int64_t width, int64_t height) const;
  // How pixels of 0 to 1 are shifted and scaled: (x - mean) / deviation, of red, green and blue.
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
