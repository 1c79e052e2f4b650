// Runs EAGLE-3 heads with their models.
#pragma once

#include "models/eagle.h"
#include "support/drafts/eagle_pair.h"
#include "support/executor_runs.h"
#include "support/numerics.h"
#include "support/reference.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ridge::tests {

inline constexpr int64_t kEagleTokens = 20;

inline std::vector<int32_t> eagle_ids() {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < kEagleTokens; ++i) ids.push_back((i * i * 7 + 3 * i + 5) % 48);
  return ids;
}

struct EagleRun {
  const core::Program model, head;
  const std::unique_ptr<core::Executor> model_executor, head_executor;
  std::vector<float> rows, logits;

  EagleRun(const gguf::File& of_model, const gguf::File& of_head, const MakeExecutor& make)
      : model(models::build_drafted(of_model, of_head)), head(models::build_eagle_head(of_head, of_model)),
        model_executor(make(model, exact_config())), head_executor(make(head, exact_config())) {}

  void forward(core::Executor& executor, std::span<const int32_t> ids, int64_t position, std::span<const float> input) {
    Steps steps;
    for (const int32_t id : ids) {
      steps.outputs.push_back(static_cast<int32_t>(steps.tokens.size()));
      steps.positions.push_back(static_cast<int32_t>(position + std::ssize(steps.tokens)));
      steps.streams.push_back(0);
      steps.tokens.push_back(id);
    }
    core::Batch batch = steps.batch();
    batch.input = input;
    if (input.empty()) batch.outputs = batch.outputs.first(1);
    executor.forward(batch);
    for (int64_t i = 0; !input.empty() && i < std::ssize(ids); ++i) {
      const std::span<const float> row = executor.logits(i);
      logits.insert(logits.end(), row.begin(), row.end());
    }
  }

  int64_t width() const { return head.values[head.input].width; }

  // Logits of all tokens but the first, plus one guess.
  const std::vector<float>& run(int64_t size) {
    const std::vector<int32_t> ids = eagle_ids();
    for (int64_t at = 0; at < kEagleTokens; at += size) {
      const int64_t count = std::min(size, kEagleTokens - at);
      forward(*model_executor, std::span(ids).subspan(at, count), at, {});
      const std::span<const float> hidden = model_executor->hidden();
      REQUIRE(std::ssize(hidden) == count * width());
      rows.insert(rows.end(), hidden.begin(), hidden.end());
    }
    for (int64_t at = 1; at < kEagleTokens; at += size) {
      const int64_t count = std::min(size, kEagleTokens - at);
      forward(*head_executor, std::span(ids).subspan(at, count), at - 1,
              std::span(rows).subspan((at - 1) * width(), count * width()));
    }
    const std::vector<float> last(head_executor->hidden().end() - width(), head_executor->hidden().end());
    const auto likeliest =
        static_cast<int32_t>(std::max_element(logits.end() - head.vocab, logits.end()) - (logits.end() - head.vocab));
    forward(*head_executor, {&likeliest, 1}, kEagleTokens - 1, last);
    return logits;
  }
};

// Ignores logits of tokens outside the head's vocabulary.
inline double eagle_error(std::vector<float> logits, std::vector<float> wanted) {
  REQUIRE(logits.size() == wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    CHECK((wanted[i] < -1e29f) == (logits[i] < -1e29f));
    if (wanted[i] < -1e29f) wanted[i] = logits[i] = 0;
  }
  return nmse(logits, wanted);
}

inline void check_eagle_golden(const MakeExecutor& make) {
  const std::vector<float> golden = read_array<float>(std::string(RIDGE_SOURCE_DIR) + "/tests/golden/eagle3.f32");
  const std::vector<EaglePair> kinds = EaglePair::kinds();
  const int64_t each = kEagleTokens * 48;
  REQUIRE(std::ssize(golden) == each * std::ssize(kinds));
  for (size_t i = 0; i < kinds.size(); ++i) {
    CAPTURE(i);
    const gguf::File model = kinds[i].model(), head = kinds[i].head();
    const auto at = golden.begin() + static_cast<std::ptrdiff_t>(i) * each;
    for (const int64_t size : {20, 7, 1}) {
      CAPTURE(size);
      CHECK(eagle_error(EagleRun(model, head, make).run(size), {at, at + each}) < 1e-9);
    }
  }
}

} // namespace ridge::tests
