// An endpoint of a tiny model with infill tokens, for two requests at once.
#pragma once

#include "support/http/endpoint.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace ridge::tests {

struct InfillModel {
  TemporaryFolder folder;
  Endpoint endpoint{[this] {
    TinyModel{.controls = {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"}}
        .write(folder / "coder.gguf");
    return open_exact(folder / "coder.gguf", 2);
  }};
};

} // namespace ridge::tests
