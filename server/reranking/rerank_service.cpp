#include "server/reranking/rerank_service.h"

#include "core/clock.h"

namespace ridge::server {

engine::Reranker::Score RerankService::score(std::span<const int32_t> tokens) {
  const double start = core::seconds_now();
  const engine::Reranker::Score score = reranker_.score(tokens);
  const std::scoped_lock lock(mutex_);
  ++counts_.steps;
  counts_.prompt_tokens += std::ssize(tokens);
  counts_.seconds += core::seconds_now() - start;
  return score;
}

void RerankService::count_request() {
  const std::scoped_lock lock(mutex_);
  ++counts_.ended;
}

engine::Scheduler::Counts RerankService::counts() const {
  const std::scoped_lock lock(mutex_);
  engine::Scheduler::Counts counts = counts_;
  counts.running = users();
  return counts;
}

} // namespace ridge::server
