// From a Hugging Face checkpoint (config.json, safetensors, tokenizer) to a GGUF file.
#pragma once

#include "core/requests.h"

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
  std::vector<File> files;        // the language model, then its encoder of pictures; either may be missing
  std::vector<std::string> notes; // what the user should know
};

// Where the encoder of pictures is written, if the checkpoint has one: request.mmproj, or "mmproj-" before the name of
// request.output.
std::string mmproj_path(const core::ConvertRequest& request);

// Writes files whole or not at all; the checkpoint is only read. Memory stays under a few times the largest matrix's
// piece, and 300 MB.
//
// request.type is for matrices that the checkpoint does not quantize; q8_0 falls back to f16 where the columns are no
// multiple of 32. Vectors and the experts' routers are always F32, packed matrices stay as they are.
//
// Throws Error for an unknown type and for anything that is missing, inconsistent, or that ridge could not run.
// `progress` may be empty; what it throws comes out, and nothing is written.
ConvertReport convert(const core::ConvertRequest& request, const ConvertProgress& progress = {});

} // namespace ridge::convert::import
