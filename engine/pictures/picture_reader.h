// Encodes pictures and sounds with the encoders of an mmproj file, which has one of either kind, or both: to rows that
// a language model reads in place of tokens.
#pragma once

#include "core/executor.h"
#include "engine/loaded_model.h"
#include "engine/pictures/text_pictures.h"
#include "gguf/gguf.h"
#include "media/medium.h"
#include "models/sound/encoder.h"
#include "models/vision/projector.h"

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ridge::engine {

// What an mmproj file has encoders for. Nothing where it cannot be read.
struct Senses {
  bool pictures = false, sounds = false;
};
Senses senses_of(const std::string& mmproj);

// The encoders of an mmproj file: of pictures, of sounds, or both. What cannot be used, because the file has none or
// one of an unknown kind, has a line that says so.
struct Encoders {
  std::string path, no_pictures, no_sounds; // of the file; why not
  std::optional<models::vision::Model> pictures;
  std::optional<models::sound::Model> sounds;

  // The file must outlive them. Throws Error where neither can be used.
  explicit Encoders(const gguf::File& file);
  const models::vision::Model& for_pictures() const; // throws Error where there is none
  const models::sound::Model& for_sounds() const;    // as above
  Senses senses() const { return {pictures.has_value(), sounds.has_value()}; }
  int64_t row_width() const; // of what they make
};

// The width of the rows that an mmproj file makes. Throws Error where it has no encoder that is known.
int64_t encoder_row_width(const std::string& path);
// Throws Error where a language model, at `model`, takes rows of another width than the encoder at `encoder` makes.
void check_row_width(const std::string& encoder, int64_t width, const core::Program& program, const std::string& model);

class PictureReader {
 public:
  struct Options {
    int threads = 0; // 0: all cores
    int gpu = -1;    // the GPU that encodes, as far as it has room; -1: the CPU does
    bool exact = false;
    Notice note = {}; // may be empty
  };
  // Opens the encoders in an mmproj file. Throws Error where it has none that is known.
  PictureReader(gguf::File file, const Options& options);
  PictureReader(const std::string& path, const Options& options) : PictureReader(gguf::File::open(path), options) {}

  // What stands in a prompt for a picture: text, or the rows of a tile. A sound has pieces in place of tiles. Throws
  // Error for a file that is malformed, and where it has no encoder of this kind. One thread at a time.
  struct Piece {
    std::string text = {}, otherwise = {};             // models::vision::Part
    std::shared_ptr<const EncodedTile> tile = nullptr; // null: text
  };
  std::vector<Piece> read(const media::Picture& picture);
  std::vector<Piece> read(const media::Sound& sound);
  std::vector<Piece> read(const media::Medium& medium) {
    return std::visit([this](const auto& one) { return read(one); }, medium);
  }
  // Shows each stage of the encoder's Programs for tiles as the last one, with a batch that runs it again.
  using StageUse = std::function<void(core::Executor&, const models::vision::Stage&, const core::Batch&)>;
  void show_stages(const StageUse& use);
  // What the encoder's Programs took for the last picture or sound, all its tiles together.
  struct Work {
    double seconds = 0, flops = 0; // flops as op_cost counts them
    int64_t patches = 0;           // rows of the first stages
  };
  const Work& work() const { return work_; }
  bool on_gpu() const { return options_.gpu >= 0; }
  // How many rows read() would give of it, without encoding it. Any thread.
  int64_t count_tokens(const media::Picture& picture) const;
  int64_t count_tokens(const media::Sound& sound) const;
  int64_t count_tokens(const media::Medium& medium) const {
    return std::visit([this](const auto& one) { return count_tokens(one); }, medium);
  }

  int64_t row_width() const { return row_width_; }                                // of tiles
  void check_fits(const core::Program& program, const std::string& model) const { // check_row_width()
    check_row_width(path(), row_width_, program, model);
  }
  const std::string& path() const { return file_.path(); }
  const Encoders& encoders() const { return encoders_; }

 private:
  struct Size { // of a tile, in pixels; of a sound's piece, in frames of a width
    models::vision::Media media;
    int64_t width, height;
    bool operator==(const Size&) const = default;
  };
  struct Sized {
    Size size;
    models::vision::Encoder encoder;
    std::vector<std::unique_ptr<core::Executor>> executors; // of its stages
    std::shared_ptr<float> input;                           // of the last tile
  };
  Sized& sized_for(const Size& size);
  std::unique_ptr<core::Executor> executor_of(const models::vision::Stage& stage, const core::Executor* weights_of);
  EncodedTile encode(const media::Picture& tile);
  EncodedTile encode(const models::sound::Frames& frames);
  void finish(EncodedTile& encoded, const Sized& sized) const;
  std::shared_ptr<const float> run(Sized& sized);
  static std::vector<float> input_of(Sized& sized, size_t stage);
  std::shared_ptr<const float> encode_square(Sized& sized, const media::Picture& square);
  std::shared_ptr<const float> encode_squares(Sized& sized, const media::Picture& tile);
  static std::span<float> first_input(const Sized& sized);
  void take_patches(Sized& sized, const media::Picture& tile) const;

  const gguf::File file_;
  const Encoders encoders_;
  Options options_;
  const std::string key_; // of the file
  const int64_t row_width_;
  Work work_;
  // The last ones of pictures and of sounds: most of a conversation have one size.
  std::array<std::unique_ptr<Sized>, 2> last_;
  Sized* latest_ = nullptr; // of both
};

// How an executor is configured that runs one of an encoder's Programs, for so many rows.
core::ExecutorConfig encoder_config(int64_t rows, const PictureReader::Options& options);

} // namespace ridge::engine
