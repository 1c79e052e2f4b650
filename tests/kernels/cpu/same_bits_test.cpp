// Logits are bit-identical whatever else is in the batch: seeds do not depend on caching or other clients.
#include "kernels/cpu/each_target.h"
#include "kernels/cpu/executor/executor.h"
#include "support/executor_runs.h"

#include <algorithm>

using namespace ridge;
using core::OpKind;
using quant::Type;
using tests::exact_config;
using tests::fast_config;
using tests::for_each_target;
using tests::RandomProgram;
using tests::Steps;

namespace {

constexpr int kStreams = 4;

// `text` in stream 0 in pieces of size(), with `others` tokens of other streams.
std::vector<float> logits_of(RandomProgram& model, core::ExecutorConfig config, const std::vector<int32_t>& text,
                             const std::function<int64_t()>& size, int64_t others) {
  config.streams = kStreams;
  const auto executor = kernels::cpu::make_cpu_executor(model.program, config);
  std::vector<int32_t> next(kStreams, 0);
  std::vector<float> all;
  while (next[0] < std::ssize(text)) {
    const int64_t piece = std::min<int64_t>(size(), std::ssize(text) - next[0]);
    Steps steps;
    const auto add = [&](int32_t stream, int32_t token) {
      steps.tokens.push_back(token);
      steps.streams.push_back(stream);
      steps.positions.push_back(next[stream]++);
    };
    const auto add_other = [&] {
      const auto stream = static_cast<int32_t>(model.integer(1, kStreams - 1));
      if (next[stream] < config.context) add(stream, static_cast<int32_t>(model.integer(0, model.program.vocab - 1)));
    };
    for (int64_t i = 0; i < others; ++i) add_other();
    for (int64_t i = 0; i < piece; ++i) {
      steps.outputs.push_back(static_cast<int32_t>(steps.tokens.size()));
      add(0, text[next[0]]);
    }
    for (int64_t i = 0; i < others / 2; ++i) add_other();
    const std::vector<float> logits = tests::run(*executor, steps);
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void check_same_bits(RandomProgram& model, core::ExecutorConfig config, int64_t length) {
  config.threads = 1; // small products spend most time in barriers
  std::vector<int32_t> text(length);
  for (int32_t& token : text) token = static_cast<int32_t>(model.integer(0, model.program.vocab - 1));
  const std::vector<float> at_once = logits_of(
      model, config, text, [&] { return length; }, 0);
  CHECK(same_bits(at_once, logits_of(
                               model, config, text, [] { return 1; }, 0)));
  CHECK(same_bits(at_once, logits_of(
                               model, config, text, [&] { return model.integer(1, 9); }, 12)));
}

} // namespace

TEST_CASE("every op gives a token the same bits in whatever batch") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::for_each_op(seed, [](const std::string& name, RandomProgram& model) {
    CAPTURE(name);
    for_each_target([&] { check_same_bits(model, exact_config(), 13); });
  });
}

TEST_CASE("every format gives a token the same bits in whatever batch, with activations of 8 bits, 16 and f32") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const quant::FormatInfo& format : quant::formats()) {
    CAPTURE(format.name);
    RandomProgram model(seed);
    const int64_t cols =
        format.block_weights * (format.block_weights == 256 ? model.integer(1, 6) : model.integer(1, 35));
    model.finish(model.linear(model.embed(Type::F32, cols, 21), format.type, model.integer(30, 75), true));
    core::ExecutorConfig wide = fast_config();
    wide.wide = true;
    for_each_target([&] {
      for (const core::ExecutorConfig& config : {fast_config(), wide, exact_config()})
        check_same_bits(model, config, 41); // several of AMX's tiles of tokens
    });
  }
}

TEST_CASE("whole transformers give a token the same bits in whatever batch") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::for_each_transformer(seed, [](Type type, int64_t experts, RandomProgram& model) {
    CAPTURE(type);
    CAPTURE(experts);
    check_same_bits(model, fast_config(), 40);
    check_same_bits(model, exact_config(), 40);
  });
}

TEST_CASE("attention gives a token the same bits in whatever batch, over whole caches and rings of any size") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const auto& [window, chunked] : {std::pair(0, false), {5, false}, {150, false}, {40, true}})
    for (const core::KvType type : {core::KvType::f32, core::KvType::f16, core::KvType::q8_0, core::KvType::bf16,
                                    core::KvType::q5_1, core::KvType::iq4_nl}) {
      CAPTURE(window);
      CAPTURE(chunked);
      CAPTURE(type);
      RandomProgram model(seed);
      RandomProgram::Shape shape = {.layers = 1, .width = 64, .hidden = 32};
      shape.attention = {.window = window, .chunked = chunked};
      shape.k_dim = shape.v_dim = shape.rotated = 32;
      model.transformer(shape, Type::Q8_0, Type::F32);
      core::ExecutorConfig config = fast_config();
      config.context = 400;
      config.k_type = config.v_type = type;
      std::vector<int32_t> text(400);
      for (int32_t& token : text) token = static_cast<int32_t>(model.integer(0, model.program.vocab - 1));
      std::vector<float> expected;
      for (const int64_t batch : {400, 300, 70, 33}) {
        config.max_batch = config.max_outputs = batch;
        const std::vector<float> all = logits_of(
            model, config, text, [&] { return model.integer(1, batch); }, 0);
        if (expected.empty()) expected = all;
        CHECK(same_bits(all, expected));
      }
    }
}
