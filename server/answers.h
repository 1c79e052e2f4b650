// The answers to one request, generated together and followed while the client is there.
#pragma once

#include "server/models/service.h"

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace ridge::server {

inline constexpr size_t kMaxStops = 16;

// `special`: parse control tokens. `begins`: add begin and end tokens, unless the text starts with the begin token.
std::vector<int32_t> raw_tokens(const Service& service, const std::string& text, bool special, bool begins);

// Prefix ("chatcmpl-") and an unpredictable 128-bit number.
std::string new_id(const char* prefix);

class Answers {
 public:
  struct Answer {
    std::shared_ptr<engine::Sequence> sequence;
    engine::AnswerText text;
    std::optional<text::jinja::TaintedText> chat_prompt;
    bool copied = false;
    int64_t prompt_tokens = 0;
    int64_t taken = 0; // tokens handed on
    bool ended = false;
    bool cut = false;
    engine::StopReason stop = engine::StopReason::interrupted; // valid once ended

    bool is_cut() const { return stop == engine::StopReason::limit || stop == engine::StopReason::context_full; }
  };

  // Throws what Service::start throws; then none runs.
  Answers(Service& service, const char* route, const std::vector<Generation>& generations);
  ~Answers(); // cancels running answers

  // Receives what each token completes. The last call for an answer has a null token.
  using Take =
      std::function<void(size_t answer, const engine::Sequence::Token* token, const engine::AnswerText::Piece& piece)>;
  // Returns false if the client has gone; the rest is then cancelled. Throws an answer's Error. Logs a line.
  bool follow(const std::function<bool()>& client_is_there, const Take& take);
  // Called about every kPatience without a token; false: the client has gone. Set it before follow().
  void call_while_waiting(std::function<bool()> call) { waiting_ = std::move(call); }
  // Ends an answer as a limit would. Called from `take`.
  void cut(size_t answer);

  const std::vector<Answer>& all() const { return answers_; }
  int64_t prompt_tokens() const { return prompt_tokens_; } // counts a shared prompt once
  // Valid once all have ended:
  int64_t generated_tokens() const;
  int64_t cached_tokens() const;
  // Part of cached_tokens that came from the prefix cache, and part of those from its folder.
  int64_t stored_tokens() const, disk_tokens() const;
  int64_t times_preempted() const;
  engine::Usage prompt_usage() const, generation_usage() const;
  engine::GuessCounts guesses() const;

 private:
  bool follow_all(const std::function<bool()>& client_is_there, const Take& take);
  std::string summary() const;
  template <typename Count>
  std::remove_cvref_t<Count> sum_of(Count (engine::Sequence::*count)() const) const;
  void advance(size_t answer, const Take& take);

  Service& service_;
  const ModelService::Use use_; // keeps the model loaded
  const std::string route_;
  std::vector<Answer> answers_;
  int64_t prompt_tokens_ = 0;
  std::optional<RequestList::Running> running_;
  std::function<bool()> waiting_;
};

} // namespace ridge::server
