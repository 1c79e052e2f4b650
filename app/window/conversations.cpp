// The conversations of the window's engine: begun, kept, listed, opened again.
#include "app/window/loaded.h"

#include <algorithm>

namespace ridge::app {
namespace {

std::vector<core::ChatMessage> shown(const Json& messages, const PicturesByMessage& pictures) {
  std::vector<core::ChatMessage> result;
  for (const Json& m : messages)
    result.push_back({m["role"] == "user", m["content"], m.value("reasoning_content", ""), "", nullptr, {}});
  for (const auto& [message, list] : pictures) result[message].pictures = list;
  return result;
}

Json without_system(const Json& messages) {
  Json result = Json::array();
  for (const Json& m : messages)
    if (m["role"] != "system") result.push_back(m);
  return result;
}

} // namespace

void WindowEngine::list_conversations(core::Snapshot& s) const {
  auto rows = std::make_shared<std::vector<core::ConversationRow>>();
  for (const StoredConversation& c : store_.list()) rows->push_back({c.id, c.title, c.changed_ms / 1000});
  s.conversations = std::move(rows);
}

void WindowEngine::open_conversation(const std::string& id) {
  store_.refresh(id);
  const StoredConversation* stored = store_.find(id);
  if (!id.empty() && !stored) return;
  const Json messages = stored ? stored->messages : Json::array();
  const PicturesByMessage pictures = stored ? store_.pictures(*stored) : PicturesByMessage();
  loaded_->conversation.set_messages(messages, "conversation");
  if (stored) loaded_->conversation.set_system(stored->system);
  change([&](core::Snapshot& s) {
    s.conversation = id;
    s.messages = shown(messages, pictures);
    if (stored) s.system_prompt = stored->system;
    s.kv.tokens = 0;
    s.kv.bytes = 0;
  });
  if (!stored) loaded_->conversation.set_system(state_.system_prompt);
  forget_unused_pictures();
  look_at_pictures();
}

void WindowEngine::rename_conversation(const std::string& id, const std::string& title) {
  if (id != state_.conversation) store_.refresh(id);
  StoredConversation* stored = to_be_changed(id);
  if (!stored) return;
  stored->title = title.empty() ? "untitled" : title;
  stored->named = true;
  store_.save(stored->id);
  change([&](core::Snapshot& s) { list_conversations(s); });
}

void WindowEngine::delete_conversation(const std::string& id) {
  if (state_.conversation == id) open_conversation("");
  store_.remove(id);
  change([&](core::Snapshot& s) { list_conversations(s); });
}

void WindowEngine::set_system(const std::string& text) {
  loaded_->conversation.set_system(text);
  change([&](core::Snapshot& s) { s.system_prompt = text; });
}

void WindowEngine::continue_conversation(Loaded& loaded) const {
  if (loaded_) loaded.conversation.set_messages(loaded_->conversation.messages(), "conversation");
  loaded.conversation.set_system(state_.system_prompt);
}

void WindowEngine::begin_conversation(const core::ChatMessage& question) {
  if (!state_.conversation.empty()) return;
  StoredConversation& stored = store_.create();
  stored.title = title_of(question);
  change([&](core::Snapshot& s) {
    s.conversation = stored.id;
    list_conversations(s);
  });
}

StoredConversation* WindowEngine::to_be_changed(const std::string& id) {
  const std::string kept = store_.keep_both(id);
  if (kept != id) {
    give_pictures(*store_.find(kept));
    change([&](core::Snapshot& s) { s.conversation = kept; });
    fail("another window has changed this conversation; what stands here goes on as a copy");
  }
  return store_.find(kept);
}

void WindowEngine::save_conversation() {
  StoredConversation* stored = to_be_changed(state_.conversation);
  if (!stored) return;
  stored->system = state_.system_prompt;
  stored->messages = without_system(loaded_->conversation.messages());
  give_pictures(*stored);
  if (!stored->named && !state_.messages.empty()) stored->title = title_of(messages().shown[0]);
  store_.save(stored->id);
  change([&](core::Snapshot& s) { list_conversations(s); });
  forget_unused_pictures();
}

// Where there are pictures, the model's message has what stands for them.
void WindowEngine::give_pictures(StoredConversation& stored) const {
  stored.pictures.clear();
  const std::vector<core::ChatMessage> shown = messages().shown;
  for (size_t i = 0; i < std::min(shown.size(), stored.messages.size()); ++i) {
    if (shown[i].pictures.empty()) continue;
    stored.pictures[i] = shown[i].pictures;
    stored.messages[i]["content"] = shown[i].text;
  }
}

void WindowEngine::abandon_conversation() {
  const StoredConversation* stored = store_.find(state_.conversation);
  if (!stored || !stored->messages.empty()) return;
  store_.remove(stored->id);
  change([&](core::Snapshot& s) {
    s.conversation.clear();
    list_conversations(s);
  });
}

} // namespace ridge::app
