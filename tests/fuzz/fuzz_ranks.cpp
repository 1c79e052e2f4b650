// Connections to rank 0 while it waits: raw bytes, or hostile claims after a valid handshake. Only a connection that
// knows the secret may end the wait.
#include "core/error.h"
#include "core/parallel/processes/joining.h"
#include "core/parallel/processes/secret.h"
#include "support/http/socket.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

using namespace ridge;

namespace {

const std::string kSecret = "a secret";
constexpr size_t kProofBytes = 68, kClaimsBytes = 16;

struct RankZero {
  core::ProcessRank me;
  std::atomic<bool> knew_secret = false; // may end the wait
  std::thread thread;

  RankZero() {
    me.ranks = 3;
    me.port = tests::free_port();
    me.patience_seconds = 1e6;
    thread = std::thread([this] {
      for (;;) {
        try {
          core::join_processes(me, "a model", kSecret);
        } catch (const Error&) {
        }
        if (!knew_secret) std::abort();
      }
    });
  }
  tests::Socket call() const {
    while (true)
      if (tests::Socket socket(me.port); socket.is_open()) return socket;
  }
};

core::Mac mac_of_claim(std::string_view challenge, std::string_view proof, std::string_view claims,
                       std::string_view text) {
  const auto bytes = [](std::string_view part) { return std::as_bytes(std::span(part)); };
  return core::hmac_sha256(
      kSecret, {bytes("ridge: other one"), bytes(challenge), bytes(proof.substr(4, 32)), bytes(claims), bytes(text)});
}

void send_claim(tests::Socket& socket, std::string_view data) {
  const std::string challenge(32, 'c');
  if (!socket.send("rdg3" + challenge)) return;
  const std::string proof = socket.next(kProofBytes);
  if (proof.size() != kProofBytes || data.size() < kClaimsBytes) return; // restarting
  std::string claims(data.substr(0, kClaimsBytes));
  const std::string_view text = data.substr(kClaimsBytes);
  if (claims[0] & 1) { // a length that fits
    const auto size = static_cast<uint32_t>(text.size());
    claims.replace(12, 4, reinterpret_cast<const char*>(&size), 4);
  }
  const core::Mac mac = mac_of_claim(challenge, proof, claims, text);
  socket.send(claims);
  socket.send({reinterpret_cast<const char*>(mac.data()), mac.size()});
  socket.send(text);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static RankZero& rank_zero = *new RankZero; // never destroyed
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool knows_secret = data[0] % 2 == 1;
  if (knows_secret) rank_zero.knew_secret = true;
  tests::Socket socket = rank_zero.call();
  if (knows_secret)
    send_claim(socket, bytes);
  else
    socket.send(bytes);
  socket.end_of_sending();
  socket.rest();
  return 0;
}
