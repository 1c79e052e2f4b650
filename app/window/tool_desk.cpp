#include "app/window/tool_desk.h"

#include "core/strings/printable.h"

#include <fmt/format.h>

#include <utility>

namespace ridge::app {

using api::intent::ToolPermission;

void ToolDesk::start(engine::Conversation* conversation) {
  board_.change([&](api::Snapshot& s) { s.activity = "starting MCP servers"; });
  toolbox_.start(notice(), &cancel_);
  show(conversation);
}

void ToolDesk::offer(engine::Conversation& conversation, const engine::Notice& note) {
  toolbox_.offer(conversation, std::nullopt, note);
}

void ToolDesk::show(engine::Conversation* conversation) {
  if (conversation) offer(*conversation, notice());
  auto rows = std::make_shared<std::vector<api::ToolRow>>();
  for (const Toolbox::Tool& tool : toolbox_.tools())
    if (tool.offered) rows->push_back({tool.name, tool.server, tool.description, allowed_.contains(tool.name)});
  board_.change([&](api::Snapshot& s) { s.tools = std::move(rows); });
}

void ToolDesk::decide(const api::intent::AnswerTool& decision) {
  board_.change([&](api::Snapshot& s) {
    if (!s.tool_question || s.tool_question->number != decision.number) return; // outdated
    s.tool_question = nullptr;
    const std::lock_guard lock(mutex_);
    decision_ = decision.may;
  });
  decided_.notify_all();
}

void ToolDesk::wake() {
  { const std::lock_guard lock(mutex_); } // a waiting thread has not checked yet, or is notified
  decided_.notify_all();
}

bool ToolDesk::is_allowed(const Toolbox::Tool& tool, const text::ToolCall& call, engine::Conversation& conversation) {
  if (allowed_.contains(tool.name)) return true;
  board_.change([&](api::Snapshot& s) {
    const std::lock_guard lock(mutex_);
    decision_.reset();
    s.activity = "waiting for your answer";
    s.tool_question = std::make_shared<api::ToolQuestion>(
        api::ToolQuestion{++questions_, tool.server, core::printable(tool.own_name), call.arguments});
  });
  std::optional<ToolPermission> decision;
  {
    std::unique_lock lock(mutex_);
    decided_.wait(lock, [&] { return decision_ || cancel_; });
    decision = decision_;
  }
  board_.change([](api::Snapshot& s) { s.tool_question = nullptr; }); // if interrupted
  if (decision == ToolPermission::always) {
    allowed_.insert(tool.name);
    show(&conversation);
  }
  return decision && *decision != ToolPermission::no;
}

std::string ToolDesk::result_of(const Toolbox::Tool& tool, const text::ToolCall& call, const engine::LoadedModel& model,
                                engine::Conversation& conversation, int64_t context) {
  if (!is_allowed(tool, call, conversation)) return cancel_ ? kStopped : kDeclined;
  board_.change([&](api::Snapshot& s) { s.activity = fmt::format("waiting for {}", tool.server); });
  try {
    std::string result = toolbox_.call(call, model.need_tokenizer(), context, notice(), &cancel_);
    if (toolbox_.renew(notice(), &cancel_)) show(&conversation);
    return result;
  } catch (const McpClient::Cancelled&) {
    return kStopped;
  }
}

api::ChatMessage ToolDesk::call(const text::ToolCall& call, const engine::LoadedModel& model,
                                engine::Conversation& conversation, int64_t context) {
  const Toolbox::Tool* tool = toolbox_.find(call.name);
  api::ChatMessage shown;
  shown.call = tool ? call_line(*tool, call.arguments) : core::printable(call.name);
  shown.text = cancel_ ? kStopped
               : tool  ? result_of(*tool, call, model, conversation, context)
                       : "There is no such tool.";
  return shown;
}

} // namespace ridge::app
