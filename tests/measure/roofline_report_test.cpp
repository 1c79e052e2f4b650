#include "measure/roofline_report.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

using namespace ridge;

namespace {

measure::RooflineReport invented_report() {
  using Unit = core::Ceiling::Unit;
  measure::RooflineReport report;
  report.device = "Test & Co <1>";
  report.model = "model";
  report.ceilings = {{"dram_read", Unit::bytes_per_second, 1e12, ""},
                     {"wgmma_f16", Unit::operations_per_second, 1e14, ""},
                     {"graph_step", Unit::seconds, 1e-6, ""}};
  report.points = {
      {"matvec", "Q4_K 1-2-1", 1, 2e-3, 1e9, 4e9, 4e-4},           {"product", "Q4_K 1-2-1 x512", 1, 5e-2, 1e9, 4e12},
      {"vector", "add 8 x1", 100, 4e-4, 1e4, 1e4, 3e-4},           {"matvec", "IQ1_S 1-2-1", 1, 2e-3, 1e8, 4e9, 4e-4},
      {"matvec", "IQ1_S 1-9-1", 1, 4e-3, 1e9, 4e9, 4e-4}, // replaces the smaller one
      {"attention", "2/1 heads of 8, depth 9", 1, 2e-3, 1e9, 4e9}, {"model", "decode", 1, 2e-3, 1e9, 4e9, 4e-4, 1}};
  for (measure::RooflinePoint& p : report.points)
    for (const char* format : {"Q4_K", "IQ1_S"})
      if (p.name.starts_with(format)) p.format = format;
  return report;
}

} // namespace

TEST_CASE("a kernel's time is its roof, its start and the rest, and the largest binds it") {
  const measure::RooflineReport report = invented_report();
  CHECK(report.bound_by(report.points[0]) == "memory");
  CHECK(report.parts(report.points[0]).latency_seconds == doctest::Approx(4e-4));
  CHECK(report.parts(report.points[0]).kernel_seconds == doctest::Approx(6e-4));
  CHECK(report.bound_by(report.points[3]) == "kernel");
  for (const measure::RooflinePoint& p : report.points) {
    const measure::TimeParts of = report.parts(p);
    CHECK(of.memory_seconds + of.compute_seconds + of.latency_seconds + of.kernel_seconds ==
          doctest::Approx(p.seconds));
  }
  CHECK(report.floor_seconds(report.points[0]) == doctest::Approx(1e-3));
  CHECK(report.bound_by(report.points[1]) == "compute");
  CHECK(report.floor_seconds(report.points[1]) == doctest::Approx(4e-2));
  CHECK(report.bound_by(report.points[2]) == "latency");
  CHECK(report.floor_seconds(report.points[2]) == doctest::Approx(1e-4));
}

TEST_CASE("a time that the roofs do not allow is disturbed, and the best reads that were kept are the roof") {
  measure::RooflineReport report = invented_report();
  measure::RooflinePoint point = report.points[0]; // 1e9 bytes
  point.seconds = 0.95e-3;
  CHECK(!report.above_roof(point));
  point.seconds = 0.3e-3;
  CHECK(report.above_roof(point));
  CHECK(report.bound_by(point) == "disturbed");
  report.kept = measure::StoredPeak{4e12, 1e12, 3};
  CHECK(report.read() == 4e12);
  CHECK(report.read_now() == 1e12);
  CHECK(report.disturbed());
  CHECK(!report.above_roof(point));
  CHECK(report.floor_seconds(point) == doctest::Approx(0.25e-3));
}

TEST_CASE("peaks are kept for each device, at their best, and a broken file costs only them") {
  const tests::TemporaryFolder folder;
  ::setenv("XDG_STATE_HOME", (folder / "state").c_str(), 1);
  CHECK(!measure::stored_read_peak("A"));
  for (const double value : {3e9, 20e9, 7e9}) measure::keep_read_peak("A", value);
  measure::keep_read_peak("B \"quoted\"", 1e9);
  measure::keep_read_peak("A", 0);
  const auto kept = measure::stored_read_peak("A");
  REQUIRE(kept);
  CHECK(kept->best == 20e9);
  CHECK(kept->least == 3e9);
  CHECK(kept->times == 3);
  CHECK(measure::stored_read_peak("B \"quoted\"")->best == 1e9);
  for (int i = 0; i < 20; ++i) measure::keep_read_peak("A", 5e9);
  CHECK(measure::stored_read_peak("A")->best == 5e9); // old ones are dropped
  const std::string path = folder / "state/ridge/peaks.json";
  for (const char* text : {"{{{", "[1]", R"({"A": 3})", R"({"A": {"read_bytes_per_second": ["x", -1]}})"}) {
    std::ofstream(path) << text;
    CHECK(!measure::stored_read_peak("A"));
  }
  measure::keep_read_peak("A", 6e9);
  CHECK(measure::stored_read_peak("A")->best == 6e9);
  ::unsetenv("XDG_STATE_HOME");
}

TEST_CASE("the plot is well-formed, with each format, attention and the model in it, and no raw text of others") {
  const std::string svg = measure::roofline_svg(invented_report());
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(svg.find("Test &amp; Co &lt;1&gt;") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
  size_t circles = 0;
  for (size_t at = 0; (at = svg.find("<title>", at)) != std::string::npos; ++at) ++circles;
  CHECK(circles == 5);
  for (const char* tag : {"text", "g", "title", "circle"}) {
    size_t open = 0, close = 0;
    for (size_t at = 0; (at = svg.find(fmt::format("<{}", tag), at)) != std::string::npos; ++at)
      open += svg[at + 1 + std::string(tag).size()] == ' ' || svg[at + 1 + std::string(tag).size()] == '>';
    for (size_t at = 0; (at = svg.find(fmt::format("</{}>", tag), at)) != std::string::npos; ++at) ++close;
    if (std::string(tag) != "circle") CHECK(open == close); // self-closing
  }
}

TEST_CASE("a card that is not in the table is unknown") {
  REQUIRE(measure::find_datasheet("NVIDIA H200"));
  CHECK(measure::find_datasheet("NVIDIA H200")->memory_bytes_per_second == 4.8e12);
  CHECK(measure::find_datasheet("NVIDIA GeForce RTX 4090 Laptop GPU") == nullptr);
  CHECK(*measure::datasheet_value(measure::find_datasheet("NVIDIA H200"), "dram_read") == 4.8e12);
  CHECK(!measure::datasheet_value(measure::find_datasheet("NVIDIA GeForce RTX 3090"), "mma_fp8"));
  CHECK(!measure::datasheet_value(nullptr, "dram_read"));
}
