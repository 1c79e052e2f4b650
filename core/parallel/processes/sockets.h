// Sockets with deadlines, before authentication.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ridge::core {

using Deadline = std::chrono::steady_clock::time_point;

Deadline seconds_from_now(double seconds);
int milliseconds_until(Deadline deadline); // for poll; at least 0

class Socket {
 public:
  explicit Socket(int file = -1) : file_(file) {}
  ~Socket();
  Socket(Socket&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }

  int get() const { return file_; }
  int release() { return std::exchange(file_, -1); }
  explicit operator bool() const { return file_ >= 0; }

 private:
  int file_;
};

// Listens on this machine's addresses that `host` names, or on all if it names none. `loopback`: loopback addresses
// count. Throws Error.
std::vector<Socket> listen_at(const std::string& host, int port, bool loopback);

// Returns an empty Socket if there is no answer. Throws Error for unknown hosts.
Socket connect_to(const std::string& host, int port, Deadline deadline);

// For non-blocking sockets. Return false if the peer is gone or the deadline has passed.
bool send_by(const Socket& socket, std::span<const std::byte> bytes, Deadline deadline);
bool receive_by(const Socket& socket, std::span<std::byte> bytes, Deadline deadline);
void let_block(const Socket& socket);

} // namespace ridge::core
