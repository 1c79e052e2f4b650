#pragma once

#include "support/process.h"
#include "support/reference.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

#include <cstdlib>
#include <cstring>

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

// Without the user's configuration file.
inline Result run_ridge(std::vector<std::string> args, const std::string& input = "") {
  ::setenv("RIDGE_CONFIG", "none", 0);
  args.insert(args.begin(), RIDGE_BINARY);
  return run(args, input);
}

// After the header of 128 bytes.
inline std::vector<float> floats_of_npy(const std::string& path) {
  const std::string npy = read_file(path);
  REQUIRE(npy.size() >= 128);
  std::vector<float> values((npy.size() - 128) / 4);
  std::memcpy(values.data(), npy.data() + 128, 4 * values.size());
  return values;
}

} // namespace ridge::tests
