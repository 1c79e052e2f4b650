// Models with reference logits.
#pragma once

#include "core/executor.h"
#include "support/reference.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace ridge::tests {

struct LogitsCase {
  std::string name; // path below the reference folder without ".gguf"
  std::vector<int32_t> ids;

  std::string model_path() const { return reference_dir() + "/" + name + ".gguf"; }
  std::vector<float> golden() const { return read_array<float>(reference_dir() + "/" + name + ".logits.f32"); }
};

inline std::vector<LogitsCase> logits_cases() {
  const std::vector<int32_t> tiny = {1, 2, 3, 100, 200, 250, 17, 42, 99, 128, 7, 9};
  std::vector<LogitsCase> cases = {
      {"models/stories260K", {1, 403, 407, 261, 378, 432, 317, 284, 316, 261, 301, 415, 414, 428, 428, 309, 415, 426}}};
  for (const char* name :
       {"llama-experts", "llama-gqa-tied-freqs", "llama-linear", "llama-yarn", "qwen2", "qwen3", "qwen3moe"})
    cases.push_back({std::string("archs/") + name, tiny});
  for (const char* type : {"F16", "IQ4_XS", "MXFP4", "Q2_K", "Q4_0", "Q4_K", "Q6_K", "Q8_0"})
    cases.push_back({std::string("types/tiny-") + type, tiny});
  return cases;
}

template <typename MakeExecutor>
std::vector<float> logits_of(MakeExecutor&& make_executor, const core::Program& program, std::span<const int32_t> ids,
                             bool exact, bool at_once) {
  core::ExecutorConfig config;
  config.context = config.max_batch = config.max_outputs = std::ssize(ids);
  config.exact = exact;
  if (exact) config.k_type = config.v_type = core::KvType::f32;
  const auto executor = make_executor(program, config);
  std::vector<int32_t> positions(ids.size()), outputs(ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::iota(outputs.begin(), outputs.end(), 0);
  std::vector<float> logits;
  const size_t count = at_once ? ids.size() : 1;
  for (size_t at = 0; at < ids.size(); at += count) {
    executor->forward(
        {ids.subspan(at, count), std::span(positions).subspan(at, count), {}, std::span(outputs).first(count)});
    for (size_t i = 0; i < count; ++i) {
      const auto row = executor->logits(static_cast<int64_t>(i));
      logits.insert(logits.end(), row.begin(), row.end());
    }
  }
  return logits;
}

} // namespace ridge::tests
