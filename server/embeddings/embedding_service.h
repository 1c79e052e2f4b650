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
  // The embedder must outlive the service. Throws Error for one that makes no vector of a whole text.
  EmbeddingService(engine::Embedder& embedder, std::string name, engine::Notice log);

  engine::Embedder& embedder() const { return embedder_; }
  // The vector of a text of these tokens, of length 1. `dimensions`: how many elements, the first ones; 0: all. Throws
  // what Embedder::embed throws.
  std::vector<float> embed(std::span<const int32_t> tokens, int64_t dimensions);

 private:
  engine::Embedder& embedder_;
};

} // namespace ridge::server
