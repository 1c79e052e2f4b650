// Hugging Face checkpoints to GGUF.
#pragma once

#include "api/requests.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ridge::convert::import {

using ConvertProgress = std::function<void(int64_t done_bytes, int64_t total_bytes)>;

struct ConvertReport {
  struct File {
    std::string path;
    int64_t tensors = 0, file_bytes = 0;
  };
  std::vector<File> files; // language model, picture encoder; either may miss
  std::vector<std::string> notes;
};

// Default: "mmproj-" and the name of request.output.
std::string mmproj_path(const api::ConvertRequest& request);

// Writes complete files or none. Memory: a few times the largest matrix's piece, plus 300 MB.
//
// request.type: for unquantized matrices; q8_0 becomes f16 unless columns are multiples of 32. Vectors and routers are
// F32; packed matrices stay packed.
//
// Throws Error for unknown types and missing, inconsistent or unsupported input. `progress` may be empty, or throw to
// cancel.
ConvertReport convert(const api::ConvertRequest& request, const ConvertProgress& progress = {});

} // namespace ridge::convert::import
