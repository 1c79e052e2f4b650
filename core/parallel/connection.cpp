#include "core/parallel/connection.h"

#include "core/error.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace ridge::core {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kMagic = 0x31676472; // "rdg1"
constexpr size_t kMostText = 4096;

void set(int socket, int level, int name, int value) { ::setsockopt(socket, level, name, &value, sizeof(value)); }

// A machine that has died is noticed within some seconds.
void watch(int socket) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);
}

struct Hello {
  uint32_t magic, rank, ranks, channel; // channel 0: commands, 1: values
};

Clock::time_point end_of(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

int milliseconds_until(Clock::time_point end) {
  return static_cast<int>(
      std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count()));
}

class Listener {
 public:
  explicit Listener(int port) : socket_(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    set(socket_, SOL_SOCKET, SO_REUSEADDR, 1);
    set(socket_, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    sockaddr_in6 address = {};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_any;
    address.sin6_port = htons(static_cast<uint16_t>(port));
    if (::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
        ::listen(socket_, 64) != 0) {
      const std::string why = std::strerror(errno);
      ::close(socket_);
      throw_error("rank 0: cannot listen on port {} (one above MASTER_PORT): {}", port, why);
    }
  }
  ~Listener() { ::close(socket_); }
  Listener(const Listener&) = delete;

  int accept(Clock::time_point end) const { // -1: nobody came
    pollfd waits = {socket_, POLLIN, 0};
    return ::poll(&waits, 1, milliseconds_until(end)) > 0 ? ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC) : -1;
  }

 private:
  const int socket_;
};

int connect_to(const ProcessRank& me, Clock::time_point end) {
  do {
    addrinfo hints = {}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    if (const int status = ::getaddrinfo(me.host.c_str(), std::to_string(me.port).c_str(), &hints, &found); status != 0)
      throw_error("rank {}: MASTER_ADDR {}: {}", me.rank, me.host, ::gai_strerror(status));
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
    for (const addrinfo* at = found; at; at = at->ai_next) {
      const int socket = ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
      if (socket >= 0 && ::connect(socket, at->ai_addr, at->ai_addrlen) == 0) return socket;
      if (socket >= 0) ::close(socket);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  } while (Clock::now() < end);
  throw_error("rank {}: rank 0 does not answer at {} port {} within {:g} s", me.rank, me.host, me.port,
              me.patience_seconds);
}

// What a caller says of itself; false for somebody who is no rank.
bool receive_hello(Connection& link, Hello& hello, std::string& what) {
  try {
    hello = link.receive_value<Hello>();
    if (hello.magic != kMagic || hello.channel > 1) return false;
    what = link.receive_text();
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Answers a rank that has come: an empty text, or what is wrong with it. False: it was none.
bool welcome(ProcessLinks& links, int socket, const ProcessRank& me, const std::string& what) {
  auto link = std::make_unique<Connection>(socket, "a rank");
  const timeval patience = {5, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  Hello hello = {};
  std::string theirs;
  if (!receive_hello(*link, hello, theirs)) return false;
  const int64_t rank = hello.rank;
  if (hello.ranks != static_cast<uint32_t>(me.ranks) || rank < 1 || rank >= me.ranks) {
    link->send_text(fmt::format("rank 0 waits for ranks 1 to {}", me.ranks - 1));
    throw_error("rank 0: rank {} of {} has come, expected ranks 1 to {}", rank, hello.ranks, me.ranks - 1);
  }
  auto& place = (hello.channel == 0 ? links.commands : links.values)[static_cast<size_t>(rank)];
  if (place || theirs != what) {
    const std::string why = place ? "has come twice" : fmt::format("runs {}, and rank 0 {}", theirs, what);
    link->send_text(fmt::format("rank {} {}", rank, why));
    throw_error("rank {} {}", rank, why);
  }
  const timeval forever = {0, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &forever, sizeof(forever));
  link->name(fmt::format("rank {}", rank));
  link->send_text("");
  place = std::move(link);
  return true;
}

int64_t number(const char* const (&names)[2], int64_t otherwise, int64_t least, int64_t most) {
  for (const char* name : names) {
    const char* text = name ? std::getenv(name) : nullptr;
    if (!text || !*text) continue;
    int64_t value = 0;
    const auto [end, problem] = std::from_chars(text, text + std::strlen(text), value);
    if (problem != std::errc() || *end != 0 || value < least || value > most)
      throw Error(fmt::format("{}={}: expected a number from {} to {}", name, text, least, most), Error::kUsage);
    return value;
  }
  return otherwise;
}

} // namespace

Connection::Connection(int socket, std::string peer) : socket_(socket), peer_(std::move(peer)) { watch(socket_); }
Connection::~Connection() { ::close(socket_); }
void Connection::close() { ::shutdown(socket_, SHUT_RDWR); }
void Connection::gone() const { throw_error("{} is gone", peer_); }

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
  return got == 1;
}

void Connection::send_text(std::string_view text) {
  text = text.substr(0, kMostText);
  send_value(static_cast<uint32_t>(text.size()));
  send(std::as_bytes(std::span(text)));
}

std::string Connection::receive_text() {
  const auto size = receive_value<uint32_t>();
  if (size > kMostText) gone();
  std::string text(size, 0);
  receive(std::as_writable_bytes(std::span(text)));
  return text;
}

ProcessRank ProcessRank::from_environment() {
  ProcessRank me;
  me.ranks = static_cast<int>(number({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"}, 1, 1, 1024));
  if (me.ranks == 1) return me;
  me.rank = static_cast<int>(number({"RANK", "OMPI_COMM_WORLD_RANK"}, -1, 0, me.ranks - 1));
  if (me.rank < 0) throw Error(fmt::format("WORLD_SIZE={}, but RANK is not set", me.ranks), Error::kUsage);
  me.local_rank = static_cast<int>(number({"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"}, me.rank, 0, me.ranks - 1));
  me.port = 1 + static_cast<int>(number({"MASTER_PORT", nullptr}, me.port - 1, 1, 65534));
  me.patience_seconds = static_cast<double>(number({"RIDGE_RANK_TIMEOUT", nullptr}, 60, 1, 86400));
  if (const char* host = std::getenv("MASTER_ADDR"); host && *host) me.host = host;
  return me;
}

ProcessLinks join_processes(const ProcessRank& me, const std::string& what) {
  ProcessLinks links;
  const Clock::time_point end = end_of(me.patience_seconds);
  if (me.rank > 0) {
    for (uint32_t channel = 0; channel < 2; ++channel) {
      auto link = std::make_unique<Connection>(connect_to(me, end), "rank 0");
      link->send_value(Hello{kMagic, static_cast<uint32_t>(me.rank), static_cast<uint32_t>(me.ranks), channel});
      link->send_text(what);
      if (const std::string problem = link->receive_text(); !problem.empty()) throw Error(problem);
      (channel == 0 ? links.commands : links.values).push_back(std::move(link));
    }
    return links;
  }
  links.commands.resize(static_cast<size_t>(me.ranks));
  links.values.resize(static_cast<size_t>(me.ranks));
  const Listener listener(me.port);
  for (int missing = 2 * (me.ranks - 1); missing > 0;) {
    const int socket = listener.accept(end);
    if (socket < 0) {
      std::string names;
      for (int rank = 1; rank < me.ranks; ++rank)
        if (!links.values[rank]) names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
      throw_error("rank {} of {} did not come within {:g} s (RIDGE_RANK_TIMEOUT)", names, me.ranks,
                  me.patience_seconds);
    }
    if (welcome(links, socket, me, what)) --missing;
  }
  return links;
}

} // namespace ridge::core
