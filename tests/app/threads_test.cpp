// Commands must work if OpenMP grants fewer threads than requested.
#include "app/support.h"

using namespace ridge::tests;

namespace {

Result run_with(const std::string& variable, std::vector<std::string> args) {
  std::vector<std::string> command = {"env", variable, RIDGE_BINARY};
  command.insert(command.end(), args.begin(), args.end());
  return run(command);
}

} // namespace

TEST_CASE("run ends with the same answer where OpenMP grants fewer threads than asked for") {
  const std::vector<std::string> args = {"run", "-m", tiny_model(),   "-p",       "on",  "--raw", "-n", "4",
                                         "-s",  "1",  "--ignore-eos", "--device", "cpu", "-t",    "4"};
  const Result expected = run_ridge(args);
  REQUIRE(expected.status == 0);
  for (const char* variable : {"OMP_THREAD_LIMIT=1", "OMP_THREAD_LIMIT=2", "OMP_DYNAMIC=true"}) {
    CAPTURE(variable);
    const Result result = run_with(variable, args);
    CHECK(result.status == 0);
    CHECK(result.out == expected.out);
  }
}
