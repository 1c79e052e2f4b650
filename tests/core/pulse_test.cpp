// Ranks that are gone, silent, failed or at their end.
#include "core/parallel/processes/pulse.h"

#include "core/error.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <future>

using namespace ridge;

namespace {

using Links = std::vector<std::unique_ptr<core::Connection>>;
constexpr double kForever = 1e5; // seconds of silence

struct Star {
  std::vector<std::unique_ptr<core::Connection>> at_zero, at_others; // by rank

  explicit Star(int ranks) : at_zero(ranks), at_others(ranks) {
    for (int rank = 1; rank < ranks; ++rank) {
      int sockets[2];
      REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
      at_zero[rank] = std::make_unique<core::Connection>(sockets[0], fmt::format("rank {}", rank));
      at_others[rank] = std::make_unique<core::Connection>(sockets[1], "rank 0");
    }
  }
  Links of(int rank) {
    Links links;
    links.push_back(std::move(at_others[rank]));
    return links;
  }
};

struct Watcher {
  std::promise<std::string> promise;
  std::future<std::string> lost = promise.get_future();
  std::unique_ptr<core::Pulse> pulse;

  Watcher(Links links, int rank, double silence = kForever)
      : pulse(std::make_unique<core::Pulse>(std::move(links), rank, silence)) {
    pulse->start([this](const std::string& why) { promise.set_value(why); });
  }
};

} // namespace

TEST_CASE("a rank that is gone is named to all others") {
  Star star(3);
  Watcher zero(std::move(star.at_zero), 0), one(star.of(1), 1);
  star.at_others[2].reset(); // as a killed process does
  CHECK(zero.lost.get() == "rank 2 is gone");
  CHECK(one.lost.get() == "rank 2 is gone");
  CHECK_THROWS_WITH_AS(one.pulse->wait_for_ends(), "rank 2 is gone", Error);
}

TEST_CASE("a rank that hangs is named after its silence, and one that beats is not") {
  Star star(3);
  const Links stopped = star.of(2);
  Watcher zero(std::move(star.at_zero), 0, 3), one(star.of(1), 1);
  CHECK(zero.lost.get() == "rank 2 has been silent for 3 s: it hangs, or is cut off");
  CHECK(one.lost.get() == "rank 2 has been silent for 3 s: it hangs, or is cut off");
}

TEST_CASE("a failure is told to all ranks, with its reason, and to the communicator that is watched") {
  Star star(3);
  Watcher zero(std::move(star.at_zero), 0), one(star.of(1), 1), two(star.of(2), 2);
  auto communicators = core::make_thread_communicators(2);
  two.pulse->watch(*communicators[0]);
  one.pulse->fail("rank 1: the card is gone");
  CHECK(zero.lost.get() == "rank 1: the card is gone");
  CHECK(two.lost.get() == "rank 1: the card is gone");
  CHECK_THROWS_WITH_AS(communicators[1]->check(), "rank 1: the card is gone", Error);
  auto later = core::make_thread_communicators(1);
  zero.pulse->watch(*later[0]);
  CHECK_THROWS_WITH_AS(later[0]->check(), "rank 1: the card is gone", Error);
}

TEST_CASE("a connection that ends before its reason is known says the reason, and without one that the peer is gone") {
  for (const bool told : {true, false}) {
    Star star(2);
    core::Connection& link = *star.at_zero[1];
    if (told) link.expect_reason(kForever);
    auto problem = std::async(std::launch::async, [&] {
      try {
        link.receive_value<int>();
      } catch (const Error& error) {
        return std::string(error.what());
      }
      return std::string();
    });
    star.at_others[1].reset();
    if (!told) CHECK(problem.get() == "rank 1 is gone");
    link.close("rank 2 hangs");
    if (told) CHECK(problem.get() == "rank 2 hangs");
  }
}

TEST_CASE("a reason to fail that the watched ranks find ends all") {
  Star star(2);
  Watcher zero(std::move(star.at_zero), 0), one(star.of(1), 1);
  auto communicators = core::make_thread_communicators(1);
  one.pulse->watch(*communicators[0], [] { return std::string("rank 0 hangs"); });
  CHECK(zero.lost.get() == "rank 0 hangs");
  CHECK(one.lost.get() == "rank 0 hangs");
}

TEST_CASE("a rank that ends well is no loss") {
  Star star(2);
  auto zero = std::make_unique<Watcher>(std::move(star.at_zero), 0);
  Watcher one(star.of(1), 1);
  zero->pulse.reset();
  one.pulse->wait_for_ends();
  one.pulse.reset();
  CHECK(one.lost.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
}
