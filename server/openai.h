// What OpenAI's routes for chats and completions share.
#pragma once

#include "server/answers.h"
#include "server/llamacpp/settings.h"
#include "server/reply.h"
#include "server/requests/answer_form.h"

#include <memory>
#include <optional>
#include <string>

namespace ridge::server {

// Takes what a body says of how tokens are chosen and when an answer ends; what it leaves open stays. Throws ApiError
// for values out of range. `most`: what the API calls the limit of tokens, beside the names that peers have for it.
void take_sampling(const Service& service, const Fields& body, Generation& generation, const char* most = "max_tokens");
// Holds the answer to a grammar or a schema. Throws ApiError where it cannot be held to it. A chat's schema was taken
// when its prompt was made.
void hold(const Service& service, const AnswerForm& form, Generation& generation);
// `top_logprobs`: from 0 to 20. Nothing where it is not there.
std::optional<int64_t> likely_wanted(const Fields& body);

// What a body's answers go before and behind, in vLLM's words: lower numbers go first.
int64_t priority_of(const Fields& body);
// How many answers a body asks for: n.
int64_t answers_wanted(const Fields& body);
// One generation for each of `answers`, with a seed of its own.
std::vector<Generation> copies(const Generation& generation, int64_t answers);

const char* finish_reason(const Answers::Answer& answer); // "stop", "length" or "tool_calls"

// A token's text, which may be a part of a character; then it has U+FFFD, and its bytes tell.
std::string token_text(const Service& service, int32_t token);

// A token with its probability, and of a choice with the likeliest ones, as OpenAI's chats have them.
Json logprobs_of(const Service& service, const core::TokenChoice& choice, int64_t likely);
// As a number that JSON has.
float written_logprob(float log_probability);

// One request on its way: its answers become events, or one object.
class OpenAiReply {
 public:
  virtual ~OpenAiReply() = default;

  // Has `reply` written to the client after the route has returned.
  static void send(std::shared_ptr<OpenAiReply> reply, HttpResponse& response);

 protected:
  struct Names {
    const char *route, *id, *whole, *event; // "/v1/completions", "cmpl", and of the objects
  };
  // Starts the generations. `body` says whether to stream.
  OpenAiReply(Service& service, const Fields& body, const Names& names, const std::vector<Generation>& generations);

  // The choice of an event that says nothing of answer number i.
  virtual Json nothing(size_t i) const = 0;
  // The choice that opens answer number i's events; null: none.
  virtual Json opening(size_t) const { return nullptr; }
  // The choice of an event: what a token completed, or with a null `token` the end. Null: nothing to say.
  virtual Json event(size_t i, const engine::Sequence::Token* token, const engine::AnswerText::Piece& piece) = 0;
  // Adds what a token completed to the whole answer, whose choice is whole(i) at the end.
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
  void answer(Client& client);
  Json envelope(const char* object, Json choices) const;
  Json usage() const;
  Json usage_so_far() const;

  const Service& service_;
  const Names names_;
  const bool stream_;
  bool usage_in_stream_ = false, usage_in_events_ = false; // behind the events, and in each of them
  const bool timings_in_events_, progress_in_events_;      // as llama.cpp's server has them
  RunningTimings timings_;
  int64_t sent_progress_ = -1;
  const std::string model_, id_;
  const int64_t created_;
  Answers answers_;
};

} // namespace ridge::server
