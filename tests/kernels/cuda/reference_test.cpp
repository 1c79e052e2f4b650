// Whole models against another implementation's f32 logits.
#include "kernels/cuda/executor/executor.h"
#include "models/model.h"

#include "device.h"
#include "support/numerics.h"
#include "support/recipes/draft_runs.h"
#include "support/recipes/encoder_runs.h"
#include "support/recipes/recipe_runs.h"
#include "support/recipes/ring_runs.h"
#include "support/reference_logits.h"

using namespace ridge;

namespace {

std::vector<std::string> shared_recipes() { return tests::share_of(tests::known_recipes(), 1); }

} // namespace

TEST_CASE("CUDA: logits agree with the reference, in exact and in fast mode") {
  REQUIRE_DEVICE();
  REQUIRE_REFERENCE();
  for (const tests::LogitsCase& c : tests::share_of(tests::logits_cases())) {
    CAPTURE(c.name);
    const gguf::File file = gguf::File::open(c.model_path());
    const core::Program program = models::build_program(file);
    const auto golden = c.golden();
    for (const bool at_once : {true, false}) {
      const double exact = tests::nmse(tests::logits_of(tests::make_executor, program, c.ids, true, at_once), golden);
      const double fast = tests::nmse(tests::logits_of(tests::make_executor, program, c.ids, false, at_once), golden);
      const std::string way = at_once ? " at once" : " one by one";
      MESSAGE(c.name, way, ": NMSE exact ", exact, ", fast ", fast);
      CHECK(exact <= 1e-8);
      CHECK(fast <= 3.5e-4);
    }
  }
}

TEST_CASE("CUDA: tiny models of every architecture have the reference's logits, in pieces and after going back") {
  REQUIRE_DEVICE();
  REQUIRE_REFERENCE();
  for (const std::string& name : shared_recipes()) tests::check_recipe(tests::make_executor, name);
}

TEST_CASE("CUDA: tiny models that embed texts have the reference's hidden states, in fast mode nearly") {
  REQUIRE_DEVICE();
  REQUIRE_REFERENCE();
  for (const std::string& name : tests::known_recipes("embeddings"))
    tests::check_embedding_recipe(tests::make_executor, name);
}

TEST_CASE("CUDA: tiny models whose tokens see later ones have the reference's logits") {
  REQUIRE_DEVICE();
  REQUIRE_REFERENCE();
  for (const std::string& name : tests::known_recipes("logits", true))
    tests::check_recipe(tests::make_executor, name, false);
}

TEST_CASE("CUDA: tiny models with an encoder have the reference's logits, in fast mode nearly") {
  REQUIRE_DEVICE();
  REQUIRE_REFERENCE();
  const std::vector<std::string> names = tests::encoder_recipes();
  REQUIRE_FALSE(names.empty());
  for (const std::string& name : names) {
    tests::check_encoder_recipe(tests::make_executor, name);
    tests::check_fast_encoder(tests::make_executor, name);
  }
}

TEST_CASE("CUDA: streams of tiny models go on behind the first tokens of another stream") {
  REQUIRE_DEVICE();
  REQUIRE_REFERENCE();
  for (const std::string& name : shared_recipes()) tests::check_copied_cache(tests::make_executor, name);
}

TEST_CASE("CUDA: streams of tiny models go on behind blocks and states that another executor saved") {
  REQUIRE_DEVICE();
  REQUIRE_REFERENCE();
  for (const std::string& name : shared_recipes()) tests::check_restored_blocks(tests::make_executor, name);
}

TEST_CASE("CUDA: tiny models with windows have the same logits when their caches hold only the windows") {
  REQUIRE_DEVICE();
  REQUIRE_REFERENCE();
  for (const std::string& name : shared_recipes()) tests::check_rings(tests::make_executor, name);
}

TEST_CASE("CUDA: draft heads of tiny models have the reference's logits, in pieces and after going back, too") {
  REQUIRE_DEVICE();
  REQUIRE_REFERENCE();
  for (const std::string& name : tests::draft_recipes()) tests::check_draft_recipe(tests::make_executor, name);
}

// Measured: 2.8e-2 with chosen experts, 4.8e-2 with chosen positions too.
static void check_near_exact(quant::Type type) {
  REQUIRE_DEVICE();
  REQUIRE_REFERENCE();
  for (const std::string& name : shared_recipes())
    tests::check_fast(tests::make_executor, name, {type}, {0, 1}, {1e-3, 1e-2, 1e-1});
}

// Per type: all take ten minutes.
TEST_CASE("CUDA: tiny models of every architecture in fast mode are near exact mode, in F16") {
  check_near_exact(quant::Type::F16);
}
TEST_CASE("CUDA: tiny models of every architecture in fast mode are near exact mode, in Q8_0") {
  check_near_exact(quant::Type::Q8_0);
}
TEST_CASE("CUDA: tiny models of every architecture in fast mode are near exact mode, in Q4_0") {
  check_near_exact(quant::Type::Q4_0);
}
TEST_CASE("CUDA: tiny models of every architecture in fast mode are near exact mode, in Q4_K") {
  check_near_exact(quant::Type::Q4_K);
}
TEST_CASE("CUDA: tiny models of every architecture in fast mode are near exact mode, in Q6_K") {
  check_near_exact(quant::Type::Q6_K);
}

TEST_CASE("CUDA: tiny models of every architecture keep their logits with caches of 16 and 8 bits") {
  REQUIRE_DEVICE();
  REQUIRE_REFERENCE();
  for (const std::string& name : shared_recipes()) tests::check_caches(tests::make_executor, name);
}
