// Importance matrices: mean squares of a matrix's inputs over some text.
//
// Reads GGUF (NAME.in_sum2 [cols, matrices], NAME.counts [1, matrices]) and the older .dat, both untrusted; writes
// GGUF.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace ridge::gguf {

struct Imatrix {
  struct Entry {
    std::vector<float> sum_of_squares; // [matrices][cols]; per expert
    std::vector<float> counts;         // per matrix, or one

    // [cols]; empty if nothing was summed.
    std::vector<float> mean_squares(int64_t m, int64_t matrices) const;
  };

  std::map<std::string, Entry, std::less<>> entries; // by tensor name
  std::vector<std::string> datasets;
  int64_t chunks = 0, chunk_tokens = 0; // 0: not recorded

  // Throws Error with file and entry for inconsistent, negative or non-finite data.
  static Imatrix read(const std::string& path);
  void write(const std::string& path) const;

  // nullptr: none. Throws Error for another shape.
  const Entry* find(std::string_view tensor, int64_t cols, int64_t matrices) const;

  std::string path;
};

} // namespace ridge::gguf
