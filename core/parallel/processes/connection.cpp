#include "core/parallel/processes/connection.h"

#include "core/error.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace ridge::core {
namespace {

void set(int socket, int level, int name, int value) { ::setsockopt(socket, level, name, &value, sizeof(value)); }

// Detects a dead machine within seconds.
void watch(int socket) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);
}

} // namespace

Connection::Connection(int socket, std::string peer) : socket_(socket), peer_(std::move(peer)) { watch(socket_); }
Connection::~Connection() { ::close(socket_); }

void Connection::close(const std::string& why) {
  {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    if (why_.empty()) why_ = why;
  }
  changed_.notify_all();
  ::shutdown(socket_, SHUT_RDWR);
}

void Connection::gone() const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience_, [&] { return closed_; });
  throw Error(why_.empty() ? fmt::format("{} is gone", peer_) : why_);
}

void Connection::send(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) gone();
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
}

void Connection::receive(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(socket_, bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) gone();
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
}

bool Connection::wait() {
  std::byte next;
  ssize_t got = 0;
  do got = ::recv(socket_, &next, 1, MSG_PEEK);
  while (got < 0 && errno == EINTR);
  const std::scoped_lock lock(mutex_);
  if (!why_.empty()) throw Error(why_);
  return got == 1;
}

void Connection::send_text(std::string_view text) {
  text = text.substr(0, kMaxText);
  const auto size = static_cast<uint32_t>(text.size());
  std::vector<std::byte> both(sizeof(size) + size);
  std::memcpy(both.data(), &size, sizeof(size));
  std::memcpy(both.data() + sizeof(size), text.data(), size);
  send(both);
}

std::string Connection::receive_text() {
  const auto size = receive_value<uint32_t>();
  if (size > kMaxText) gone();
  std::string text(size, 0);
  receive(std::as_writable_bytes(std::span(text)));
  return text;
}

} // namespace ridge::core
