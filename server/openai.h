// Common to OpenAI's chats and completions.
#pragma once

#include "server/answer_form.h"
#include "server/answers.h"
#include "server/json/reply.h"
#include "server/settings.h"

#include <memory>
#include <optional>
#include <string>

namespace ridge::server {

// Absent settings stay. Throws ApiError for values out of range. `most` is the API's name of the token limit.
void take_sampling(const Service& service, const Fields& body, Generation& generation, const char* most = "max_tokens");
// Throws ApiError if the answer cannot be restricted. A chat's schema is applied already.
void hold(const Service& service, const AnswerForm& form, Generation& generation);
// `top_logprobs`, 0 to 20; may be null.
std::optional<int64_t> likely_wanted(const Fields& body);

inline constexpr float kNeverBias = -1e9f; // of a token

int64_t priority_of(const Fields& body);
int64_t answers_wanted(const Fields& body);
// They get different seeds.
std::vector<Generation> copies(const Generation& generation, int64_t answers);

const char* finish_reason(const Answers::Answer& answer);

// Parts of characters become U+FFFD.
std::string token_text(const Service& service, int32_t token);

Json logprobs_of(const Service& service, const core::TokenChoice& choice, int64_t likely);
// Infinite values become numbers.
float written_logprob(float log_probability);

class OpenAiReply {
 public:
  virtual ~OpenAiReply() = default;

  // Writes after the route has returned.
  static void send(std::shared_ptr<OpenAiReply> reply, HttpResponse& response);

 protected:
  struct Names {
    const char *route, *id, *whole, *event;
  };
  OpenAiReply(Service& service, const Fields& body, const Names& names, const std::vector<Generation>& generations);

  virtual Json empty_choice(size_t i) const = 0;
  // The choice of the first event; may be null.
  virtual Json opening(size_t) const { return nullptr; }
  // The choice for a token or, if that is null, for the end. A null choice sends nothing.
  virtual Json event(size_t i, const engine::Sequence::Token* token, const engine::AnswerText::Piece& piece) = 0;
  // Adds to what whole() returns at the end.
  virtual void add(size_t i, const engine::Sequence::Token* token, const engine::AnswerText::Piece& piece) = 0;
  virtual Json whole(size_t i) = 0;

  const Service& service() const { return service_; }
  size_t answers() const { return answers_.all().size(); }
  const engine::Sequence& sequence(size_t i) const { return *answers_.all()[i].sequence; }
  const char* reason(size_t i) const { return finish_reason(answers_.all()[i]); }

 private:
  void run(Client& client);
  void stream(Client& client);
  bool send_progress(Client& client);
  bool send_progress(Client& client, size_t i);
  void answer(Client& client);
  Json envelope(const char* object, Json choices) const;
  Json usage() const;
  Json usage_so_far() const;

  const Service& service_;
  const Names names_;
  const bool stream_;
  bool usage_in_stream_ = false, usage_in_events_ = false; // at the end; in each event
  const bool timings_in_events_, progress_in_events_;      // llama.cpp's extensions
  RunningTimings timings_;
  int64_t sent_progress_ = -1;
  const std::string model_, id_;
  const int64_t created_;
  Answers answers_;
};

} // namespace ridge::server
