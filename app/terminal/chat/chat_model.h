// A chat's model, session and conversation. The model is first opened without an encoder, so that it can use draft
// heads and the whole GPU; the first picture reopens it.
#pragma once

#include "api/requests.h"
#include "app/mcp/toolbox.h"
#include "engine/chat/answer.h"
#include "engine/chat/conversation.h"
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
  // `tools`: JSON file of functions with typed results; empty: none. `toolbox`: automatic tools. Toolbox and request
  // must outlive this; unset sampling options become the model's. Throws Error.
  ChatModel(api::ModelOptions options, api::GenerateRequest& request, const std::string& tools, Toolbox& toolbox);

  const engine::LoadedModel& loaded() const { return open_->loaded; }
  engine::Session& session() { return *open_->session; }
  const engine::Session& session() const { return *open_->session; }
  engine::Conversation& conversation() { return *open_->conversation; }
  const engine::Conversation& conversation() const { return *open_->conversation; }
  engine::Answerer& answerer() { return *open_->answerer; }
  const engine::Answerer& answerer() const { return *open_->answerer; }
  void renew_answerer();                                                       // with a new seed
  const std::vector<std::string>& recommended() const { return recommended_; } // recommended by the file

  // Reopens the model with its encoder and evaluates the conversation again. Throws Error and changes nothing if there
  // is none.
  void take_pictures();

  // Reopens and evaluates the conversation again. Unset sampling options become the new model's. Throws Error and
  // changes nothing on failure.
  void reopen(const api::ModelOptions& options);
  const api::ModelOptions& options() const { return options_; }
  void renew_conversation();
  void offer_tools();

 private:
  struct Open {
    explicit Open(engine::LoadedModel opened) : loaded(std::move(opened)) {}
    engine::LoadedModel loaded;
    std::optional<text::ChatTemplate> chat_template;
    std::optional<engine::Session> session;
    std::optional<engine::Conversation> conversation;
    std::unique_ptr<engine::Answerer> answerer;
  };
  void open(const api::ModelOptions& options, const engine::Notice& notice);
  void make_conversation(const engine::Notice& notice);
  // Calls open(), and restores the old model if that throws. The messages stay.
  void open_instead(const api::ModelOptions& options, const api::ModelOptions& before, const engine::Notice& notice);

  api::ModelOptions options_;
  api::GenerateRequest& request_;
  std::optional<engine::ToolUse> tools_;
  Toolbox& toolbox_;
  std::vector<std::string> recommended_;
  std::unique_ptr<Open> open_; // executors and sessions refer to it
};

} // namespace ridge::app
