// The answers to one request: several where it asks for several. They are generated together and followed as their
// tokens come, as long as the client is there.
#pragma once

#include "server/service.h"

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace ridge::server {

inline constexpr size_t kMostStops = 16; // texts that a request may ask its answer to end at

// The tokens of a text that is continued as it is. `special`: names of control tokens in it are those tokens. `begins`:
// the model's own begin and end are added, unless the text has the begin already.
std::vector<int32_t> raw_tokens(const Service& service, const std::string& text, bool special, bool begins);

// A prefix such as "chatcmpl-", and a random number of 128 bits, which cannot be computed from others.
std::string new_id(const char* prefix);

class Answers {
 public:
  struct Answer {
    std::shared_ptr<engine::Sequence> sequence;
    engine::AnswerText text;
    std::optional<text::jinja::TaintedText> chat_prompt;
    bool copied = false;       // its prompt is the one of the answer before
    int64_t prompt_tokens = 0; // all of it
    int64_t taken = 0;         // tokens that were handed on
    bool ended = false;
    bool cut = false;
    engine::StopReason stop = engine::StopReason::interrupted; // once ended

    bool is_cut() const { return stop == engine::StopReason::limit || stop == engine::StopReason::context_full; }
  };

  // Starts the answers to each of these generations, for a request to `route`. Throws what Service::start throws; none
  // runs then.
  Answers(Service& service, const char* route, const std::vector<Generation>& generations);
  ~Answers(); // cancels what has not ended

  // Hands on what each token completes, and once more what is left when an answer ends; `token` is null then.
  using Take =
      std::function<void(size_t answer, const engine::Sequence::Token* token, const engine::AnswerText::Piece& piece)>;
  // Returns whether all have ended; false: the client has gone, and what was left is cancelled. Throws the Error that
  // ended an answer. The service's log gets a line then.
  bool follow(const std::function<bool()>& client_is_there, const Take& take);
  // Called about every kPatience while no token comes; false: the client has gone. Before follow().
  void call_while_waiting(std::function<bool()> call) { waiting_ = std::move(call); }
  // From `take`: the answer ends here as by a limit.
  void cut(size_t answer);

  const std::vector<Answer>& all() const { return answers_; }
  int64_t prompt_tokens() const { return prompt_tokens_; } // of several answers to a prompt it counts once
  // Once all have ended:
  int64_t generated_tokens() const; // without those behind a stop text
  int64_t cached_tokens() const;
  int64_t stored_tokens() const, disk_tokens() const; // of these, from the prefix cache; of those, from its folder
  int64_t times_preempted() const;
  engine::Usage prompt_usage() const, generation_usage() const;
  engine::GuessCounts guesses() const;

 private:
  bool follow_all(const std::function<bool()>& client_is_there, const Take& take);
  std::string summary() const; // of whole answers: tokens, times, bandwidth
  template <typename Count>
  std::remove_cvref_t<Count> sum_of(Count (engine::Sequence::*count)() const) const;
  void advance(size_t answer, const Take& take);

  Service& service_;
  const ModelService::Use use_; // the model stays while its answers are written
  const std::string route_;
  std::vector<Answer> answers_;
  int64_t prompt_tokens_ = 0;
  std::optional<RequestList::Running> running_;
  std::function<bool()> waiting_;
};

} // namespace ridge::server
