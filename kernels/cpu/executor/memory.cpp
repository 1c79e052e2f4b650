#include "kernels/cpu/executor/memory.h"

#include "core/error.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ridge::kernels::cpu {

Memory::Memory(int64_t bytes, const char* purpose) : bytes_(std::max<int64_t>(bytes, 1)) {
  void* address = ::mmap(nullptr, static_cast<size_t>(bytes_), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED)
    throw_error("cannot allocate {} bytes for the {}: {}; try a smaller context", bytes, purpose, std::strerror(errno));
  data_ = static_cast<std::byte*>(address);
}

Memory::~Memory() {
  if (data_) ::munmap(data_, static_cast<size_t>(bytes_));
}

} // namespace ridge::kernels::cpu
