#include "server/requests/pictures.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/strings/base64.h"
#include "media/pictures/picture.h"
#include "server/json/api_error.h"
#include "server/models/service.h"

#include <fmt/format.h>

#include <optional>
#include <span>
#include <utility>

namespace ridge::server {
namespace {

constexpr size_t kMaxPictures = 64;
constexpr double kFetchSeconds = 20;          // for all downloads of a request
constexpr double kMaxSeconds = 3600;          // of sounds per request
constexpr int64_t kMaxPixels = 1'000'000'000; // per request: some ten seconds of decoding

} // namespace

RequestPictures::RequestPictures(const Service& service)
    : service_(service), seconds_left_(kFetchSeconds), shelf_(service.model().pictures) {}

Json RequestPictures::put(Json messages, const std::string& path) {
  if (!service_.takes_media()) return messages;
  return engine::with_marks(std::move(messages), path,
                            [this](const engine::GivenPicture& picture) { return mark_of(picture); });
}

std::string RequestPictures::mark_of(const engine::GivenPicture& picture) {
  const std::string& place = picture.place;
  if (picture.is_address) check_address(picture);
  std::optional<std::string> bytes;
  if (!picture.is_address && !(bytes = core::from_base64(picture.base64)))
    throw_invalid(place, "{}: expected base64", place);
  check_room(place);
  if (picture.is_address) bytes = fetch(picture);
  return add(*bytes, place);
}

void RequestPictures::check_room(const std::string& place) const {
  if (!shelf_) throw PicturesWanted();
  if (held_.size() == kMaxPictures)
    throw_invalid(place, "{}: a request can have at most {} images and audio files", place, kMaxPictures);
}

std::string RequestPictures::add_sound(std::string_view file, const std::string& place) {
  check_room(place);
  std::string mark = add(file, place);
  if (held_.back()->sound_seconds <= 0) throw_invalid(place, "{}: not an audio file", place);
  return mark;
}

double RequestPictures::sound_seconds() const {
  double seconds = 0;
  for (const auto& held : held_) seconds += held->sound_seconds;
  return seconds;
}

std::string RequestPictures::add(std::string_view file, const std::string& place) {
  try {
    held_.push_back(shelf_->add(std::as_bytes(std::span(file)), place));
  } catch (const media::MediaError& error) {
    throw_invalid(place, "{}", error.what());
  }
  pixels_ += held_.back()->width * held_.back()->height;
  if (pixels_ > kMaxPixels)
    throw_invalid(place, "{}: the images of a request can have at most {} pixels in total", place, kMaxPixels);
  if (sound_seconds() > kMaxSeconds)
    throw_invalid(place, "{}: the audio of a request can have at most {} seconds in total", place, kMaxSeconds);
  return held_.back()->mark;
}

void RequestPictures::check_address(const engine::GivenPicture& picture) const {
  if (picture.url.empty())
    throw_invalid(picture.place, "{}: no image: expected data:image/png;base64,…", picture.place);
  if (!service_.picture_fetch())
    throw_invalid(
        picture.place,
        "{}: this server does not download images (enable with ridge serve --image-urls): send data:image/png;base64,…",
        picture.place);
  if (!picture.url.starts_with("http://") && !picture.url.starts_with("https://"))
    throw_invalid(picture.place, "{}: expected an http or https address, or data:image/png;base64,…", picture.place);
}

std::string RequestPictures::fetch(const engine::GivenPicture& picture) {
  const double start = core::seconds_now();
  try {
    if (seconds_left_ <= 0)
      throw_error("cannot be fetched: the images of a request take longer than {:g} s", kFetchSeconds);
    std::string file = service_.picture_fetch()(std::string(picture.url), seconds_left_);
    seconds_left_ -= core::seconds_now() - start;
    return file;
  } catch (const Error& error) {
    throw_invalid(picture.place, "{}: {}", picture.place, error.what());
  }
}

} // namespace ridge::server
