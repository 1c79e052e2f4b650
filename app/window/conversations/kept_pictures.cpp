#include "app/window/conversations/kept_pictures.h"

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/private_folder.h"
#include "core/files/read_file.h"
#include "core/files/sha256.h"
#include "core/strings/printable.h"
#include "media/pictures/picture.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>
#include <string_view>

namespace ridge::app {
namespace {

namespace fs = std::filesystem;
using engine::Json;

bool is_key(std::string_view text) {
  constexpr size_t kDigits = 64;
  return text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::string text_member(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

api::MessagePicture picture_of(const Json& part, const std::string& place) {
  const auto link = part.find("image_url");
  const std::string url = link != part.end() && link->is_object() ? text_member(*link, "url") : "";
  api::MessagePicture picture;
  picture.key = url.substr(url.rfind('/') + 1);
  if (!is_key(picture.key)) throw_error("{}: expected an image or audio file of this folder's conversations", place);
  picture.name = core::printable(text_member(part, "name"));
  if (picture.name.empty()) picture.name = "picture";
  return picture;
}

// Returns null if the file is missing, too large or changed.
std::shared_ptr<const std::string> read_picture_file(const std::string& path, const std::string& key, size_t most) {
  std::error_code failed;
  if (!fs::is_regular_file(path, failed) || fs::file_size(path, failed) > most || failed) return nullptr;
  try {
    auto bytes = std::make_shared<const std::string>(core::read_text_file(path));
    return core::Sha256().add(*bytes).hex() == key ? bytes : nullptr;
  } catch (const Error&) {
    return nullptr;
  }
}

} // namespace

KeptContent read_kept_content(const Json& content, const std::string& place) {
  if (content.is_string()) return {content.get<std::string>(), {}};
  if (!content.is_array()) throw_error("{}: expected a string or a list of texts and images", place);
  KeptContent kept;
  for (const Json& part : content) {
    const std::string type = part.is_object() ? text_member(part, "type") : "";
    if (type == "text")
      kept.text += text_member(part, "text");
    else if (type == "image_url")
      kept.pictures.push_back(std::make_shared<api::MessagePicture>(picture_of(part, place)));
    else
      throw_error("{}: expected a string or a list of texts and images", place);
    if (kept.pictures.size() > kMaxPicturesOfMessage)
      throw_error("{}: expected at most {} images", place, kMaxPicturesOfMessage);
  }
  return kept;
}

Json kept_content(const std::string& text, const api::MessagePictures& pictures, const std::string& folder) {
  if (pictures.empty()) return text;
  Json parts = Json::array();
  for (const auto& picture : pictures)
    parts.push_back(
        {{"type", "image_url"}, {"image_url", {{"url", folder + "/" + picture->key}}}, {"name", picture->name}});
  if (!text.empty()) parts.push_back({{"type", "text"}, {"text", text}});
  return parts;
}

void read_picture_files(const std::string& folder, PicturesByMessage& pictures) {
  std::map<std::string, std::shared_ptr<const std::string>> read;
  size_t left = kMaxPictureBytes;
  constexpr auto kMax = static_cast<size_t>(media::PictureLimits{}.bytes);
  for (auto& [message, list] : pictures)
    for (auto& picture : list) {
      if (picture->file) continue;
      const auto [at, is_new] = read.try_emplace(picture->key);
      if (is_new) {
        at->second = read_picture_file(folder + "/" + picture->key, picture->key, std::min(left, kMax));
        if (at->second) left -= at->second->size();
      }
      picture = std::make_shared<api::MessagePicture>(picture->key, picture->name, at->second);
    }
}

void write_picture_files(const std::string& folder, PicturesByMessage& pictures) {
  std::error_code failed;
  for (auto& [message, list] : pictures)
    for (auto& picture : list) {
      if (!picture->file) continue;
      const std::string path = folder + "/" + picture->key;
      if (fs::file_size(path, failed) != picture->file->size() || failed) { // missing or damaged
        core::create_private_folders(folder, failed);
        if (failed) throw_error("cannot create {}: {}", folder, failed.message());
        core::AtomicFile file(path, picture->file->size(), core::kPrivateFile);
        file.write(std::as_bytes(std::span(*picture->file)));
        file.commit();
      }
      picture = std::make_shared<api::MessagePicture>(picture->key, picture->name, nullptr);
    }
}

void remove_picture_files(const std::string& folder, const PicturesByMessage& but) {
  std::set<std::string> kept;
  for (const auto& [message, list] : but)
    for (const auto& picture : list) kept.insert(picture->key);
  std::vector<fs::path> unwanted;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (is_key(name) && !kept.contains(name)) unwanted.push_back(at->path());
  }
  for (const fs::path& path : unwanted)
    if (!fs::remove(path, failed) && failed) throw_error("cannot remove {}: {}", path.string(), failed.message());
  if (kept.empty()) fs::remove(folder, failed); // it stays if it has other files
}

} // namespace ridge::app
