// Encodes pictures with the encoder of an mmproj file: from a picture to rows that a language model reads in place of
// tokens.
#pragma once

#include "core/executor.h"
#include "engine/pictures/text_pictures.h"
#include "gguf/gguf.h"
#include "media/picture.h"
#include "models/vision/projector.h"

#include <memory>
#include <string>
#include <vector>

namespace ridge::engine {

class PictureReader {
 public:
  struct Options {
    int threads = 0; // 0: all cores
    bool exact = false;
  };
  // Opens an mmproj file. Throws Error where it has no encoder of pictures that is known.
  PictureReader(const std::string& path, const Options& options);

  // What stands in a prompt for a picture: text, or the rows of a tile. Throws Error for a file that is malformed.
  // One thread at a time.
  struct Piece {
    std::string text = {}, otherwise = {};             // models::vision::Part
    std::shared_ptr<const EncodedTile> tile = nullptr; // null: text
  };
  std::vector<Piece> read(const media::Picture& picture);
  // How many rows read() would give of it, without encoding it. Any thread.
  int64_t count_tokens(const media::Picture& picture) const;

  int64_t row_width() const { return row_width_; } // of tiles
  // Throws Error where the language model, of this path, takes rows of another width.
  void check_fits(const core::Program& program, const std::string& path) const;
  const std::string& path() const { return file_.path(); }
  const models::vision::Model& model() const { return model_; }

 private:
  struct Sized { // for tiles of one size
    int64_t width = 0, height = 0;
    models::vision::Encoder encoder;
    std::unique_ptr<core::Executor> patches, squares; // they run the two Programs
  };
  Sized& sized_for(int64_t width, int64_t height);
  EncodedTile encode(const media::Picture& tile);
  std::vector<float> patches_of(const Sized& sized, const media::Picture& tile) const;

  const gguf::File file_;
  const models::vision::Model model_;
  const Options options_;
  const std::string key_; // of the file
  const int64_t row_width_;
  std::unique_ptr<Sized> last_; // most pictures of a conversation have one size
};

} // namespace ridge::engine
