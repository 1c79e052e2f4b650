// Encodes pictures and sounds with the encoders of an mmproj file, to rows that a language model reads in place of
// tokens.
#pragma once

#include "core/executor.h"
#include "engine/loading/loaded_model.h"
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

// Both are false if the file is unreadable.
struct Senses {
  bool pictures = false, sounds = false;
};
Senses senses_of(const std::string& mmproj);

struct Encoders {
  std::string path, no_pictures, no_sounds; // no_*: why there is no such encoder
  std::optional<models::vision::Model> pictures;
  std::optional<models::sound::Model> sounds;

  // The file must outlive them. Throws Error if no encoder is usable.
  explicit Encoders(const gguf::File& file);
  const models::vision::Model& for_pictures() const; // throws Error if there is none
  const models::sound::Model& for_sounds() const;
  Senses senses() const { return {pictures.has_value(), sounds.has_value()}; }
  int64_t row_width() const;
};

// Throws Error without a known encoder.
int64_t encoder_row_width(const std::string& path);
// Throws Error if the widths differ.
void check_row_width(const std::string& encoder, int64_t width, const core::Program& program, const std::string& model);

class PictureReader {
 public:
  struct Options {
    int threads = 0;
    int gpu = -1; // if it has room; -1: the CPU
    bool exact = false;
    Notice note = {};
  };
  // Throws Error without a known encoder.
  PictureReader(gguf::File file, const Options& options);
  PictureReader(const std::string& path, const Options& options) : PictureReader(gguf::File::open(path), options) {}

  // Texts and rows of tiles in a prompt. read() throws Error for a malformed file and without a matching encoder. Not
  // thread-safe.
  struct Piece {
    std::string text = {}, otherwise = {};
    std::shared_ptr<const EncodedTile> tile = nullptr; // null: text
  };
  std::vector<Piece> read(const media::Picture& picture);
  std::vector<Piece> read(const media::Sound& sound);
  std::vector<Piece> read(const media::Medium& medium) {
    return std::visit([this](const auto& one) { return read(one); }, medium);
  }
  // Calls `use` for each stage at the last sizes. The batch repeats its run.
  using StageUse = std::function<void(core::Executor&, const models::vision::Stage&, const core::Batch&)>;
  void show_stages(const StageUse& use);
  struct Work {
    double seconds = 0, flops = 0; // flops as in op_cost
    int64_t patches = 0;
  };
  const Work& work() const { return work_; }
  bool on_gpu() const { return options_.gpu >= 0; }
  // Number of rows that read() would return. Thread-safe.
  int64_t count_tokens(const media::Picture& picture) const;
  int64_t count_tokens(const media::Sound& sound) const;
  int64_t count_tokens(const media::Medium& medium) const {
    return std::visit([this](const auto& one) { return count_tokens(one); }, medium);
  }

  int64_t row_width() const { return row_width_; }
  void check_fits(const core::Program& program, const std::string& model) const {
    check_row_width(path(), row_width_, program, model);
  }
  const std::string& path() const { return file_.path(); }
  const Encoders& encoders() const { return encoders_; }

 private:
  struct Size {
    models::vision::Media media;
    int64_t width, height;
    bool operator==(const Size&) const = default;
  };
  struct Sized {
    Size size;
    models::vision::Encoder encoder;
    std::vector<std::unique_ptr<core::Executor>> executors;
    std::shared_ptr<float> input;
  };
  Sized& sized_for(const Size& size);
  std::unique_ptr<core::Executor> executor_of(const models::vision::Stage& stage, const core::Executor* weights_of);
  struct Rows {
    std::shared_ptr<const float> memory;
    std::function<void()> arrive = {}; // as EncodedTile's
    bool finite = false;               // known to be
  };
  EncodedTile encode(const models::vision::Tile& tile);
  EncodedTile encode(const models::sound::Frames& frames);
  EncodedTile finish(const Rows& rows, const Sized& sized) const;
  Rows run(Sized& sized);
  static std::vector<float> input_of(Sized& sized, size_t stage);
  Rows encode_square(Sized& sized, const models::vision::Tile& square);
  Rows encode_squares(Sized& sized, const media::Picture& tile);
  static std::span<float> first_input(const Sized& sized);
  void take_patches(Sized& sized, const models::vision::Tile& tile) const;

  const gguf::File file_;
  const Encoders encoders_;
  Options options_;
  const std::string key_;
  const int64_t row_width_;
  Work work_;
  std::array<std::unique_ptr<Sized>, 2> last_;
  Sized* latest_ = nullptr;
};

core::ExecutorConfig encoder_config(int64_t rows, const PictureReader::Options& options);

} // namespace ridge::engine
