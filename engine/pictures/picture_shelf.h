// Pictures and sounds of conversations; what is said of pictures is true of both. In a message a mark stands for each,
// a text that cannot be guessed; where the prompt has the mark, its tokens are the picture's. So messages stay texts
// wherever they are kept, cut and compared.
//
// A picture is encoded once, however often it comes, as long as it is held or one of the latest.
#pragma once

#include "core/error.h"
#include "engine/pictures/picture_prompt.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

struct ShelvedPicture {
  std::string mark;
  int64_t width = 0, height = 0; // pixels
  double sound_seconds = 0;      // of a sound, which has no pixels
  std::vector<PictureReader::Piece> pieces;
  int64_t tokens = 0; // without those of text
  int64_t bytes = 0;  // that its rows take
  double seconds = 0; // that encoding it took
};

class PictureShelf {
 public:
  // `most_bytes`: of pictures that are not held otherwise.
  explicit PictureShelf(std::unique_ptr<PictureReader> reader, int64_t most_bytes = int64_t{512} << 20);

  // Decodes and encodes a picture's file, unless that is there already: one at a time, so that requests together take
  // the memory of one. Throws media::MediaError as media::decode_medium(), and where there is no encoder for it.
  std::shared_ptr<const ShelvedPicture> add(std::span<const std::byte> file, const std::string& name,
                                            const media::PictureLimits& limits = {});
  // The first mark in a text, of this shelf or another one of the process; empty: there is none.
  static std::string_view find_mark(std::string_view text);
  static bool has_mark(std::string_view text) { return !find_mark(text).empty(); }
  const PictureReader& reader() const { return *reader_; }

  // The tokens of a chat's prompt with marks. `tokens_of`: of what comes before the first one. Throws Error for the
  // mark of a picture that is not there any more.
  PicturePrompt prompt_of(const text::Tokenizer& tokenizer, const text::jinja::TaintedText& text,
                          const std::function<std::vector<int32_t>(const text::jinja::TaintedText&)>& tokens_of) const;

 private:
  std::string mark_of(std::span<const std::byte> file) const;
  std::shared_ptr<const ShelvedPicture> find(std::string_view mark) const;
  void keep(const std::shared_ptr<const ShelvedPicture>& picture);

  const std::unique_ptr<PictureReader> reader_;
  const int64_t most_bytes_;
  std::mutex adding_;
  mutable std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const ShelvedPicture>, std::less<>> by_mark_;
  std::deque<std::shared_ptr<const ShelvedPicture>> latest_; // the last one added comes first
};

} // namespace ridge::engine
