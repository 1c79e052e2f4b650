#include "core/parallel/processes/sockets.h"

#include "core/error.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace ridge::core {
namespace {

constexpr int kWaitingCallers = 1024; // backlog; the kernel may lower it

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses addresses_of(const std::string& host, int port) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int status = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); status != 0)
    throw_error("MASTER_ADDR {}: {}", host, ::gai_strerror(status));
  return {found, ::freeaddrinfo};
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 == 127;
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

Socket open_socket(int family) { return Socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

// On failure returns no socket and sets errno.
Socket listen_on(const sockaddr* address, socklen_t size, bool both_families) {
  Socket socket = open_socket(address->sa_family);
  if (!socket) return socket;
  const int yes = 1, only_one = both_families ? 0 : 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (address->sa_family == AF_INET6)
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_one, sizeof(only_one));
  if (::bind(socket.get(), address, size) == 0 && ::listen(socket.get(), kWaitingCallers) == 0) return socket;
  const int reason = errno;
  socket = Socket();
  errno = reason;
  return socket;
}

bool is_elsewhere(int reason) { return reason == EADDRNOTAVAIL || reason == EAFNOSUPPORT; }

Socket listen_everywhere(int port) {
  sockaddr_in6 all = {};
  all.sin6_family = AF_INET6;
  all.sin6_addr = in6addr_any;
  all.sin6_port = htons(static_cast<uint16_t>(port));
  Socket socket = listen_on(reinterpret_cast<const sockaddr*>(&all), sizeof(all), true);
  if (socket || !is_elsewhere(errno)) return socket;
  sockaddr_in all_v4 = {}; // a kernel without IPv6
  all_v4.sin_family = AF_INET;
  all_v4.sin_port = htons(static_cast<uint16_t>(port));
  return listen_on(reinterpret_cast<const sockaddr*>(&all_v4), sizeof(all_v4), false);
}

bool wait_for(const Socket& socket, short events, Deadline deadline) {
  pollfd waits = {socket.get(), events, 0};
  int ready = 0;
  do ready = ::poll(&waits, 1, milliseconds_until(deadline));
  while (ready < 0 && errno == EINTR);
  return ready > 0;
}

bool connect_by(const Socket& socket, const addrinfo& to, Deadline deadline) {
  if (::connect(socket.get(), to.ai_addr, to.ai_addrlen) == 0) return true;
  if (errno != EINPROGRESS || !wait_for(socket, POLLOUT, deadline)) return false;
  int problem = 0;
  socklen_t size = sizeof(problem);
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &problem, &size) == 0 && problem == 0;
}

template <typename Byte, typename Transfer>
bool transfer_by(const Socket& socket, std::span<Byte> bytes, short events, Deadline deadline, Transfer transfer) {
  while (!bytes.empty()) {
    const ssize_t moved = transfer(bytes);
    if (moved > 0) {
      bytes = bytes.subspan(static_cast<size_t>(moved));
    } else if (moved == 0 || (errno != EAGAIN && errno != EINTR) || !wait_for(socket, events, deadline)) {
      return false;
    }
  }
  return true;
}

} // namespace

Deadline seconds_from_now(double seconds) {
  using Clock = std::chrono::steady_clock;
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

int milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 86'400'000));
}

Socket::~Socket() {
  if (file_ >= 0) ::close(file_);
}

std::vector<Socket> listen_at(const std::string& host, int port, bool loopback) {
  const auto fail = [&] {
    throw_error("rank 0: cannot listen at {} port {} (one above MASTER_PORT): {}", host, port, std::strerror(errno));
  };
  const Addresses all = addresses_of(host, port);
  std::vector<Socket> sockets;
  for (const addrinfo* at = all.get(); at; at = at->ai_next) {
    if (!loopback && is_loopback(at->ai_addr)) continue;
    if (Socket socket = listen_on(at->ai_addr, at->ai_addrlen, false))
      sockets.push_back(std::move(socket));
    else if (!is_elsewhere(errno))
      fail();
  }
  if (sockets.empty()) sockets.push_back(listen_everywhere(port));
  if (!sockets[0]) fail();
  return sockets;
}

Socket connect_to(const std::string& host, int port, Deadline deadline) {
  const Addresses all = addresses_of(host, port);
  for (const addrinfo* at = all.get(); at; at = at->ai_next) {
    Socket socket = open_socket(at->ai_family);
    if (socket && connect_by(socket, *at, deadline)) return socket;
  }
  return Socket();
}

bool send_by(const Socket& socket, std::span<const std::byte> bytes, Deadline deadline) {
  return transfer_by(socket, bytes, POLLOUT, deadline, [&](std::span<const std::byte> rest) {
    return ::send(socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
  });
}

bool receive_by(const Socket& socket, std::span<std::byte> bytes, Deadline deadline) {
  return transfer_by(socket, bytes, POLLIN, deadline,
                     [&](std::span<std::byte> rest) { return ::recv(socket.get(), rest.data(), rest.size(), 0); });
}

void let_block(const Socket& socket) { ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) & ~O_NONBLOCK); }

} // namespace ridge::core
