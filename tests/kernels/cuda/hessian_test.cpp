// GPU calibration against the CPU's.
#include "kernels/cuda/encode/hessian.h"

#include "convert/calibration.h"
#include "device.h"
#include "kernels/cpu/executor/executor.h"
#include "kernels/cuda/executor/executor.h"
#include "quant/encode/encode.h"
#include "quant/feedback/gptq.h"
#include "support/correlated.h"
#include "support/executor_runs.h"

using namespace ridge;
using quant::Type;
using tests::correlated_inputs;
using tests::loss;
using tests::random_weights;

namespace {

quant::MakeHessian maker() {
  std::string problem;
  quant::MakeHessian make = kernels::cuda::hessian_maker(problem);
  INFO(problem);
  REQUIRE(make);
  return make;
}

} // namespace

TEST_CASE("the GPU's Hessian is the CPU's, however its inputs come") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t cols = 352, count = 701;
  const auto x = correlated_inputs(random, count, cols);
  quant::CpuHessian cpu(cols);
  const auto gpu = maker()(cols);
  cpu.add(x);
  gpu->add(std::span(x).first(100 * cols));
  gpu->add(std::span(x).subspan(100 * cols));
  CHECK(tests::nmse(gpu->mean_squares(), cpu.mean_squares()) < 1e-10);
  const auto errors = random_weights(random, 5 * cols);
  CHECK(gpu->output_error(errors) == doctest::Approx(cpu.output_error(errors)).epsilon(1e-4));
}

TEST_CASE("feedback on the GPU loses what it loses on the CPU, in every type that has it") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t cols = 768, rows = 37;
  quant::CpuHessian cpu(cols);
  const auto gpu = maker()(cols);
  const auto x = correlated_inputs(random, 3000, cols);
  cpu.add(x);
  gpu->add(x);
  const auto weights = random_weights(random, rows * cols);
  for (const quant::FormatInfo& info : tests::share_of(quant::stored_formats())) {
    if (!quant::can_encode_with_feedback(info.type)) continue;
    CAPTURE(info.name);
    std::vector<std::byte> plain(static_cast<size_t>(rows * info.row_bytes(cols))), on_cpu(plain.size()),
        on_gpu(plain.size());
    quant::encode_rows(info.type, weights.data(), rows, cols, {}, plain.data());
    cpu.encode(info.type, weights.data(), rows, on_cpu.data());
    gpu->encode(info.type, weights.data(), rows, on_gpu.data());
    const double expected = loss(cpu, info.type, weights, on_cpu);
    // Another order of sums rounds other weights up, like another random draw.
    CHECK(loss(cpu, info.type, weights, on_gpu) < 1.3 * expected);
    CHECK(loss(cpu, info.type, weights, on_gpu) < 0.8 * loss(cpu, info.type, weights, plain));
  }
}

TEST_CASE("rounding with the GPU's Hessian loses what it loses with the CPU's, and less than feedback") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t cols = 768, rows = 70; // three groups of Descent::kRows
  quant::CpuHessian cpu(cols);
  const auto gpu = maker()(cols);
  const auto x = correlated_inputs(random, 3000, cols);
  cpu.add(x);
  gpu->add(x);
  const auto weights = random_weights(random, rows * cols);
  for (const Type type : {Type::Q4_0, Type::Q4_K, Type::Q3_K, Type::IQ3_S}) {
    CAPTURE(quant::format(type).name);
    std::vector<std::byte> fed(static_cast<size_t>(rows * quant::format(type).row_bytes(cols))), on_gpu(fed.size());
    cpu.encode(type, weights.data(), rows, fed.data());
    gpu->round(type, weights.data(), rows, on_gpu.data());
    CHECK(loss(cpu, type, weights, on_gpu) < loss(cpu, type, weights, fed));
  }
}

TEST_CASE("the GPU's targets for the original's outputs are the CPU's") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t cols = 352, rows = 45, count = 900;
  quant::CpuHessian cpu(cols);
  const auto gpu = maker()(cols);
  const auto originals = correlated_inputs(random, count, cols), ahead = random_weights(random, count * rows);
  const auto weights = random_weights(random, rows * cols), noise = random_weights(random, count * cols);
  std::vector<float> inputs = originals;
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] += noise[i];
  for (quant::Hessian* hessian : {static_cast<quant::Hessian*>(&cpu), gpu.get()}) {
    hessian->add(inputs);
    for (const int64_t half : {0, 1})
      hessian->add_originals(std::span(inputs).subspan(half * 450 * cols, 450 * cols),
                             std::span(originals).subspan(half * 450 * cols, 450 * cols),
                             std::span(ahead).subspan(half * 450 * rows, 450 * rows));
  }
  std::vector<float> on_cpu = cpu.targets(weights.data(), rows), on_gpu = gpu->targets(weights.data(), rows);
  for (size_t i = 0; i < weights.size(); ++i) on_cpu[i] -= weights[i], on_gpu[i] -= weights[i];
  CHECK(tests::nmse(on_gpu, on_cpu) < 1e-4);
}

TEST_CASE("feedback on the GPU without inputs is plain encoding's equal") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t cols = 256, rows = 8;
  const auto weights = random_weights(random, rows * cols);
  std::vector<std::byte> plain(static_cast<size_t>(rows * quant::format(Type::Q4_K).row_bytes(cols))),
      fed(plain.size());
  quant::encode_rows(Type::Q4_K, weights.data(), rows, cols, {}, plain.data());
  maker()(cols)->encode(Type::Q4_K, weights.data(), rows, fed.data());
  std::vector<float> a(weights.size()), b(weights.size());
  quant::format(Type::Q4_K).decode(plain.data(), rows * cols, a.data());
  quant::format(Type::Q4_K).decode(fed.data(), rows * cols, b.data());
  CHECK(tests::nmse(b, weights) < tests::nmse(a, weights) * 1.01);
}

TEST_CASE("an observer of the CUDA executor sees what one of the CPU's sees, of experts too") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  size_t entries = 0;
  tests::for_each_op(seed, [&](const std::string& name, tests::RandomProgram& model) {
    CAPTURE(name);
    convert::ImatrixCollector on_cpu(model.program, true), on_gpu(model.program, true);
    const tests::Steps steps = tests::consecutive(model, 0, 40);
    core::ExecutorConfig config = tests::exact_config();
    config.observer = &on_cpu;
    tests::run(*kernels::cpu::make_cpu_executor(model.program, config), steps);
    config.observer = &on_gpu;
    tests::run(*tests::make_cuda_executor(model.program, config), steps);
    const gguf::Imatrix expected = on_cpu.result(), actual = on_gpu.result();
    REQUIRE(actual.entries.size() == expected.entries.size());
    for (const auto& [weight, entry] : expected.entries) {
      CAPTURE(weight);
      const gguf::Imatrix::Entry& seen = actual.entries.at(weight);
      CHECK(seen.counts == entry.counts);
      CHECK(tests::nmse(seen.sum_of_squares, entry.sum_of_squares) < 1e-6);
      ++entries;
    }
  });
  CHECK(entries > 10);
}
