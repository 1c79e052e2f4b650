#include "server/answers.h"

#include "server/json/api_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <sys/random.h>
#include <system_error>

namespace ridge::server {
namespace {

constexpr std::chrono::milliseconds kPatience{100}; // wait for a token before checking the client
constexpr std::chrono::milliseconds kPatienceAmongSeveral{2};

} // namespace

std::vector<int32_t> raw_tokens(const Service& service, const std::string& text, bool special, bool begins) {
  const text::Tokenizer& tokenizer = service.tokenizer();
  const bool has_begin = special && tokenizer.bos() >= 0 && text.starts_with(tokenizer.token_text(tokenizer.bos()));
  return tokenizer.encode(text, {.add_special = begins && !has_begin, .parse_special = special});
}

std::string new_id(const char* prefix) {
  std::array<uint64_t, 2> number = {};
  for (ssize_t got = -1; got != sizeof number;) { // requests this small are never cut short
    got = ::getrandom(number.data(), sizeof number, 0);
    if (got < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  return fmt::format("{}{:016x}{:016x}", prefix, number[0], number[1]);
}

Answers::Answers(Service& service, const char* route, const std::vector<Generation>& generations)
    : service_(service), use_(service), route_(route) {
  try {
    for (const Generation& generation : generations) {
      answers_.push_back({service.start(generation), service.text_of(generation), generation.chat_prompt,
                          generation.copied, std::ssize(generation.prompt)});
      if (!generation.copied) prompt_tokens_ += std::ssize(generation.prompt);
    }
  } catch (...) {
    for (const Answer& answer : answers_) answer.sequence->cancel();
    throw;
  }
  running_.emplace(service.requests(), route_, prompt_tokens_);
}

Answers::~Answers() {
  for (const Answer& answer : answers_)
    if (!answer.ended) answer.sequence->cancel();
}

bool Answers::follow(const std::function<bool()>& client_is_there, const Take& take) {
  try {
    const bool whole = follow_all(client_is_there, take);
    if (whole) running_->end("", cached_tokens());
    service_.log(fmt::format("{}: {}", route_, whole ? summary() : "the client disconnected"));
    return whole;
  } catch (const std::exception& error) {
    running_->end(error.what());
    service_.count_failure();
    service_.log(fmt::format("{}: {}", route_, error.what()));
    throw;
  }
}

bool Answers::follow_all(const std::function<bool()>& client_is_there, const Take& take) {
  const auto left = [&] { return std::ranges::count(answers_, false, &Answer::ended); };
  while (left() > 0) {
    bool ready = false;
    for (size_t i = 0; i < answers_.size(); ++i)
      if (!answers_[i].ended && answers_[i].sequence->ready()) {
        advance(i, take);
        ready = true;
      }
    if (!ready) { // tokens of a step come together, so any of them will do
      const auto next = std::ranges::find(answers_, false, &Answer::ended);
      const bool came = next->sequence->wait(left() > 1 ? kPatienceAmongSeveral : kPatience);
      if (!came && waiting_ && !waiting_()) return false;
    }
    if (service_.abandoned() || !client_is_there()) return false;
  }
  return true;
}

void Answers::advance(size_t number, const Take& take) {
  Answer& answer = answers_[number];
  if (const auto token = answer.sequence->next()) {
    if (answer.text.stopped() || answer.cut) return;
    ++answer.taken;
    running_->count_token();
    take(number, &*token, answer.text.push(token->id));
    if (answer.text.stopped()) answer.sequence->cancel();
    return;
  }
  answer.ended = true;
  answer.stop = answer.text.stopped() ? engine::StopReason::stopped
                : answer.cut          ? engine::StopReason::limit
                                      : answer.sequence->stop();
  take(number, nullptr, answer.text.finish());
  for (const std::string& miss : answer.text.schema_misses())
    service_.count_schema_miss(fmt::format("{}: {}", route_, miss));
  using engine::StopReason; // after other reasons the tokens run past the text
  if (answer.chat_prompt && !answer.cut && (answer.stop == StopReason::end_of_turn || answer.stop == StopReason::limit))
    service_.remember(*answer.chat_prompt, answer.text.raw(), answer.sequence->tokens());
}

void Answers::cut(size_t answer) {
  answers_[answer].cut = true;
  answers_[answer].sequence->cancel();
}

int64_t Answers::generated_tokens() const {
  int64_t sum = 0;
  for (const Answer& answer : answers_)
    sum += answer.text.stopped() || answer.cut ? answer.taken : answer.sequence->generated_tokens();
  return sum;
}

template <typename Count>
std::remove_cvref_t<Count> Answers::sum_of(Count (engine::Sequence::*count)() const) const {
  std::remove_cvref_t<Count> sum{};
  for (const Answer& answer : answers_) sum += (*answer.sequence.*count)();
  return sum;
}

int64_t Answers::cached_tokens() const {
  int64_t sum = 0;
  for (const Answer& answer : answers_)
    if (!answer.copied) sum += answer.sequence->cached_tokens();
  return sum;
}
int64_t Answers::stored_tokens() const { return sum_of(&engine::Sequence::stored_tokens); }
int64_t Answers::disk_tokens() const { return sum_of(&engine::Sequence::disk_tokens); }
int64_t Answers::times_preempted() const { return sum_of(&engine::Sequence::times_preempted); }
engine::Usage Answers::prompt_usage() const { return sum_of(&engine::Sequence::prompt_usage); }
engine::Usage Answers::generation_usage() const { return sum_of(&engine::Sequence::generation_usage); }
engine::GuessCounts Answers::guesses() const { return sum_of(&engine::Sequence::guesses); }

std::string Answers::summary() const {
  const engine::Usage generation = generation_usage();
  const engine::GuessCounts counts = guesses();
  std::string guessed;
  if (counts.steps > 0)
    guessed = fmt::format(", {} of {} draft tokens accepted", counts.all_right(), counts.all_made());
  std::string stored, preempted;
  if (const int64_t times = times_preempted(); times > 0) preempted = fmt::format(", preempted {} times", times);
  if (stored_tokens() > 0) stored = fmt::format(", {} from the prefix cache", stored_tokens());
  if (disk_tokens() > 0) stored += fmt::format(", {} from disk", disk_tokens());
  return fmt::format("prompt {} tokens ({} cached{}, {:.2f} s), answer {} tokens ({:.1f} tok/s, {:.1f} GB/s{}{}){}",
                     prompt_tokens_, cached_tokens(), stored, prompt_usage().seconds, generated_tokens(),
                     generation.tokens_per_second(), generation.bytes_per_second() / 1e9,
                     answers_.size() > 1 ? " each" : "", guessed, preempted);
}

} // namespace ridge::server
