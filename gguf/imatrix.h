// Importance matrices: for each matrix of a model, the mean square of each of its input's elements over some text.
// An error in a weight with large activations costs more. Encoders weight errors with these factors.
//
// Two file layouts are read, and the first is written: GGUF files with tensors NAME.in_sum2 [cols, matrices] and
// NAME.counts [1, matrices], and the older .dat. Both are checked like any untrusted file.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace ridge::gguf {

struct Imatrix {
  struct Entry {
    std::vector<float> sum_of_squares; // [matrices][cols]; several matrices: experts
    std::vector<float> counts;         // rows that were summed: one per matrix, or one for all

    // Mean squares of matrix `m` of `matrices`, [cols]; empty where nothing was summed for it.
    std::vector<float> mean_squares(int64_t m, int64_t matrices) const;
  };

  std::map<std::string, Entry, std::less<>> entries; // by tensor name: "blk.0.attn_q.weight"
  std::vector<std::string> datasets;
  int64_t chunks = 0, chunk_tokens = 0; // 0: not recorded

  // Throws Error naming file, entry and what is wrong: sizes that do not fit each other, values that are negative or
  // not finite.
  static Imatrix read(const std::string& path);
  void write(const std::string& path) const; // GGUF

  // The entry of a tensor of `matrices` times [rows, cols]; nullptr: none. Throws Error where it is of another shape.
  const Entry* find(std::string_view tensor, int64_t cols, int64_t matrices) const;

  std::string path; // where it was read
};

} // namespace ridge::gguf
