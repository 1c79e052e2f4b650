// The guide on the CPU with more clients than streams: all of them come on alike, and all of them together take no more
// memory than `fit` and the prefix cache's size say.
#include "engine/fit/fit.h"
#include "engine/options.h"
#include "engine/sequences/scheduler.h"
#include "support/http/requests.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace ridge;

namespace {

constexpr size_t kClients = 8;
constexpr int64_t kStreams = 4, kRequests = 4, kTokens = 16;
constexpr int64_t kPrefixBytes = int64_t{8} << 20;

double resident_bytes() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return static_cast<double>(pages) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

} // namespace

TEST_CASE("the guide with 8 clients on 4 streams of the CPU: none starves, and memory is what fit said") {
  engine::LoadedModel model = engine::open_model("");
  const text::Tokenizer& tokenizer = model.need_tokenizer();
  core::ExecutorConfig config;
  config.context = 256;
  config.streams = config.max_outputs = kStreams;
  config.max_batch = 128;
  config.threads = 2;
  const engine::Need need = engine::cpu_need(model.program, config);
  const double before = resident_bytes();
  engine::start_executor(model, config, "cpu");
  std::mutex mutex;
  std::array<int64_t, kClients> done{}; // requests; under the mutex
  int64_t largest_lead = 0;
  std::atomic<int64_t> cut = 0;
  double grown = 0;
  {
    engine::Scheduler scheduler(*model.executor, model.program, nullptr, {.bytes = kPrefixBytes});
    std::vector<std::thread> clients;
    for (size_t client = 0; client < kClients; ++client)
      clients.emplace_back([&, client] {
        for (int64_t i = 0; i < kRequests; ++i) {
          // Long enough that all rounds together need more than the prefix cache has room for.
          std::vector<int32_t> prompt;
          while (std::ssize(prompt) < 200) {
            const auto more = tokenizer.encode(
                fmt::format("Client {} asks for the {}th time what Q4_K is and how it is packed. ", client, i), {});
            prompt.insert(prompt.end(), more.begin(), more.end());
          }
          prompt.resize(200);
          const auto sequence = scheduler.submit(tests::request_of(prompt, kTokens));
          int64_t tokens = 0;
          while (sequence->next()) ++tokens;
          if (tokens != kTokens) ++cut;
          const std::scoped_lock lock(mutex);
          ++done[client];
          const auto [least, most] = std::ranges::minmax(done);
          largest_lead = std::max(largest_lead, most - least);
        }
      });
    for (std::thread& client : clients) client.join();
    grown = resident_bytes() - before;
    CHECK(scheduler.counts().ended == static_cast<int64_t>(kClients) * kRequests);
    CHECK(scheduler.counts().stored_bytes <= kPrefixBytes);
    CHECK(scheduler.counts().stored_bytes > kPrefixBytes / 2);
  }
  CHECK(cut == 0);
  // Those who wait go first, so nobody is two whole turns of all streams behind.
  CHECK(largest_lead <= 2);
  const auto said = static_cast<double>(need.total() + kPrefixBytes);
  MESSAGE("memory grew by ", grown / 1e6, " MB, of ", said / 1e6, " MB");
#ifndef RIDGE_SANITIZED                // sanitizers keep memory that was freed
  constexpr double kAllocators = 12e6; // of ten threads; samplers and requests
  CHECK(grown <= said + kAllocators);
#endif
}
