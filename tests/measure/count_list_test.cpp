#include "measure/count_list.h"

#include "core/error.h"

#include <doctest/doctest.h>

using namespace ridge;

TEST_CASE("lists of counts are single numbers, commas, steps and factors") {
  const auto counts = [](const char* text) { return measure::parse_counts(text, "-p", 0, 4096); };
  CHECK(counts("512") == std::vector<int64_t>{512});
  CHECK(counts("512,0,7") == std::vector<int64_t>{512, 0, 7});
  CHECK(counts("1-4") == std::vector<int64_t>{1, 2, 3, 4});
  CHECK(counts("128-512+128") == std::vector<int64_t>{128, 256, 384, 512});
  CHECK(counts("128-1024*2,5") == std::vector<int64_t>{128, 256, 512, 1024, 5});
  for (const char* wrong : {"", "x", "1,", "5-1", "1-8*1", "0-8*2", "1-8+0", "5000", "-1", "1-4096", "1 2", "1-2+3*4",
                            "1-4+9223372036854775807", "2-4*9223372036854775807"}) // steps that overflow
    CHECK_THROWS_AS(counts(wrong), Error);
}
