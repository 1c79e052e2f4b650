#include "engine/pictures/picture_shelf.h"

#include "core/files/hash.h"
#include "engine/pictures/picture_prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

namespace ridge::engine {
namespace {

constexpr size_t kHashDigits = 16;

std::string new_prefix() {
  std::random_device random;
  return fmt::format("<picture {:08x}{:08x}{:08x} ", random(), random(), random());
}

} // namespace

PictureShelf::PictureShelf(std::unique_ptr<PictureReader> reader, int64_t most_bytes)
    : reader_(std::move(reader)), prefix_(new_prefix()), most_bytes_(most_bytes) {}

std::shared_ptr<const ShelvedPicture> PictureShelf::add(const media::Picture& picture) {
  const uint64_t hash =
      core::Hash().add(picture.width).add(picture.height).add(std::as_bytes(std::span(picture.rgb))).value();
  const std::string mark = fmt::format("{}{:016x}>", prefix_, hash);
  const auto found = [&]() -> std::shared_ptr<const ShelvedPicture> {
    const std::scoped_lock lock(mutex_);
    const auto at = by_mark_.find(mark);
    return at == by_mark_.end() ? nullptr : at->second.lock();
  };
  std::shared_ptr<const ShelvedPicture> shelved = found();
  if (!shelved) {
    auto made = std::make_shared<ShelvedPicture>();
    made->mark = mark;
    made->pieces = reader_->read(picture);
    for (const PictureReader::Piece& piece : made->pieces)
      if (piece.tile) {
        made->tokens += piece.tile->tokens;
        made->bytes += std::ssize(piece.tile->rows) * static_cast<int64_t>(sizeof(float));
      }
    shelved = std::move(made);
  }
  const std::scoped_lock lock(mutex_);
  by_mark_[mark] = shelved;
  std::erase(latest_, shelved);
  latest_.push_front(shelved);
  int64_t bytes = 0;
  size_t kept = 0;
  while (kept < latest_.size() && (kept == 0 || bytes + latest_[kept]->bytes <= most_bytes_))
    bytes += latest_[kept++]->bytes;
  latest_.resize(kept);
  std::erase_if(by_mark_, [](const auto& entry) { return entry.second.expired(); });
  return shelved;
}

PictureShelf::Prompt
PictureShelf::prompt_of(const text::Tokenizer& tokenizer, const text::jinja::TaintedText& text,
                        const std::function<std::vector<int32_t>(const text::jinja::TaintedText&)>& tokens_of) const {
  std::string_view rest = text.bytes();
  size_t mark = rest.find(prefix_);
  PicturePromptBuilder builder(tokenizer, tokens_of(text.part(rest.substr(0, mark))));
  while (mark != rest.npos) {
    const std::string_view name = rest.substr(mark, prefix_.size() + kHashDigits + 1);
    std::shared_ptr<const ShelvedPicture> picture;
    {
      const std::scoped_lock lock(mutex_);
      if (const auto at = by_mark_.find(name); at != by_mark_.end()) picture = at->second.lock();
    }
    if (!picture) throw_error("a picture of this conversation is not there any more: send it again");
    builder.add_pieces(picture->pieces);
    rest.remove_prefix(mark + name.size());
    mark = rest.find(prefix_);
    builder.add_text(text.part(rest.substr(0, mark)));
  }
  PicturePrompt prompt = std::move(builder).finish();
  return {std::move(prompt.tokens), std::move(prompt.pictures)};
}

} // namespace ridge::engine
