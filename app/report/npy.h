// NumPy's .npy format, version 1.0, f32.
#pragma once

#include "core/files/atomic_file.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ridge::app {

// Takes rows in order; the file appears with finish(). Throws Error.
class NpyWriter {
 public:
  NpyWriter(const std::string& path, const std::vector<int64_t>& shape);

  void append(std::span<const float> values) { file_.write(std::as_bytes(values)); }
  void finish() { file_.commit(); }

 private:
  core::AtomicFile file_;
};

} // namespace ridge::app
