// Runs a model with its draft head.
#pragma once

#include "models/model.h"
#include "support/executor_runs.h"
#include "support/recipes/recipe.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace ridge::tests {

class DraftPair {
 public:
  DraftPair(const gguf::File& file, const MakeExecutor& make, const core::ExecutorConfig& config, int64_t head = 0)
      : model_(models::build_program(file, models::Ending::drafted)), head_(models::build_draft_head(file, head)),
        model_executor_(make(model_, config)), head_executor_(make(head_, config)),
        width_(static_cast<size_t>(model_.values[model_.hidden].width)), rows_(config.context * width_) {}

  void run(std::span<const int32_t> ids, size_t first, size_t last, size_t size, std::vector<float>& logits) {
    for (size_t at = first; at < last; at += size) {
      Steps steps;
      for (size_t i = at; i < std::min(last, at + size); ++i) {
        steps.tokens.push_back(ids[i]);
        steps.positions.push_back(static_cast<int32_t>(i));
        steps.streams.push_back(0);
        steps.outputs.push_back(static_cast<int32_t>(i - at));
      }
      core::Batch batch = steps.batch();
      batch.outputs = batch.outputs.first(batch.outputs.size() / 2); // hidden rows cover all tokens
      model_executor_->forward(batch);
      const std::span<const float> hidden = model_executor_->hidden();
      REQUIRE(hidden.size() == batch.tokens.size() * width_);
      std::ranges::copy(hidden, rows_.begin() + static_cast<std::ptrdiff_t>((at + 1) * width_));
      batch.outputs = steps.outputs;
      batch.input = std::span(rows_).subspan(at * width_, hidden.size());
      head_executor_->forward(batch);
      CHECK(head_executor_->hidden().size() == hidden.size());
      for (size_t i = 0; i < steps.outputs.size(); ++i) {
        const std::span<const float> row = head_executor_->logits(static_cast<int64_t>(i));
        logits.insert(logits.end(), row.begin(), row.end());
      }
    }
  }

  const core::Program& model() const { return model_; }
  const core::Program& head() const { return head_; }
  core::Executor& model_executor() { return *model_executor_; }
  core::Executor& head_executor() { return *head_executor_; }
  std::span<const float> input() const { return rows_; }

 private:
  const core::Program model_, head_;
  const std::unique_ptr<core::Executor> model_executor_, head_executor_;
  const size_t width_;
  std::vector<float> rows_;
};

inline std::vector<float> draft_logits(const gguf::File& file, const MakeExecutor& make,
                                       const core::ExecutorConfig& config, std::span<const int32_t> ids, size_t size,
                                       int64_t head = 0) {
  std::vector<float> logits;
  DraftPair(file, make, config, head).run(ids, 0, ids.size(), size, logits);
  return logits;
}

inline std::vector<float> draft_logits_after_going_back(const gguf::File& file, const MakeExecutor& make,
                                                        const core::ExecutorConfig& config,
                                                        std::span<const int32_t> ids) {
  DraftPair pair(file, make, config);
  const size_t half = ids.size() / 2;
  std::vector<float> state(pair.model_executor().saved_floats()), logits, dropped;
  pair.run(ids, 0, half, half, logits);
  pair.model_executor().save_state(0, state, static_cast<int64_t>(half));
  pair.run(ids, half, ids.size(), 5, dropped);
  pair.model_executor().load_state(0, state, static_cast<int64_t>(half));
  pair.run(ids, half, ids.size(), 4, logits);
  return logits;
}

inline std::vector<std::string> draft_recipes() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(reference_dir() + "/recipes"))
    if (const std::string name = entry.path().filename(); name.ends_with(".mtp.f32"))
      names.push_back(name.substr(0, name.size() - 8));
  std::ranges::sort(names);
  return names;
}

inline void check_draft_recipe(const MakeExecutor& make, const std::string& name) {
  CAPTURE(name);
  const Recipe recipe(name);
  const gguf::File file = recipe.open();
  const std::vector<int32_t> ids = recipe.ids();
  const core::ExecutorConfig config = exact_config();
  const std::vector<float> whole = draft_logits(file, make, config, ids, ids.size());
  const double error = nmse(whole, recipe.golden_draft());
  MESSAGE(name, ": NMSE ", error);
  CHECK(error <= 1e-6);
  for (const size_t size : {1, 7}) CHECK(nmse(draft_logits(file, make, config, ids, size), whole) <= 1e-9);
  CHECK(nmse(draft_logits_after_going_back(file, make, config, ids), whole) <= 1e-9);
}

} // namespace ridge::tests
