// Device and host samplers choose equal tokens.
#include "core/error.h"
#include "core/sampler.h"
#include "device.h"
#include "kernels/cuda/executor/executor.h"
#include "support/numerics.h"
#include "support/random_program.h"

#include <vector>

using namespace ridge;
using core::Sampler;
using core::SamplerParams;
using quant::Type;
using tests::make_cuda_executor;
using tests::RandomProgram;

namespace {

// Distributions neither flat nor certain at temperatures near 0.1.
RandomProgram chain_of_tokens(uint64_t seed, int64_t vocab) {
  RandomProgram model(seed);
  model.finish(model.norm(model.embed(Type::F16, 64, vocab), 64), Type::F16);
  return model;
}

core::ExecutorConfig config() {
  core::ExecutorConfig config;
  config.context = 256;
  config.max_batch = 8;
  return config;
}

std::vector<float> logits_after(core::Executor& executor, int32_t token, int32_t position) {
  const int32_t output = 0;
  executor.forward({{&token, 1}, {&position, 1}, {}, {&output, 1}});
  const auto logits = executor.logits(0);
  return {logits.begin(), logits.end()};
}

std::vector<SamplerParams> settings(int64_t seed) {
  SamplerParams plain;
  plain.seed = seed;
  plain.temp = 0.15f;
  std::vector<SamplerParams> all(9, plain);
  all[1].temp = 0;
  all[2].top_k = 256;
  all[2].top_p = 0.999f;
  all[2].min_p = 0;
  all[2].temp = 1;
  all[3].top_k = 1;
  all[4].top_p = 0.3f;
  all[5].top_p = 1;
  all[5].min_p = 0.3f;
  all[6].repeat_penalty = 1.7f;
  all[6].frequency_penalty = 0.05f;
  all[6].repeat_last_n = 5;
  all[7].presence_penalty = 0.3f;
  all[7].frequency_penalty = -0.1f;
  all[7].repeat_last_n = -1;
  all[8].temp = 0;
  all[8].repeat_penalty = 2;
  return all;
}

} // namespace

TEST_CASE("CUDA: the device chooses the token that the host would choose, for any vocabulary and settings") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  for (const int64_t vocab : {1, 3, 500, 513, 5000, 130001}) {
    RandomProgram model = chain_of_tokens(seed, vocab);
    const auto executor = make_cuda_executor(model.program, config());
    for (const SamplerParams& params : settings(static_cast<int64_t>(seed & 0xffff))) {
      if (!share.takes_next()) continue;
      CAPTURE(vocab);
      CAPTURE(params.top_k);
      CAPTURE(params.temp);
      CAPTURE(params.repeat_last_n);
      Sampler sampler(params, vocab);
      int32_t token = 0;
      std::vector<int32_t> host, device;
      for (int32_t i = 0; i < 40; ++i) {
        const std::vector<float> logits = logits_after(*executor, token, i);
        REQUIRE(executor->start_decoding(sampler, i + 1, 0));
        device.push_back(executor->next_token(false));
        token = sampler.sample(logits);
        sampler.accept(token);
        host.push_back(token);
      }
      CHECK(device == host);

      for (int repeat = 0; repeat < 2; ++repeat) {
        sampler.reset();
        logits_after(*executor, 0, 0);
        REQUIRE(executor->start_decoding(sampler, 1, 0));
        for (size_t i = 0; i < device.size(); ++i) device[i] = executor->next_token(i + 1 < device.size());
        CHECK(device == host);
      }
    }
  }
}

TEST_CASE("CUDA: the device chooses a token for each sequence of a step as the host would") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const int64_t vocab : {3, 5000, 130001}) {
    CAPTURE(vocab);
    RandomProgram model = chain_of_tokens(seed, vocab);
    core::ExecutorConfig wide = config();
    wide.streams = wide.max_batch = wide.max_outputs = 40;
    const auto executor = make_cuda_executor(model.program, wide);
    std::vector<Sampler> samplers;
    for (const SamplerParams& params : settings(static_cast<int64_t>(seed & 0xffff)))
      for (int64_t i = 0; i < 5; ++i) {
        samplers.emplace_back(params, vocab);
        for (int64_t draws = 0; draws < i; ++draws) samplers.back().accept_drawn(0);
      }
    std::erase_if(samplers, [&](const Sampler& sampler) { return !executor->can_choose(sampler.params()); });
    REQUIRE(samplers.size() >= 30);
    for (const size_t rows : {size_t{1}, size_t{7}, samplers.size(), size_t{3}}) {
      CAPTURE(rows);
      std::vector<int32_t> tokens, positions, streams, outputs;
      std::vector<const Sampler*> wanted;
      for (size_t i = 0; i < rows; ++i) {
        tokens.push_back(static_cast<int32_t>(model.integer(0, vocab - 1)));
        positions.push_back(0);
        streams.push_back(static_cast<int32_t>(i));
        outputs.push_back(static_cast<int32_t>(i));
        wanted.push_back(i % 5 == 4 ? nullptr : &samplers[i]);
      }
      executor->forward({tokens, positions, streams, outputs});
      const std::span<const int32_t> chosen = executor->choose(wanted);
      REQUIRE(chosen.size() == rows);
      for (size_t i = 0; i < rows; ++i)
        if (wanted[i]) CHECK(chosen[i] == samplers[i].sample(executor->logits(static_cast<int64_t>(i))));
    }
  }
}

TEST_CASE("CUDA: equal logits are taken in the order of their tokens, however many there are") {
  REQUIRE_DEVICE();
  for (const int64_t vocab : {300, 40000}) {
    RandomProgram model(1);
    const core::ValueId x = model.embed(Type::F32, 4, vocab);
    std::fill(model.storage.back().begin(), model.storage.back().end(), std::byte{0});
    model.finish(x);
    const auto executor = make_cuda_executor(model.program, config());
    for (const int32_t top_k : {1, 7, 256}) {
      SamplerParams params;
      params.top_k = top_k;
      params.seed = 5;
      params.top_p = 1;
      Sampler sampler(params, vocab);
      const std::vector<float> logits = logits_after(*executor, 0, 0);
      for (int i = 0; i < 20; ++i) {
        REQUIRE(executor->start_decoding(sampler, 1, 0));
        CHECK(executor->next_token(false) == sampler.sample(logits));
        CHECK(sampler.candidates().size() == static_cast<size_t>(top_k));
      }
    }
  }
}

TEST_CASE("CUDA: what the device cannot sample is left to the host, and logits that are no numbers are told") {
  REQUIRE_DEVICE();
  RandomProgram model = chain_of_tokens(1, 100);
  const auto executor = make_cuda_executor(model.program, config());
  logits_after(*executor, 0, 0);
  SamplerParams typical, all;
  typical.typical_p = 0.9f;
  all.top_k = 0;
  CHECK_FALSE(executor->start_decoding(Sampler(typical, 100), 1, 0));
  CHECK_FALSE(executor->start_decoding(Sampler(all, 100), 1, 0));
  CHECK_FALSE(executor->can_choose(typical));
  SamplerParams xtc, reordered;
  xtc.xtc_probability = 0.5f;
  reordered.order = {ridge::core::SamplerKind::temperature, ridge::core::SamplerKind::top_k};
  CHECK_FALSE(executor->can_choose(xtc));
  CHECK_FALSE(executor->can_choose(reordered));
  CHECK_FALSE(executor->can_choose(all));
  SamplerParams penalties;
  penalties.presence_penalty = 1;
  CHECK_FALSE(executor->can_choose(penalties));
  CHECK(executor->can_choose({}));

  for (std::byte& b : model.storage.back()) b = std::byte{0x7e};
  const auto broken = make_cuda_executor(model.program, config());
  logits_after(*broken, 0, 0);
  const Sampler plain({}, 100);
  const Sampler* const one[] = {&plain};
  CHECK(broken->choose(one)[0] == -1);
  logits_after(*broken, 0, 0);
  REQUIRE(broken->start_decoding(Sampler({}, 100), 1, 0));
  CHECK(broken->next_token(true) == -1);
  CHECK(broken->next_token(false) == -1);
}
