// A served model that embeds texts.
#pragma once

#include "engine/embedder.h"
#include "server/models/unscheduled_service.h"

#include <span>
#include <string>
#include <vector>

namespace ridge::server {

class EmbeddingService final : public UnscheduledService {
 public:
  // The embedder must outlive it. Throws Error for Pooling::none.
  EmbeddingService(engine::Embedder& embedder, std::string name, engine::Notice log);

  engine::Embedder& embedder() const { return embedder_; }
  // Returns a vector of length 1 with its first `dimensions` elements; 0: all. Throws as Embedder::embed.
  std::vector<float> embed(std::span<const int32_t> tokens, int64_t dimensions);

 private:
  engine::Embedder& embedder_;
};

} // namespace ridge::server
