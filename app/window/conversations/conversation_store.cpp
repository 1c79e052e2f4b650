#include "app/window/conversations/conversation_store.h"

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/private_folder.h"
#include "core/files/read_file.h"
#include "core/json/parse.h"
#include "core/strings/lower.h"
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
constexpr uintmax_t kLargest = 64 << 20; // bytes; larger files are ignored

int64_t milliseconds_now() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void read_message(StoredConversation& c, const Json& m, const std::string& place) {
  if (!m.is_object() || !m.contains("role") || !m["role"].is_string() || !m.contains("content") ||
      (m.contains("reasoning_content") && !m["reasoning_content"].is_string()))
    throw_error("{}: expected an object with \"role\", a string, and \"content\"", place);
  KeptContent content = read_kept_content(m["content"], place);
  if (m["role"] == "system") { // other programs store it as a message
    if (c.system.empty()) c.system = std::move(content.text);
    return;
  }
  if (!content.pictures.empty()) c.pictures[c.messages.size()] = std::move(content.pictures);
  c.messages.push_back(m);
  c.messages.back()["content"] = std::move(content.text);
}

void take_order(StoredConversation& c, const std::vector<size_t>& orders, std::vector<int> parents,
                const std::string& label) {
  const size_t count = c.messages.size();
  std::vector<bool> known(count, false);
  Json messages = Json::array();
  messages.get_ref<Json::array_t&>().resize(count);
  PicturesByMessage pictures;
  c.parents.assign(count, -1);
  for (size_t i = 0; i < count; ++i) {
    const size_t order = orders[i];
    if (order >= count || known[order] || parents[i] < -1 || parents[i] >= static_cast<int>(order))
      throw_error("{}: the versions of messages have inconsistent orders or parents", label);
    known[order] = true;
    messages[order] = std::move(c.messages[i]);
    messages[order].erase("order");
    messages[order].erase("parent");
    c.parents[order] = parents[i];
    if (const auto found = c.pictures.find(i); found != c.pictures.end()) pictures[order] = std::move(found->second);
  }
  c.messages = std::move(messages);
  c.pictures = std::move(pictures);
}

void read_messages(StoredConversation& c, const Json& json, const std::string& label) {
  const Json& messages = json["messages"];
  for (size_t i = 0; i < messages.size(); ++i) read_message(c, messages[i], fmt::format("{}: message {}", label, i));
  if (!json.contains("versions")) return;
  const auto number = [&](const Json& value) {
    constexpr int64_t kMax = 1'000'000;
    if (!value.is_number_integer() || value.get<int64_t>() < -1 || value.get<int64_t>() > kMax)
      throw_error("{}: the versions of messages have inconsistent orders or parents", label);
    return value.get<int>();
  };
  if (!json["versions"].is_array() || !json.contains("orders") || !json["orders"].is_array() ||
      json["orders"].size() != c.messages.size())
    throw_error("{}: \"orders\" and \"versions\" must be lists that match the messages", label);
  std::vector<size_t> orders;
  std::vector<int> parents;
  for (const Json& order : json["orders"]) {
    parents.push_back(orders.empty() ? -1 : static_cast<int>(orders.back()));
    orders.push_back(static_cast<size_t>(number(order)));
  }
  const int end = orders.empty() ? -1 : static_cast<int>(orders.back());
  for (const Json& version : json["versions"]) {
    const size_t before = c.messages.size();
    read_message(c, version, label + ": a version");
    if (c.messages.size() == before) continue;
    orders.push_back(static_cast<size_t>(number(version.value("order", Json(-1)))));
    parents.push_back(number(version.value("parent", Json(-1))));
  }
  take_order(c, orders, std::move(parents), label);
  c.end = end;
}

std::vector<api::AdapterRow> read_adapters(const Json& list, const std::string& label) {
  std::vector<api::AdapterRow> rows;
  if (!list.is_array()) throw_error("{}: \"adapters\" is not a list", label);
  for (const Json& one : list) {
    if (!one.is_object() || !one.value("file", Json()).is_string() || !one.value("scale", Json()).is_number() ||
        !one.value("on", Json()).is_boolean())
      throw_error("{}: expected an adapter's \"file\", \"scale\" and \"on\"", label);
    rows.push_back({"", one["file"], std::clamp(one["scale"].get<float>(), -1000.0f, 1000.0f), one["on"]});
  }
  return rows;
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
  if (!json["messages"].is_array()) throw_error("{}: \"messages\" is not a list", label);
  read_messages(c, json, label);
  if (json.contains("adapters")) c.adapters = read_adapters(json["adapters"], label);
  return c;
}

// "messages" holds the shown path, as in other programs; "versions" holds the other messages with their parents;
// "orders" and "order" give the order of writing.
Json with_versions(const StoredConversation& c, Json messages) {
  Json json = {{"messages", Json::array()}};
  if (c.parents.empty()) {
    json["messages"] = std::move(messages);
    return json;
  }
  std::vector<int> path;
  for (int at = c.end; at >= 0; at = c.parents[static_cast<size_t>(at)]) path.push_back(at);
  std::ranges::reverse(path);
  for (const int at : path) json["messages"].push_back(messages[static_cast<size_t>(at)]);
  if (path.size() == messages.size()) return json;
  json["orders"] = path;
  json["versions"] = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    if (std::ranges::find(path, static_cast<int>(i)) != path.end()) continue;
    json["versions"].push_back(messages[i]);
    json["versions"].back().update({{"order", i}, {"parent", c.parents[i]}});
  }
  return json;
}

} // namespace

std::string title_of(const api::ChatMessage& question) {
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
      problem_ = fmt::format("a conversation could not be read and was left unchanged: {}", bad.what());
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
  const int64_t time = file_time(id); // before the text: later writes then count as newer
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

std::string ConversationStore::fork_if_changed(const std::string& id) {
  const StoredConversation* known = find(id);
  if (!known || !written_elsewhere(*known)) return id;
  StoredConversation ours = *known;
  ours.pictures = pictures(ours);
  ours.id = new_id();
  ours.file_time = 0;
  try {
    refresh(id);
  } catch (const Error&) { // an unreadable file must not be overwritten either
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
  Json json = {{"title", c.title}, {"named", c.named}, {"changed_ms", c.changed_ms}, {"system", c.system}};
  if (c.adapters) {
    json["adapters"] = Json::array();
    for (const api::AdapterRow& row : *c.adapters)
      json["adapters"].push_back({{"file", row.path}, {"scale", row.scale}, {"on", row.on}});
  }
  json.update(with_versions(c, std::move(messages)));
  // Models may write invalid UTF-8.
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

std::optional<std::string> ConversationStore::excerpt_with(const StoredConversation& c, const std::string& text) {
  constexpr size_t kBefore = 12, kBehind = 60; // bytes shown around a match
  const std::string wanted = core::lower(text);
  if (core::lower(c.title).find(wanted) != std::string::npos) return "";
  for (const Json& message : c.messages) {
    const std::string& content = message["content"].get_ref<const std::string&>();
    const size_t at = core::lower(content).find(wanted);
    if (at == std::string::npos) continue;
    size_t begin = at - std::min(at, kBefore), end = std::min(content.size(), at + wanted.size() + kBehind);
    while (begin > 0 && core::is_utf8_continuation(content[begin])) --begin;
    while (end < content.size() && core::is_utf8_continuation(content[end])) ++end;
    std::string excerpt = (begin > 0 ? "…" : "") + content.substr(begin, end - begin);
    std::ranges::replace(excerpt, '\n', ' ');
    return excerpt;
  }
  return std::nullopt;
}

} // namespace ridge::app
