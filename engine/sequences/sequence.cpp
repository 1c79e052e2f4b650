#include "engine/sequences/sequence.h"

#include <utility>

namespace ridge::engine {

Sequence::Sequence(SequenceRequest request) : request_(std::move(request)), tokens_(request_.prompt) {}

std::optional<Sequence::Token> Sequence::next() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return !arrivals_.empty() || ended_; });
  if (!arrivals_.empty()) {
    Token token = std::move(arrivals_.front());
    arrivals_.pop_front();
    return token;
  }
  if (error_) std::rethrow_exception(error_);
  return std::nullopt;
}

bool Sequence::wait(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  return arrived_.wait_for(lock, most, [&] { return !arrivals_.empty() || ended_; });
}

bool Sequence::ready() const {
  const std::scoped_lock lock(mutex_);
  return !arrivals_.empty() || ended_;
}

bool Sequence::ended() const {
  const std::scoped_lock lock(mutex_);
  return ended_;
}

void Sequence::deliver(Token token) {
  const std::scoped_lock lock(mutex_);
  arrivals_.push_back(std::move(token));
}

void Sequence::announce() { arrived_.notify_all(); }

void Sequence::end(StopReason stop, std::exception_ptr error) {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = stop;
    sampler_.reset();
    error_ = std::move(error);
    ended_ = true;
  }
  announce(); // without the lock, for which the woken thread would wait again
}

} // namespace ridge::engine
