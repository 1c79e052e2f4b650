#include "app/window/conversation_store.h"

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/private_folder.h"
#include "core/files/read_file.h"
#include "core/json/parse.h"
#include "core/strings/printable.h"
#include "core/strings/utf8.h"
#include "text/json/kept_number.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <span>

namespace ridge::app {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTitleCharacters = 40;
constexpr uintmax_t kLargest = 64 << 20; // bytes of a file that is taken for a conversation

int64_t milliseconds_now() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

StoredConversation parse(const std::string& text, const std::string& label) {
  const Json json = core::parse_json(text, label, {.exact_numbers = true});
  if (!json.is_object() || !json.contains("messages")) throw_error("{}: expected an object with \"messages\"", label);
  const auto text_at = [&](const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : std::string();
  };
  StoredConversation c;
  c.title = text_at("title");
  c.system = text_at("system");
  c.changed_ms =
      json.contains("changed_ms") && json["changed_ms"].is_number_integer() ? json["changed_ms"].get<int64_t>() : 0;
  c.named = json.contains("named") && json["named"] == true;
  const Json& messages = json["messages"];
  if (!messages.is_array()) throw_error("{}: \"messages\" is no list", label);
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& m = messages[i];
    if (!m.is_object() || !m.contains("role") || !m["role"].is_string() || !m.contains("content") ||
        (m.contains("reasoning_content") && !m["reasoning_content"].is_string()))
      throw_error("{}: message {}: expected an object with \"role\", a string, and \"content\"", label, i);
    KeptContent content = read_kept_content(m["content"], fmt::format("{}: message {}", label, i));
    if (m["role"] == "system") { // where other programs keep the system prompt
      if (c.system.empty()) c.system = std::move(content.text);
      continue;
    }
    if (!content.pictures.empty()) c.pictures[c.messages.size()] = std::move(content.pictures);
    c.messages.push_back(m);
    c.messages.back()["content"] = std::move(content.text);
  }
  return c;
}

} // namespace

std::string title_of(const core::ChatMessage& question) {
  const bool blank = question.text.find_first_not_of(" \n\t") == std::string::npos;
  const std::string& text = blank && !question.pictures.empty() ? question.pictures[0]->name : question.text;
  const size_t start = std::min(text.find_first_not_of(" \n\t"), text.size());
  std::string line = text.substr(start, text.find('\n', start) - start);
  size_t characters = 0, end = 0;
  while (end < line.size() && characters < kTitleCharacters) {
    do ++end;
    while (end < line.size() && core::is_utf8_continuation(line[end]));
    ++characters;
  }
  return end < line.size() ? line.substr(0, end) + "…" : line;
}

ConversationStore::ConversationStore(std::string folder) : folder_(std::move(folder)) {
  std::error_code error;
  if (folder_.empty()) return;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const fs::path& path = entry.path();
    if (path.extension() != ".json" || !entry.is_regular_file(error)) continue;
    try {
      list_.push_back(read(path.stem().string()));
    } catch (const Error& bad) {
      problem_ = fmt::format("a conversation could not be read and was left as it is: {}", bad.what());
    }
  }
  std::ranges::stable_sort(list_, std::greater(), &StoredConversation::changed_ms);
}

int64_t ConversationStore::file_time(const std::string& id) const {
  if (folder_.empty()) return 0;
  std::error_code error;
  const auto time = fs::last_write_time(path_of(id), error);
  return error ? 0 : time.time_since_epoch().count();
}

bool ConversationStore::written_elsewhere(const StoredConversation& c) const {
  const int64_t time = file_time(c.id);
  return time && time != c.file_time;
}

StoredConversation ConversationStore::read(const std::string& id) const {
  const std::string path = path_of(id);
  const int64_t time = file_time(id); // before the text: what is written in between is newer
  std::error_code error;
  if (fs::file_size(path, error) > kLargest && !error) throw_error("{}: too large for a conversation", path);
  StoredConversation c = parse(core::read_text_file(path), path);
  c.id = id;
  c.file_time = time;
  return c;
}

StoredConversation* ConversationStore::find(const std::string& id) {
  const auto found = std::ranges::find(list_, id, &StoredConversation::id);
  return found == list_.end() ? nullptr : &*found;
}

std::string ConversationStore::new_id() {
  do last_number_ = std::max(last_number_ + 1, milliseconds_now());
  while (file_time(std::to_string(last_number_)));
  return std::to_string(last_number_);
}

StoredConversation& ConversationStore::create() {
  StoredConversation c;
  c.id = new_id();
  c.changed_ms = last_number_;
  return *list_.insert(list_.begin(), std::move(c));
}

PicturesByMessage ConversationStore::pictures(const StoredConversation& c) const {
  PicturesByMessage pictures = c.pictures;
  if (!folder_.empty()) read_picture_files(picture_folder_of(c.id), pictures);
  return pictures;
}

void ConversationStore::refresh(const std::string& id) {
  StoredConversation* known = find(id);
  if (known && written_elsewhere(*known)) *known = read(id);
}

std::string ConversationStore::keep_both(const std::string& id) {
  const StoredConversation* known = find(id);
  if (!known || !written_elsewhere(*known)) return id;
  StoredConversation ours = *known;
  ours.pictures = pictures(ours);
  ours.id = new_id();
  ours.file_time = 0;
  try {
    refresh(id);
  } catch (const Error&) { // still not ours to overwrite
  }
  return list_.insert(list_.begin(), std::move(ours))->id;
}

void ConversationStore::save(std::string id) {
  StoredConversation* changed = find(id);
  if (!changed) return;
  changed->changed_ms = milliseconds_now();
  std::rotate(list_.begin(), list_.begin() + (changed - list_.data()), list_.begin() + (changed - list_.data()) + 1);
  StoredConversation& c = list_.front();
  if (folder_.empty()) return;
  std::error_code error;
  core::create_private_folders(folder_, error);
  if (error) throw_error("cannot create {}: {}; conversations are not saved", folder_, error.message());
  write_picture_files(picture_folder_of(c.id), c.pictures);
  Json messages = c.messages;
  for (const auto& [message, pictures] : c.pictures) {
    Json& content = messages[message]["content"];
    content = kept_content(content.get<std::string>(), pictures, picture_folder(c.id));
  }
  const Json json = {{"title", c.title},
                     {"named", c.named},
                     {"changed_ms", c.changed_ms},
                     {"system", c.system},
                     {"messages", messages}};
  // A model may write what is no UTF-8.
  const std::string text = text::json_text(json, 1) + "\n";
  core::AtomicFile file(path_of(c.id), text.size(), core::kPrivateFile);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
  c.file_time = file_time(c.id);
  remove_picture_files(picture_folder_of(c.id), c.pictures);
}

void ConversationStore::remove(std::string id) {
  std::error_code error;
  if (!folder_.empty()) remove_picture_files(picture_folder_of(id), {});
  if (!folder_.empty()) fs::remove(path_of(id), error);
  if (error) throw_error("cannot remove {}: {}", path_of(id), error.message());
  std::erase_if(list_, [&](const StoredConversation& c) { return c.id == id; });
}

} // namespace ridge::app
