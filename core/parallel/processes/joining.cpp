#include "core/parallel/processes/joining.h"

#include "core/error.h"
#include "core/parallel/processes/secret.h"
#include "core/parallel/processes/sockets.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <thread>

namespace ridge::core {
namespace {

constexpr uint32_t kMagic = 0x33676472; // "rdg3"
constexpr int kChannels = 3;
constexpr size_t kMaxCallers = 256;
constexpr auto kPause = std::chrono::milliseconds(100); // between attempts

// A rank sends Hello; rank 0 answers with Proof; the rank sends Claim and text; rank 0 answers with an empty text or an
// error. Proofs cover both challenges and name their side, against reflection and replay.
struct Hello {
  uint32_t magic;
  Challenge challenge;
};
struct Proof {
  uint32_t magic;
  Challenge challenge;
  Mac mac;
};
struct Claims {
  uint32_t rank, ranks, channel, text_bytes; // channel 0: commands, 1: values, 2: pulses
};
struct Claim {
  Claims claims;
  Mac mac;
};

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_bytes(std::span(&value, 1));
}
std::span<const std::byte> bytes_of_text(std::string_view text) { return std::as_bytes(std::span(text)); }

struct Challenges {
  Challenge of_rank, of_rank_0;
};

Mac mac_of_rank_0(const std::string& secret, const Challenges& challenges) {
  return hmac_sha256(secret, {bytes_of_text("ridge: rank 0   "), challenges.of_rank, challenges.of_rank_0});
}

Mac mac_of_rank(const std::string& secret, const Challenges& challenges, const Claims& claims, std::string_view text) {
  return hmac_sha256(secret, {bytes_of_text("ridge: other one"), challenges.of_rank, challenges.of_rank_0,
                              bytes_of(claims), bytes_of_text(text)});
}

// A connection without a proof yet.
class Caller {
 public:
  enum class State { talks, has_proved, is_stranger };

  Caller(Socket socket, const std::string& secret, Deadline deadline)
      : socket_(std::move(socket)), secret_(secret), received_(sizeof(Hello)), deadline_(deadline) {}

  const Socket& socket() const { return socket_; }
  Deadline deadline() const { return deadline_; }

  State read() {
    while (true) {
      while (bytes_ == received_.size()) {
        if (expected_ == Expected::text) return is_proved() ? State::has_proved : State::is_stranger;
        if (expected_ == Expected::hello ? !answer_hello() : !expect_text()) return State::is_stranger;
      }
      const ssize_t got = ::recv(socket_.get(), received_.data() + bytes_, received_.size() - bytes_, MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return State::talks;
      if (got <= 0) return State::is_stranger;
      bytes_ += static_cast<size_t>(got);
    }
  }

  // After has_proved.
  const Claims& claims() const { return claim_.claims; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(received_.data()) + sizeof(Claim), claim_.claims.text_bytes};
  }
  std::unique_ptr<Connection> take(std::string peer) {
    let_block(socket_);
    return std::make_unique<Connection>(socket_.release(), std::move(peer));
  }

 private:
  enum class Expected { hello, claim, text };

  bool answer_hello() {
    Hello hello;
    std::memcpy(&hello, received_.data(), sizeof(hello));
    if (hello.magic != kMagic) return false;
    challenges_ = {hello.challenge, random_challenge()};
    const Proof proof = {kMagic, challenges_.of_rank_0, mac_of_rank_0(secret_, challenges_)};
    expected_ = Expected::claim;
    received_.resize(sizeof(Claim));
    bytes_ = 0;
    return ::send(socket_.get(), &proof, sizeof(proof), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(proof);
  }
  bool expect_text() {
    expected_ = Expected::text;
    std::memcpy(&claim_, received_.data(), sizeof(claim_));
    received_.resize(sizeof(Claim) + std::min(claim_.claims.text_bytes, Connection::kMaxText));
    return claim_.claims.text_bytes <= Connection::kMaxText;
  }
  bool is_proved() const { return same(claim_.mac, mac_of_rank(secret_, challenges_, claim_.claims, text())); }

  Socket socket_;
  const std::string& secret_;
  std::vector<std::byte> received_;
  size_t bytes_ = 0;
  Deadline deadline_;
  Expected expected_ = Expected::hello;
  Challenges challenges_;
  Claim claim_ = {};
};

// Rank 0's side; serves all callers at once.
class Reception {
 public:
  Reception(const ProcessRank& me, const std::string& what, const std::string& secret)
      : me_(me), what_(what), secret_(secret), listeners_(listen_at(me.host, me.port, me.one_host)),
        end_(seconds_from_now(me.patience_seconds)), missing_(kChannels * (me.ranks - 1)) {
    for (auto* links : {&links_.commands, &links_.values, &links_.pulses}) links->resize(static_cast<size_t>(me.ranks));
  }

  ProcessLinks receive_all() {
    while (missing_ > 0) {
      wait();
      accept_callers();
      read_callers();
      if (missing_ > 0 && milliseconds_until(end_) == 0) fail_missing();
    }
    return std::move(links_);
  }

 private:
  void wait() const {
    std::vector<pollfd> waits;
    for (const Socket& listener : listeners_) waits.push_back({listener.get(), POLLIN, 0});
    for (const Caller& caller : callers_) waits.push_back({caller.socket().get(), POLLIN, 0});
    const Deadline first = callers_.empty() ? end_ : std::min(end_, callers_.front().deadline());
    ::poll(waits.data(), waits.size(), milliseconds_until(first));
  }

  // Accepts a few at a time, so that earlier callers are read.
  void accept_callers() {
    for (const Socket& listener : listeners_)
      for (size_t i = 0; i < kMaxCallers; ++i) {
        Socket socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        const bool no_room = !socket && (errno == EMFILE || errno == ENFILE);
        if (no_room && callers_.empty()) std::this_thread::sleep_for(kPause); // others hold all descriptors
        if (!callers_.empty() && (no_room || (socket && callers_.size() == kMaxCallers))) disconnect_oldest();
        if (!socket) break;
        callers_.emplace_back(std::move(socket), secret_, seconds_from_now(me_.exchange_seconds));
      }
  }

  void read_callers() {
    const auto now = std::chrono::steady_clock::now();
    std::erase_if(callers_, [&](Caller& caller) {
      const Caller::State state = caller.read();
      if (state == Caller::State::has_proved) accept_rank(caller);
      const bool stranger =
          state == Caller::State::is_stranger || (state == Caller::State::talks && caller.deadline() <= now);
      links_.rejected_callers += stranger ? 1 : 0;
      return stranger || state == Caller::State::has_proved;
    });
  }

  void disconnect_oldest() {
    callers_.pop_front();
    ++links_.rejected_callers;
  }

  void accept_rank(Caller& caller) {
    const Claims claims = caller.claims();
    const std::string theirs(caller.text());
    const int64_t rank = claims.rank;
    std::unique_ptr<Connection> link = caller.take(fmt::format("rank {}", rank));
    if (claims.ranks != static_cast<uint32_t>(me_.ranks) || rank < 1 || rank >= me_.ranks ||
        claims.channel >= kChannels) {
      link->send_text(fmt::format("rank 0 waits for ranks 1 to {}", me_.ranks - 1));
      throw_error("rank 0: rank {} of {} has come, expected ranks 1 to {}", rank, claims.ranks, me_.ranks - 1);
    }
    auto& links = claims.channel == 0 ? links_.commands : claims.channel == 1 ? links_.values : links_.pulses;
    auto& place = links[static_cast<size_t>(rank)];
    if (place || theirs != what_) {
      const std::string why = place ? "has come twice" : fmt::format("runs {}, and rank 0 {}", theirs, what_);
      link->send_text(fmt::format("rank {} {}", rank, why));
      throw_error("rank {} {}", rank, why);
    }
    link->send_text("");
    place = std::move(link);
    --missing_;
  }

  [[noreturn]] void fail_missing() const {
    std::string names, rejected_callers;
    for (int rank = 1; rank < me_.ranks; ++rank)
      if (!links_.pulses[rank]) names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
    if (const int count = links_.rejected_callers + static_cast<int>(callers_.size()); count > 0)
      rejected_callers =
          fmt::format("; {} caller{} did not know the secret (RIDGE_RANK_SECRET)", count, count == 1 ? "" : "s");
    throw_error("rank {} of {} did not come within {:g} s (RIDGE_RANK_TIMEOUT){}", names, me_.ranks,
                me_.patience_seconds, rejected_callers);
  }

  const ProcessRank& me_;
  const std::string &what_, &secret_;
  const std::vector<Socket> listeners_;
  const Deadline end_;
  int missing_;               // connections
  std::list<Caller> callers_; // oldest first
  ProcessLinks links_;
};

// Another rank's side.
class Call {
 public:
  Call(const ProcessRank& me, const std::string& what, const std::string& secret)
      : me_(me), what_(what), secret_(secret), end_(seconds_from_now(me.patience_seconds)) {}

  // Retries, because another server on the port may go away.
  std::unique_ptr<Connection> connect(uint32_t channel) {
    const char* found = "rank 0 does not answer";
    do {
      const Deadline deadline = std::min(end_, seconds_from_now(me_.exchange_seconds));
      if (Socket socket = connect_to(me_.host, me_.port, deadline)) {
        if (introduce(socket, channel, deadline)) {
          let_block(socket);
          return std::make_unique<Connection>(socket.release(), "rank 0");
        }
        found = "what answers is no rank 0 of this version,";
      }
      std::this_thread::sleep_for(kPause);
    } while (milliseconds_until(end_) > 0);
    throw_error("rank {}: {} at {} port {} within {:g} s", me_.rank, found, me_.host, me_.port, me_.patience_seconds);
  }

 private:
  // Returns false if the peer violates the protocol.
  bool introduce(const Socket& socket, uint32_t channel, Deadline deadline) const {
    const Hello hello = {kMagic, random_challenge()};
    Proof proof;
    if (!send_by(socket, bytes_of(hello), deadline)) return false;
    if (!receive_by(socket, std::as_writable_bytes(std::span(&proof, 1)), deadline)) return false;
    if (proof.magic != kMagic) return false;
    const Challenges challenges = {hello.challenge, proof.challenge};
    if (!same(proof.mac, mac_of_rank_0(secret_, challenges)))
      throw_error("rank {}: what answers at {} port {} does not know this rank's secret; every rank needs the same "
                  "(RIDGE_RANK_SECRET)",
                  me_.rank, me_.host, me_.port);
    Claim claim = {{static_cast<uint32_t>(me_.rank), static_cast<uint32_t>(me_.ranks), channel,
                    static_cast<uint32_t>(what_.size())},
                   {}};
    claim.mac = mac_of_rank(secret_, challenges, claim.claims, what_);
    if (!send_by(socket, bytes_of(claim), deadline) || !send_by(socket, bytes_of_text(what_), deadline)) return false;
    return receive_answer(socket, deadline);
  }

  static bool receive_answer(const Socket& socket, Deadline deadline) {
    uint32_t size = 0;
    if (!receive_by(socket, std::as_writable_bytes(std::span(&size, 1)), deadline)) return false;
    std::string problem(std::min(size, Connection::kMaxText), 0);
    if (!receive_by(socket, std::as_writable_bytes(std::span(problem)), deadline)) return false;
    if (!problem.empty()) throw Error(problem);
    return true;
  }

  const ProcessRank& me_;
  const std::string &what_, &secret_;
  const Deadline end_;
};

} // namespace

ProcessLinks join_processes(const ProcessRank& me, const std::string& what, const std::string& secret) {
  if (me.rank == 0) return Reception(me, what, secret).receive_all();
  ProcessLinks links;
  Call call(me, what, secret);
  links.commands.push_back(call.connect(0));
  links.values.push_back(call.connect(1));
  links.pulses.push_back(call.connect(2));
  return links;
}

} // namespace ridge::core
