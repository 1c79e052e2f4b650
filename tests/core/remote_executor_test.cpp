// What rank 0 asks of a rank in another process arrives there, and so do its answers.
#include "core/error.h"
#include "core/parallel/processes/processes.h"
#include "core/sampler.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <numeric>
#include <optional>
#include <thread>

using namespace ridge;

namespace {

constexpr int64_t kVocab = 50;

// Remembers what it is asked; its logits are known.
class Recorder final : public core::Executor {
 public:
  std::vector<std::string> calls;
  std::optional<core::Sampler> sampler;

  Recorder() { config_.max_outputs = 4; }
  void submit(const core::Batch& batch, const core::Choosing& choosing) override {
    constexpr const char* kNames[] = {"forward", "begin", "resume"};
    calls.push_back(
        fmt::format("{} {} {}", kNames[static_cast<int>(choosing.chain)], batch.tokens.size(), choosing.guesses));
    rows_ = std::ssize(batch.outputs);
    if (choosing.chain == core::Chain::begin) sampler = *choosing.samplers[0];
    chosen_.clear();
    for (const core::Sampler* one : choosing.samplers) chosen_.push_back(one ? static_cast<int32_t>(one->draws()) : -7);
  }
  std::span<const int32_t> wait() override {
    calls.emplace_back("wait");
    return chosen_;
  }
  std::span<const float> logits(int64_t i) override {
    if (i >= rows_) throw std::logic_error("no such row");
    row_.resize(kVocab);
    std::iota(row_.begin(), row_.end(), 100.0f * static_cast<float>(i));
    return row_;
  }
  bool can_choose(const core::SamplerParams&) const override { return true; }
  double time_decode(int64_t position, int64_t streams, int repetitions) override {
    calls.push_back(fmt::format("time {} {} {}", position, streams, repetitions));
    return 1;
  }
  std::vector<core::OpTime> profile(const core::Batch& batch, int repetitions) override {
    calls.push_back(fmt::format("profile {} {}", batch.tokens.size(), repetitions));
    throw Error("the card is gone");
  }
  const core::ExecutorConfig& config() const override { return config_; }
  std::string_view description() const override { return "a recorder"; }
  double memory_bytes() const override { return 5; }

 private:
  core::ExecutorConfig config_;
  int64_t rows_ = 0;
  std::vector<float> row_;
  std::vector<int32_t> chosen_;
};

struct Remote {
  Recorder recorder;
  std::thread thread;
  std::unique_ptr<core::Executor> executor;

  Remote() {
    int sockets[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    thread = std::thread([this, socket = sockets[1]] {
      core::Connection commands(socket, "rank 0");
      core::serve_rank(recorder, commands);
    });
    executor = core::make_remote_executor(std::make_shared<core::Connection>(sockets[0], "rank 1"), {});
  }
  ~Remote() {
    executor.reset();
    thread.join();
  }
};

} // namespace

TEST_CASE("a rank in another process is asked to decode with the same sampler") {
  core::SamplerParams params;
  params.repeat_penalty = 1.3f;
  params.repeat_last_n = 5;
  params.seed = 11;
  core::Sampler own(params, kVocab);
  for (int32_t token : {1, 2, 3, 4, 5, 6, 2}) own.accept_drawn(token);
  Remote remote;
  CHECK(remote.executor->memory_bytes() == 5);
  CHECK(remote.executor->can_choose(params));
  CHECK(remote.executor->can_chain(params));
  const std::vector<int32_t> guesses = {4, 5, 6}, positions = {10, 11, 12}, outputs = {0, 1, 2};
  const core::Sampler* const sampler = &own;
  remote.executor->submit({guesses, positions, {}, {&outputs[2], 1}},
                          {.samplers = {&sampler, 1}, .chain = core::Chain::begin});
  const core::Choosing resume{.chain = core::Chain::resume};
  for (int i = 0; i < 2; ++i) { // the rank waits for the oldest batch when it gets another
    remote.executor->submit({{&core::kChosenToken, 1}, {positions.data(), 1}, {}, {outputs.data(), 1}}, resume);
    remote.executor->wait();
  }
  remote.executor->wait();
  remote.executor->submit({guesses, positions, {}, outputs}, {.chain = core::Chain::resume, .guesses = 2});
  remote.executor->wait();
  remote.executor->time_decode(7, 1, 3);
  CHECK(remote.recorder.calls == std::vector<std::string>{"begin 3 0", "resume 1 0", "wait", "resume 1 0", "wait",
                                                          "wait", "resume 3 2", "wait", "time 7 1 3"});
  REQUIRE(remote.recorder.sampler);
  core::Sampler& theirs = *remote.recorder.sampler;
  std::vector<float> logits(kVocab);
  for (int step = 0; step < 20; ++step) {
    for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>((i * 37 + step * 11) % 17) * 0.3f;
    const int32_t token = own.sample(logits);
    REQUIRE(theirs.sample(logits) == token);
    own.accept(token);
    theirs.accept(token);
  }
}

TEST_CASE("a stage in another process gives its rows and chooses tokens, and tells its errors") {
  Remote remote;
  const std::vector<int32_t> tokens = {1, 2, 3}, positions = {0, 1, 2}, outputs = {0, 2};
  core::Sampler sampler({.seed = 1}, kVocab);
  sampler.accept_drawn(4);
  const std::vector<const core::Sampler*> samplers = {nullptr, &sampler};
  remote.executor->submit({tokens, positions, {}, outputs}, {.samplers = samplers});
  const std::span<const int32_t> chosen = remote.executor->wait();
  CHECK(std::vector<int32_t>(chosen.begin(), chosen.end()) == std::vector<int32_t>{-7, 1});
  CHECK(remote.executor->logits(1)[3] == 103);
  CHECK(remote.executor->logits(0)[3] == 3);
  CHECK(remote.executor->logits(0).data() + kVocab == remote.executor->logits(1).data());
  CHECK_THROWS_AS(remote.executor->logits(2), std::logic_error);
  CHECK(remote.executor->copy_result_rows(2).get()[kVocab] == 100);
  CHECK_THROWS_WITH_AS(remote.executor->copy_result_rows(3), "no such row", Error);

  CHECK_THROWS_WITH_AS(remote.executor->profile({tokens, positions, {}, outputs}, 4), "the card is gone", Error);
  remote.executor->forward({tokens, positions, {}, outputs}); // goes on
  CHECK(remote.recorder.calls.back() == "wait");
}

TEST_CASE("a sampler does not go on from what cannot be its own") {
  core::Sampler sampler({.repeat_last_n = 2, .seed = 1}, 4);
  const std::vector<int32_t> counts(4), longer(5), ring = {1, 2, 3}, outside = {9};
  CHECK_THROWS_AS(sampler.restore({longer, {}, 0}, 0), Error);
  CHECK_THROWS_AS(sampler.restore({counts, ring, 0}, 0), Error);
  CHECK_THROWS_AS(sampler.restore({counts, outside, 0}, 0), Error);
  CHECK_THROWS_AS(sampler.restore({counts, std::span(ring).first(2), 2}, 0), Error);
}
