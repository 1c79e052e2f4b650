// Raw connections, for faults that HTTP clients cannot make.
#pragma once

#include <arpa/inet.h>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <netinet/in.h>
#include <random>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace ridge::tests {

// A free port that no other test uses until this program ends. Linux's ephemeral ports start at 32768.
inline int free_port() {
  const auto binds = [](int socket, const auto& address) {
    return ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  };
  std::random_device random;
  while (true) {
    const auto port = static_cast<uint16_t>(20000 + random() % 12000);
    sockaddr_un ours = {};
    ours.sun_family = AF_UNIX;
    std::snprintf(ours.sun_path + 1, sizeof(ours.sun_path) - 1, "ridge-test-port-%d", port);
    sockaddr_in everywhere = {};
    everywhere.sin_family = AF_INET;
    everywhere.sin_port = htons(port);
    const int taken = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), trial = ::socket(AF_INET, SOCK_STREAM, 0);
    const bool is_free = binds(taken, ours) && binds(trial, everywhere);
    ::close(trial);
    if (is_free) return port; // `taken` stays open
    ::close(taken);
  }
}

// Upper bound of sent but unread bytes.
inline int64_t bytes_between_sides() {
  int64_t sum = 0;
  for (const char* limits : {"/proc/sys/net/ipv4/tcp_wmem", "/proc/sys/net/ipv4/tcp_rmem"}) {
    int64_t least = 0, usual = 0, most = 0;
    sum += std::ifstream(limits) >> least >> usual >> most ? most : int64_t{32} << 20;
  }
  return sum;
}

class Socket {
 public:
  // To 127.0.0.1; check is_open().
  explicit Socket(int port) : file_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(file_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) close();
  }
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }

  bool is_open() const { return file_ >= 0; }
  int descriptor() const { return file_; }
  void close() {
    if (file_ >= 0) ::close(std::exchange(file_, -1));
  }
  void abort() {
    const linger at_once = {1, 0};
    ::setsockopt(file_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close();
  }
  void end_of_sending() { ::shutdown(file_, SHUT_WR); }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(file_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  bool request(std::string_view head, std::string_view body = "") {
    return send(std::string(head) + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + std::string(body));
  }

  bool wait_for_byte() {
    char byte = 0;
    return ::read(file_, &byte, 1) == 1;
  }
  std::string some() {
    char buffer[4096];
    const ssize_t n = ::read(file_, buffer, sizeof buffer);
    return {buffer, n > 0 ? static_cast<size_t>(n) : 0};
  }
  std::string next(size_t bytes) {
    std::string text(bytes, 0);
    const ssize_t n = ::recv(file_, text.data(), bytes, MSG_WAITALL);
    text.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return text;
  }
  std::string rest() {
    std::string text;
    for (std::string next; !(next = some()).empty();) text += next;
    return text;
  }
  std::string ask(std::string_view head, std::string_view body = "") { return request(head, body) ? rest() : ""; }

 private:
  int file_;
};

} // namespace ridge::tests
