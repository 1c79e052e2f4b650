// What a calibrated quantization has done so far, in a file beside its output, so that after a kill the same command
// goes on where it was: the encoded tensors of each layer, as soon as the layer is done.
//
// A layer's record counts once its checksum is there. What follows the last whole record is dropped.
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
  // Opens what is there, if it was written for the same `request`: a hash of all that decides what the tensors become.
  // Everything else in its place is replaced. Throws Error where the file cannot be written.
  LayerJournal(std::string path, uint64_t request);

  const std::string& path() const { return path_; }
  int32_t layers() const { return static_cast<int32_t>(records_.size()); } // that are done
  // Throws Error where the file cannot be read any more.
  PreparedTensors read(int32_t layer);
  // False: the disk is full, or the like; what was there before can still be read.
  bool append(const PreparedTensors& tensors);
  void remove();

 private:
  struct Record {
    int64_t at, bytes;
  };
  bool find_records(uint64_t request);

  std::string path_;
  std::fstream file_;
  std::vector<Record> records_; // of layers 0, 1, …
  int64_t end_ = 0;             // behind the last one
};

} // namespace ridge::convert
