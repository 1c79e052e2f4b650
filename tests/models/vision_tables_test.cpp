// Position tables. The expected values are from PyTorch's interpolate().
#include "models/vision/tables.h"

#include <doctest/doctest.h>

using namespace ridge;
using models::vision::TableResize;

TEST_CASE("tables of positions are resized as PyTorch does") {
  const std::vector<float> table = {1, 5, 2, 7, 3, 8, 6, 4, 9, 2, 5, 1, 4, 6, 8, 3};
  const auto check = [&](TableResize resize, const std::vector<float>& expected) {
    const std::vector<float> made = models::vision::resized_table(table, 1, {4, 4}, {3, 2}, resize);
    REQUIRE(made.size() == expected.size());
    for (size_t i = 0; i < made.size(); ++i) CHECK(made[i] == doctest::Approx(expected[i]).epsilon(1e-5));
    CHECK(models::vision::resized_table(table, 1, {4, 4}, {4, 4}, resize) == table);
  };
  check(TableResize::corners, {1, 3.5f, 7, 4, 7, 3});
  check(TableResize::linear, {2.75f, 5.25f, 5.25f, 6.08333f, 5.25f, 2.75f});
  check(TableResize::antialiased, {3.857143f, 5, 4.642857f, 5.571429f, 5.5f, 3.528571f});
  check(TableResize::cubic, {2.29633f, 5.94727f, 5.48752f, 6.4907f, 5.02148f, 2.44303f});
  check(TableResize::smooth_cubic, {3.67388f, 5.05026f, 4.67127f, 5.70578f, 5.62021f, 3.303f});
}
