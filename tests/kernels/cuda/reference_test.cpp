// Whole models through the CUDA executor against logits that another implementation computed in f32.
#include "kernels/cuda/executor/executor.h"
#include "models/model.h"

#include "device.h"
#include "support/numerics.h"
#include "support/recipe_runs.h"
#include "support/reference_logits.h"

using namespace ridge;

TEST_CASE("CUDA: logits agree with the reference, in exact and in fast mode") {
  REQUIRE_DEVICE();
  REQUIRE_REFERENCE();
  const auto make_executor = [](const core::Program& program, const core::ExecutorConfig& config) {
    return kernels::cuda::make_cuda_executor(program, config);
  };
  tests::Share share;
  for (const tests::LogitsCase& c : tests::logits_cases()) {
    if (!share.takes_next()) continue;
    CAPTURE(c.name);
    const gguf::File file = gguf::File::open(c.model_path());
    const core::Program program = models::build_program(file);
    const auto golden = c.golden();
    for (const bool at_once : {true, false}) {
      const double exact = tests::nmse(tests::logits_of(make_executor, program, c.ids, true, at_once), golden);
      const double fast = tests::nmse(tests::logits_of(make_executor, program, c.ids, false, at_once), golden);
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
  const auto make_executor = [](const core::Program& program, const core::ExecutorConfig& config) {
    return kernels::cuda::make_cuda_executor(program, config);
  };
  tests::Share share;
  for (const std::string& name : tests::known_recipes())
    if (share.takes_next()) tests::check_recipe(make_executor, name);
}

TEST_CASE("CUDA: tiny models of every architecture in fast mode are near exact mode") {
  REQUIRE_DEVICE();
  REQUIRE_REFERENCE();
  const auto make_executor = [](const core::Program& program, const core::ExecutorConfig& config) {
    return kernels::cuda::make_cuda_executor(program, config);
  };
  tests::Share share;
  for (const std::string& name : tests::known_recipes()) {
    if (!share.takes_next()) continue;
    CAPTURE(name);
    const tests::Recipe recipe(name);
    const gguf::File file = recipe.open();
    const core::Program program = models::build_program(file);
    const bool chooses = name.find("-moe") != std::string::npos; // another expert may win by rounding
    const std::vector<int32_t> ids = recipe.ids();
    for (const size_t size : {ids.size(), size_t{1}})
      CHECK(tests::nmse(tests::in_pieces(make_executor, program, tests::fast_config(), ids, size), recipe.golden()) <=
            (chooses ? 1e-2 : 1e-3));
  }
}
