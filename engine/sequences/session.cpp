#include "engine/sequences/session.h"

namespace ridge::engine {

StopReason Session::generate(SequenceRequest request, const std::atomic<bool>* cancel) {
  if (!request.on_token) request.on_token = [](const Token&) { return true; };
  last_ = scheduler_.submit(std::move(request));
  while (!last_->ended()) {
    if (cancel && cancel->load(std::memory_order_relaxed)) last_->cancel();
    scheduler_.advance();
  }
  last_->next(); // throws the error that ended it
  return last_->stop();
}

bool Session::evaluate(std::span<const int32_t> prompt, const std::atomic<bool>* cancel) {
  SequenceRequest request;
  request.prompt.assign(prompt.begin(), prompt.end());
  request.limit = 0;
  return generate(std::move(request), cancel) == StopReason::limit;
}

} // namespace ridge::engine
