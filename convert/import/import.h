// From a Hugging Face checkpoint (config.json, safetensors, tokenizer) to a GGUF file.
#pragma once

#include "quant/registry.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ridge::convert::import {

struct ConvertOptions {
  // What plain matrices become: F32, F16, BF16 or Q8_0 (F16 where the columns are no multiple of 32). Nothing: what
  // they are in the checkpoint. Vectors and the experts' routers are always F32, packed matrices stay as they are.
  std::optional<quant::Type> type;
  std::function<void(int64_t done_bytes, int64_t total_bytes)> progress; // may be empty
};

struct ConvertReport {
  int64_t tensors = 0, file_bytes = 0;
  std::vector<std::string> notes; // what the user should know
};

// Writes `out` whole or not at all; the checkpoint is only read. Memory stays under a few times the largest matrix's
// piece, and 300 MB. Throws Error for anything that is missing, inconsistent, or that ridge could not run.
ConvertReport convert(const std::string& folder, const std::string& out, const ConvertOptions& options);

} // namespace ridge::convert::import
