// --json parses, names the machine, and has units.
#include "app/support.h"
#include "convert/import/checkpoint.h"
#include "support/http/fake_hub.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

using namespace ridge::tests;
using json = nlohmann::ordered_json;

namespace {

const std::string kText = std::string(RIDGE_SOURCE_DIR) + "/tests/data/harbour.txt";

// Keys without a unit.
const std::set<std::string> kPureNumbers = {
    // counts
    "cores", "multiprocessors", "tensors", "weights", "parameters", "shards", "entries", "chunks", "repetitions",
    "streams", "threads", "gpu_layers", "experts_on_host", "experts_in_file_only", "expert_copies_on_gpu",
    "matrices_never_used", "draft_heads", "dependent_steps", "not_finite", "shape", "matrix_rows", "length", "layers",
    "ranks", "read_measurements", "downloads",
    // names and positions
    "id", "version", "seed", "layer", "position", "shard", "gpu", "rank", "first_layer", "end_layer",
    // ratios and statistics of weights and probabilities
    "cosine", "rmse", "rms", "mean", "min", "max", "first", "max_error", "relative_error", "weighted_relative_error",
    "loss", "perplexity", "perplexity_standard_error", "reference_perplexity", "log_perplexity_ratio",
    "log_perplexity_ratio_standard_error", "probability_change_mean", "probability_change_rms", "mfu_measured",
    "mfu_datasheet"};

const char* const kUnits[] = {"bytes", "seconds", "hz",    "tokens",     "watts", "share",
                              "_db",   "nats",    "flops", "operations", "bits",  "per_second"};

// A file's metadata is exempt.
void find_unnamed(const json& value, const std::string& key, std::set<std::string>& found) {
  if (value.is_object()) {
    for (const auto& [name, inner] : value.items())
      if (name != "metadata") find_unnamed(inner, name, found);
  } else if (value.is_array()) {
    for (const json& inner : value) find_unnamed(inner, key, found);
  } else if (value.is_number() && !kPureNumbers.contains(key) &&
             std::ranges::none_of(kUnits, [&](const char* unit) { return key.find(unit) != std::string::npos; })) {
    found.insert(key);
  }
}

void check_report(const std::string& command, const std::vector<std::string>& args) {
  CAPTURE(command);
  const Result result = run_ridge(args);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const json report = json::parse(result.out, nullptr, false);
  REQUIRE_MESSAGE(report.is_object(), result.out.substr(0, 300));
  CHECK(report["command"] == command);
  const json& machine = report["machine"];
  for (const char* key : {"ridge_version", "commit", "os", "cpu", "gpu"}) CHECK(machine.contains(key));
  for (const char* key : {"name", "cores", "clock_hz", "memory_bytes"}) CHECK(machine["cpu"].contains(key));
  if (!machine["gpu"].is_null())
    for (const char* key : {"name", "driver", "sm_clock_hz", "sm_clock_max_hz", "memory_clock_hz"})
      CHECK(machine["gpu"].contains(key));
  std::set<std::string> unnamed;
  find_unnamed(report, "", unnamed);
  CHECK_MESSAGE(unnamed.empty(), "numbers without a unit: ", json(unnamed).dump());
}

std::vector<std::string> commands_with_json() {
  std::vector<std::string> commands;
  std::istringstream help(run_ridge({"--help"}).out);
  for (std::string line; std::getline(help, line);) {
    if (line == "Options") break;
    if (!line.starts_with("  ")) continue;
    const std::string command = line.substr(2, line.find(' ', 2) - 2);
    std::istringstream own(run_ridge({command, "--help"}).out);
    for (std::string option; std::getline(own, option);)
      if (option.starts_with("  --json ")) {
        commands.push_back(command);
        break;
      }
  }
  return commands;
}

} // namespace

TEST_CASE("every command with --json prints one object with the machine, and units in its keys") {
  Checkpoint checkpoint;
  checkpoint.write();
  FakeHub hub;
  hub.files = {{"Tall-Q4_K_M.gguf", "x"}};
  ::setenv("HF_ENDPOINT", hub.hub.address().c_str(), 1);
  const std::string messages = folder().write("messages.json", R"([{"role": "user", "content": "hello"}])");
  const auto f = [](const char* name) { return folder() / name; };
  using Args = std::vector<std::string>;
  const std::map<std::string, std::vector<Args>> calls = {
      {"run",
       {{"run", "-m", tiny_model(), "--device", "cpu", "--raw", "-p", "on", "-n", "4"},
        {"run", "-m", tiny_model(), "--device", "cpu", "--raw", "-p", "on", "-n", "4", "--profile"}}},
      {"inspect",
       {{"inspect", tiny_model()},
        {"inspect", tiny_model(), "--tensor", "blk.0.attn_k.weight"},
        {"inspect", tiny_model(), "--tensor", "blk.0.attn_k.weight", "--as", "Q8_0,Q4_0"},
        {"inspect", "--compare", tiny_model(), tiny_model()}}},
      {"tokenize", {{"tokenize", "-m", tiny_model(), "-p", "on the hill"}}},
      {"detokenize", {{"detokenize", "-m", tiny_model(), "3,4,5"}}},
      {"template", {{"template", "--chat-template", "chatml", "--messages", messages}}},
      {"convert", {{"convert", checkpoint.folder.path(), "-o", f("converted.gguf")}}},
      {"quantize", {{"quantize", tiny_model(), f("requantized.gguf"), "Q8_0"}}},
      {"imatrix", {{"imatrix", "-m", tiny_model(), "-f", kText, "-o", f("i.gguf"), "-c", "32", "--chunks", "2"}}},
      {"bench", {{"bench", "-m", tiny_model(), "--device", "cpu", "-p", "4", "-n", "4", "-r", "1", "--profile"}}},
      {"perplexity",
       {{"perplexity", "-m", tiny_model(), "-f", kText, "-c", "32", "--chunks", "2", "--against", tiny_model()}}},
      {"roofline", {{"roofline", "--device", "cpu", "--ceilings"}}},
      {"doctor", {{"doctor"}}},
      {"models", {{"models"}}},
      {"search", {{"search", "tall"}}},
      {"fit",
       {{"fit", "-m", tiny_model(), "--device", "cpu"},
        {"fit", "-m", tiny_model(), "--memory", "1MB"},
        {"fit", "-m", tiny_model(), "--gpu-memory", "8GiB", "--tensor-parallel", "2", "--pipeline", "2"}}},
  };
  const std::vector<std::string> commands = commands_with_json();
  CHECK(commands.size() == calls.size());
  for (const std::string& command : commands) {
    REQUIRE_MESSAGE(calls.contains(command), "no call of ", command);
    for (Args args : calls.at(command)) {
      args.push_back("--json");
      check_report(command, args);
    }
  }
  ::unsetenv("HF_ENDPOINT");
}
