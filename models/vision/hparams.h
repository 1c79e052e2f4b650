// Metadata under "clip.vision." or "clip.audio.", checked when requested.
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

  // An integer from `least` to `most`; required without a fallback.
  int64_t count(std::string_view name, int64_t most, int64_t least = 1) const;
  int64_t count_or(std::string_view name, int64_t fallback, int64_t most, int64_t least = 1) const;
  int64_t whole_key_or(std::string_view whole_key, int64_t fallback) const;
  double number(std::string_view name) const; // required, finite
  std::array<float, 3> colors(std::string_view name) const;
  std::vector<int64_t> counts(std::string_view name) const;
  bool flag(std::string_view whole_key) const;
  // Values of a tensor; throws Error if it is missing or has another number of them.
  std::vector<float> floats(const std::string& tensor, int64_t count) const;

  int64_t width() const;
  int64_t layers() const; // may be 0
  int64_t heads() const;
  int64_t head_dim() const;
  int64_t patch() const;
  int64_t image_size() const; // as trained; a multiple of patch()
  int64_t text_width() const; // projection_dim
  float epsilon() const;

 private:
  int64_t in_range(std::string_view name, int64_t value, int64_t least, int64_t most) const;
  const gguf::File& file_;
  const Media media_;
};

} // namespace ridge::models::vision
