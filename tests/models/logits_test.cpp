// Whole models through the CPU executor against logits that another implementation computed in f32.
#include "kernels/cpu/executor/executor.h"
#include "models/model.h"

#include "support/numerics.h"
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
