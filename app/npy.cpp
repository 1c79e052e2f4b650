#include "app/npy.h"

#include "core/error.h"

#include <fmt/ranges.h>

#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace ridge::app {

NpyWriter::NpyWriter(std::string path, const std::vector<int64_t>& shape)
    : path_(std::move(path)), temporary_(fmt::format("{}.{}.part", path_, ::getpid())) {
  file_ = std::fopen(temporary_.c_str(), "wb");
  if (!file_) fail();
  std::string header =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", fmt::join(shape, ", "));
  constexpr size_t kPreamble = 10, kAlign = 64; // magic, version, header length; data starts aligned
  header.append(kAlign - 1 - (kPreamble + header.size()) % kAlign, ' ');
  header += '\n';
  const auto length = static_cast<uint16_t>(header.size());
  const unsigned char preamble[kPreamble] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, static_cast<unsigned char>(length & 255),
                                             static_cast<unsigned char>(length >> 8)};
  if (std::fwrite(preamble, 1, kPreamble, file_) != kPreamble || std::fwrite(header.data(), 1, header.size(), file_) != header.size())
    fail();
}

NpyWriter::~NpyWriter() {
  if (!file_) return;
  std::fclose(file_);
  ::unlink(temporary_.c_str());
}

void NpyWriter::append(std::span<const float> values) {
  if (std::fwrite(values.data(), sizeof(float), values.size(), file_) != values.size()) fail();
}

void NpyWriter::finish() {
  if (std::fflush(file_) != 0 || ::fsync(::fileno(file_)) != 0) fail();
  std::fclose(file_);
  file_ = nullptr;
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    errno = error;
    fail();
  }
}

void NpyWriter::fail() const { throw_error("{}: cannot write: {}", path_, std::strerror(errno)); }

} // namespace ridge::app
