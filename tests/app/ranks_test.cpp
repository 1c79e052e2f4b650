// Ranks that are processes, as torchrun and mpirun start them.
#include "app/support.h"
#include "support/numerics.h"
#include "support/socket.h"

#include <thread>

using namespace ridge::tests;

namespace {

int free_port() { // that the next one is free, too, is likely
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  socklen_t size = sizeof(address);
  ::bind(socket, reinterpret_cast<const sockaddr*>(&address), size);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(socket);
  return ntohs(address.sin_port) - 1;
}

Result run_rank(int rank, int ranks, int port, std::vector<std::string> args, const std::string& patience = "20") {
  std::vector<std::string> all = {"env",
                                  "RANK=" + std::to_string(rank),
                                  "WORLD_SIZE=" + std::to_string(ranks),
                                  "MASTER_PORT=" + std::to_string(port),
                                  "RIDGE_RANK_TIMEOUT=" + patience,
                                  RIDGE_BINARY};
  all.insert(all.end(), args.begin(), args.end());
  return run(all);
}

std::vector<std::string> logits_to(const std::string& out) {
  return {"logits", "-m", tiny_model(), "--device", "cpu", "--exact", "--ids", "1,2,3,4,5", "-ub", "3", "--out", out};
}

} // namespace

TEST_CASE("three processes that are ranks of one model give the logits of one, and only the first writes") {
  const std::string one = folder() / "one.npy", shared = folder() / "shared.npy", other = folder() / "other.npy";
  REQUIRE(run_ridge(logits_to(one)).status == 0);
  const int port = free_port();
  std::vector<Result> others(2);
  std::vector<std::thread> threads;
  for (int rank = 1; rank < 3; ++rank)
    threads.emplace_back([&, rank] { others[rank - 1] = run_rank(rank, 3, port, logits_to(other)); });
  {
    Socket stranger(port + 1); // somebody else calls: before the first rank listens, or while it waits
    if (stranger.is_open()) stranger.send("GET / HTTP/1.1\r\n\r\n");
  }
  const Result first = run_rank(0, 3, port, logits_to(shared));
  for (std::thread& thread : threads) thread.join();
  REQUIRE_MESSAGE(first.status == 0, first.err);
  CHECK(nmse(floats_of_npy(shared), floats_of_npy(one)) < 1e-10);
  for (const Result& result : others) {
    CHECK(result.status == 0);
    CHECK(result.out.empty());
  }
  CHECK(!std::filesystem::exists(other));
}

TEST_CASE("ranks that do not come, or run something else, are named") {
  const std::string out = folder() / "never.npy";
  const Result alone = run_rank(0, 3, free_port(), logits_to(out), "1");
  CHECK(alone.status == 1);
  CHECK(alone.err == "ridge: error: rank 1, 2 of 3 did not come within 1 s (RIDGE_RANK_TIMEOUT)\n");

  const int port = free_port();
  const Result unanswered = run_rank(1, 2, port, logits_to(out), "1");
  CHECK(unanswered.status == 1);
  CHECK(unanswered.err.find("rank 1: rank 0 does not answer at 127.0.0.1 port") != std::string::npos);

  Result second;
  std::thread thread([&] {
    std::vector<std::string> args = logits_to(out);
    args.insert(args.end(), {"-c", "77"});
    second = run_rank(1, 2, port, args);
  });
  const Result first = run_rank(0, 2, port, logits_to(out));
  thread.join();
  CHECK(first.status == 1);
  CHECK(first.err.find("rank 1 runs ridge") != std::string::npos);
  CHECK(second.status == 1);
  CHECK(second.err.find("-c 77") != std::string::npos);

  const Result confused = run_rank(5, 3, port, logits_to(out));
  CHECK(confused.status == 2);
  CHECK(confused.err == "ridge: error: RANK=5: expected a number from 0 to 2\n");
}
