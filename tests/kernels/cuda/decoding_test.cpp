// Single-token kernels, and long decoding.
#include "device.h"
#include "greedy.h"
#include "support/executor_runs.h"

#include <algorithm>

using namespace ridge;
using quant::Type;
using tests::GpuOptions;

TEST_CASE("CUDA: a feed-forward block of any size, its norm, gate and sum fused, gives what its ops give") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  const Type types[] = {Type::Q8_0,  Type::Q4_0,    Type::MXFP4, Type::Q4_K, Type::Q6_K,
                        Type::IQ1_M, Type::IQ2_XXS, Type::Q1_0,  Type::F16};
  tests::Share share;
  for (size_t i = 0; i < 4 * std::size(types); ++i) {
    if (!share.takes_next()) continue;
    const Type type = types[i % std::size(types)];
    tests::RandomProgram m(seed + i);
    const int64_t block = std::max<int64_t>(quant::format(type).block_weights, 32), most = 5000 / block;
    const int64_t width = block * m.integer(1, most), hidden = block * m.integer(1, most);
    CAPTURE(i);
    CAPTURE(quant::format(type).name);
    CAPTURE(width);
    CAPTURE(hidden);
    const core::ActivationParams activations[] = {
        {core::Activation::silu}, {core::Activation::silu, 1.702f, 2, false, 1}, {core::Activation::gelu}};
    const core::ActivationParams& activation = activations[i / std::size(types) % std::size(activations)];
    const bool is_gelu = activation.kind == core::Activation::gelu;
    CAPTURE(is_gelu);
    core::ValueId x = m.embed(Type::F32, width, 20);
    const core::ValueId h = m.norm(x, width);
    const core::ValueId gate = m.linear(h, type, hidden), up = m.linear(h, type, hidden);
    const core::ValueId act = m.op(core::OpKind::glu, {gate, up}, {}, hidden, activation);
    x = m.op(core::OpKind::add, {x, m.linear(act, type, width)}, {}, width);
    m.finish(m.norm(x, width));
    // Three products; gelu rounds to 11 bits, and ties may differ.
    const double of_one = std::max(tests::single_token_bound(quant::format(type)), is_gelu ? 1e-7 : 0);
    CHECK(tests::worst_error(tests::make_executor, m, tests::fast_config(), {1, 1, 2}) <
          (of_one > 1e-5 ? 10 * of_one : of_one));
  }
}

TEST_CASE("CUDA: a norm of any width, the sum and the factor behind it fused, gives what its ops give") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const int64_t most : {250, 2000, 8000, 12000}) { // a warp, 256 threads, 1024, more than fits into registers
    tests::RandomProgram m(seed + static_cast<uint64_t>(most));
    const int64_t width = m.integer(most / 2, most);
    CAPTURE(width);
    const core::ValueId x = m.embed(Type::F32, width, 20), y = m.embed(Type::F32, width, 20);
    const core::ValueId sum =
        m.op(core::OpKind::add, {x, m.norm(y, width)}, {}, width, core::AddParams{static_cast<float>(m.integer(1, 3))});
    m.finish(m.op(core::OpKind::activate, {sum}, {}, width,
                  core::ActivationParams{core::Activation::identity, m.integer(0, 1) ? 0.7f : 1}));
    CHECK(tests::worst_error(tests::make_executor, m, tests::exact_config(), {1, 3}) < 1e-11);
  }
}

TEST_CASE("CUDA: a norm between products takes its row as it arrives, and passes it on") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const int64_t most : {8, 62, 250, 280}) {
    tests::RandomProgram m(seed + static_cast<uint64_t>(most));
    const int64_t width = 32 * m.integer(most / 2, most);
    CAPTURE(width);
    core::ValueId x = m.linear(m.embed(Type::F32, width, 20), Type::Q8_0, width);
    for (int i = 0; i < 3; ++i)
      x = m.op(core::OpKind::add, {x, m.norm(m.linear(x, Type::Q8_0, width), width)}, {}, width);
    m.finish(x);
    CHECK(tests::worst_error(tests::make_executor, m, tests::fast_config(), {1, 2, 1}) < 1e-6);
    // Nonzero means of random matrices amplify f16 rounding: median 4e-7, worst 8.6e-6 of 59 seeds.
    CHECK(tests::worst_error(tests::make_executor, m, tests::fast_config(), {5}) < 3e-5);
  }
}

// Detects races between overlapping kernels.
TEST_CASE("CUDA: 10,000 tokens are the same with overlapping kernels in a graph as launched one by one") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const int64_t experts : {0, 8}) {
    CAPTURE(experts);
    tests::RandomProgram model(seed);
    tests::RandomProgram::Shape shape;
    shape.vocab = 3000;
    shape.experts = experts;
    shape.used = 2;
    model.transformer(shape, Type::Q4_K, Type::Q6_K);
    core::ExecutorConfig config = tests::fast_config();
    config.context = 10240;
    GpuOptions one_by_one;
    one_by_one.graphs = one_by_one.overlap = false;
    const int64_t count = tests::Share::of(experts ? 4000 : 10000);
    const auto tokens_of = [&](const GpuOptions& options) {
      return tests::greedy_tokens(*tests::make_cuda_executor(model.program, config, options), shape.vocab, 5, 0, count);
    };
    const std::vector<int32_t> graph = tokens_of({});
    CHECK(std::ssize(graph) == count);
    CHECK(graph == tokens_of(one_by_one));
  }
}
