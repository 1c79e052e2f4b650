// Products that have a matrix per head, in prompts.
#include "kernels/cuda/device.h"
#include "support/executor_runs.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

using namespace ridge;
using quant::Type;
using tests::GpuOptions;
using tests::RandomProgram;
using tests::Steps;

namespace {

struct Shape {
  int64_t heads, cols, between, rows;
  bool of_slots; // the first product's input has columns of each head
};

// Two products, as in front of and behind latent attention. Inputs of tokens differ in magnitude.
void build(RandomProgram& m, const Shape& shape, Type type) {
  constexpr int64_t kTokens = 50;
  const int64_t width = (shape.of_slots ? shape.heads : 1) * shape.cols;
  const core::ValueId x = m.embed(Type::F32, width, kTokens);
  auto* inputs = reinterpret_cast<float*>(m.storage.back().data());
  for (int64_t i = 0; i < kTokens * width; ++i) inputs[i] *= std::ldexp(1.0f, static_cast<int>(i / width % 41) - 20);
  const core::ValueId ids = m.value(shape.heads, false, core::ValueKind::i32);
  m.program.ops.push_back({core::OpKind::head_ids, -1, "head_ids", {}, {ids}, {}, {}});
  const auto of_heads = [&](core::ValueId in, int64_t cols, int64_t rows) {
    return m.op(core::OpKind::expert_linear, {in, ids}, {m.weight(type, cols, rows, shape.heads)}, shape.heads * rows,
                core::ExpertParams{shape.heads});
  };
  m.finish(of_heads(of_heads(x, shape.cols, shape.between), shape.between, shape.rows));
}

double worst_row(std::span<const float> a, std::span<const float> b, int64_t rows) {
  double worst = 0;
  const size_t width = a.size() / static_cast<size_t>(rows);
  for (size_t at = 0; at < a.size(); at += width) {
    const double error = tests::nmse(a.subspan(at, width), b.subspan(at, width));
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

void check(RandomProgram& m, const Shape& shape, Type type, const std::vector<int32_t>& counts,
           const GpuOptions& options) {
  CAPTURE(shape.heads);
  CAPTURE(shape.cols);
  CAPTURE(shape.between);
  CAPTURE(shape.rows);
  CAPTURE(shape.of_slots);
  CAPTURE(options.way);
  CAPTURE(options.fuse);
  core::ExecutorConfig config;
  config.context = 1024;
  config.max_batch = config.max_outputs = *std::ranges::max_element(counts);
  const auto executor = tests::make_cuda_executor(m.program, config, options);
  for (const int32_t count : counts) {
    CAPTURE(count);
    const Steps steps = tests::consecutive(m, 0, count);
    tests::Naive naive(m.program, config.k_type, config.v_type);
    const bool has_matvecs = executor->describe_plan(steps.batch()).find(" matvec ") != std::string::npos;
    const double bound = has_matvecs ? 10 * tests::single_token_bound(quant::format(type)) : 1e-5;
    CHECK(worst_row(tests::run(*executor, steps), naive.forward(steps.batch()), count) < bound);
  }
}

} // namespace

TEST_CASE("CUDA: matrices of heads give prompts what they should, in every format, of any size") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const quant::FormatInfo& format : tests::share_of(quant::formats())) {
    CAPTURE(format.name);
    RandomProgram model(seed ^ static_cast<uint64_t>(format.type));
    const int64_t unit = std::max<int64_t>(format.block_weights, 32);
    const Shape shape = {model.integer(1, 6), unit * model.integer(1, 512 / unit), unit * model.integer(1, 512 / unit),
                         model.integer(1, 300), model.integer(0, 3) != 0};
    build(model, shape, format.type);
    GpuOptions wide, other;
    wide.way = "wide";
    other.fuse = model.integer(0, 1) != 0;
    other.way = model.integer(0, 1) != 0 ? "tiles-8" : "tiles-32";
    const auto count = static_cast<int32_t>(model.integer(40, 600));
    for (const GpuOptions& options : {wide, other}) check(model, shape, format.type, {count}, options);
  }
}

TEST_CASE("CUDA: matrices of heads as in latent attention give batches of any size what they should") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const Type type : {Type::Q5_0, Type::Q8_0, Type::F32}) {
    CAPTURE(type);
    RandomProgram model(seed);
    const Shape shape = {5, model.integer(0, 1) != 0 ? 128 : 192, 512, 128, true};
    build(model, shape, type);
    std::vector<int32_t> counts = {2, 300, 64, 257};
    for (const int64_t most : {32, 96, 128, 192, 600}) counts.push_back(static_cast<int32_t>(model.integer(6, most)));
    check(model, shape, type, counts, {});
  }
}
