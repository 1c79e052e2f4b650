// Device and host samplers choose equal tokens.
#include "core/error.h"
#include "core/sampler.h"
#include "device.h"
#include "greedy.h"
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

void begin_chain_after(core::Executor& executor, int32_t token, int32_t position, const Sampler& sampler) {
  const int32_t output = 0;
  tests::begin_chain(executor, {{&token, 1}, {&position, 1}, {}, {&output, 1}}, sampler);
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
        begin_chain_after(*executor, token, i, sampler);
        device.push_back(tests::next_token(*executor, i + 1, false));
        token = sampler.sample(logits);
        sampler.accept(token);
        host.push_back(token);
      }
      CHECK(device == host);

      for (int repeat = 0; repeat < 2; ++repeat) {
        sampler.reset();
        begin_chain_after(*executor, 0, 0, sampler);
        for (size_t i = 0; i < device.size(); ++i)
          device[i] = tests::next_token(*executor, static_cast<int64_t>(i) + 1, i + 1 < device.size());
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
      executor->submit({tokens, positions, streams, outputs}, {.samplers = wanted});
      const std::span<const int32_t> chosen = executor->wait();
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
        begin_chain_after(*executor, 0, 0, sampler);
        CHECK(tests::next_token(*executor, 1, false) == sampler.sample(logits));
        CHECK(sampler.candidates().size() == static_cast<size_t>(top_k));
      }
    }
  }
}

TEST_CASE("CUDA: what the device cannot sample is left to the host, and logits that are no numbers are told") {
  REQUIRE_DEVICE();
  RandomProgram model = chain_of_tokens(1, 100);
  const auto executor = make_cuda_executor(model.program, config());
  SamplerParams typical, all;
  typical.typical_p = 0.9f;
  all.top_k = 0;
  CHECK_FALSE(executor->can_chain(typical));
  CHECK_FALSE(executor->can_chain(all));
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
  const Sampler plain({}, 100);
  const Sampler* const one[] = {&plain};
  const int32_t zero = 0;
  broken->submit({{&zero, 1}, {&zero, 1}, {}, {&zero, 1}}, {.samplers = one});
  CHECK(broken->wait()[0] == -1);
  begin_chain_after(*broken, 0, 0, plain);
  CHECK(tests::next_token(*broken, 1, true) == -1);
  CHECK(tests::next_token(*broken, 2, false) == -1);
}
