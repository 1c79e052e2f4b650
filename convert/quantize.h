// Quantizes a file as a request asks: what `ridge quantize` and the window's jobs have in common.
#pragma once

#include "convert/requantize.h"
#include "core/requests.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::convert {

struct QuantizeSteps {
  // What is being done, and how far it is (total 0: not known). What it throws comes out of quantize(), and nothing is
  // written. Throw to cancel: something else than a std::exception, which would keep what a calibrated method has done.
  std::function<void(std::string_view what, int64_t done, int64_t total)> progress;
  std::function<void(const Requantization& plan)> planned; // types are final
  std::function<void(const TensorResult&)> done;           // a tensor is
  std::function<void(const std::string& note)> note;       // what the user should know
};

struct TypeSearchResult {
  uint64_t target_bytes; // 0: the divergence was bounded
  double expected_loss;
  bool measured; // the loss is the divergence in nats per token that is to be expected
};

struct QuantizeResult {
  std::vector<std::string> paths;
  std::optional<TypeSearchResult> search;
};

// With a calibrated method, OUTPUT.unfinished has the layers that are done until the output is whole. The same request
// goes on with them after a kill or an error.
// Throws Error where a file cannot be read, written or quantized, and a usage Error where an option has a wrong value.
QuantizeResult quantize(const core::QuantizeRequest& request, const QuantizeSteps& steps);

} // namespace ridge::convert
