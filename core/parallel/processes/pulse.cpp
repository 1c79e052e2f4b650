#include "core/parallel/processes/pulse.h"

#include "core/error.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace ridge::core {
namespace {

constexpr char kBeat = 'b', kEnd = 'e', kFailure = 'f';
constexpr auto kInterval = std::chrono::seconds(1);

} // namespace

Pulse::Pulse(std::vector<std::unique_ptr<Connection>> links, int rank, double silence_seconds)
    : rank_(rank), silence_(silence_seconds), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_ < 0) throw_error("no event for the ranks' pulse: no more files may be open");
  for (size_t i = 0; i < links.size(); ++i)
    if (links[i]) peers_.push_back({std::move(links[i]), rank == 0 ? static_cast<int>(i) : 0});
  const timeval limit = {static_cast<time_t>(silence_seconds) + 1, 0}; // of a text that does not end
  for (const Peer& peer : peers_) ::setsockopt(peer.link->socket(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

Pulse::~Pulse() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  wake();
  if (thread_.joinable()) thread_.join();
  if (!failed_) send(kEnd);
  ::close(wake_);
}

void Pulse::start(std::function<void(const std::string&)> lost) {
  lost_ = std::move(lost);
  for (Peer& peer : peers_) peer.heard = std::chrono::steady_clock::now();
  thread_ = std::thread([this] { run(); });
}

void Pulse::watch(Communicator& ranks, std::function<std::string()> problem) {
  const std::scoped_lock watched(watched_);
  ranks_ = &ranks;
  problem_ = std::move(problem);
  std::string why;
  {
    const std::scoped_lock lock(mutex_);
    why = why_;
  }
  if (!why.empty()) ranks.fail(why);
}

void Pulse::fail(const std::string& why) {
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(failed_, true)) return;
  }
  send(kFailure, why);
}

void Pulse::wait_for_ends() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !why_.empty() || ended_ == peers_.size(); });
  if (!why_.empty()) throw Error(why_);
}

void Pulse::wake() const {
  const uint64_t one = 1;
  while (::write(wake_, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

// Never waits: a peer that does not read is silent, too.
void Pulse::send(char kind, const std::string& text) {
  std::string message(1, kind);
  if (kind == kFailure) {
    const auto size = static_cast<uint32_t>(std::min<size_t>(text.size(), Connection::kMaxText));
    message.append(reinterpret_cast<const char*>(&size), sizeof(size)).append(text, 0, size);
  }
  const std::scoped_lock lock(mutex_);
  for (const Peer& peer : peers_)
    ::send(peer.link->socket(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Pulse::lose(const std::string& why) {
  {
    const std::scoped_lock lock(mutex_);
    why_ = why;
  }
  changed_.notify_all();
  fail(why);
  {
    const std::scoped_lock watched(watched_);
    if (ranks_) ranks_->fail(why);
  }
  if (std::function<void(const std::string&)> lost = std::exchange(lost_, nullptr)) lost(why);
}

std::string Pulse::problem() {
  const std::scoped_lock watched(watched_);
  return problem_ && lost_ ? problem_() : "";
}

void Pulse::read(Peer& peer) {
  while (!peer.ends && lost_) {
    char kind = 0;
    const ssize_t got = ::recv(peer.link->socket(), &kind, 1, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return lose(fmt::format("rank {} is gone", peer.rank));
    peer.heard = std::chrono::steady_clock::now();
    if (kind == kEnd) {
      peer.ends = true;
      const std::scoped_lock lock(mutex_);
      ++ended_;
      changed_.notify_all();
    }
    if (kind != kFailure) continue;
    try {
      return lose(peer.link->receive_text());
    } catch (const Error& error) {
      return lose(error.what());
    }
  }
}

void Pulse::run() {
  Time next = std::chrono::steady_clock::now();
  while (true) {
    {
      const std::scoped_lock lock(mutex_);
      if (ends_) return;
    }
    if (std::chrono::steady_clock::now() >= next) {
      send(kBeat);
      next = std::chrono::steady_clock::now() + kInterval;
      if (const std::string why = problem(); !why.empty()) lose(why);
    }
    std::vector<pollfd> waits = {{wake_, POLLIN, 0}};
    if (lost_)
      for (const Peer& peer : peers_)
        if (!peer.ends) waits.push_back({peer.link->socket(), POLLIN, 0});
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - std::chrono::steady_clock::now());
    ::poll(waits.data(), waits.size(), static_cast<int>(std::max<int64_t>(0, left.count())));
    for (Peer& peer : peers_) read(peer); // before its silence is judged: this process may have slept
    for (const Peer& peer : peers_)
      if (lost_ && std::chrono::steady_clock::now() - peer.heard > silence_)
        lose(peer.ends ? fmt::format("rank {} has ended", peer.rank)
                       : fmt::format("rank {} has been silent for {:g} s: it hangs, or is cut off", peer.rank,
                                     silence_.count()));
  }
}

} // namespace ridge::core
