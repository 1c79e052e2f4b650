// Profile reports.
#include "measure/profile_report.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <sstream>

using namespace ridge;
using json = nlohmann::ordered_json;

TEST_CASE("a profile with waiting times shows them, and one layer along a line of time") {
  measure::StepProfile profile{16, 110e-6, 1e12, {}};
  profile.ops.push_back({"embed", -1, 10e-6, 1e3, 0, {0}, 1e-6, 0, 0.5e-6});
  for (int32_t layer = 0; layer < 3; ++layer) {
    // Layer 1 takes 40 µs: the first op has 10 characters, the second 30.
    const double factor = layer + 1;
    profile.ops.push_back({"attn_q", layer, factor * 5e-6, 1e6, 0, {1}, factor * 1e-6, -2e-6, factor * 1e-6});
    profile.ops.push_back({"ffn_down", layer, factor * 15e-6, 4e6, 0, {2}, factor * 5e-6, -2.5e-6, factor * 2.5e-6});
  }
  const std::string table = measure::profile_table(profile);
  CHECK(table.find("each    waiting") != std::string::npos);
  CHECK(table.find("ffn_down                                         3      30.00      10.00      90.00") !=
        std::string::npos);
  CHECK(table.find("timed alone") == std::string::npos);
  CHECK(table.find("layer 1: 40.00 µs") != std::string::npos);
  CHECK(table.find("attn_q                          -2.00   2.00   8.00   2.00  --======++\n") != std::string::npos);
  CHECK(
      table.find("ffn_down                         7.50  10.00  20.00   5.00         ...----------===============+++++"
                 "\n") != std::string::npos);
  std::istringstream lines(table.substr(table.find("layer 1")));
  for (std::string line; std::getline(lines, line);)
    CHECK(std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }) <= 100);

  const json report = json::parse(measure::profile_json(profile).dump());
  const json& op = report["ops"][4]; // begins at 10 + 20 + 10 µs
  CHECK(op["ops"] == "ffn_down");
  CHECK(op["waiting_seconds"] == doctest::Approx(10e-6));
  CHECK(op["first_start_seconds"] == doctest::Approx(37.5e-6));
  CHECK(op["last_end_seconds"] == doctest::Approx(70e-6));
  CHECK(op["ends_apart_seconds"] == doctest::Approx(5e-6));

  for (measure::OpProfile& o : profile.ops) o.waiting = o.start_delay = o.end_spread = 0;
  const std::string plain = measure::profile_table(profile);
  CHECK(plain.find("waiting") == std::string::npos);
  CHECK(plain.find("layer 1") == std::string::npos);
  CHECK(plain.find("timed alone") != std::string::npos);
  CHECK(!measure::profile_json(profile)["ops"][0].contains("waiting_seconds"));
}

TEST_CASE("a profile of many tokens has a column of operations per second, and names layers of encoders alike") {
  measure::StepProfile profile{0, 1e-3, 1e12, {}};
  profile.ops.push_back({"v.ffn_up", 0, 1e-3, 1e6, 5e11, {0}});
  CHECK(measure::profile_table(profile).find("TFLOP/s") == std::string::npos);
  profile.tokens = 4096;
  const std::string table = measure::profile_table(profile);
  CHECK(table.find("TFLOP/s") != std::string::npos);
  CHECK(table.find("500.0\n") != std::string::npos);
  core::Op op;
  op.layer = 3;
  op.name = "v.blk.3.ffn_up";
  CHECK(measure::name_without_layer(op) == "v.ffn_up");
  op.name = "blk.3.ffn_up";
  CHECK(measure::name_without_layer(op) == "ffn_up");
  op.name = "blk.33.ffn_up";
  CHECK(measure::name_without_layer(op) == "blk.33.ffn_up");
}
