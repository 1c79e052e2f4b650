#include "hub/file_hash.h"

#include "core/error.h"
#include "core/files/sha256.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include <vector>

namespace ridge::hub {

std::string file_sha256(const std::string& path, const std::function<void(int64_t done)>& step) {
  const struct File {
    int fd;
    ~File() {
      if (fd >= 0) ::close(fd);
    }
  } file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)}; // O_NONBLOCK: does not block on a pipe
  const auto fail = [&] { throw_error("{}: cannot be read: {}", path, std::strerror(errno)); };
  if (file.fd < 0) fail();
  core::Sha256 hash;
  std::vector<char> buffer(size_t{4} << 20);
  for (int64_t done = 0;;) {
    const ssize_t n = ::read(file.fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail();
    if (n == 0) break;
    hash.add(std::as_bytes(std::span(buffer).first(static_cast<size_t>(n))));
    done += n;
    if (step) step(done);
  }
  return hash.hex();
}

} // namespace ridge::hub
