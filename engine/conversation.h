// A chat as data: messages in the OpenAI form, rendered through the model's template, answered turn by turn. Shared by
// the terminal chat, `ridge run` and the other front ends.
#pragma once

#include "engine/answer.h"

#include <memory>
#include <string>
#include <vector>

namespace ridge::engine {

struct ShelvedPicture; // pictures/picture_shelf.h

class Conversation {
 public:
  // Model, session and template must outlive it. `variables`: a JSON object of further variables for the template.
  Conversation(const LoadedModel& model, Session& session, const text::ChatTemplate& chat_template,
               Json variables = Json::object())
      : session_(session), requests_(model, chat_template, std::move(variables), 1) {}

  // The functions that answers may call from now on. Throws Error for parameters that no grammar can describe.
  void set_tools(ToolUse tools);
  // What a call of the last answer gave. answer() goes on once every call has a result.
  void add_result(const text::ToolCall& call, std::string result);
  void set_system(std::string text); // replaces the system message; empty: none
  // The text of a message may have marks of pictures (PictureShelf), which the conversation holds from then on.
  void add_user(std::string text);
  void hold(std::shared_ptr<const ShelvedPicture> picture) { pictures_.push_back(std::move(picture)); }
  // Generates the assistant's message and appends it, whatever the stop reason. Throws Error when the template refuses
  // the messages or the prompt does not fit the context; the conversation is then as before.
  Answer answer(Answerer& answerer, const TextSink& sink, const std::atomic<bool>* cancel);

  // Drops the last exchange (or an unanswered question); false when there is none.
  bool undo();
  // Drops the last answer, so that answer() gives another one; false when there is none.
  bool drop_answer();
  // Drops the oldest exchange; false when only one is left. Makes room in a full context.
  bool drop_oldest();
  void clear(); // all but the system message

  const Json& messages() const { return messages_; }
  // Throws Error where `json` is not a list of messages (or an object with one under "messages").
  void set_messages(const Json& json, const std::string& label);

  // How many tokens the conversation has, with a further user message.
  int64_t tokens_with(const std::string& user_text) const;

 private:
  Generation generation(const Json& messages, const core::SamplingOptions& sampling) const;

  Session& session_;
  ChatRequests requests_; // which knows the session's tokens
  std::optional<ToolUse> tools_;
  Json messages_ = Json::array();
  std::vector<std::shared_ptr<const ShelvedPicture>> pictures_;
};

} // namespace ridge::engine
