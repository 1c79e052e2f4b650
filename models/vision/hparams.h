// Hyperparameters of an encoder: the metadata under "clip.vision." or "clip.audio.". Each is checked when it is asked
// for.
#pragma once

#include "gguf/gguf.h"
#include "models/vision/projector.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::models::vision {

class Hparams {
 public:
  explicit Hparams(const gguf::File& file, Media media = Media::picture) : file_(file), media_(media) {}

  Media media() const { return media_; }
  const std::string& path() const { return file_.path(); }
  std::string key(std::string_view name) const {
    return (media_ == Media::picture ? "clip.vision." : "clip.audio.") + std::string(name);
  }
  bool has(std::string_view name) const { return file_.find(key(name)) != nullptr; }

  // An integer from 1 (or `least`) to `most`. Without a fallback the key is required.
  int64_t count(std::string_view name, int64_t most, int64_t least = 1) const;
  int64_t count_or(std::string_view name, int64_t fallback, int64_t most, int64_t least = 1) const;
  int64_t whole_key_or(std::string_view whole_key, int64_t fallback) const; // an integer, whatever its key begins with
  double number(std::string_view name) const;                               // required, finite
  std::array<float, 3> colors(std::string_view name) const;                 // of red, green and blue
  std::vector<int64_t> counts(std::string_view name) const; // of an array of integers; none where there is none
  bool flag(std::string_view whole_key) const;              // false where it is not there

  int64_t width() const;      // embedding_length
  int64_t layers() const;     // block_count, 0 or more
  int64_t heads() const;      // attention.head_count
  int64_t head_dim() const;   // attention.head_dim, or width / heads
  int64_t patch() const;      // patch_size: pixels of a patch's side
  int64_t image_size() const; // pixels of a side that the encoder was trained with, a multiple of patch(); at least it
  int64_t text_width() const; // projection_dim
  float epsilon() const;      // attention.layer_norm_epsilon

 private:
  int64_t in_range(std::string_view name, int64_t value, int64_t least, int64_t most) const;
  const gguf::File& file_;
  const Media media_;
};

} // namespace ridge::models::vision
