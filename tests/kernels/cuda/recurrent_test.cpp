// Recurrent ops on chunked prompts, against naive.h.
#include "kernels/cuda/executor/executor.h"

#include "device.h"
#include "support/executor_runs.h"

#include <algorithm>

using namespace ridge;
using core::OpKind;
using quant::Type;
using tests::RandomProgram;

namespace {

constexpr double kFast = 1e-5;

void check(RandomProgram& model, const std::vector<int32_t>& sizes = {33, 1, 64, 60, 2, 45}) {
  core::ExecutorConfig config = tests::fast_config();
  config.context = 256;
  config.max_batch = config.max_outputs = std::ranges::max(sizes);
  const auto make = [](const core::Program& program, const core::ExecutorConfig& config) {
    return tests::make_cuda_executor(program, config, {});
  };
  const double error = tests::worst_error(make, model, config, sizes);
  MESSAGE("NMSE ", error);
  CHECK(error < kFast);
}

// f16 alone would lose 1e-6.
core::ValueId embed(RandomProgram& m, float size) {
  const core::ValueId x = m.embed(Type::F32, 16, 30);
  m.program.ops.back().params = core::EmbedParams{size};
  return x;
}

} // namespace

TEST_CASE("CUDA: the delta rule takes prompts in chunks") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const int64_t dim : {64, 128})
    for (const float size : {1.0f, 1e-6f}) {
      CAPTURE(dim);
      CAPTURE(size);
      RandomProgram m(seed);
      const int64_t k_heads = m.integer(1, 3), heads = k_heads * m.integer(1, 3), keys = 2 * k_heads * dim;
      m.program.states.push_back({"delta", heads * dim * dim});
      const core::ValueId x = embed(m, 1), sized = embed(m, size);
      const core::ValueId qkv = m.linear(sized, Type::F32, keys + heads * dim);
      const core::ValueId alpha = m.linear(x, Type::F32, heads), beta = m.linear(x, Type::F32, heads);
      const core::WeightId a = m.factors(heads, -2, -0.01), dt = m.factors(heads, -3, 1);
      m.finish(m.op(OpKind::delta_rule, {qkv, qkv, qkv, alpha, beta}, {a, dt}, heads * dim,
                    core::DeltaParams{0, k_heads, heads, dim, 1e-20f, m.integer(0, 1) == 1, 0, k_heads * dim, keys}));
      check(m);
    }
}

TEST_CASE("CUDA: Mamba 2 takes prompts in chunks") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const int64_t states : {64, 128})
    for (const int64_t head_dim : {16, 64, 80, 128})
      for (const float size : {1.0f, 1e-6f, 1e4f}) {
        CAPTURE(states);
        CAPTURE(head_dim);
        CAPTURE(size);
        RandomProgram m(seed);
        const int64_t groups = m.integer(1, 3), heads = groups * m.integer(1, 4);
        const int64_t width = heads * head_dim, shared = groups * states;
        m.program.states.push_back({"scan", width * states});
        const core::ValueId x = embed(m, 1), sized = embed(m, size);
        const core::ValueId xbc = m.linear(sized, Type::F32, width + 2 * shared), dt = m.linear(x, Type::F32, heads);
        const core::WeightId a = m.factors(heads, -2, -0.01), d = m.factors(heads, -1, 1),
                             bias = m.factors(heads, -3, 1);
        m.finish(m.op(OpKind::scan, {xbc, xbc, xbc, dt}, {a, d, bias}, width,
                      core::ScanParams{0, heads, head_dim, groups, states, 0, width, width + shared}));
        check(m);
      }
}

// Chunks read the previous state and the first replaces it. With more blocks than fit, the first ends before the last
// begins.
TEST_CASE("CUDA: convolutions that look far back take prompts in chunks") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  RandomProgram m(seed);
  const int64_t summed = 16, width = 3'750 + m.integer(0, 9), channels = summed * width, taps = m.integer(190, 256);
  m.program.states.push_back({"conv", (taps - 1) * channels});
  const core::ValueId shares = m.linear(m.embed(Type::F32, 16, 30), Type::F32, summed);
  const core::ValueId y =
      m.op(OpKind::conv1d, {m.embed(Type::F32, channels, 30)}, {m.weight(Type::F32, taps, channels)}, channels,
           core::ConvParams{0, taps, core::Activation::identity});
  m.finish(m.op(OpKind::expert_sum, {y, shares}, {}, width, core::ExpertParams{summed}));
  check(m, {20, 130, 1, 50});
}

// Batches of fewer tokens than the window has rows move the state by less than its length.
TEST_CASE("CUDA: means over many positions are the same whether tokens come alone, by a few or in prompts") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const auto& [kernel, halves] : {std::pair<int64_t, int64_t>{128, 1}, {129, 1}, {8, 2}}) {
    CAPTURE(kernel);
    RandomProgram m(seed);
    const int64_t width = halves * m.integer(1, 100);
    m.program.states.push_back({"pool", 2 * (kernel - 1) * width});
    const core::ValueId x = embed(m, 1), values = m.linear(x, Type::F32, width), gates = m.linear(x, Type::F32, width);
    m.finish(m.op(OpKind::pool, {values, gates}, {m.factors(kernel / halves * width, -2, 2)}, width / halves,
                  core::PoolParams{0, kernel, halves == 2}));
    check(m, {33, 1, 5, 64, 1, 16, 17, 2});
    check(m, {7, 150, 1, 1, 3});
  }
}
