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
  void forward(const core::Batch& batch) override {
    calls.push_back(fmt::format("forward {}", batch.tokens.size()));
    rows_ = std::ssize(batch.outputs);
  }
  std::span<const float> logits(int64_t i) override {
    if (i >= rows_) throw std::logic_error("no such row");
    row_.resize(kVocab);
    std::iota(row_.begin(), row_.end(), 100.0f * static_cast<float>(i));
    return row_;
  }
  bool can_choose(const core::SamplerParams&) const override { return true; }
  std::span<const int32_t> choose(std::span<const core::Sampler* const> samplers) override {
    chosen_.clear();
    for (const core::Sampler* one : samplers) chosen_.push_back(one ? static_cast<int32_t>(one->draws()) : -7);
    return chosen_;
  }
  bool start_decoding(const core::Sampler& given, int32_t position, int32_t stream) override {
    calls.push_back(fmt::format("start {} {}", position, stream));
    sampler = given;
    return true;
  }
  int32_t next_token(bool ahead) override {
    calls.push_back(fmt::format("next {}", ahead));
    return 3;
  }
  void decode_guesses(std::span<const int32_t> tokens, int64_t guesses, int32_t position) override {
    calls.push_back(fmt::format("guesses {} {} {}", tokens.size(), guesses, position));
  }
  std::span<const int32_t> chosen_tokens() override {
    calls.emplace_back("chosen");
    return {};
  }
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
  CHECK(remote.executor->start_decoding(own, 8, 2));
  remote.executor->next_token(true);
  remote.executor->next_token(false);
  const std::vector<int32_t> guesses = {4, 5, 6};
  remote.executor->decode_guesses(guesses, 2, 10);
  remote.executor->chosen_tokens();
  remote.executor->time_decode(7, 1, 3);
  CHECK(remote.recorder.calls ==
        std::vector<std::string>{"start 8 2", "next true", "next false", "guesses 3 2 10", "chosen", "time 7 1 3"});
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
  remote.executor->forward({tokens, positions, {}, outputs});
  CHECK(remote.executor->logits(1)[3] == 103);
  CHECK(remote.executor->logits(0)[3] == 3);
  CHECK(remote.executor->logits(0).data() + kVocab == remote.executor->logits(1).data());
  CHECK_THROWS_AS(remote.executor->logits(2), std::logic_error);
  CHECK(remote.executor->copy_result_rows(2).get()[kVocab] == 100);
  CHECK_THROWS_WITH_AS(remote.executor->copy_result_rows(3), "no such row", Error);

  core::Sampler sampler({.seed = 1}, kVocab);
  sampler.accept_drawn(4);
  const std::vector<const core::Sampler*> samplers = {nullptr, &sampler};
  const std::span<const int32_t> chosen = remote.executor->choose(samplers);
  CHECK(std::vector<int32_t>(chosen.begin(), chosen.end()) == std::vector<int32_t>{-7, 1});

  CHECK_THROWS_WITH_AS(remote.executor->profile({tokens, positions, {}, outputs}, 4), "the card is gone", Error);
  remote.executor->next_token(false); // goes on
  CHECK(remote.recorder.calls.back() == "next false");
}

TEST_CASE("a sampler does not go on from what cannot be its own") {
  core::Sampler sampler({.repeat_last_n = 2, .seed = 1}, 4);
  const std::vector<int32_t> counts(4), longer(5), ring = {1, 2, 3}, outside = {9};
  CHECK_THROWS_AS(sampler.restore({longer, {}, 0}, 0), Error);
  CHECK_THROWS_AS(sampler.restore({counts, ring, 0}, 0), Error);
  CHECK_THROWS_AS(sampler.restore({counts, outside, 0}, 0), Error);
  CHECK_THROWS_AS(sampler.restore({counts, std::span(ring).first(2), 2}, 0), Error);
}
