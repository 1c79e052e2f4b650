#include "engine/pictures/picture_shelf.h"

#include "core/clock.h"
#include "core/files/sha256.h"
#include "core/strings/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

namespace ridge::engine {
namespace {

constexpr size_t kHashDigits = 32;

const std::string& mark_prefix() {
  static const std::string prefix = [] {
    std::random_device random;
    return fmt::format("<picture {:08x}{:08x}{:08x} ", random(), random(), random());
  }();
  return prefix;
}

std::shared_ptr<const ShelvedPicture> encoded(PictureReader& reader, const media::Medium& medium,
                                              const std::string& name, const std::string& mark) {
  const Encoders& encoders = reader.encoders();
  const bool is_sound = std::holds_alternative<media::Sound>(medium);
  if (is_sound ? !encoders.sounds : !encoders.pictures)
    throw media::MediaError(
        fmt::format("{}: {}", core::printable(name), is_sound ? encoders.no_sounds : encoders.no_pictures));
  auto made = std::make_shared<ShelvedPicture>();
  made->mark = mark;
  if (const auto* picture = std::get_if<media::Picture>(&medium)) {
    made->width = picture->width;
    made->height = picture->height;
  } else {
    made->sound_seconds = std::get<media::Sound>(medium).seconds();
  }
  const double begun = core::seconds_now();
  made->pieces = reader.read(medium);
  made->seconds = core::seconds_now() - begun;
  for (const PictureReader::Piece& piece : made->pieces)
    if (piece.tile) {
      made->tokens += piece.tile->tokens;
      made->bytes += static_cast<int64_t>(piece.tile->all_rows().size_bytes());
    }
  return made;
}

} // namespace

PictureShelf::PictureShelf(std::unique_ptr<PictureReader> reader, int64_t most_bytes)
    : reader_(std::move(reader)), most_bytes_(most_bytes) {}

std::string_view PictureShelf::find_mark(std::string_view text) {
  const size_t at = text.find(mark_prefix());
  return at == text.npos ? std::string_view() : text.substr(at, mark_prefix().size() + kHashDigits + 1);
}

std::string PictureShelf::mark_of(std::span<const std::byte> file) const {
  return fmt::format("{}{}>", mark_prefix(), core::Sha256().add(file).hex().substr(0, kHashDigits));
}

std::shared_ptr<const ShelvedPicture> PictureShelf::find(std::string_view mark) const {
  const std::scoped_lock lock(mutex_);
  const auto at = by_mark_.find(mark);
  return at == by_mark_.end() ? nullptr : at->second.lock();
}

std::shared_ptr<const ShelvedPicture> PictureShelf::add(std::span<const std::byte> file, const std::string& name,
                                                        const media::PictureLimits& limits) {
  const std::string mark = mark_of(file);
  std::shared_ptr<const ShelvedPicture> picture = find(mark);
  if (!picture) {
    const std::scoped_lock one(adding_);
    picture = find(mark);
    if (!picture) picture = encoded(*reader_, media::decode_medium(file, name, limits), name, mark);
  }
  keep(picture);
  return picture;
}

void PictureShelf::keep(const std::shared_ptr<const ShelvedPicture>& picture) {
  const std::scoped_lock lock(mutex_);
  by_mark_[picture->mark] = picture;
  std::erase(latest_, picture);
  latest_.push_front(picture);
  int64_t bytes = 0;
  size_t kept = 0;
  while (kept < latest_.size() && (kept == 0 || bytes + latest_[kept]->bytes <= most_bytes_))
    bytes += latest_[kept++]->bytes;
  latest_.resize(kept);
  std::erase_if(by_mark_, [](const auto& entry) { return entry.second.expired(); });
}

PicturePrompt
PictureShelf::prompt_of(const text::Tokenizer& tokenizer, const text::jinja::TaintedText& text,
                        const std::function<std::vector<int32_t>(const text::jinja::TaintedText&)>& tokens_of) const {
  std::string_view rest = text.bytes(), mark = find_mark(rest);
  const auto before = [&] { return mark.empty() ? rest : rest.substr(0, mark.data() - rest.data()); };
  PicturePromptBuilder builder(tokenizer, tokens_of(text.part(before())));
  while (!mark.empty()) {
    const std::shared_ptr<const ShelvedPicture> picture = find(mark);
    if (!picture) throw_error("an image of this conversation is no longer available: send it again");
    builder.add_pieces(picture->pieces);
    rest.remove_prefix(mark.data() + mark.size() - rest.data());
    mark = find_mark(rest);
    builder.add_text(text.part(before()));
  }
  return std::move(builder).finish();
}

} // namespace ridge::engine
