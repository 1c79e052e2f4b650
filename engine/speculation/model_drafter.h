// Greedy drafts by a smaller model.
#pragma once

#include "core/sampler.h"
#include "engine/loading/loaded_model.h"
#include "engine/prefixes/stream_cache.h"
#include "engine/speculation/drafter.h"

namespace ridge::engine {

class ModelDrafter final : public Drafter {
 public:
  // `model` needs one stream and an output. `vocab`: of the model that verifies.
  ModelDrafter(std::unique_ptr<LoadedModel> model, int64_t vocab);

  void begin(std::span<const int32_t> tokens) override;
  int prepare_draft(std::span<const int32_t> tokens) override;
  std::vector<int32_t> draft(int64_t most) override;

 private:
  std::vector<int32_t> evaluate(int64_t guesses);

  std::unique_ptr<LoadedModel> model_;
  core::Executor& executor_;
  const int64_t vocab_;
  StreamCache cache_;
  core::Sampler sampler_;
  std::span<const int32_t> tokens_;
};

} // namespace ridge::engine
