// Whole models through the CPU executor against logits that another implementation computed in f32.
#include "core/error.h"
#include "kernels/cpu/executor/executor.h"
#include "models/model.h"

#include "support/numerics.h"
#include "support/recipe.h"
#include "support/reference_logits.h"

using namespace ridge;

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

TEST_CASE(
    "tiny models of every architecture have the reference's logits, with every hyperparameter set otherwise too") {
  REQUIRE_REFERENCE();
  for (const char* name : {"llama-dense", "llama-dense+keys", "llama-dense-hd80", "llama-dense-hd256", "llama-moe",
                           "llama-moe-hd96", "qwen2-dense", "qwen2-dense+keys", "qwen2-dense-hd80", "qwen3-dense",
                           "qwen3-dense+keys", "qwen3-dense-hd256", "qwen3moe-moe", "qwen3moe-moe-hd256"}) {
    CAPTURE(name);
    const tests::Recipe recipe(name);
    const gguf::File file = recipe.open();
    const core::Program program = models::build_program(file);
    CHECK(tests::nmse(tests::logits_of(kernels::cpu::make_cpu_executor, program, recipe.ids(), true, true),
                      recipe.golden()) <= 1e-8);
  }
}

TEST_CASE("models whose experts come in groups are refused") {
  REQUIRE_REFERENCE();
  for (const char* name : {"llama-moe+keys", "qwen3moe-moe+keys"}) {
    CAPTURE(name);
    const gguf::File file = tests::Recipe(name).open();
    CHECK_THROWS_WITH_AS(models::build_program(file),
                         doctest::Contains("expert_group_count is 4: expert groups are not supported yet"), Error);
  }
}
