// A served model that scores documents.
#pragma once

#include "engine/reranking/reranker.h"
#include "server/models/unscheduled_service.h"

#include <span>
#include <string>

namespace ridge::server {

class RerankService final : public UnscheduledService {
 public:
  // The reranker must outlive the service.
  RerankService(engine::Reranker& reranker, std::string name, engine::Notice log)
      : UnscheduledService(reranker.model(), std::move(name), std::move(log)), reranker_(reranker) {}

  const engine::Reranker& reranker() const { return reranker_; }
  engine::Reranker::Score score(std::span<const int32_t> tokens);

 private:
  engine::Reranker& reranker_;
};

} // namespace ridge::server
