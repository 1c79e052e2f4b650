#include "server/models/rerank_service.h"

#include "core/clock.h"

namespace ridge::server {

engine::Reranker::Score RerankService::score(std::span<const int32_t> tokens) {
  const double start = core::seconds_now();
  const engine::Reranker::Score score = reranker_.score(tokens);
  count_step(std::ssize(tokens), start);
  return score;
}

} // namespace ridge::server
