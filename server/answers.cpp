#include "server/answers.h"

#include <algorithm>
#include <chrono>

namespace ridge::server {
namespace {

constexpr std::chrono::milliseconds kPatience{100}; // for a token, until the client is looked after
constexpr std::chrono::milliseconds kGlance{2};     // for a token of one of several answers

} // namespace

Answers::Answers(Service& service, const std::vector<Generation>& generations) {
  try {
    for (const Generation& generation : generations) {
      answers_.push_back({service.start(generation), service.text_of(generation)});
      prompt_tokens_ += std::ssize(generation.prompt);
    }
  } catch (...) {
    for (const Answer& answer : answers_) answer.sequence->cancel();
    throw;
  }
}

Answers::~Answers() {
  for (const Answer& answer : answers_)
    if (!answer.ended) answer.sequence->cancel();
}

bool Answers::follow(const std::function<bool()>& client_is_there, const Take& take) {
  const auto left = [&] { return std::ranges::count(answers_, false, &Answer::ended); };
  while (left() > 0) {
    const std::chrono::milliseconds patience = left() > 1 ? kGlance : kPatience;
    for (size_t i = 0; i < answers_.size(); ++i)
      if (!answers_[i].ended && answers_[i].sequence->wait(patience)) advance(i, take);
    if (!client_is_there()) return false;
  }
  return true;
}

void Answers::advance(size_t number, const Take& take) {
  Answer& answer = answers_[number];
  if (const auto token = answer.sequence->next()) {
    if (answer.text.stopped()) return; // the sequence ends soon
    take(number, &*token, answer.text.push(token->id));
    if (answer.text.stopped()) answer.sequence->cancel();
    return;
  }
  answer.ended = true;
  answer.stop = answer.text.stopped() ? engine::StopReason::stopped : answer.sequence->stop();
  take(number, nullptr, answer.text.finish());
}

int64_t Answers::generated_tokens() const {
  int64_t sum = 0;
  for (const Answer& answer : answers_) sum += answer.sequence->generated_tokens();
  return sum;
}

int64_t Answers::cached_tokens() const {
  int64_t sum = 0;
  for (const Answer& answer : answers_) sum += answer.sequence->cached_tokens();
  return sum;
}

} // namespace ridge::server
