// Quantizing a file as asked for in words: what `ridge quantize` and the window's jobs have in common.
#pragma once

#include "convert/requantize.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::convert {

struct QuantizeRequest {
  std::string in, out; // in empty: the guide; out empty: only plan
  std::string type;    // a recipe's name or COPY; empty where a target chooses the types
  std::string imatrix, output_type, embedding_type, target_size, split_size, method = "plain", calibration;
  std::vector<std::string> tensor_types; // "PATTERN=TYPE"
  double target_bpw = 0;
  std::string device = "auto";
  int64_t calibration_tokens = 16384;
  int threads = 0;
  bool pure = false, leave_output = false, allow_requantize = false, parse_special = false;
};

struct QuantizeSteps {
  // What is being done, and how far it is (total 0: not known). What it throws comes out of quantize(), and nothing is
  // written: that is how to give up.
  std::function<void(std::string_view what, int64_t done, int64_t total)> progress;
  std::function<void(const Requantization& plan)> planned; // types are final
  std::function<void(const TensorResult&)> done;           // a tensor is
  std::function<void(const std::string& note)> note;       // what the user should know
};

struct TypeSearchResult {
  uint64_t target_bytes;
  double expected_loss;
};

struct QuantizeResult {
  std::vector<std::string> paths;
  std::optional<TypeSearchResult> search;
};

// Throws Error for what cannot be; of usage, where words are wrong.
QuantizeResult quantize(const QuantizeRequest& request, const QuantizeSteps& steps);

} // namespace ridge::convert
