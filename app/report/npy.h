// NumPy's .npy format, version 1.0, for f32 arrays: what --out X.npy writes.
#pragma once

#include "core/files/atomic_file.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ridge::app {

// Writes an array of `shape` row by row; the file appears with finish(), whole. Throws Error where it cannot be
// written.
class NpyWriter {
 public:
  NpyWriter(const std::string& path, const std::vector<int64_t>& shape);

  void append(std::span<const float> values) { file_.write(std::as_bytes(values)); }
  void finish() { file_.commit(); }

 private:
  core::AtomicFile file_;
};

} // namespace ridge::app
