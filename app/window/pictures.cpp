// Pictures and sounds in the window's engine.
#include "app/window/loaded.h"
#include "core/error.h"
#include "core/files/sha256.h"
#include "core/strings/printable.h"
#include "media/pictures/resize.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>
#include <utility>

namespace ridge::app {

using api::EngineState;

namespace {

// Two pixels per unit in messages, and a large screen.
constexpr int64_t kSmallWidth = 480, kSmallHeight = 320, kLargeSide = 2048;

api::MessagePicture read_file(const std::string& path) {
  if (path.starts_with("http://") || path.starts_with("https://"))
    throw_error("{}: this is an address: save the image and drop its file", core::printable(path));
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) throw_error("{}: not a file", core::printable(path));
  auto file = std::make_shared<const std::string>(media::read_medium_file(path));
  return {core::Sha256().add(*file).hex(), core::printable(std::filesystem::path(path).filename().string()), file};
}

api::MessagePicture picture_of(const api::intent::AddPicture& wanted) {
  if (!wanted.file) return read_file(wanted.path);
  return {core::Sha256().add(*wanted.file).hex(), core::printable(wanted.path), wanted.file};
}

std::span<const std::byte> bytes_of(const api::MessagePicture& picture) {
  if (!picture.file)
    throw_error("{}: the file no longer exists or has changed: edit the message to send it without", picture.name);
  return std::as_bytes(std::span(*picture.file));
}

media::Medium decoded(const api::MessagePicture& picture) {
  return media::decode_medium(bytes_of(picture), picture.name);
}

media::Picture waveform(const media::Sound& sound, int64_t width) {
  constexpr uint8_t kGround[] = {30, 33, 40}, kWave[] = {118, 169, 250};
  media::Picture made(width, width / 4);
  const auto count = std::ssize(sound.samples), half = made.height / 2;
  for (int64_t x = 0; x < width; ++x) {
    const int64_t first = count * x / width, end = std::max(first + 1, count * (x + 1) / width);
    float least = 0, most = 0;
    for (int64_t i = first; i < std::min(end, count); ++i) {
      least = std::min(least, sound.samples[i]);
      most = std::max(most, sound.samples[i]);
    }
    for (int64_t y = 0; y < made.height; ++y) {
      const float level = static_cast<float>(half - y) / static_cast<float>(half);
      const bool inside = y == half || (level >= least && level <= most);
      std::copy_n(inside ? kWave : kGround, 3, made.row(y) + 3 * x);
    }
  }
  return made;
}

media::Picture picture_of(const media::Medium& medium, int64_t width) {
  const auto* sound = std::get_if<media::Sound>(&medium);
  return sound ? waveform(*sound, width) : std::get<media::Picture>(medium);
}

// Same aspect ratio, never enlarged.
std::shared_ptr<const api::Pixels> fitted(const media::Picture& picture, int64_t width, int64_t height) {
  const double scale = std::min({1.0, static_cast<double>(width) / static_cast<double>(picture.width),
                                 static_cast<double>(height) / static_cast<double>(picture.height)});
  const auto side = [&](int64_t pixels) {
    return std::max(int64_t{1}, static_cast<int64_t>(static_cast<double>(pixels) * scale + 0.5));
  };
  media::Picture made =
      scale < 1 ? media::resize(picture, side(picture.width), side(picture.height), media::Filter::bicubic) : picture;
  auto pixels = std::make_shared<api::Pixels>();
  pixels->width = static_cast<int>(made.width);
  pixels->height = static_cast<int>(made.height);
  pixels->rgb = std::move(made.rgb);
  return pixels;
}

bool holds(const api::MessagePictures& pictures, const std::string& key) {
  return std::ranges::any_of(pictures, [&](const auto& picture) { return picture->key == key; });
}

// Distinct pictures of the unsent message and the conversation.
api::MessagePictures all_pictures(const api::Snapshot& s) {
  api::MessagePictures all;
  std::set<std::string> seen;
  const auto take = [&](const api::MessagePictures& pictures) {
    for (const auto& picture : pictures)
      if (seen.insert(picture->key).second) all.push_back(picture);
  };
  take(s.pictures);
  for (const api::ChatMessage& message : s.messages) take(message.pictures);
  return all;
}

void check_room(const api::Snapshot& s, const api::MessagePicture& picture) {
  if (s.pictures.size() >= kMaxPicturesOfMessage)
    throw_error("{}: a message can have at most {} images", picture.name, kMaxPicturesOfMessage);
  size_t bytes = picture.file->size();
  for (const auto& other : all_pictures(s)) bytes += other->file && other->key != picture.key ? other->file->size() : 0;
  if (bytes > kMaxPictureBytes)
    throw_error("{}: the images of a conversation can have at most {} MiB in total: start a new one", picture.name,
                kMaxPictureBytes >> 20);
}

} // namespace

WindowEngine::Shelf WindowEngine::shelf() const {
  return board_.look([&](const api::Snapshot&) { return loaded_ ? loaded_->model.pictures : nullptr; });
}

void WindowEngine::change_facts(const std::string& key, const std::function<void(api::PictureFacts&)>& how) {
  change([&](api::Snapshot& s) {
    auto changed = std::make_shared<api::PictureFactsByKey>(*s.picture_facts);
    how((*changed)[key]);
    s.picture_facts = std::move(changed);
  });
}

// Runs on the picture worker. Reports files that are not pictures.
void WindowEngine::add_picture(const api::intent::AddPicture& wanted) {
  const auto picture = std::make_shared<const api::MessagePicture>(picture_of(wanted));
  const media::Medium medium = decoded(*picture);
  change([&](api::Snapshot& s) {
    if (holds(s.pictures, picture->key)) return;
    check_room(s, *picture);
    s.pictures.push_back(picture);
  });
  store_picture_facts(picture, medium);
  push([this] { open_encoder_for_unsent(); });
}

void WindowEngine::listen(bool on) {
  if (on == (microphone_ != nullptr)) return;
  if (on) {
    microphone_ = std::make_shared<media::Microphone>();
  } else {
    microphone_->end();
    push(picture_worker_, [this, microphone = std::exchange(microphone_, nullptr)] {
      const media::Sound sound = microphone->finish();
      add_picture({fmt::format("recording of {:.1f} s", sound.seconds()),
                   std::make_shared<const std::string>(media::wav_of(sound))});
    });
  }
  change([&](api::Snapshot& s) { s.listening = on; });
}

void WindowEngine::remove_picture(const std::string& key) {
  change([&](api::Snapshot& s) {
    std::erase_if(s.pictures, [&](const auto& picture) { return key.empty() || picture->key == key; });
  });
}

void WindowEngine::edit_pictures(size_t message) {
  change([&](api::Snapshot& s) {
    if (message < s.messages.size()) s.pictures = s.messages[message].pictures;
  });
  push([this] { open_encoder_for_unsent(); });
}

// Runs on the worker. Drops pictures that the model cannot take.
void WindowEngine::open_encoder_for_unsent() {
  if (board_.look([](const api::Snapshot& s) { return s.pictures.empty(); })) return;
  try {
    open_encoder();
  } catch (...) {
    remove_picture("");
    throw;
  }
}

// Runs on the picture worker.
void WindowEngine::store_picture_facts(const Picture& picture, const media::Medium& medium) {
  const media::Picture pixels = picture_of(medium, kSmallWidth);
  const auto* sound = std::get_if<media::Sound>(&medium);
  const auto small = fitted(pixels, kSmallWidth, kSmallHeight);
  const Shelf taken_by = shelf();
  const int64_t tokens = taken_by ? taken_by->reader().count_tokens(medium) : 0;
  change_facts(picture->key, [&](api::PictureFacts& facts) {
    facts.width = pixels.width;
    facts.height = pixels.height;
    facts.sound_seconds = sound ? sound->seconds() : 0;
    facts.small = small;
    if (loaded_ && loaded_->model.pictures == taken_by) facts.tokens = tokens; // else another model was opened
  });
  if (taken_by) push(encoder_worker_, [this, picture] { encode_ahead(*picture); });
}

void WindowEngine::read_picture_facts(const Picture& picture) {
  if (closing_) return;
  try {
    store_picture_facts(picture, decoded(*picture));
  } catch (const std::exception& error) {
    change_facts(picture->key, [&](api::PictureFacts& facts) { facts.problem = error.what(); });
    throw;
  }
}

void WindowEngine::read_missing_picture_facts() {
  const api::MessagePictures missing = board_.look([&](const api::Snapshot& s) {
    const bool counts = loaded_ && loaded_->model.pictures;
    api::MessagePictures pictures = all_pictures(s);
    std::erase_if(pictures, [&](const auto& picture) {
      const auto known = s.picture_facts->find(picture->key);
      return known != s.picture_facts->end() && !(counts && known->second.tokens == 0 && known->second.problem.empty());
    });
    return pictures;
  });
  for (const auto& picture : missing) push(picture_worker_, [this, picture] { read_picture_facts(picture); });
}

void WindowEngine::forget_unused_pictures() {
  change([&](api::Snapshot& s) {
    const api::MessagePictures used = all_pictures(s);
    const auto unused = [&](const auto& entry) { return !holds(used, entry.first); };
    auto facts = std::make_shared<api::PictureFactsByKey>(*s.picture_facts);
    std::erase_if(*facts, unused);
    s.picture_facts = std::move(facts);
  });
}

// Runs on the encoder worker, but not during an answer, which it would slow down.
void WindowEngine::encode_ahead(const api::MessagePicture& picture) {
  if (closing_) return;
  const bool useful = board_.look([&](const api::Snapshot& s) {
    return s.state != EngineState::reading && s.state != EngineState::writing && holds(s.pictures, picture.key);
  });
  if (!useful) return;
  if (const Shelf taken_by = shelf()) encode(taken_by, picture);
}

std::shared_ptr<const engine::ShelvedPicture> WindowEngine::encode(const Shelf& shelf,
                                                                   const api::MessagePicture& picture) {
  const auto encoded = shelf->add(bytes_of(picture), picture.name);
  change_facts(picture.key, [&](api::PictureFacts& facts) {
    if (!loaded_ || loaded_->model.pictures != shelf) return;
    facts.tokens = encoded->tokens;
    facts.seconds = encoded->seconds;
  });
  return encoded;
}

void WindowEngine::open_encoder() {
  if (!loaded_) throw_error("images and audio need a model that takes them: open one first");
  if (loaded_->model.pictures) return;
  if (path_.empty()) throw_error("the built-in guide takes no images or audio: open a model that has an mmproj file");
  if (encoder_.empty())
    throw_error(
        "{} takes no images or audio: no mmproj*.gguf next to it; if it has an encoder, drop its file on the window",
        core::printable(path_));
  open_model(path_, gguf::File::open(path_), encoder_, true);
}

// Runs on the worker. The placeholders depend on model and encoder.
WindowEngine::EncodedPictures WindowEngine::put_pictures() {
  const std::vector<api::ChatMessage> shown = messages().shown;
  Json sent = loaded_->conversation.messages();
  EncodedPictures held;
  api::PicturesRead read;
  size_t number = 0;
  for (Json& message : sent) {
    if (message["role"] == "system") continue;
    const api::ChatMessage& said = shown[number++];
    if (said.pictures.empty()) continue;
    std::string content;
    for (const auto& picture : said.pictures) {
      if (cancel_) return held; // cancelled before it began
      change([&](api::Snapshot& s) { s.activity = fmt::format("encoding {}", picture->name); });
      held.push_back(encode(loaded_->model.pictures, *picture));
      content += held.back()->mark;
      read.tokens += held.back()->tokens;
      read.seconds += held.back()->seconds;
    }
    message["content"] = content + said.text;
  }
  read.pictures = std::ssize(held);
  if (!held.empty()) loaded_->conversation.set_messages(sent, "conversation");
  change([&](api::Snapshot& s) {
    s.speed.pictures = read;
    s.activity = "reading the prompt";
  });
  return held;
}

// Runs on the query worker.
void WindowEngine::enlarge_picture(const std::string& key) {
  const api::MessagePictures pictures = board_.look(all_pictures);
  const auto picture = std::ranges::find(pictures, key, [](const Picture& each) { return each->key; });
  std::shared_ptr<api::EnlargedPicture> enlarged;
  if (picture != pictures.end()) {
    enlarged = std::make_shared<api::EnlargedPicture>();
    enlarged->key = key;
    enlarged->pixels = fitted(picture_of(decoded(**picture), kLargeSide), kLargeSide, kLargeSide);
  }
  change([&](api::Snapshot& s) { s.enlarged = std::move(enlarged); });
}

} // namespace ridge::app
