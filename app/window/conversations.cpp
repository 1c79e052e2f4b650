// Conversations in the window's engine.
#include "app/terminal/chat/markdown_export.h"
#include "app/window/loaded.h"
#include "core/error.h"
#include "core/files/atomic_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

namespace ridge::app {
namespace {

constexpr const char *kStatistics = "statistics", *kCallKey = "call";

Json statistics_of(const api::AnswerFacts& facts) {
  return {{"model", facts.model},
          {"prompt_tokens", facts.prompt_tokens},
          {"prompt_seconds", facts.prompt_seconds},
          {"tokens", facts.tokens},
          {"seconds", facts.seconds},
          {"bytes_per_second", facts.bytes_per_s}};
}

std::optional<api::AnswerFacts> facts_of(const Json& message) {
  if (!message.contains(kStatistics) || !message[kStatistics].is_object()) return std::nullopt;
  const Json& from = message[kStatistics];
  const auto number = [&](const char* key) {
    const bool known = from.contains(key) && from[key].is_number();
    return known ? std::clamp(from[key].get<double>(), 0.0, 1e15) : 0.0;
  };
  api::AnswerFacts facts;
  if (from.contains("model") && from["model"].is_string()) facts.model = from["model"].get<std::string>();
  facts.prompt_tokens = static_cast<int64_t>(number("prompt_tokens"));
  facts.prompt_seconds = number("prompt_seconds");
  facts.tokens = static_cast<int64_t>(number("tokens"));
  facts.seconds = number("seconds");
  facts.bytes_per_s = number("bytes_per_second");
  return facts;
}

MessageTree tree_of(const StoredConversation& stored, const PicturesByMessage& pictures) {
  MessageTree tree;
  for (size_t i = 0; i < stored.messages.size(); ++i) {
    Json sent = stored.messages[i];
    api::ChatMessage shown{
        sent["role"] == "user", sent["content"], sent.value("reasoning_content", ""), "", nullptr, {}};
    shown.facts = facts_of(sent);
    if (sent["role"] == "tool") {
      shown.call = sent.value("name", Json("")).is_string() ? sent.value("name", "a tool") : "a tool";
      if (sent.contains(kCallKey) && sent[kCallKey].is_string()) shown.call = sent[kCallKey].get<std::string>();
    }
    sent.erase(kStatistics);
    sent.erase(kCallKey);
    if (const auto found = pictures.find(i); found != pictures.end()) shown.pictures = found->second;
    tree.add_node(stored.parents.empty() ? static_cast<int>(i) - 1 : stored.parents[i], std::move(shown),
                  std::move(sent));
  }
  tree.go_to(stored.parents.empty() ? static_cast<int>(stored.messages.size()) - 1 : stored.end);
  return tree;
}

} // namespace

void WindowEngine::list_conversations(api::Snapshot& s) const {
  auto rows = std::make_shared<std::vector<api::ConversationRow>>();
  for (const StoredConversation& c : store_.list()) {
    const auto excerpt = s.searched.empty() ? "" : ConversationStore::excerpt_with(c, s.searched);
    if (excerpt) rows->push_back({c.id, c.title, c.changed_ms / 1000, *excerpt});
  }
  s.conversations = std::move(rows);
}

void WindowEngine::open_conversation(const std::string& id) {
  store_.refresh(id);
  const StoredConversation* stored = store_.find(id);
  if (!id.empty() && !stored) return;
  MessageTree tree = stored ? tree_of(*stored, store_.pictures(*stored)) : MessageTree();
  loaded_->conversation.set_messages(tree.sent(), "conversation");
  loaded_->conversation.set_system(stored ? stored->system : state().system_prompt);
  tree_ = std::move(tree);
  change([&](api::Snapshot& s) {
    s.conversation = id;
    s.messages = tree_.shown();
    if (stored) s.system_prompt = stored->system;
  });
  if (stored) use_adapters_of(*stored);
  show_context();
  forget_unused_pictures();
  read_missing_picture_facts();
}

void WindowEngine::show_path() {
  loaded_->conversation.set_messages(tree_.sent(), "conversation");
  loaded_->conversation.set_system(state().system_prompt);
  change([&](api::Snapshot& s) { s.messages = tree_.shown(); });
  read_missing_picture_facts();
}

// The tokens that the shown messages take, without a next one.
void WindowEngine::show_context() {
  int64_t tokens = 0;
  try {
    if (tree_.size() > 0) tokens = loaded_->conversation.tokens_with("");
  } catch (const Error&) { // the template refuses these messages, as the next answer will say
  }
  change([&](api::Snapshot& s) {
    s.kv.tokens = std::min(tokens, s.kv.context);
    s.kv.bytes = s.kv.capacity_bytes * static_cast<double>(s.kv.tokens) / static_cast<double>(s.kv.context);
  });
}

void WindowEngine::show_version(const api::intent::ShowVersion& wanted) {
  if (!tree_.select_version(wanted.message, wanted.version)) return;
  show_path();
  show_context();
  save_conversation();
}

void WindowEngine::edit_answer(const api::intent::EditAnswer& wanted) {
  if (wanted.message >= tree_.size()) return;
  tree_.replace(wanted.message, wanted.text);
  show_path();
  save_conversation();
}

void WindowEngine::search_conversations(const std::string& text) {
  change([&](api::Snapshot& s) {
    s.searched = text;
    list_conversations(s);
  });
}

void WindowEngine::export_conversation(const std::string& path) {
  Json messages = tree_.sent();
  if (!state().system_prompt.empty())
    messages.insert(messages.begin(), {{"role", "system"}, {"content", state().system_prompt}});
  const StoredConversation* stored = store_.find(state().conversation);
  const std::string text = conversation_as_markdown(messages, stored ? stored->title : "Conversation");
  core::AtomicFile file(path, text.size());
  file.write(std::as_bytes(std::span(text)));
  file.commit();
  tell(fmt::format("the conversation is in {}", path));
}

void WindowEngine::rename_conversation(const std::string& id, const std::string& title) {
  if (id != state().conversation) store_.refresh(id);
  StoredConversation* stored = conversation_for_change(id);
  if (!stored) return;
  stored->title = title.empty() ? "untitled" : title;
  stored->named = true;
  store_.save(stored->id);
  change([&](api::Snapshot& s) { list_conversations(s); });
}

void WindowEngine::delete_conversation(const std::string& id) {
  if (state().conversation == id) open_conversation("");
  store_.remove(id);
  change([&](api::Snapshot& s) { list_conversations(s); });
}

void WindowEngine::set_system(const std::string& text) {
  loaded_->conversation.set_system(text);
  change([&](api::Snapshot& s) { s.system_prompt = text; });
}

void WindowEngine::continue_conversation(Loaded& loaded) const {
  loaded.conversation.set_messages(tree_.sent(), "conversation");
  loaded.conversation.set_system(state().system_prompt);
}

void WindowEngine::begin_conversation(const api::ChatMessage& question) {
  if (!state().conversation.empty()) return;
  StoredConversation& stored = store_.create();
  stored.title = title_of(question);
  change([&](api::Snapshot& s) {
    s.conversation = stored.id;
    list_conversations(s);
  });
}

StoredConversation* WindowEngine::conversation_for_change(const std::string& id) {
  const std::string kept = store_.fork_if_changed(id);
  if (kept != id) {
    give_messages(*store_.find(kept));
    change([&](api::Snapshot& s) { s.conversation = kept; });
    fail("another window has changed this conversation; this version continues as a copy");
  }
  return store_.find(kept);
}

void WindowEngine::save_conversation() {
  StoredConversation* stored = conversation_for_change(state().conversation);
  if (!stored) return;
  stored->system = state().system_prompt;
  give_adapters(*stored);
  give_messages(*stored);
  if (!stored->named && !state().messages.empty()) stored->title = title_of(messages().shown[0]);
  store_.save(stored->id);
  change([&](api::Snapshot& s) { list_conversations(s); });
  forget_unused_pictures();
}

void WindowEngine::give_messages(StoredConversation& stored) const {
  stored.messages = Json::array();
  stored.parents.clear();
  stored.pictures.clear();
  for (const MessageTree::Node& node : tree_.nodes()) {
    if (!node.shown.pictures.empty()) stored.pictures[stored.messages.size()] = node.shown.pictures;
    stored.messages.push_back(node.sent);
    if (node.shown.facts) stored.messages.back()[kStatistics] = statistics_of(*node.shown.facts);
    if (!node.shown.call.empty()) stored.messages.back()[kCallKey] = node.shown.call;
    stored.parents.push_back(node.parent);
  }
  stored.end = tree_.path().empty() ? -1 : tree_.path().back();
}

void WindowEngine::abandon_conversation() {
  const StoredConversation* stored = store_.find(state().conversation);
  if (!stored || !stored->messages.empty()) return;
  store_.remove(stored->id);
  change([&](api::Snapshot& s) {
    s.conversation.clear();
    list_conversations(s);
  });
}

} // namespace ridge::app
