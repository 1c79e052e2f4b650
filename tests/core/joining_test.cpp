// Rendezvous of ranks among foreign and hostile callers.
#include "core/error.h"
#include "core/files/descriptors.h"
#include "core/parallel/processes/joining.h"
#include "core/parallel/processes/secret.h"
#include "support/http/socket.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>

#include <array>
#include <optional>
#include <sys/stat.h>
#include <thread>
#include <tuple>

using namespace ridge;
using tests::TemporaryFolder;

namespace {

constexpr double kForever = 1e5;
const std::string kShared = "a secret of this test", kOther = "a secret of another test";

core::ProcessRank rank_of(int rank, int ranks, int port, double patience = kForever) {
  core::ProcessRank me;
  me.rank = rank;
  me.ranks = ranks;
  me.port = port;
  me.patience_seconds = patience;
  me.exchange_seconds = kForever;
  return me;
}

struct Joining {
  std::optional<core::ProcessLinks> links;
  std::string error;
  std::thread thread;

  Joining(const core::ProcessRank& me, const std::string& secret, const std::string& what = "a model")
      : thread([this, me, secret, what] {
          try {
            links = core::join_processes(me, what, secret);
          } catch (const Error& problem) {
            error = problem.what();
          }
        }) {}
  ~Joining() { join(); }
  void join() {
    if (thread.joinable()) thread.join();
  }
};

tests::Socket call(int port) {
  while (true)
    if (tests::Socket socket(port); socket.is_open()) return socket;
}

std::string hello_of(char challenge) { return "rdg3" + std::string(32, challenge); }

core::Mac mac_of(const std::string& key, const std::string& text) {
  return core::hmac_sha256(key, {std::as_bytes(std::span(text))});
}

std::string claim_of(const std::string& secret, char challenge, const std::string& proof_of_rank_0) {
  const std::array<uint32_t, 4> claims = {1, 2, 0, 7};
  const std::string said(reinterpret_cast<const char*>(claims.data()), sizeof(claims));
  const core::Mac mac = mac_of(secret, "ridge: other one" + std::string(32, challenge) + proof_of_rank_0.substr(4, 32) +
                                           said + "a model");
  return said + std::string(reinterpret_cast<const char*>(mac.data()), mac.size()) + "a model";
}

std::string hex(const core::Mac& mac) {
  std::string text;
  for (const std::byte byte : mac) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

struct Variable {
  const char* name;
  Variable(const char* name, const std::string& value) : name(name) { ::setenv(name, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name); }
};

} // namespace

TEST_CASE("HMAC-SHA-256 gives what RFC 4231 says") {
  CHECK(hex(mac_of(std::string(20, '\x0b'), "Hi There")) ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hex(mac_of("Jefe", "what do ya want for nothing?")) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hex(mac_of(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")) ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  const core::Mac mac = mac_of("a", "b");
  for (size_t i = 0; i < mac.size(); ++i) {
    core::Mac other = mac;
    other[i] ^= std::byte{1};
    CHECK(!core::same(mac, other));
  }
  CHECK(core::same(mac, mac_of("a", "b")));
  CHECK(core::random_challenge() != core::random_challenge());
}

TEST_CASE("ranks join, and have three connections each") {
  const int port = tests::free_port();
  Joining second(rank_of(2, 3, port), kShared), first(rank_of(1, 3, port), kShared), zero(rank_of(0, 3, port), kShared);
  for (Joining* rank : {&zero, &first, &second}) {
    rank->join();
    REQUIRE_MESSAGE(rank->links, rank->error);
  }
  CHECK(zero.links->rejected_callers == 0);
  zero.links->commands[2]->send_text("for 2");
  first.links->values[0]->send_text("of 1");
  CHECK(second.links->commands[0]->receive_text() == "for 2");
  CHECK(zero.links->values[1]->receive_text() == "of 1");
  zero.links->pulses[2]->send_text("to 2");
  CHECK(second.links->pulses[0]->receive_text() == "to 2");
}

TEST_CASE("strangers neither end nor delay a run, and are counted") {
  const int port = tests::free_port();
  Joining zero(rank_of(0, 2, port), kShared);
  std::vector<tests::Socket> open;
  open.push_back(call(port));
  tests::Socket begun = call(port), browser = call(port), silent = call(port);
  REQUIRE(begun.send(hello_of('a').substr(0, 20)));
  REQUIRE(browser.send("GET / HTTP/1.1\r\nHost: localhost:29501\r\n\r\n"));
  CHECK(browser.rest().empty());
  REQUIRE(silent.send(hello_of('b')));
  CHECK(silent.next(68).size() == 68);

  // One reflects rank 0's proof, one has another secret, one announces 4 GB.
  for (int kind = 0; kind < 3; ++kind) {
    tests::Socket caller = call(port);
    REQUIRE(caller.send(hello_of('c')));
    const std::string proof = caller.next(68);
    REQUIRE(proof.size() == 68);
    std::string claim = claim_of(kOther, 'c', proof);
    if (kind == 0) claim.replace(16, 32, proof.substr(36));
    if (kind == 2) claim.replace(12, 4, "\xff\xff\xff\xff");
    caller.send(claim);
    CHECK(caller.rest().empty());
  }

  core::raise_descriptor_limit();
  for (int i = 0; i < 650 && open.back().is_open(); ++i) open.emplace_back(port);
  const auto opened = static_cast<int>(open.size()) - 1;
  Joining one(rank_of(1, 2, port), kShared); // joins before any stranger times out
  one.join();
  zero.join();
  REQUIRE_MESSAGE(one.links, one.error);
  REQUIRE_MESSAGE(zero.links, zero.error);
  CHECK(zero.links->rejected_callers >= 4 + opened - 256);
}

TEST_CASE("a proof is worth nothing another time, or for another claim") {
  const int port = tests::free_port();
  Joining zero(rank_of(0, 2, port), kShared);
  const auto begin = [&](std::string& proof) {
    tests::Socket caller = call(port);
    REQUIRE(caller.send(hello_of('r')));
    proof = caller.next(68);
    REQUIRE(proof.size() == 68);
    return caller;
  };
  std::string proof, other;
  tests::Socket good = begin(proof), again = begin(other);
  const std::string claim = claim_of(kShared, 'r', proof);
  REQUIRE(good.send(claim));
  CHECK(good.next(4) == std::string(4, '\0')); // accepted: this test speaks the protocol correctly
  REQUIRE(again.send(claim));
  CHECK(again.rest().empty());
  for (const size_t changed : {0, 8, 50}) {
    tests::Socket caller = begin(other);
    std::string another = claim_of(kShared, 'r', other);
    another[changed] ^= 1;
    REQUIRE(caller.send(another));
    CHECK(caller.rest().empty());
  }
  Joining one(rank_of(1, 2, port), kShared);
  zero.join();
  CHECK(zero.error == "rank 1 has come twice");
  one.join();
  CHECK(one.error == "rank 1 has come twice");
}

TEST_CASE("a false rank 0 learns nothing of a rank") {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  REQUIRE(::bind(listener, reinterpret_cast<const sockaddr*>(&address), size) == 0);
  REQUIRE(::listen(listener, 8) == 0);
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  const int port = ntohs(address.sin_port);
  std::string learned(36, 0);
  {
    Joining one(rank_of(1, 2, port), kShared);
    const int socket = ::accept(listener, nullptr, nullptr);
    REQUIRE(::recv(socket, learned.data(), learned.size(), MSG_WAITALL) == 36);
    const std::string proof = "rdg3" + std::string(64, 'x');
    REQUIRE(::send(socket, proof.data(), proof.size(), MSG_NOSIGNAL) == 68);
    char more;
    CHECK(::recv(socket, &more, 1, 0) <= 0);
    ::close(socket);
    one.join();
    CHECK(one.error.find("does not know this rank's secret") != std::string::npos);
  }
  Joining patient(rank_of(1, 2, port, 1), kShared); // another server answers, or nothing
  const int socket = ::accept(listener, nullptr, nullptr);
  ::close(listener);
  patient.join();
  CHECK(patient.error.find(fmt::format("at 127.0.0.1 port {} within 1 s", port)) != std::string::npos);
  ::close(socket);
}

TEST_CASE("a rank with another secret is told so, and rank 0 says how many did not know its own") {
  const auto run = [](double patience) {
    const int port = tests::free_port();
    Joining zero(rank_of(0, 2, port, patience), kShared), one(rank_of(1, 2, port, 100 * patience), kOther);
    one.join();
    zero.join();
    return std::pair(zero.error, one.error);
  };
  double patience = 0.5; // on a busy machine rank 1 may be too late
  auto [zero, one] = run(patience);
  while (zero.find("caller") == std::string::npos && patience < 500) std::tie(zero, one) = run(patience *= 10);
  CHECK(one.find("every rank needs the same (RIDGE_RANK_SECRET)") != std::string::npos);
  CHECK(zero == fmt::format("rank 1 of 2 did not come within {:g} s (RIDGE_RANK_TIMEOUT); 1 caller did not know the "
                            "secret (RIDGE_RANK_SECRET)",
                            patience));
}

TEST_CASE("rank 0 listens where MASTER_ADDR says, and on all addresses where that is not this machine's") {
  const auto answers = [](const char* host, int port) {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    ::inet_pton(AF_INET, host, &address.sin_addr);
    const bool open = ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    ::close(socket);
    return open;
  };
  {
    const int port = tests::free_port();
    Joining zero(rank_of(0, 2, port), kShared);
    call(port);
    CHECK(!answers("127.0.0.2", port));
    Joining one(rank_of(1, 2, port), kShared);
  }
  const int port = tests::free_port();
  core::ProcessRank me = rank_of(0, 2, port);
  me.host = "192.0.2.1"; // TEST-NET-1: no host has it
  me.one_host = false;
  Joining zero(me, kShared);
  call(port);
  CHECK(answers("127.0.0.2", port));
  Joining one(rank_of(1, 2, port), kShared);
  zero.join();
  CHECK_MESSAGE(zero.links, zero.error);
}

TEST_CASE("ranks of one host make a secret that only their user can read, and others are told to have one") {
  const TemporaryFolder folder;
  const Variable cache("XDG_CACHE_HOME", folder.path());
  const std::string path = folder / "ridge/rank-secret";
  std::array<std::string, 8> found;
  std::vector<std::thread> threads;
  for (std::string& secret : found) threads.emplace_back([&] { secret = core::find_rank_secret(true); });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& secret : found) CHECK(secret == found[0]);
  CHECK(found[0].size() == 64);
  struct stat info;
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  CHECK(std::distance(std::filesystem::directory_iterator(folder / "ridge"), {}) == 1);

  const auto problem = [](bool one_host) -> std::string {
    try {
      core::find_rank_secret(one_host);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  CHECK(problem(false).find("set RIDGE_RANK_SECRET, or RIDGE_RANK_SECRET_FILE") != std::string::npos);
  ::chmod(path.c_str(), 0644);
  CHECK(problem(true).find(path + ": is no file with a secret that only its user can read") != std::string::npos);
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/dev/zero", path);
  CHECK(problem(true).find(path) != std::string::npos);

  const std::string own = folder.write("own", "  of a file, long enough\n");
  const Variable file("RIDGE_RANK_SECRET_FILE", own);
  CHECK(core::find_rank_secret(false) == "of a file, long enough");
  {
    const Variable text("RIDGE_RANK_SECRET", "of the environment");
    CHECK(core::find_rank_secret(false) == "of the environment");
  }
  const Variable text("RIDGE_RANK_SECRET", "short");
  CHECK(problem(true).find("RIDGE_RANK_SECRET: expected at least 16 characters") != std::string::npos);
}

TEST_CASE("ranks are on one host where the launcher says so, or the address is the loopback's") {
  const Variable size("WORLD_SIZE", "4"), rank("RANK", "1");
  const auto one_host = [](const std::string& host) {
    const Variable address("MASTER_ADDR", host);
    return core::ProcessRank::from_environment().one_host;
  };
  CHECK(one_host("127.0.0.1"));
  CHECK(one_host("localhost"));
  CHECK(one_host("::1"));
  CHECK(!one_host("10.0.0.1"));
  CHECK(!one_host("a-host"));
  {
    const Variable here("LOCAL_WORLD_SIZE", "4");
    CHECK(one_host("a-host"));
  }
  const Variable here("LOCAL_WORLD_SIZE", "2");
  CHECK(!one_host("127.0.0.1"));
}

TEST_CASE("srun's variables make a rank, and those of a batch script do not") {
  const Variable ranks("SLURM_NTASKS", "4"), rank("SLURM_PROCID", "3"), local("SLURM_LOCALID", "1"),
      nodes("SLURM_JOB_NODELIST", "gpu[07-08]");
  core::ProcessRank me = core::ProcessRank::from_environment();
  CHECK(me.rank == 3);
  CHECK(me.ranks == 4);
  CHECK(me.local_rank == 1);
  CHECK(me.host == "gpu07");
  CHECK(!me.one_host);
  {
    const Variable one("SLURM_NNODES", "1");
    me = core::ProcessRank::from_environment();
    CHECK(me.one_host);
    CHECK(me.host == "127.0.0.1");
  }
  {
    const Variable address("MASTER_ADDR", "10.1.2.3"), several("SLURM_NNODES", "2");
    me = core::ProcessRank::from_environment();
    CHECK(me.host == "10.1.2.3");
    CHECK(!me.one_host);
  }
  {
    const Variable size("WORLD_SIZE", "2"), first("RANK", "0");
    me = core::ProcessRank::from_environment(); // torchrun under srun
    CHECK(me.ranks == 2);
    CHECK(me.rank == 0);
  }
  const Variable script("ENVIRONMENT", "BATCH");
  CHECK(core::ProcessRank::from_environment().ranks == 1);
  const Variable step("SLURM_STEP_ID", "0");
  CHECK(core::ProcessRank::from_environment().ranks == 4);
}

TEST_CASE("the first host of Slurm's lists") {
  CHECK(core::first_slurm_host("node3") == "node3");
  CHECK(core::first_slurm_host("node3,node4") == "node3");
  CHECK(core::first_slurm_host("node[003-007,9],other") == "node003");
  CHECK(core::first_slurm_host("node[12]") == "node12");
  CHECK(core::first_slurm_host("rack[1-2]-gpu,x") == "rack1-gpu");
  CHECK(core::first_slurm_host("one,node[1-2]") == "one");
  for (const char* broken : {"node[1", "node[]", "node[,2]"})
    CHECK_THROWS_WITH_AS(
        core::first_slurm_host(broken),
        fmt::format("SLURM_JOB_NODELIST={}: expected hosts such as node[01-04]; or set MASTER_ADDR", broken).c_str(),
        Error);
}
