// Tiny encoders against transformers and NumPy (tests/golden/pictures) and llama.cpp (tests/golden/mtmd). Scripts in
// tests/cross_check make these files.
#include "support/numerics.h"
#include "support/recipes/golden_rows.h"

using namespace ridge;

namespace {

void check_folder(const std::string& folder, double bound) {
  for (const tests::GoldenCase& of : tests::golden_cases(folder)) {
    CAPTURE(of.name);
    const std::vector<float> golden = of.rows();
    for (const bool exact : {true, false}) {
      constexpr double kFastBound = 1e-3;
      const tests::GoldenRows rows = tests::rows_of(of, {.threads = 1, .exact = exact});
      if (of.name.starts_with("minicpm")) CHECK(!rows.is_grid); // uses text positions
      CHECK(rows.tokens == of.tokens());
      REQUIRE(rows.values.size() == golden.size());
      const double error = tests::nmse(rows.values, golden);
      CHECK(error <= (exact ? bound : kFastBound));
      MESSAGE(of.name, exact ? ", exact: NMSE " : ", fast: NMSE ", error);
    }
  }
}

} // namespace

TEST_CASE("tiny encoders cut pictures and make rows of them as transformers does") { check_folder("pictures", 1e-7); }

// llama.cpp rounds convolutions and GELU to F16.
TEST_CASE("tiny encoders make rows of sounds and pictures as llama.cpp does") { check_folder("mtmd", 1e-6); }
