// A chat: OpenAI messages, rendered with the model's template and answered turn by turn.
#pragma once

#include "engine/chat/answer.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

struct ShelvedPicture; // pictures/picture_shelf.h

class Conversation {
 public:
  // Arguments must outlive it. `variables`: a JSON object for the template.
  Conversation(const LoadedModel& model, Session& session, const text::ChatTemplate& chat_template,
               Json variables = Json::object())
      : session_(session), requests_(model, chat_template, std::move(variables), 1) {}

  // Throws Error if no grammar can express the parameters.
  void set_tools(ToolUse tools);
  // Call it for every call of the last answer before answer().
  void add_result(const text::ToolCall& call, std::string result);
  void set_system(std::string text);
  // hold() keeps a picture alive while messages contain its mark (PictureShelf).
  void add_user(std::string text);
  void hold(std::shared_ptr<const ShelvedPicture> picture) { pictures_.push_back(std::move(picture)); }
  // Appends the model's answer. Throws Error, and changes nothing, if the template refuses or the prompt exceeds the
  // context.
  Answer answer(Answerer& answerer, const TextSink& sink, const std::atomic<bool>* cancel);

  // Replaces all messages but the system's by the model's summary. The oldest exchanges are left out as far
  // as the context requires; their number is `left_out`. Throws Error, and changes nothing, if there is nothing to
  // summarize or no summary comes of it.
  struct Compaction {
    Answer answer; // the summary
    int64_t left_out = 0;
  };
  Compaction compact(Answerer& answerer, std::string_view instructions, const TextSink& sink,
                     const std::atomic<bool>* cancel);

  bool undo();
  bool drop_answer();
  // Makes room in a full context; false: one exchange is left.
  bool drop_oldest();
  void clear();

  const Json& messages() const { return messages_; }
  // A list of messages, or an object with "messages". Throws Error for anything else.
  void set_messages(const Json& json, const std::string& label);

  int64_t tokens_with(const std::string& user_text) const;

 private:
  Generation generation(const Json& messages, const api::SamplingOptions& sampling) const;

  Session& session_;
  ChatRequests requests_;
  std::optional<ToolUse> tools_;
  Json messages_ = Json::array();
  std::vector<std::shared_ptr<const ShelvedPicture>> pictures_;
};

} // namespace ridge::engine
