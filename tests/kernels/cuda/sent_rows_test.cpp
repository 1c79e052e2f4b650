// Rows of an encoder, read on the GPU while they are copied to the host.
#include "device.h"
#include "support/executor_runs.h"

#include <cstring>
#include <limits>
#include <numeric>

using namespace ridge;

namespace {

constexpr int64_t kVocab = 30, kWidth = 64;

struct Encoder {
  tests::RandomProgram m{3};
  std::unique_ptr<core::Executor> executor;

  explicit Encoder(int64_t most, float element = 0) {
    const core::ValueId x = m.embed(quant::Type::F32, kWidth, kVocab);
    std::memcpy(m.storage.back().data() + 500, &element, sizeof element);
    m.program.output = m.linear(x, quant::Type::F32, kWidth, true);
    core::ExecutorConfig config = tests::exact_config();
    config.context = config.max_batch = most;
    config.max_outputs = 0;
    executor = tests::make_executor(m.program, config);
  }
  kernels::cuda::SentResult encode(int64_t count, int32_t first) {
    std::vector<int32_t> tokens(count), positions(count);
    std::iota(positions.begin(), positions.end(), 0);
    for (int64_t i = 0; i < count; ++i) tokens[i] = static_cast<int32_t>((first + 7 * i) % kVocab);
    executor->forward({.tokens = tokens, .positions = positions});
    return kernels::cuda::send_result_rows(*executor, count);
  }
};

} // namespace

TEST_CASE("CUDA: rows that are on their way to the host are the same on the GPU, also after others were encoded") {
  REQUIRE_DEVICE();
  constexpr int64_t kMost = 4000, kRead = 20;
  tests::RandomProgram m(5);
  core::Program& program = m.program;
  program.vocab = kVocab;
  program.has_token_coordinates = true;
  program.row_width = kWidth;
  const core::EmbedParams embed = {1, false, core::RowUse::unscaled};
  m.finish(m.op(core::OpKind::embed, {}, {m.weight(quant::Type::F32, kWidth, kVocab)}, kWidth, embed));
  core::ExecutorConfig config = tests::exact_config();
  config.context = config.max_batch = config.max_outputs = kRead;
  const auto text = tests::make_executor(program, config);
  CHECK(kernels::cuda::reads_sent_rows(*text));
  const auto logits = [&](const float* rows) {
    tests::Steps steps;
    for (int32_t i = 0; i < kRead; ++i) {
      steps.tokens.push_back(i % 3 == 0 ? i : -1 - i);
      steps.positions.push_back(i);
      steps.streams.push_back(0);
      steps.outputs.push_back(i);
    }
    core::Batch batch = steps.batch();
    batch.rows = {rows, kRead * kWidth};
    text->forward(batch);
    std::vector<float> all;
    for (int64_t i = 0; i < kRead; ++i) all.insert(all.end(), text->logits(i).begin(), text->logits(i).end());
    return all;
  };
  Encoder encoder(kMost);
  for (const int64_t from : {int64_t{0}, int64_t{5}, kMost - kRead}) {
    CAPTURE(from);
    const kernels::cuda::SentResult sent = encoder.encode(kMost, 1);
    REQUIRE(sent.rows);
    CHECK(sent.finite);
    const float* rows = sent.rows.get() + from * kWidth;
    const std::vector<float> on_the_way = logits(rows);
    sent.arrive();
    const std::vector<float> copy(rows, rows + kRead * kWidth);
    CHECK(logits(copy.data()) == on_the_way);
    const kernels::cuda::SentResult others = encoder.encode(kMost, 2);
    CHECK(logits(rows) == on_the_way);
    CHECK(logits(others.rows.get() + from * kWidth) != on_the_way);
  }
}

TEST_CASE("CUDA: rows outlive their encoder, and those that are not finite are known") {
  REQUIRE_DEVICE();
  constexpr int64_t kCount = 100;
  kernels::cuda::SentResult sent;
  std::vector<float> rows;
  {
    Encoder encoder(kCount);
    sent = encoder.encode(kCount, 4);
    const float* made = encoder.executor->logits(0).data();
    rows.assign(made, made + kCount * kWidth);
  }
  REQUIRE(sent.rows);
  sent.arrive();
  CHECK(std::vector<float>(sent.rows.get(), sent.rows.get() + kCount * kWidth) == rows);

  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Encoder broken(kCount, bad);
    CHECK(!broken.encode(kCount, 4).finite);
  }
}
