// LoRA adapters and device-side sampling.
#include "kernels/cuda/device.h"
#include "kernels/cuda/gemm/prompt_adapters.h"
#include "kernels/cuda/greedy.h"
#include "kernels/cuda/matvec/pack_adapter.h"
#include "support/adapter_runs.h"
#include "support/random_adapters.h"

#include <algorithm>
#include <array>
#include <cmath>

using namespace ridge;

TEST_CASE("CUDA: streams of a batch have adapters of their own") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::printed_seed();
  tests::check_adapters(tests::make_executor, tests::exact_config(), 1e-9, seed);
  tests::check_adapters(tests::make_executor, tests::fast_config(), 1e-4, seed);
}

TEST_CASE("CUDA: decoding goes on with the adapters of its stream, in ops and in products") {
  REQUIRE_DEVICE();
  std::mt19937_64 random(tests::printed_seed());
  const tests::AdaptedModel model(false, random);
  for (core::ExecutorConfig config : {tests::exact_config(), tests::fast_config()}) {
    CAPTURE(config.exact);
    config.streams = 4;
    const auto executor = tests::make_executor(model.program, config),
               stepped = tests::make_executor(model.program, config);
    for (int32_t stream = 0; stream < 4; ++stream) {
      CAPTURE(stream);
      const auto uses = tests::different_uses()[stream];
      executor->set_adapters(stream, uses);
      stepped->set_adapters(stream, uses);
      const std::vector<int32_t> chosen = tests::greedy_tokens(*executor, model.program.vocab, 5, stream, 12);
      int32_t token = 5;
      for (int32_t position = 0; position < 12; ++position) {
        const int32_t zero = 0;
        stepped->forward({{&token, 1}, {&position, 1}, {&stream, 1}, {&zero, 1}});
        const std::span<const float> logits = stepped->logits(0);
        CHECK(logits[chosen[position]] >= *std::ranges::max_element(logits) - 1e-4f);
        token = chosen[position];
      }
    }
  }
}

namespace {

using tests::RandomProgram;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// One and two tokens take as many kernels as without adapters.
void check_plan_size(RandomProgram& model, const core::Program& plain) {
  const auto adapted = tests::make_executor(model.program, tests::fast_config()),
             without = tests::make_executor(plain, tests::fast_config());
  for (const int32_t tokens : {1, 2}) {
    const auto batch = tests::consecutive(model, 0, tokens);
    const std::string plan = adapted->describe_plan(batch.batch());
    CAPTURE(plan);
    CHECK(first_line(plan) == first_line(without->describe_plan(batch.batch())));
  }
}

// Two streams with uses of their own, together and alone.
double worst_adapted_error(RandomProgram& model) {
  core::ExecutorConfig config = tests::fast_config();
  config.streams = 2;
  // With f16, a key that another kernel rounds the other way changed one of 1,000 tokens' logits by an NMSE of 1e-3.
  config.k_type = config.v_type = core::KvType::f32;
  const auto executor = tests::make_executor(model.program, config);
  tests::Naive naive(model.program, config.k_type, config.v_type);
  std::vector<core::AdapterUse> uses(model.program.adapters.size(), {-0.9f, 0});
  uses.back() = {1.5f, 3};
  executor->set_adapters(1, uses);
  naive.set_adapters(1, uses);
  tests::WorstError worst;
  int32_t positions[2] = {};
  const auto compare = [&](const std::vector<int32_t>& streams) {
    tests::Steps steps;
    for (const int32_t stream : streams) {
      tests::Steps next = tests::consecutive(model, positions[stream]++, 1, stream);
      steps.tokens.push_back(next.tokens[0]);
      steps.positions.push_back(next.positions[0]);
      steps.streams.push_back(stream);
      steps.outputs.push_back(static_cast<int32_t>(steps.outputs.size()));
    }
    worst.add(tests::run(*executor, steps), naive.forward(steps.batch()));
  };
  for (const std::vector<int32_t>& streams :
       std::vector<std::vector<int32_t>>{{0}, {1}, {0, 1}, {1, 1}, {0, 0, 1, 1}, {1}, {0, 1}, {0, 0}, {0}})
    compare(streams);
  return worst.nmse();
}

} // namespace

TEST_CASE("CUDA: products add the changes of adapters in their own kernels, whatever the format and rank") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::printed_seed();
  using quant::Type;
  const std::vector<int64_t> all_ranks[] = {{16}, {1}, {8}, {64}, {3, 16}, {16, 16, 16, 16}};
  size_t turn = 0;
  for (const Type type : {Type::Q4_K, Type::Q6_K, Type::Q8_0, Type::Q5_0, Type::IQ4_XS, Type::IQ2_XS, Type::MXFP4,
                          Type::TQ2_0, Type::Q1_0, Type::F16, Type::BF16})
    for (const int64_t width : {1024, 256, 2048}) {
      const std::vector<int64_t>& ranks = all_ranks[turn % std::size(all_ranks)];
      const Type of_adapter = std::array{Type::F16, Type::F32, Type::BF16}[turn++ % 3];
      CAPTURE(type);
      CAPTURE(width);
      CAPTURE(ranks);
      RandomProgram model(seed);
      RandomProgram::Shape shape = {.width = width, .hidden = width == 256 ? 768 : width, .bias = turn % 2 == 0};
      if (type == Type::Q4_K) shape.value_type = Type::Q6_K;
      model.transformer(shape, type, Type::Q8_0);
      const core::Program plain = model.program;
      tests::add_adapters(model, ranks, of_adapter);
      check_plan_size(model, plain);
      CHECK(worst_adapted_error(model) < 40 * tests::single_token_bound(quant::format(type)));
    }
}

TEST_CASE("CUDA: prompt products add the changes of adapters, by stream and position") {
  REQUIRE_DEVICE();
  using quant::Type;
  const uint64_t seed = tests::printed_seed();
  for (const std::vector<int64_t>& ranks : {std::vector<int64_t>{16}, {3, 16}, {64}, {8, 120}})
    for (const Type type : {Type::Q4_K, Type::Q8_0, Type::F16}) {
      CAPTURE(ranks);
      CAPTURE(type);
      RandomProgram model(seed);
      model.transformer({.width = 512, .hidden = 768, .bias = ranks[0] == 3}, type,
                        type == Type::Q4_K ? Type::Q6_K : Type::Q8_0);
      tests::add_adapters(model, ranks, Type::F16);
      core::ExecutorConfig config = tests::fast_config();
      config.streams = 2;
      config.context = config.max_batch = 192;
      tests::GpuOptions prompt;
      prompt.way = "prompt";
      const auto executor = tests::make_cuda_executor(model.program, config, prompt);
      tests::Naive naive(model.program, config.k_type, config.v_type), rounded = naive;
      rounded.round_products();
      std::vector<core::AdapterUse> uses(ranks.size(), {-0.9f, 0});
      uses.back() = {2.5f, 30};
      executor->set_adapters(1, uses);
      naive.set_adapters(1, uses);
      rounded.set_adapters(1, uses);
      tests::Steps steps = tests::consecutive(model, 0, 75, 0), second = tests::consecutive(model, 0, 66, 1);
      steps.outputs = {74, 140};
      std::ranges::copy(second.tokens, std::back_inserter(steps.tokens));
      std::ranges::copy(second.positions, std::back_inserter(steps.positions));
      std::ranges::copy(second.streams, std::back_inserter(steps.streams));
      const std::string plan = executor->describe_plan(steps.batch());
      CAPTURE(plan);
      CHECK((plan.find("adapted") != std::string::npos) == (ranks.back() < 120)); // 3 x 128 columns beside q, k, v
      // Random models amplify rounding, some by far more than others. 1.0 to 1.5 times this over many rows; of Q4_K,
      // whose scales and minima are rounded, too, up to 38 times for these two rows.
      const std::vector<float> expected = naive.forward(steps.batch());
      const double rounding = tests::nmse(expected, rounded.forward(steps.batch()));
      CAPTURE(rounding);
      CHECK(tests::nmse(tests::run(*executor, steps), expected) < 1e-6 + (type == Type::Q4_K ? 200 : 16) * rounding);
      for (const int32_t stream : {0, 1}) {
        tests::Steps next = tests::consecutive(model, stream == 0 ? 75 : 66, 1, stream);
        CHECK(tests::nmse(tests::run(*executor, next), naive.forward(next.batch())) <
              40 * tests::single_token_bound(quant::format(type)));
      }
    }
}

namespace {

template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values)
      : memory_(values.size() * sizeof(T), "a test"), count_(values.size()) {
    cudaMemcpy(memory_.as(), values.data(), memory_.bytes(), cudaMemcpyHostToDevice);
  }
  T* data() const { return memory_.as<T>(); }
  std::vector<T> values() const {
    std::vector<T> all(count_);
    cudaMemcpy(all.data(), memory_.as(), memory_.bytes(), cudaMemcpyDeviceToHost);
    return all;
  }

 private:
  kernels::cuda::DeviceMemory memory_;
  size_t count_;
};

} // namespace

TEST_CASE("CUDA: an adapter's A x has room in f16 for small inputs, whatever the magnitudes of A and B") {
  REQUIRE_DEVICE();
  std::mt19937_64 random(tests::printed_seed());
  constexpr int64_t kRank = 5, kCols = 512, kRows = 300, kStride = 8;
  const auto normal = [&](int64_t count, float scale) {
    std::vector<float> values(count);
    std::normal_distribution<float> distribution(0, scale);
    for (float& value : values) value = distribution(random);
    return values;
  };
  for (const float a_scale : {1e-3f, 1.0f})
    for (const float b_scale : {1e-6f, 1e-4f, 1e-2f, 1.0f, 1e3f}) {
      CAPTURE(a_scale);
      CAPTURE(b_scale);
      const std::vector<float> a = normal(kRank * kCols, a_scale), b = normal(kRows * kRank, b_scale);
      const std::vector<float> factors = {0.5f, 1, -1, 2, 0.7f};
      const OnDevice<float> from_a(a), from_b(b), given(factors), prompt(factors), decoding(factors), limits(factors);
      const OnDevice<uint16_t> to_a(std::vector<uint16_t>(kRank * kCols)), to_b(std::vector<uint16_t>(kRows * kStride));
      const kernels::cuda::Launch launch;
      for (const auto& to : {&prompt, &decoding})
        kernels::cuda::pack_adapter_a(launch, from_a.data(), kRank, kCols, nullptr, given.data(), to_a.data(),
                                      to->data());
      kernels::cuda::pack_adapter_b(launch, from_b.data(), kRows, kRank, to_b.data(), kStride, decoding.data(),
                                    prompt.data());
      const std::vector<uint16_t> whole = to_b.values();
      kernels::cuda::balance_prompt_adapter(launch, {to_a.data(), to_b.data(), kRank, kCols, kRows, kStride,
                                                     prompt.data(), decoding.data(), limits.data()});
      const std::vector<uint16_t> packed_a = to_a.values(), packed_b = to_b.values();
      const std::vector<float> factor = prompt.values(), limit = limits.values();
      CHECK(decoding.values() == factor);
      const auto value = [](uint16_t half) { return static_cast<double>(core::f32_from_f16(half)); };
      for (int64_t k = 0; k < kRank; ++k) {
        CAPTURE(k);
        double sum = 0, worst = 0, largest = 0, largest_b = 0;
        bool unchanged = true;
        for (int64_t i = 0; i < kCols; ++i) sum += std::abs(value(packed_a[k * kCols + i]));
        for (int64_t i = 0; i < kRows; ++i) {
          const double of_a = value(packed_a[k * kCols]) * factor[k] * value(packed_b[i * kStride + k]),
                       wanted = static_cast<double>(a[k * kCols]) * factors[k] * b[i * kRank + k];
          worst = std::max(worst, std::abs(of_a - wanted));
          unchanged = unchanged && packed_b[i * kStride + k] == whole[i * kStride + k];
          largest = std::max(largest, std::abs(wanted));
          largest_b = std::max(largest_b, std::abs(value(packed_b[i * kStride + k])));
        }
        CHECK(worst < 1e-3 * largest);
        CHECK(limit[k] == doctest::Approx(4 * 64 * std::abs(factor[k]) * sum));
        CHECK((limit[k] < 16 || unchanged));
        CHECK((limit[k] >= 8 || largest_b < 0.5));
      }
    }
}

TEST_CASE("CUDA: an adapter of scale 0 changes no bit of one and two tokens") {
  REQUIRE_DEVICE();
  RandomProgram model(tests::printed_seed());
  model.transformer({.width = 1024, .hidden = 2048}, quant::Type::Q4_K, quant::Type::Q6_K);
  const core::Program plain = model.program;
  tests::add_adapters(model, {16}, quant::Type::F16);
  const auto adapted = tests::make_executor(model.program, tests::fast_config()),
             without = tests::make_executor(plain, tests::fast_config());
  const core::AdapterUse off[] = {{0, 0}};
  adapted->set_adapters(0, off);
  int32_t position = 0;
  for (const int32_t tokens : {1, 2, 1}) {
    const tests::Steps steps = tests::consecutive(model, position, tokens);
    position += tokens;
    CHECK(tests::run(*adapted, steps) == tests::run(*without, steps));
  }
}

TEST_CASE("CUDA: an executor with adapters allocates what was planned") {
  REQUIRE_DEVICE();
  RandomProgram model(tests::printed_seed());
  model.transformer({.width = 1024}, quant::Type::Q4_K, quant::Type::Q6_K);
  tests::add_adapters(model, {16, 3}, quant::Type::F16);
  for (const core::ExecutorConfig& config : {tests::fast_config(), tests::exact_config()}) {
    const auto planned = kernels::cuda::plan_memory(model.program, config, kernels::cuda::limits_for_plans());
    const auto taken = kernels::cuda::allocated_memory(*tests::make_executor(model.program, config));
    CHECK(taken.weights == planned.weights);
    CHECK(taken.scratch == planned.scratch);
  }
}
