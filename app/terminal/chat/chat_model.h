// The model of a chat, with its session and conversation. Without pictures it is opened as if there were none: with its
// draft heads, and on the GPU. When the first picture comes, it is opened again together with its encoder.
#pragma once

#include "app/mcp/toolbox.h"
#include "core/requests.h"
#include "engine/answer.h"
#include "engine/conversation.h"
#include "engine/sequences/session.h"
#include "text/chat/chat_template.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ridge::app {

class ChatModel {
 public:
  // `tools`: a JSON file of functions whose results are typed; empty: none. `toolbox`: what answers itself. It and the
  // request, whose sampling becomes the model's where it leaves that open, must outlive this. Throws Error for what
  // cannot run, and for an encoder that is named and does not fit.
  ChatModel(core::ModelOptions options, core::GenerateRequest& request, const std::string& tools, Toolbox& toolbox);

  const engine::LoadedModel& loaded() const { return open_->loaded; }
  engine::Session& session() { return *open_->session; }
  const engine::Session& session() const { return *open_->session; }
  engine::Conversation& conversation() { return *open_->conversation; }
  const engine::Conversation& conversation() const { return *open_->conversation; }
  engine::Answerer& answerer() { return *open_->answerer; }
  const engine::Answerer& answerer() const { return *open_->answerer; }
  void renew_answerer(); // with another seed, and the request as it is now
  const std::vector<std::string>& recommended() const { return recommended_; } // sampling that the file asks for

  // Opens the model again with its encoder, unless it has one. The conversation stays, and is evaluated anew. Throws
  // Error where the model takes no pictures; it is then as before.
  void take_pictures();

  // Opens the model anew with other options, perhaps another file. The conversation stays, and is evaluated anew;
  // sampling that was not chosen becomes the new model's. Throws Error where that fails; it is then as before.
  void reopen(const core::ModelOptions& options);
  const core::ModelOptions& options() const { return options_; }
  void renew_conversation(); // with the request's template options as they are now
  void offer_tools();        // as they are now

 private:
  struct Open {
    explicit Open(engine::LoadedModel opened) : loaded(std::move(opened)) {}
    engine::LoadedModel loaded;
    std::optional<text::ChatTemplate> chat_template;
    std::optional<engine::Session> session;
    std::optional<engine::Conversation> conversation;
    std::unique_ptr<engine::Answerer> answerer;
  };
  void open(const core::ModelOptions& options, const engine::Notice& notice);
  void make_conversation(const engine::Notice& notice);
  // open(), and where it throws what was open before, with the same messages either way.
  void open_instead(const core::ModelOptions& options, const core::ModelOptions& before, const engine::Notice& notice);

  core::ModelOptions options_;
  core::GenerateRequest& request_;
  std::optional<engine::ToolUse> tools_;
  Toolbox& toolbox_;
  std::vector<std::string> recommended_;
  std::unique_ptr<Open> open_; // executors and sessions refer to it
};

} // namespace ridge::app
