// Rope at large positions.
#include "kernels/cpu/executor/executor.h"

#include "support/naive.h"
#include "support/numerics.h"
#include "support/random_program.h"

using namespace ridge;

TEST_CASE("rope rotates by the exact angle at positions of 100,000 and 1,000,000") {
  for (const core::RopeStyle style : {core::RopeStyle::adjacent, core::RopeStyle::split}) {
    constexpr int64_t kHeads = 2, kHeadDim = 128, kWidth = kHeads * kHeadDim;
    tests::RandomProgram m(tests::printed_seed());
    core::RopeTable table = {{}, 1.25f, style};
    for (int pair = 0; pair < kHeadDim / 2; ++pair)
      table.inverse_frequency.push_back(static_cast<float>(std::pow(1e4, -pair / 64.0)));
    m.program.rope_tables.push_back(table);
    const core::ValueId x = m.embed(quant::Type::F32, kWidth, 64);
    m.finish(m.op(core::OpKind::rope, {x}, {}, kWidth, core::RopeParams{0, kHeads, kHeadDim}));

    const std::vector<int32_t> tokens = {3, 1, 4, 1, 5}, outputs = {0, 1, 2, 3, 4},
                               positions = {0, 32'767, 99'999, 100'000, 1'000'000};
    core::ExecutorConfig config;
    config.context = 1'000'001;
    config.max_batch = config.max_outputs = std::ssize(tokens);
    config.exact = true;
    const auto executor = kernels::cpu::make_cpu_executor(m.program, config);
    executor->forward({tokens, positions, {}, outputs});
    const std::vector<float> wanted =
        tests::Naive(m.program, config.k_type, config.v_type).forward({tokens, positions, {}, outputs});
    for (const int32_t i : outputs) {
      CAPTURE(positions[i]);
      const auto expected = std::span(wanted).subspan(i * m.program.vocab, m.program.vocab);
      CHECK(tests::nmse(executor->logits(i), expected) < 1e-12); // with f32 angles: 1.6e-7 at 100,000
    }
  }
}

TEST_CASE("a context above the original one turns all pairs by the frequencies for long contexts") {
  tests::RandomProgram m(tests::printed_seed());
  m.program.rope_tables.push_back({{1, 0.5f}, 1, core::RopeStyle::split, {0.25f, 0.125f}, 32});
  const core::ValueId x = m.embed(quant::Type::F32, 4, 8);
  m.finish(m.op(core::OpKind::rope, {x}, {}, 4, core::RopeParams{0, 1, 4}));
  const std::vector<int32_t> tokens = {3, 1}, outputs = {0, 1}, positions = {0, 7};
  for (const int64_t context : {32, 33}) {
    CAPTURE(context);
    core::ExecutorConfig config;
    config.context = context;
    config.max_batch = config.max_outputs = 2;
    config.exact = true;
    const auto executor = kernels::cpu::make_cpu_executor(m.program, config);
    executor->forward({tokens, positions, {}, outputs});
    core::Program plain = m.program;
    plain.rope_tables[0].inverse_frequency = m.program.rope_tables[0].frequencies(context);
    CHECK(plain.rope_tables[0].inverse_frequency[0] == (context == 32 ? 1.0f : 0.25f));
    const std::vector<float> wanted =
        tests::Naive(plain, config.k_type, config.v_type).forward({tokens, positions, {}, outputs});
    CHECK(tests::nmse(executor->logits(1), std::span(wanted).subspan(m.program.vocab)) < 1e-12);
  }
}
