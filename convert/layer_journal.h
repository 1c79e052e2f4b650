// A journal of encoded layers beside the output, so that a killed calibrated quantization can resume. Records have
// checksums; everything after the last valid record is dropped.
#pragma once

#include "convert/requantize.h"

#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ridge::convert {

using PreparedTensors = std::map<std::string, Prepared, std::less<>>;

class LayerJournal {
 public:
  // Reuses a journal with an equal `request`, a hash of everything that affects the tensors; else replaces it. Throws
  // Error if not writable.
  LayerJournal(std::string path, uint64_t request);

  const std::string& path() const { return path_; }
  int32_t layers() const { return static_cast<int32_t>(records_.size()); }
  // Throws Error if unreadable.
  PreparedTensors read(int32_t layer);
  // False on failure (disk full); earlier records stay readable.
  bool append(const PreparedTensors& tensors);
  void remove();

 private:
  struct Record {
    int64_t at, bytes;
  };
  bool find_records(uint64_t request);

  std::string path_;
  std::fstream file_;
  std::vector<Record> records_;
  int64_t end_ = 0;
};

} // namespace ridge::convert
