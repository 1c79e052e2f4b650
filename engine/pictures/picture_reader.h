// Encodes pictures with the encoder of an mmproj file: from a picture to rows that a language model reads in place of
// tokens.
#pragma once

#include "core/executor.h"
#include "engine/loaded_model.h"
#include "engine/pictures/text_pictures.h"
#include "gguf/gguf.h"
#include "media/picture.h"
#include "models/vision/projector.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ridge::engine {

// The width of the rows that an mmproj file makes. Throws Error where it has no encoder of pictures that is known.
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
  // Opens the encoder in an mmproj file. Throws Error where it has no encoder of pictures that is known.
  PictureReader(gguf::File file, const Options& options);
  PictureReader(const std::string& path, const Options& options) : PictureReader(gguf::File::open(path), options) {}

  // What stands in a prompt for a picture: text, or the rows of a tile. Throws Error for a file that is malformed.
  // One thread at a time.
  struct Piece {
    std::string text = {}, otherwise = {};             // models::vision::Part
    std::shared_ptr<const EncodedTile> tile = nullptr; // null: text
  };
  std::vector<Piece> read(const media::Picture& picture);
  // Shows each stage of the encoder's Programs for tiles as the last one, with a batch that runs it again.
  using StageUse = std::function<void(core::Executor&, const models::vision::Stage&, const core::Batch&)>;
  void show_stages(const StageUse& use);
  // What the encoder's Programs took for the last picture, all its tiles together.
  struct Work {
    double seconds = 0, flops = 0; // flops as op_cost counts them
    int64_t patches = 0;
  };
  const Work& work() const { return work_; }
  bool on_gpu() const { return options_.gpu >= 0; }
  // How many rows read() would give of it, without encoding it. Any thread.
  int64_t count_tokens(const media::Picture& picture) const;

  int64_t row_width() const { return row_width_; }                                // of tiles
  void check_fits(const core::Program& program, const std::string& model) const { // check_row_width()
    check_row_width(path(), row_width_, program, model);
  }
  const std::string& path() const { return file_.path(); }
  const models::vision::Model& model() const { return model_; }

 private:
  struct Sized { // for tiles of one size
    int64_t width = 0, height = 0;
    models::vision::Encoder encoder;
    std::vector<std::unique_ptr<core::Executor>> executors; // of its stages
    std::shared_ptr<float> patches;                         // of the last tile
  };
  Sized& sized_for(int64_t width, int64_t height);
  std::unique_ptr<core::Executor> executor_of(const models::vision::Stage& stage, const core::Executor* weights_of);
  EncodedTile encode(const media::Picture& tile);
  static std::vector<float> input_of(Sized& sized, size_t stage);
  std::shared_ptr<const float> encode_square(Sized& sized, const media::Picture& square);
  std::shared_ptr<const float> encode_squares(Sized& sized, const media::Picture& tile);
  static std::span<float> patches_in(const Sized& sized);
  std::span<const float> patches_of(Sized& sized, const media::Picture& tile) const;

  const gguf::File file_;
  const models::vision::Model model_;
  Options options_;
  const std::string key_; // of the file
  const int64_t row_width_;
  Work work_;
  std::unique_ptr<Sized> last_; // most pictures of a conversation have one size
};

// How an executor is configured that runs one of an encoder's Programs, for so many rows.
core::ExecutorConfig encoder_config(int64_t rows, const PictureReader::Options& options);

} // namespace ridge::engine
