// For `ridge quantize` and the window's jobs.
#pragma once

#include "api/requests.h"
#include "convert/requantize.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::convert {

struct QuantizeSteps {
  // total 0: unknown. Throw to cancel: nothing is written. A std::exception keeps the journal of a calibrated method;
  // other types do not.
  std::function<void(std::string_view what, int64_t done, int64_t total)> progress;
  std::function<void(const Requantization& plan)> planned;
  std::function<void(const TensorResult&)> done;
  std::function<void(const std::string& note)> note;
};

struct TypeSearchResult {
  uint64_t target_bytes;
  double expected_loss;
  bool measured; // expected divergence, nats per token
};

struct QuantizeResult {
  std::vector<std::string> paths;
  std::optional<TypeSearchResult> search;
};

// Calibrated methods keep completed layers in OUTPUT.unfinished until the output is complete; the same request resumes
// from it. Throws Error for files that cannot be read, written or quantized, and usage Errors for options.
QuantizeResult quantize(const api::QuantizeRequest& request, const QuantizeSteps& steps);

} // namespace ridge::convert
