#include "app/report/npy.h"

#include <fmt/ranges.h>

#include <numeric>

namespace ridge::app {
namespace {

uint64_t data_bytes(const std::vector<int64_t>& shape) {
  return sizeof(float) * std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
}

} // namespace

NpyWriter::NpyWriter(const std::string& path, const std::vector<int64_t>& shape) : file_(path, data_bytes(shape)) {
  std::string dict =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", fmt::join(shape, ", "));
  constexpr size_t kPreamble = 10, kAlign = 64; // magic, version, dict length; the data starts aligned
  dict.append(kAlign - 1 - (kPreamble + dict.size()) % kAlign, ' ');
  dict += '\n';
  std::string header = "\x93NUMPY\x01";
  header += '\0';
  header += static_cast<char>(dict.size() & 255);
  header += static_cast<char>(dict.size() >> 8);
  header += dict;
  file_.write(std::as_bytes(std::span(header)));
}

} // namespace ridge::app
