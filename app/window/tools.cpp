// Confirmed calls of MCP tools.
#include "app/window/loaded.h"
#include "core/strings/printable.h"

#include <fmt/format.h>

#include <utility>

namespace ridge::app {

using api::intent::ToolPermission;

void WindowEngine::start_tools() {
  cancel_ = false;
  if (closing_) return;
  change([&](api::Snapshot& s) { s.activity = "starting MCP servers"; });
  toolbox_.start([this](const std::string& line) { tell(line); }, &cancel_);
  show_tools();
}

void WindowEngine::show_tools() {
  if (loaded_) toolbox_.offer(loaded_->conversation, std::nullopt, [this](const std::string& line) { tell(line); });
  auto rows = std::make_shared<std::vector<api::ToolRow>>();
  for (const Toolbox::Tool& tool : toolbox_.tools())
    if (tool.offered) rows->push_back({tool.name, tool.server, tool.description, allowed_.contains(tool.name)});
  change([&](api::Snapshot& s) { s.tools = std::move(rows); });
}

void WindowEngine::apply_decision(const api::intent::AnswerTool& decision) {
  change([&](api::Snapshot& s) {
    if (!s.tool_question || s.tool_question->number != decision.number) return; // outdated
    s.tool_question = nullptr;
    decision_ = decision.may;
  });
  decided_.notify_all();
}

bool WindowEngine::is_allowed(const Toolbox::Tool& tool, const text::ToolCall& call) {
  if (allowed_.contains(tool.name)) return true;
  change([&](api::Snapshot& s) {
    decision_.reset();
    s.activity = "waiting for your answer";
    s.tool_question = std::make_shared<api::ToolQuestion>(
        api::ToolQuestion{++tool_questions_, tool.server, core::printable(tool.own_name), call.arguments});
  });
  std::optional<ToolPermission> decision;
  {
    std::unique_lock lock(mutex_);
    decided_.wait(lock, [&] { return decision_ || cancel_; });
    decision = decision_;
  }
  change([](api::Snapshot& s) { s.tool_question = nullptr; }); // if interrupted
  if (decision == ToolPermission::always) {
    allowed_.insert(tool.name);
    show_tools();
  }
  return decision && *decision != ToolPermission::no;
}

std::string WindowEngine::result_of(const Toolbox::Tool& tool, const text::ToolCall& call) {
  if (!is_allowed(tool, call)) return cancel_ ? kStopped : kDeclined;
  change([&](api::Snapshot& s) { s.activity = fmt::format("waiting for {}", tool.server); });
  const auto notice = [this](const std::string& line) { tell(line); };
  try {
    std::string result =
        toolbox_.call(call, loaded_->model.need_tokenizer(), loaded_->session.context(), notice, &cancel_);
    if (toolbox_.renew(notice, &cancel_)) show_tools();
    return result;
  } catch (const McpClient::Cancelled&) {
    return kStopped;
  }
}

bool WindowEngine::call_tools(const std::vector<text::ToolCall>& calls) {
  for (const text::ToolCall& call : calls) {
    const Toolbox::Tool* tool = toolbox_.find(call.name);
    api::ChatMessage shown;
    shown.call = tool ? call_line(*tool, call.arguments) : core::printable(call.name);
    shown.text = cancel_ ? kStopped : tool ? result_of(*tool, call) : "There is no such tool.";
    loaded_->conversation.add_result(call, shown.text);
    tree_.add(std::move(shown), loaded_->conversation.messages().back());
    change([&](api::Snapshot& s) { s.messages = tree_.shown(); });
  }
  return !cancel_;
}

} // namespace ridge::app
