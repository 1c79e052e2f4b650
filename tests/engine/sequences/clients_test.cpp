// More clients than streams: equal progress, memory as predicted.
#include "engine/loading/fit.h"
#include "engine/options.h"
#include "engine/sequences/scheduler.h"
#include "support/http/requests.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
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
constexpr double kNever = 1e9; // seconds

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
  std::mutex submitting;
  int64_t submitted = 0;
  std::vector<int64_t> first_tokens; // request numbers by first token; used by the scheduler's thread
  std::atomic<int64_t> cut = 0;
  double grown = 0;
  {
    engine::Scheduler scheduler(*model.executor, model.program, nullptr, {.bytes = kPrefixBytes},
                                {.seconds = kNever, .patience = kNever});
    std::vector<std::thread> clients;
    for (size_t client = 0; client < kClients; ++client)
      clients.emplace_back([&, client] {
        for (int64_t i = 0; i < kRequests; ++i) {
          std::vector<int32_t> prompt;
          while (std::ssize(prompt) < 200) {
            const auto more = tokenizer.encode(
                fmt::format("Client {} asks for the {}th time what Q4_K is and how it is packed. ", client, i), {});
            prompt.insert(prompt.end(), more.begin(), more.end());
          }
          prompt.resize(200);
          engine::SequenceRequest request = tests::request_of(prompt, kTokens);
          int64_t tokens = 0;
          const auto submit = [&] {
            const std::scoped_lock lock(submitting);
            request.on_token = [&, number = submitted++](const engine::Token&) {
              if (tokens++ == 0) first_tokens.push_back(number);
              return true;
            };
            return scheduler.submit(std::move(request));
          };
          const auto sequence = submit();
          while (sequence->next()) {
          }
          if (tokens != kTokens) ++cut;
        }
      });
    for (std::thread& client : clients) client.join();
    grown = resident_bytes() - before;
    CHECK(scheduler.counts().ended == static_cast<int64_t>(kClients) * kRequests);
    CHECK(scheduler.counts().stored_bytes <= kPrefixBytes);
    CHECK(scheduler.counts().stored_bytes > kPrefixBytes / 2);
  }
  CHECK(cut == 0);
  // Earlier requests get a stream first.
  REQUIRE(std::ssize(first_tokens) == submitted);
  for (int64_t i = 0; i < submitted; ++i) CHECK(std::abs(first_tokens[i] - i) < kStreams);
  const auto said = static_cast<double>(need.total() + kPrefixBytes);
  MESSAGE("memory grew by ", grown / 1e6, " MB, of ", said / 1e6, " MB");
#ifndef RIDGE_SANITIZED // sanitizers keep freed memory
  constexpr double kAllocators = 12e6;
  CHECK(grown <= said + kAllocators);
#endif
}
