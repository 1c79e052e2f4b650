// Real models and golden data lie in `shared/reference` beside the checkout. Tests that need them call
// REQUIRE_REFERENCE and are skipped without them.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace ridge::tests {

inline std::string reference_dir() { return std::string(RIDGE_SOURCE_DIR) + "/../shared/reference"; }
inline bool have_reference() { return std::filesystem::is_directory(reference_dir()); }

#define REQUIRE_REFERENCE()                                                                                            \
  if (!ridge::tests::have_reference()) {                                                                               \
    MESSAGE("skipped: no reference data");                                                                             \
    return;                                                                                                            \
  }                                                                                                                    \
  static_assert(true)

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE_MESSAGE(in.good(), path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

template <typename T>
std::vector<T> read_array(const std::string& path) {
  const std::string bytes = read_file(path);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

} // namespace ridge::tests
