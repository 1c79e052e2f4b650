// Pictures and sounds ("pictures") of conversations. An unguessable mark represents each in a message, so messages stay
// plain texts. A picture is encoded once while it is held or recent.
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
  double sound_seconds = 0;
  std::vector<PictureReader::Piece> pieces;
  int64_t tokens = 0;
  int64_t bytes = 0;
  double seconds = 0;
};

class PictureShelf {
 public:
  // `most_bytes` limits pictures that nothing else holds.
  explicit PictureShelf(std::unique_ptr<PictureReader> reader, int64_t most_bytes = int64_t{512} << 20);

  // Decodes and encodes new files, one at a time to limit memory. Throws media::MediaError.
  std::shared_ptr<const ShelvedPicture> add(std::span<const std::byte> file, const std::string& name,
                                            const media::PictureLimits& limits = {});
  // The first mark of any shelf in this process; may be empty.
  static std::string_view find_mark(std::string_view text);
  static bool has_mark(std::string_view text) { return !find_mark(text).empty(); }
  const PictureReader& reader() const { return *reader_; }

  // `tokens_of` tokenizes the text before the first mark. Throws Error if a marked picture no longer exists.
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
  std::deque<std::shared_ptr<const ShelvedPicture>> latest_; // latest first
};

} // namespace ridge::engine
