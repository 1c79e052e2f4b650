#include "server/models/embedding_service.h"

#include "core/clock.h"
#include "core/error.h"

#include <utility>

namespace ridge::server {

EmbeddingService::EmbeddingService(engine::Embedder& embedder, std::string name, engine::Notice log)
    : UnscheduledService(embedder.model(), std::move(name), std::move(log)), embedder_(embedder) {
  if (embedder.pooling() == engine::Pooling::none)
    throw_error("{}: its pooling is none, which gives a vector per token but none per text, as the API needs; see "
                "ridge embed --pooling",
                embedder.model().file.path());
}

std::vector<float> EmbeddingService::embed(std::span<const int32_t> tokens, int64_t dimensions) {
  const double start = core::seconds_now();
  std::vector<float> vector = embedder_.embed(tokens, dimensions == 0);
  if (dimensions > 0) {
    vector.resize(static_cast<size_t>(dimensions));
    engine::normalize(vector);
  }
  count_step(std::ssize(tokens), start);
  return vector;
}

} // namespace ridge::server
