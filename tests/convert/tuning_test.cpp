// Gradients of whole models, and what they tune.
#include "convert/calibrated.h"
#include "convert/tuning/network.h"
#include "convert/tuning/products.h"
#include "convert/tuning/tuning.h"
#include "core/stages/split.h"
#include "kernels/cpu/executor/executor.h"
#include "models/model.h"
#include "quant/encode/encode.h"
#include "quant/feedback/block_factors.h"
#include "support/correlated.h"
#include "support/numerics.h"
#include "support/recipes/recipe.h"
#include "support/temporary_folder.h"

#include <cmath>
#include <cstring>
#include <random>

using namespace ridge;
using convert::tuning::Network;
using quant::Type;

namespace {

std::vector<std::vector<int32_t>> texts_of_random_tokens(std::mt19937_64& random, int64_t vocab, int count,
                                                         int length) {
  std::vector<std::vector<int32_t>> texts(static_cast<size_t>(count));
  for (auto& text : texts)
    for (int i = 0; i < length; ++i) text.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(vocab)));
  return texts;
}

double along(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

} // namespace

TEST_CASE("products of any shape and stride are the sums that they stand for") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < 20; ++trial) {
    const auto side = [&](uint64_t most) { return static_cast<int64_t>(1 + random() % most); };
    const int64_t m = side(40), n = side(70), k = side(600);
    const auto a = tests::random_weights(random, m * k), b = tests::random_weights(random, k * n);
    std::vector<float> alone(static_cast<size_t>(m * n)), c = tests::random_weights(random, m * n), expected = c;
    const bool a_turned = random() % 2 == 0, b_turned = random() % 2 == 0;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = expected[i * n + j];
        for (int64_t l = 0; l < k; ++l)
          sum += static_cast<double>(a_turned ? a[l * m + i] : a[i * k + l]) * (b_turned ? b[j * k + l] : b[l * n + j]);
        expected[i * n + j] = static_cast<float>(sum);
      }
    const convert::tuning::Strided of_a = {a.data(), a_turned ? 1 : k, a_turned ? m : 1},
                                   of_b = {b.data(), b_turned ? 1 : n, b_turned ? k : 1};
    std::vector<float> spread(static_cast<size_t>(m * (n + 3)));
    for (int64_t i = 0; i < m; ++i) std::copy_n(&c[i * n], n, &spread[i * (n + 3)]);
    convert::tuning::add_product(m, n, k, of_a, of_b, spread.data(), n + 3);
    convert::tuning::set_product(m, n, k, of_a, of_b, alone.data());
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        alone[i * n + j] += c[i * n + j];
        c[i * n + j] = spread[i * (n + 3) + j];
      }
    CHECK(tests::nmse(c, expected) < 1e-9);
    CHECK(tests::nmse(alone, expected) < 1e-9);
  }
}

TEST_CASE("exponentials are those of the standard library, and their sum") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const int64_t count : {1, 7, 16, 61}) {
    auto x = tests::random_weights(random, count);
    std::vector<float> expected;
    double sum = 0;
    for (const float v : x) sum += expected.emplace_back(std::exp(v - 0.5f));
    CHECK(convert::tuning::exponentials(x.data(), count, -0.5f) == doctest::Approx(sum).epsilon(1e-5));
    CHECK(tests::nmse(x, expected) < 1e-11);
  }
  float far[] = {-500, 500};
  convert::tuning::exponentials(far, 2);
  CHECK(far[0] < 1e-37);
  CHECK(std::isfinite(far[1]));
}

TEST_CASE("where an architecture has a gradient, its logits are the reference's and slopes those of differences") {
  REQUIRE_REFERENCE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const char* name : {"llama-dense", "qwen2-dense", "gemma3-dense", "granite-dense"}) {
    CAPTURE(name);
    const tests::Recipe recipe(name);
    const gguf::File file = recipe.open();
    const core::Program program = models::build_program(file);
    REQUIRE(Network::obstacle(program) == "");
    const std::vector<int32_t> ids = recipe.ids();
    Network network(program, std::ssize(ids));
    const auto first = network.forward(ids);
    std::vector<float> logits(first.begin(), first.end());
    const std::vector<float> golden = recipe.golden();
    if (logits.size() == golden.size()) CHECK(tests::nmse(logits, golden) < 1e-5);
    const auto rows = network.rows_of_output();
    const std::vector<float> before_output(rows.begin(), rows.end());
    const auto again = network.logits_of(before_output);
    CHECK(std::ranges::equal(again, logits));
    network.forward(ids);
    // Σ logits of_logits, along a random change of each weight.
    const std::vector<float> of_logits = tests::random_weights(random, std::ssize(logits));
    std::vector<std::vector<float>> gradients(program.weights.size());
    network.backward(of_logits, std::vector<bool>(program.weights.size(), true),
                     [&](core::WeightId id, std::span<const float> gradient) {
                       std::vector<float>& sum = gradients[static_cast<size_t>(id)];
                       sum.resize(gradient.size());
                       for (size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
                     });
    for (core::WeightId id = 0; id < std::ssize(program.weights); ++id) {
      const std::vector<float>& gradient = gradients[static_cast<size_t>(id)];
      if (gradient.empty()) continue;
      CAPTURE(program.weights[static_cast<size_t>(id)].name);
      std::vector<float>& weight = network.weight(id);
      const std::vector<float> before = weight;
      // Along the gradient itself differences are largest.
      double size = 0, of_weights = 0;
      for (const float g : gradient) size += static_cast<double>(g) * g;
      for (const float w : before) of_weights += static_cast<double>(w) * w;
      if (!(size > 0)) continue;
      const double step = 3e-3 * std::sqrt(of_weights / size);
      double sides[2];
      for (const int side : {0, 1}) {
        for (size_t i = 0; i < weight.size(); ++i)
          weight[i] = before[i] + static_cast<float>((side == 0 ? -step : step) * gradient[i]);
        sides[side] = along(network.forward(ids), of_logits);
      }
      weight = before;
      CHECK((sides[1] - sides[0]) / (2 * step) == doctest::Approx(size).epsilon(0.03));
    }
  }
}

TEST_CASE("a block's factors scale what it decodes to") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  int known = 0;
  for (const quant::FormatInfo& format : quant::formats()) {
    const quant::BlockFactors::Access* access = quant::BlockFactors::of(format.type);
    if (!access || !format.stored() || !quant::can_encode(format.type)) continue;
    CAPTURE(format.name);
    ++known;
    const auto weights = tests::random_weights(random, format.block_weights);
    std::vector<std::byte> block(static_cast<size_t>(format.block_bytes));
    quant::encode_rows(format.type, weights.data(), 1, format.block_weights, {}, block.data());
    std::vector<float> before(weights.size()), after(weights.size());
    format.decode(block.data(), format.block_weights, before.data());
    const quant::BlockFactors factors = access->get(block.data());
    access->set(block.data(), {2 * factors.scale, 2 * factors.offset});
    format.decode(block.data(), format.block_weights, after.data());
    for (size_t i = 0; i < after.size(); ++i) CHECK(after[i] == 2 * before[i]);
  }
  CHECK(known > 15);
}

TEST_CASE("tuning mends factors that are off, and measures what the tensors then decode to") {
  REQUIRE_REFERENCE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const tests::Recipe recipe("llama-dense");
  const gguf::File file = recipe.open();
  const core::Program program = models::build_program(file);
  const auto texts = texts_of_random_tokens(random, program.vocab, 32, 24);
  // Weights in Q8_0, all a little too large; norms as they are.
  std::vector<std::vector<std::byte>> encoded;
  std::vector<convert::tuning::Tensor> tensors;
  encoded.reserve(program.weights.size());
  for (const core::Op& op : program.ops) {
    if (op.layer < 0 || (op.kind != core::OpKind::linear && op.kind != core::OpKind::rms_norm)) continue;
    const core::Weight& weight = program.weights[static_cast<size_t>(op.weights[0])];
    const auto* values = reinterpret_cast<const float*>(weight.data);
    const int64_t count = weight.rows * weight.cols;
    std::vector<float> larger(values, values + count);
    const Type type = op.kind == core::OpKind::linear && weight.cols % 32 == 0 ? Type::Q8_0 : Type::F32;
    if (op.kind == core::OpKind::linear)
      for (float& w : larger) w *= 1.04f;
    std::vector<std::byte>& bytes = encoded.emplace_back();
    bytes.resize(static_cast<size_t>(weight.rows * quant::format(type).row_bytes(weight.cols)));
    if (type == Type::F32)
      std::memcpy(bytes.data(), larger.data(), bytes.size());
    else
      quant::encode_rows(type, larger.data(), weight.rows, weight.cols, {}, bytes.data());
    tensors.push_back({type, weight.rows, weight.cols, &bytes, weight.data, weight.row_bytes});
  }
  const auto before = encoded;
  int64_t steps = 0;
  std::vector<std::vector<std::byte>> states;
  const convert::tuning::Outcome outcome =
      convert::tuning::tune(program, tensors, texts, [&](int64_t done, int64_t) { steps = done; },
                            {{}, [&](std::vector<std::byte> state) { states.push_back(std::move(state)); }});
  CHECK(steps > 0);
  // From each state it ends as without a stop.
  REQUIRE(states.size() == 8);
  const auto tuned = encoded;
  for (const size_t at : {size_t{0}, size_t{3}, size_t{7}}) {
    encoded = before;
    const convert::tuning::Outcome again = convert::tuning::tune(program, tensors, texts, {}, {states[at], nullptr});
    CHECK(again.before == outcome.before);
    CHECK(again.after == outcome.after);
    CHECK(encoded == tuned);
  }
  // Progress stops it.
  encoded = before;
  CHECK_THROWS_AS(convert::tuning::tune(program, tensors, texts,
                                        [](int64_t done, int64_t) {
                                          if (done == 3) throw std::runtime_error("stopped");
                                        }),
                  std::runtime_error);
  encoded = tuned;
  CHECK(outcome.kept);
  CHECK(outcome.after < 0.8 * outcome.before);
  CHECK(encoded != before);
  // Again from here: it starts where it ended.
  CHECK(convert::tuning::tune(program, tensors, texts, {}).before == doctest::Approx(outcome.after).epsilon(1e-4));
}

TEST_CASE(
    "a tuned quantization is written whole and resumes byte for byte, and differs from an untuned one if it gained") {
  REQUIRE_REFERENCE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const tests::TemporaryFolder folder;
  const tests::Recipe recipe("llama-dense");
  const gguf::File file = recipe.open();
  const core::Program program = models::build_program(file);
  const convert::Requantization plan = convert::plan_requantization(file, models::find_recipe("Q4_0"), {}, nullptr);
  const auto texts = texts_of_random_tokens(random, program.vocab, 24, 32);
  const std::vector<std::vector<int32_t>> rounded(texts.begin(), texts.begin() + 16);
  std::string note;
  const auto write = [&](const std::string& path, bool tunes, convert::LayerJournal* journal) {
    convert::CalibratedQuantizer calibrated(plan, program, {.rounding = true}, rounded, kernels::cpu::make_cpu_executor,
                                            1);
    if (tunes) calibrated.use_tuning(texts, {}, [&](const std::string& line) { note = line; });
    if (journal) calibrated.use_journal(*journal, [&](const std::string& line) { note = line; });
    convert::write(
        plan, {path}, nullptr, convert::encode_on_cpu,
        [&](std::string_view tensor) { return calibrated.tensor(tensor); }, nullptr, nullptr);
  };
  convert::LayerJournal journal(folder / "tuned.gguf.unfinished", 1);
  write(folder / "tuned.gguf", true, &journal);
  CHECK(note.find("kept back") != std::string::npos);
  CHECK(journal.records() == core::layer_count(program) + 8);
  write(folder / "again.gguf", true, &journal);
  CHECK(tests::read_file(folder / "again.gguf") == tests::read_file(folder / "tuned.gguf"));
  write(folder / "rounded.gguf", false, nullptr);
  const bool stayed = note.find("stay as they were") != std::string::npos;
  CHECK((tests::read_file(folder / "rounded.gguf") == tests::read_file(folder / "tuned.gguf")) == stayed);
}
