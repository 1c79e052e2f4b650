// What the tests of the built executable share.
#pragma once

#include "support/process.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

namespace ridge::tests {

inline const TemporaryFolder& folder() {
  static const TemporaryFolder instance;
  return instance;
}

inline const std::string& tiny_model() {
  static const std::string path = [] {
    TinyModel().write(folder() / "tiny.gguf");
    return folder() / "tiny.gguf";
  }();
  return path;
}

inline Result run_ridge(std::vector<std::string> args, const std::string& input = "") {
  args.insert(args.begin(), RIDGE_BINARY);
  return run(args, input);
}

} // namespace ridge::tests
