// Whole models on the CPU against reference logits.
#include "core/error.h"
#include "core/stages/split.h"
#include "kernels/cpu/executor/executor.h"
#include "models/model.h"

#include "support/numerics.h"
#include "support/recipes/encoder_runs.h"
#include "support/recipes/recipe_runs.h"
#include "support/recipes/ring_runs.h"
#include "support/reference_logits.h"

using namespace ridge;

namespace {

// All recipes take minutes. Each run compares all with the reference, and checks other properties on a sixth
// (RIDGE_TEST_SHARE=1: on all).
constexpr int64_t kShare = 6;

std::vector<std::string> shared_recipes() { return tests::share_of(tests::known_recipes(), kShare); }

} // namespace

TEST_CASE("exact logits agree with the reference") {
  REQUIRE_REFERENCE();
  for (const tests::LogitsCase& c : tests::logits_cases()) {
    CAPTURE(c.name);
    const gguf::File file = gguf::File::open(c.model_path());
    const core::Program program = models::build_program(file);
    for (const bool at_once : {true, false})
      CHECK(tests::nmse(tests::logits_of(kernels::cpu::make_cpu_executor, program, c.ids, true, at_once), c.golden()) <=
            1e-8);
  }
}

TEST_CASE("fast logits stay within what 8-bit activations cost") {
  REQUIRE_REFERENCE();
  for (const tests::LogitsCase& c : tests::logits_cases()) {
    CAPTURE(c.name);
    const gguf::File file = gguf::File::open(c.model_path());
    const core::Program program = models::build_program(file);
    for (const bool at_once : {true, false}) {
      const double error =
          tests::nmse(tests::logits_of(kernels::cpu::make_cpu_executor, program, c.ids, false, at_once), c.golden());
      const std::string way = at_once ? " at once" : " one by one";
      MESSAGE(c.name, way, ": NMSE ", error);
      CHECK(error <= 3.5e-4);
    }
  }
}

TEST_CASE("tiny models of every architecture have the reference's logits, in pieces and after going back, too") {
  REQUIRE_REFERENCE();
  const std::vector<std::string> names = tests::known_recipes();
  CHECK(names.size() > 60);
  tests::Share again(kShare);
  for (const std::string& name : names) tests::check_recipe(kernels::cpu::make_cpu_executor, name, again.takes_next());
}

TEST_CASE("tiny models of every architecture in fast mode, in several types, are near exact mode") {
  using enum quant::Type;
  REQUIRE_REFERENCE();
  // Activations have 16 bits with experts, else 8. Cutoffs of gemma3n may flip on some processors: 1.1e-2 with AVX2.
  for (const std::string& name : shared_recipes())
    tests::check_fast(kernels::cpu::make_cpu_executor, name, {Q8_0, Q4_K}, {0}, {3e-3, 1e-2, 2e-2});
}

TEST_CASE("tiny models of every architecture keep their logits with caches of 16 and 8 bits") {
  REQUIRE_REFERENCE();
  for (const std::string& name : shared_recipes()) tests::check_caches(kernels::cpu::make_cpu_executor, name);
}

TEST_CASE("streams of tiny models go on behind the first tokens of another stream") {
  REQUIRE_REFERENCE();
  for (const std::string& name : shared_recipes()) tests::check_copied_cache(kernels::cpu::make_cpu_executor, name);
}

TEST_CASE("streams of tiny models go on behind blocks and states that another executor saved") {
  REQUIRE_REFERENCE();
  for (const std::string& name : shared_recipes()) tests::check_restored_blocks(kernels::cpu::make_cpu_executor, name);
}

TEST_CASE("tiny models that embed texts have the reference's hidden states, in fast mode and other types nearly") {
  REQUIRE_REFERENCE();
  const std::vector<std::string> names = tests::known_recipes("embeddings");
  CHECK(names.size() >= 8);
  for (const std::string& name : names) tests::check_embedding_recipe(kernels::cpu::make_cpu_executor, name);
}

TEST_CASE("tiny models whose tokens see later ones have the reference's logits, in fast mode and other types nearly") {
  using enum quant::Type;
  REQUIRE_REFERENCE();
  const std::vector<std::string> names = tests::known_recipes("logits", true);
  CHECK(names.size() >= 4);
  for (const std::string& name : names) {
    tests::check_recipe(kernels::cpu::make_cpu_executor, name, false);
    tests::check_fast(kernels::cpu::make_cpu_executor, name, {Q8_0, Q4_K}, {0}, {3e-3, 1e-2, 2e-2});
  }
}

TEST_CASE(
    "tiny models with an encoder have the reference's logits, in fast mode and with caches of fewer bits nearly") {
  REQUIRE_REFERENCE();
  const std::vector<std::string> names = tests::encoder_recipes();
  CHECK(names.size() >= 2);
  for (const std::string& name : names) {
    tests::check_encoder_recipe(kernels::cpu::make_cpu_executor, name);
    tests::check_fast_encoder(kernels::cpu::make_cpu_executor, name);
  }
}

TEST_CASE("texts longer than the longest stretch that an entry stands for are the same in pieces") {
  REQUIRE_REFERENCE();
  const tests::Recipe recipe("deepseek4-moe");
  const gguf::File file = recipe.open();
  const core::Program program = models::build_program(file);
  const std::vector<int32_t> text = tests::long_text(recipe, 200);
  core::ExecutorConfig config = tests::exact_config();
  config.context = config.max_batch = config.max_outputs = 256;
  const std::vector<float> whole =
      tests::in_pieces(kernels::cpu::make_cpu_executor, program, config, text, text.size());
  CHECK(tests::nmse(tests::in_pieces(kernels::cpu::make_cpu_executor, program, config, text, 11), whole) <= 1e-9);
}

TEST_CASE("a recurrent state goes on where it is, and nowhere else") {
  REQUIRE_REFERENCE();
  const tests::Recipe recipe("qwen35-dense");
  const gguf::File file = recipe.open();
  const core::Program program = models::build_program(file);
  const auto executor = kernels::cpu::make_cpu_executor(program, tests::exact_config());
  std::vector<float> logits;
  tests::run_pieces(*executor, recipe.ids(), 0, 10, 10, logits);
  CHECK_THROWS_WITH_AS(tests::run_pieces(*executor, recipe.ids(), 5, 6, 1, logits),
                       "stream 0 continues at position 5, but its recurrent state is at position 10", Error);
  tests::run_pieces(*executor, recipe.ids(), 0, 10, 10, logits);
  const auto half = std::ssize(logits) / 2;
  CHECK(std::equal(logits.begin(), logits.begin() + half, logits.begin() + half));
}

TEST_CASE("tiny models with windows have the same logits when their caches hold only the windows") {
  REQUIRE_REFERENCE();
  const std::vector<std::string> names = shared_recipes();
  int64_t with_windows = 0;
  for (const std::string& name : names) with_windows += tests::check_rings(kernels::cpu::make_cpu_executor, name);
  MESSAGE(with_windows, " of ", names.size(), " recipes have windows");
  CHECK(with_windows > std::ssize(names) / 30);
}

TEST_CASE("models with windows that are cut in two go back, too: each part has windows of its own") {
  REQUIRE_REFERENCE();
  const auto make = [](const core::Program& program, const core::ExecutorConfig& config) {
    return core::make_split_executor(core::split_program(program, 1), config, kernels::cpu::make_cpu_executor,
                                     kernels::cpu::make_cpu_executor);
  };
  for (const char* name : {"gemma3-dense-deep", "gpt-oss-moe-deep"}) CHECK(tests::check_rings(make, name));
}
