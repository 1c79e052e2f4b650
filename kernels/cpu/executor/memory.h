// Zeroed, unreserved pages: full-size caches cost only what is touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace ridge::kernels::cpu {

class Memory {
 public:
  Memory() = default;
  // Page-aligned. Throws Error if the address space has no room.
  Memory(int64_t bytes, const char* purpose);
  ~Memory();
  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* data() const { return data_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

} // namespace ridge::kernels::cpu
