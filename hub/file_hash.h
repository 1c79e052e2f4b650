// SHA-256, of bytes as they come and of a file that is here already.
#pragma once

#include <sha2.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace ridge::hub {

class Sha256 {
 public:
  Sha256();
  void add(std::span<const char> bytes);
  std::string text(); // in hexadecimal digits of lower case; nothing can be added then

 private:
  SHA2_CTX state_;
};

// Calls step(bytes done) now and then, which may throw to end it. Throws Error
// where the file cannot be read.
std::string file_sha256(const std::string& path, const std::function<void(int64_t done)>& step = nullptr);

} // namespace ridge::hub
