// bench, roofline and --profile as a user runs them, and the small parts they are made of.
#include "app/gguf_check.h"
#include "app/support.h"
#include "core/error.h"
#include "engine/loaded_model.h"
#include "measure/count_list.h"
#include "measure/datasheet.h"
#include "measure/profile_report.h"
#include "measure/roofline_report.h"
#include "support/reference.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <sstream>

using namespace ridge;
using namespace ridge::tests;
using nlohmann::json;

namespace {

json bench(std::vector<std::string> args) {
  args.insert(args.begin(), {"bench", "--device", "cpu", "-r", "2", "-o", "json"});
  const Result result = run_ridge(args);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  return json::parse(result.out);
}

std::vector<std::string> names(const json& report) {
  std::vector<std::string> tests;
  for (const json& test : report["tests"]) tests.push_back(test["test"]);
  return tests;
}

measure::RooflineReport invented_report() { // a machine of round numbers
  using Unit = core::Ceiling::Unit;
  measure::RooflineReport report;
  report.device = "Test & Co <1>";
  report.model = "model";
  report.ceilings = {{"dram_read", Unit::bytes_per_second, 1e12, ""},
                     {"wgmma_f16", Unit::operations_per_second, 1e14, ""},
                     {"graph_step", Unit::seconds, 1e-6, ""}};
  report.placements = {
      {"matvec", "Q4_K 1-2-1", 1, 2e-3, 1e9, 4e9, 4e-4},           {"product", "Q4_K 1-2-1 x512", 1, 5e-2, 1e9, 4e12},
      {"vector", "add 8 x1", 100, 4e-4, 1e4, 1e4, 3e-4},           {"matvec", "IQ1_S 1-2-1", 1, 2e-3, 1e8, 4e9, 4e-4},
      {"matvec", "IQ1_S 1-9-1", 1, 4e-3, 1e9, 4e9, 4e-4}, // instead of the smaller one
      {"attention", "2/1 heads of 8, depth 9", 1, 2e-3, 1e9, 4e9}, {"model", "decode", 1, 2e-3, 1e9, 4e9, 4e-4, 1}};
  return report;
}

} // namespace

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

TEST_CASE("a model that goes back to the CPU, as from one -ngl to the next, has no share on the GPU") {
  engine::LoadedModel model = engine::open_model(gguf::File::open(tiny_model()));
  model.gpu_share = 1;
  core::ExecutorConfig config;
  config.context = 16;
  CHECK(engine::start_executor(model, config, "auto", 0) == engine::Device::cpu);
  CHECK(model.gpu_share == 0);
}

TEST_CASE("bench measures every combination of its lists, once") {
  const json report = bench({"-m", tiny_model(), "-p", "8", "-n", "4", "-d", "0,8", "--batch", "1,2"});
  std::vector<std::string> tests = names(report);
  std::ranges::sort(tests);
  CHECK(tests == std::vector<std::string>{"pp8", "pp8 @ d8", "tg4", "tg4 @ d8", "tg4 x2", "tg4 x2 @ d8"});
  for (const json& test : report["tests"]) {
    CHECK(test["seconds"].size() == 2);
    CHECK(test["tokens_per_second"] > 0);
    CHECK(test["bytes_per_second"] > 0);
    CHECK(test["read_bytes_per_second_measured"] > 1e8);
    CHECK(test["read_bytes_per_second_datasheet"].is_null()); // a CPU
    CHECK(test["peak_flops_per_second_measured"] > 1e9);
  }
  CHECK(report["machine"]["cpu"]["cores"] > 0);
  CHECK(report["machine"]["commit"].get<std::string>().size() >= 7);
}

TEST_CASE("bench takes several models and settings, as table, CSV and lines of JSON") {
  const std::vector<std::string> args = {"bench", "--device", "cpu", "-m", tiny_model(), "-m",  tiny_model(), "-p",
                                         "4",     "-n",       "0",   "-r", "1",          "-ub", "2,4",        "-o"};
  const auto with = [&](const char* format) {
    std::vector<std::string> all = args;
    all.push_back(format);
    const Result result = run_ridge(all);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    return result.out;
  };
  const std::string table = with("md");
  CHECK(table.find("| n_ubatch |") != std::string::npos);
  CHECK(table.find("| type_k |") == std::string::npos); // all alike
  CHECK(table.find("pp4") != std::string::npos);

  std::istringstream lines(with("jsonl"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) CHECK(json::parse(line)["machine"].contains("commit"));
  CHECK(count == 4);

  std::istringstream csv(with("csv"));
  std::string line;
  std::getline(csv, line);
  const auto columns = std::ranges::count(line, ',');
  for (count = 0; std::getline(csv, line); ++count) {
    int64_t commas = 0;
    bool quoted = false;
    for (const char c : line) {
      quoted ^= c == '"';
      commas += c == ',' && !quoted;
    }
    CHECK(commas == columns);
  }
  CHECK(count == 4);
}

TEST_CASE("a saved synthetic model is a GGUF file byte by byte, and runs") {
  const std::string path = folder() / "shape.gguf";
  const Result saved = run_ridge(
      {"bench", "--device", "cpu", "--shape", "qwen2.5-0.5b:Q4_0", "--save", path, "-p", "0", "-n", "1", "-r", "1"});
  REQUIRE_MESSAGE(saved.status == 0, saved.err);
  const std::string bytes = read_file(path);
  CheckedGguf file(bytes);
  CHECK(file.metadata_types.at("general.architecture") == 8);
  CHECK(file.u32.at("qwen2.block_count") == 24);
  CHECK(file.u32.at("qwen2.embedding_length") == 896);
  CHECK(file.tensors.at("blk.23.ffn_down.weight").dims == std::vector<uint64_t>{4864, 896});
  CHECK(file.tensors.at("blk.0.attn_q.bias").type == 0);
  CHECK(file.tensors.at("blk.7.attn_q.weight").type == 2);
  CHECK(run_ridge({"inspect", path}).status == 0);
  const Result logits =
      run_ridge({"logits", "-m", path, "--device", "cpu", "--ids", "1,2", "--out", folder() / "s.npy"});
  CHECK_MESSAGE(logits.status == 0, logits.err);
  std::filesystem::remove(path);
}

TEST_CASE("a profile names every op, and its bytes are those of a step") {
  const json report = bench({"-m", tiny_model(), "-p", "0", "-n", "4", "-d", "16", "--profile"});
  const json& profile = report["tests"][0]["profile"];
  CHECK(profile["position"] == 16);
  CHECK(profile["step_seconds"] > 0);
  double bytes = 0, seconds = 0;
  std::string ops;
  for (const json& op : profile["ops"]) {
    bytes += op["bytes"].get<double>();
    seconds += op["seconds"].get<double>();
    ops += op["ops"].get<std::string>() + " ";
    CHECK(op["gap_seconds"].get<double>() <= op["seconds"].get<double>());
    CHECK(op["seconds"] > 0);
    CHECK(!op.contains("waiting_seconds")); // a CPU
  }
  for (const char* op : {"attn_q", "ffn_down", "output"}) CHECK(ops.find(op) != std::string::npos);
  CHECK(seconds > 0);
  // Four steps at positions 16 to 19 on average move what one at 16 does and 1.5 more cached tokens.
  CHECK(bytes == doctest::Approx(report["tests"][0]["bytes"].get<double>() / 4).epsilon(0.02));

  const Result run = run_ridge({"run", "-m", tiny_model(), "--device", "cpu", "-p", "x", "-n", "2", "--profile"});
  CHECK(run.status == 0);
  CHECK(run.err.find("one decoding step at position") != std::string::npos);
}

TEST_CASE("a profile with waiting times shows them, and one layer along a line of time") {
  measure::StepProfile profile{16, 110e-6, 1e12, {}};
  profile.ops.push_back({"embed", -1, 10e-6, 1e3, 0, {0}, 1e-6, 0, 0.5e-6});
  for (int32_t layer = 0; layer < 3; ++layer) {
    // Layer 1 takes 40 µs, of which 10 are one character of ten: its first op has 10, its second 30.
    const double factor = layer + 1;
    profile.ops.push_back({"attn_q", layer, factor * 5e-6, 1e6, 0, {1}, factor * 1e-6, -2e-6, factor * 1e-6});
    profile.ops.push_back({"ffn_down", layer, factor * 15e-6, 4e6, 0, {2}, factor * 5e-6, -2.5e-6, factor * 2.5e-6});
  }
  const std::string table = measure::profile_table(profile);
  CHECK(table.find("each    waiting") != std::string::npos);
  CHECK(table.find("ffn_down                                         3      30.00      10.00      90.00") !=
        std::string::npos);
  CHECK(table.find("by itself") == std::string::npos);
  CHECK(table.find("number 1: 40.00 µs") != std::string::npos);
  CHECK(table.find("attn_q                          -2.00   2.00   8.00   2.00  --======++\n") != std::string::npos);
  CHECK(
      table.find("ffn_down                         7.50  10.00  20.00   5.00         ...----------===============+++++"
                 "\n") != std::string::npos);
  std::istringstream lines(table.substr(table.find("one layer")));
  for (std::string line; std::getline(lines, line);)
    CHECK(std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }) <= 100);

  const json report = json::parse(measure::profile_json(profile).dump());
  const json& op = report["ops"][4]; // begins at 10 + 20 + 10 µs
  CHECK(op["ops"] == "ffn_down");
  CHECK(op["waiting_seconds"] == doctest::Approx(10e-6));
  CHECK(op["first_start_seconds"] == doctest::Approx(37.5e-6));
  CHECK(op["last_end_seconds"] == doctest::Approx(70e-6));
  CHECK(op["ends_apart_seconds"] == doctest::Approx(5e-6));

  for (measure::OpProfile& o : profile.ops) o.waiting = o.starts = o.ends_apart = 0;
  const std::string plain = measure::profile_table(profile);
  CHECK(plain.find("waiting") == std::string::npos);
  CHECK(plain.find("one layer") == std::string::npos);
  CHECK(plain.find("by itself") != std::string::npos);
  CHECK(!measure::profile_json(profile)["ops"][0].contains("waiting_seconds"));
}

TEST_CASE("roofline measures ceilings and says where they come from") {
  const Result result = run_ridge({"roofline", "--device", "cpu", "--ceilings", "--json"});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const json report = json::parse(result.out);
  std::map<std::string, json> ceilings;
  for (const json& c : report["ceilings"]) ceilings[c["name"]] = c;
  for (const char* name : {"dram_read", "dram_write", "dram_copy"})
    CHECK(ceilings.at(name)["measured_bytes_per_second"] > 1e8);
  CHECK(ceilings.at("fp32")["measured_operations_per_second"] > 1e8);
  CHECK(ceilings.at("int8")["measured_operations_per_second"] > 1e8);
  CHECK(ceilings.at("barrier")["measured_seconds"] < 1);
  CHECK(report["kernels"].empty());
  CHECK(report["machine"].contains("gpu"));
}

TEST_CASE(
    "roofline places matrices of every format that fits, attention, norms and the model, and splits their times") {
  const Result result = run_ridge({"roofline", "--device", "cpu", "-t", "1", "-m", tiny_model(), "--json"});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const json report = json::parse(result.out);
  std::map<std::string, int> groups;
  for (const json& k : report["kernels"]) {
    ++groups[k["group"]];
    double sum = 0;
    for (const char* part : {"memory_seconds", "compute_seconds", "latency_seconds", "kernel_seconds"}) {
      CHECK(k[part] >= 0);
      sum += k[part].get<double>();
    }
    CHECK(sum == doctest::Approx(k["seconds"].get<double>()));
    CHECK(k["bytes"] > 0);
  }
  CHECK(groups["matvec"] >= 1); // how many can be told from the rest depends on what else runs
  CHECK(groups["model"] >= 2);
}

TEST_CASE("a kernel's time is its roof, its start and the rest, and the largest binds it") {
  const measure::RooflineReport report = invented_report();
  CHECK(report.bound_by(report.placements[0]) == "memory");
  CHECK(report.parts(report.placements[0]).latency_seconds == doctest::Approx(4e-4));
  CHECK(report.parts(report.placements[0]).kernel_seconds == doctest::Approx(6e-4));
  CHECK(report.bound_by(report.placements[3]) == "kernel");
  for (const measure::Placement& p : report.placements) {
    const measure::Parts of = report.parts(p);
    CHECK(of.memory_seconds + of.compute_seconds + of.latency_seconds + of.kernel_seconds ==
          doctest::Approx(p.seconds));
  }
  CHECK(report.floor_seconds(report.placements[0]) == doctest::Approx(1e-3));
  CHECK(report.bound_by(report.placements[1]) == "compute");
  CHECK(report.floor_seconds(report.placements[1]) == doctest::Approx(4e-2));
  CHECK(report.bound_by(report.placements[2]) == "latency");
  CHECK(report.floor_seconds(report.placements[2]) == doctest::Approx(1e-4));
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
    if (std::string(tag) != "circle") CHECK(open == close); // a legend's circle closes itself
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

TEST_CASE("bench, roofline and --save refuse what makes no sense") {
  const auto refused = [](std::vector<std::string> args, int status, const char* said) {
    const Result result = run_ridge(args);
    CAPTURE(result.err);
    CHECK(result.status == status);
    CHECK(result.out.empty());
    CHECK(result.err.find(said) != std::string::npos);
  };
  refused({"bench", "-m", tiny_model(), "-p", "5-1"}, 2, "--n-prompt");
  refused({"bench", "-m", tiny_model(), "-p", "0", "-n", "0"}, 2, "nothing to measure");
  refused({"bench", "-m", tiny_model(), "--save", "x"}, 2, "--save");
  refused({"bench", "-m", tiny_model(), "-ctk", "q9"}, 2, "q9");
  refused({"roofline", "--device", "cpu", "--ladder"}, 1, "GPU");
}
