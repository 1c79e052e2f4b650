// What a T4 and GeForce cards multiply with, and what their memory has room for.
#include "kernels/cuda/plan/memory_plan.h"
#include "kernels/cuda/plan/planning.h"
#include "models/model.h"
#include "support/weightless_file.h"

#include <set>

using namespace ridge;
using namespace ridge::tests;
using namespace ridge::kernels::cuda;

namespace {

struct Card {
  std::string_view name;
  int memory_gib;
};
constexpr Card kCards[] = {{"T4", 16},       {"RTX 3060", 12}, {"RTX 3090", 24},    {"RTX 4060", 8},
                           {"RTX 4070", 12}, {"RTX 4090", 24}, {"RTX 5060 Ti", 16}, {"RTX 5090", 32}};

struct Model {
  TemporaryFolder folder;
  gguf::File file;
  core::Program program;
  Plan steps;
  core::ExecutorConfig config;

  Model(std::string_view name, const std::string& type)
      : file(weightless_file(folder, *std::ranges::find(models::shapes(), name, &models::Shape::name), type)),
        program(models::build_program(file)), steps(make_plan(program, true)) {
    config.context = 4096;
    config.max_batch = 2048;
  }
  BatchPlan plan(const KnownChip& chip, int64_t tokens) const {
    const AttentionFit all = {true, true, true, true, true, true};
    return plan_for({.program = program,
                     .config = config,
                     .plan = steps,
                     .limits = limits_of(chip.compute, chip.sm_count),
                     .attention = std::vector(steps.steps.size(), all),
                     .rates = chip.rates()},
                    {tokens, tokens, 16, tokens == 1});
  }
  int64_t needed(const KnownChip& chip, bool experts_on_host) const {
    return plan_memory(program, config, limits_of(chip.compute, chip.sm_count), experts_on_host).total();
  }
};

using Ways = std::set<std::string_view>;

// The ways of all layers' products; the last product, which makes the logits, is left out.
Ways ways_of(const BatchPlan& plan) {
  Ways ways;
  for (size_t i = 0; i + 1 < plan.products.size(); ++i) ways.insert(name_of(plan.products[i].choice.way));
  return ways;
}

} // namespace

TEST_CASE("cards: one token is a matvec, a few share tiles, and prompts multiply bytes where the card does so fast") {
  const Model model("llama-8b", "Q4_K_M");
  for (const Card& card : kCards) {
    CAPTURE(std::string(card.name));
    const KnownChip& chip = known_chip(card.name);
    const bool oldest = chip.compute == 75;
    for (const int64_t tokens : {1, 2}) CHECK(ways_of(model.plan(chip, tokens)) == Ways{"matvec"});
    CHECK(ways_of(model.plan(chip, 8)) == Ways{oldest ? "matvec" : "tiles-8"});
    if (!oldest) CHECK(ways_of(model.plan(chip, 16)) == Ways{"tiles-16"});
    for (const int64_t tokens : {512, 2048})
      CHECK(ways_of(model.plan(chip, tokens)) == Ways{oldest ? "gemm" : "bytes"});
  }
}

TEST_CASE("cards: no way to multiply is expected to take less than reading its weights") {
  for (const auto& [name, type] : {std::pair("llama-8b", "Q4_K_M"), {"llama-8b", "F16"}}) {
    const Model model(name, type);
    for (const KnownChip& chip : known_chips())
      for (const int64_t tokens : {1, 4, 16, 64, 512}) {
        CAPTURE(std::string(chip.name));
        CAPTURE(tokens);
        for (const PlannedProducts& products : model.plan(chip, tokens).products) {
          double bytes = 0;
          for (const int32_t step : products.steps)
            for (const MatrixStep::Part& part : model.steps.steps[step].matrix()->parts)
              bytes += static_cast<double>(model.program.weights[part.weight].matrix_bytes());
          for (const Estimate& estimate : products.choice.estimates)
            CHECK(estimate.microseconds >= bytes / chip.rates().bytes);
        }
      }
  }
}

TEST_CASE("cards: an 8B fits all of them, and larger models' experts stay in the host's memory where they do not") {
  constexpr int64_t kOthers = int64_t{3} << 29; // the context, and a desktop
  const Model dense("llama-8b", "Q4_K_M"), experts("qwen3-30b-a3b", "Q4_K_M"), half_bytes("gpt-oss-20b", "MXFP4");
  for (const Card& card : kCards) {
    CAPTURE(std::string(card.name));
    const KnownChip& chip = known_chip(card.name);
    const int64_t room = (int64_t{card.memory_gib} << 30) - kOthers;
    CHECK(dense.needed(chip, false) < room);
    CHECK((experts.needed(chip, false) < room) == (card.memory_gib >= 24));
    CHECK((half_bytes.needed(chip, false) < room) == (card.memory_gib >= 16));
    for (const Model* model : {&experts, &half_bytes}) CHECK(model->needed(chip, true) < room / 2);
  }
}

TEST_CASE("cards: layouts keep the bytes of files, rows padded") {
  for (const quant::FormatInfo& format : quant::formats()) {
    CAPTURE(format.name);
    for (const int64_t cols : {4096, 1024}) {
      const auto bytes = [&](int64_t rows) {
        return packed_bytes({.type = static_cast<uint32_t>(format.type), .cols = cols, .rows = rows});
      };
      const FormatNumbers numbers = format_numbers(format.type);
      const int64_t row = numbers.row_bytes(cols);
      CHECK(row >= format.row_bytes(cols));
      CHECK(row < format.row_bytes(cols) + 16 * (cols / 256 + 1));
      CHECK(bytes(1) == row_block_rows(numbers.tile_bytes) * row);
      CHECK(bytes(64) == 64 * row);
    }
  }
}
