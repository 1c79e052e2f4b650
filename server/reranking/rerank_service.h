// A served model that says how well documents answer a query.
#pragma once

#include "engine/reranking/reranker.h"
#include "server/models/model_service.h"

#include <mutex>
#include <span>
#include <string>

namespace ridge::server {

class RerankService final : public ModelService {
 public:
  // The reranker must outlive the service.
  RerankService(engine::Reranker& reranker, std::string name, engine::Notice log)
      : ModelService(reranker.model(), std::move(name), std::move(log)), reranker_(reranker) {}

  const engine::Reranker& reranker() const { return reranker_; }
  // Throws what Reranker::score throws.
  engine::Reranker::Score score(std::span<const int32_t> tokens);
  void count_request(); // that has all its scores

  // A step is a pair of texts.
  engine::Scheduler::Counts counts() const override;
  void drain() override {} // scores are made on the threads of their requests

 private:
  engine::Reranker& reranker_;
  mutable std::mutex mutex_;
  engine::Scheduler::Counts counts_;
};

} // namespace ridge::server
