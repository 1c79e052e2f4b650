// All kinds of KV cache, and experts.
#include "engine/guess_runs.h"
#include "kernels/cpu/executor/executor.h"
#include "support/reference.h"

using namespace ridge;

TEST_CASE("tiny models of every architecture say the same with guesses as without") {
  REQUIRE_REFERENCE();
  const auto make = [](const core::Program& program, const core::ExecutorConfig& config) {
    return kernels::cpu::make_cpu_executor(program, config);
  };
  for (const std::string& name : tests::share_of(tests::recipes_to_guess_for(), 4)) tests::check_guesses(make, name);
}
