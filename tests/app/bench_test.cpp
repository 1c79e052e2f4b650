// bench, roofline, --profile.
#include "app/gguf_check.h"
#include "app/support.h"
#include "support/adapters.h"
#include "support/drafts/dflash_pair.h"
#include "support/drafts/draft_model.h"
#include "support/reference.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

using namespace ridge;
using namespace ridge::tests;
using json = nlohmann::ordered_json;

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

} // namespace

TEST_CASE("bench measures every combination of its lists, once") {
  const json report = bench({"-m", tiny_model(), "-p", "8", "-n", "4", "-d", "0,8", "--batch", "1,2"});
  std::vector<std::string> tests = names(report);
  std::ranges::sort(tests);
  CHECK(tests == std::vector<std::string>{"pp8", "pp8 @ d8", "tg4", "tg4 @ d8", "tg4 x2", "tg4 x2 @ d8"});
  for (const json& test : report["tests"]) {
    CHECK(test["seconds"].size() == 2);
    CHECK(test["tokens_per_second"] > 0);
    CHECK(test["bytes_per_second"] > 0);
    CHECK(test["read_bytes_per_second_measured"] > 0);
    CHECK(test["read_bytes_per_second_datasheet"].is_null());
    CHECK(test["peak_flops_per_second_measured"] > 0);
  }
  CHECK(report["machine"]["cpu"]["cores"] > 0);
  CHECK(report["machine"]["commit"].get<std::string>().size() >= 7);
}

TEST_CASE("bench tries the ways to multiply on a GPU alone") {
  const auto error_of = [](std::vector<std::string> args) {
    args.insert(args.begin(), {"bench", "--device", "cpu", "-m", tiny_model()});
    const Result result = run_ridge(args);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    return result.err;
  };
  CHECK(error_of({"--regret", "1,8"}).find("--regret needs a model that fits entirely on one GPU") !=
        std::string::npos);
  CHECK(error_of({"--regret", "0"}).find("--regret") != std::string::npos);
  CHECK(error_of({"--calibrate"}).find("--calibrate needs a model that fits entirely on one GPU") != std::string::npos);
  CHECK(error_of({"--calibrate", "--regret", "8"}).find("--calibrate") != std::string::npos);
  CHECK(error_of({"--regret", "8", "-o", "json"}).find("--regret prints md only") != std::string::npos);
}

TEST_CASE("bench measures steps that check guesses, and guesses of which a share is right") {
  const json report =
      bench({"-m", tiny_model(), "-p", "0", "-n", "64", "--verify", "1,4", "--spec", "synthetic:1,synthetic:0"});
  CHECK(names(report) == std::vector<std::string>{"vf1", "vf4", "tg64", "tg64 guess 1", "tg64 guess 0"});
  const json& tests = report["tests"];
  CHECK(tests[1]["bytes"] < tests[0]["bytes"].get<double>() * 1.5); // a step reads the weights once
  CHECK(tests[3]["tokens_per_step"] > 1);
  CHECK(tests[3]["tokens_per_step"] <= 16);
  CHECK(tests[4]["tokens_per_step"] < 1.2);
}

TEST_CASE("bench measures draft heads, of whose guesses a share counts as right, and fit counts them") {
  const std::string path = folder() / "bench-draft.gguf";
  const std::vector<std::byte> image = ridge::tests::DraftModel::chained().image();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(image.data()), static_cast<std::streamsize>(image.size()));
  const json report =
      bench({"-m", path, "-t", "1", "-p", "0", "-n", "64", "-d", "40", "--spec", "mtp,synthetic:1", "--accept", "1,0"});
  CHECK(names(report) ==
        std::vector<std::string>{"tg64 @ d40", "tg64 guess 1 @ d40", "tg64 mtp 1 @ d40", "tg64 mtp 0 @ d40"});
  const auto planned = [&](const char* who) {
    return json::parse(run_ridge({"fit", "-m", path, "--device", "cpu", "--spec", who, "--json"}).out);
  };
  CHECK(planned("auto")["draft_heads"] == 3);
  CHECK(planned("mtp")["draft_heads_cpu_bytes"] > 3 * 48 * 64 * 4); // at least tables and output matrices
  CHECK(planned("off")["draft_heads"] == 0);
  const json& tests = report["tests"];
  CHECK(tests[2]["draft_heads_guess"] == true);
  CHECK(tests[1]["draft_heads_guess"] == false);
  CHECK(tests[2]["tokens_per_step"] > 1);
  CHECK(tests[3]["tokens_per_step"] < 1.2);
}

TEST_CASE("GPUs that are asked for and not there are said to be missing") {
  if (std::filesystem::exists("/dev/nvidia0")) {
    MESSAGE("skipped: there is a GPU");
    return;
  }
  const Result refused = run_ridge({"fit", "-m", tiny_model(), "--device", "cuda"});
  CHECK(refused.status == 1);
  CHECK(refused.err.starts_with("ridge: error: --device cuda: "));
  const Result presumed = run_ridge({"fit", "-m", tiny_model(), "--device", "cuda", "--gpu-memory", "24GiB"});
  CHECK(presumed.status == 0);
  CHECK(presumed.out.find("GPU") != std::string::npos);
  const Result named = run_ridge({"run", "-m", tiny_model(), "--raw", "-p", "x", "-n", "2", "--gpus", "1"});
  CHECK(named.status == 0);
  CHECK(named.err.find("running on the CPU: ") != std::string::npos);
  const Result several = run_ridge({"run", "-m", tiny_model(), "-p", "x", "--gpus", "0,1", "-ngl", "99"});
  CHECK(several.status == 2);
  CHECK(several.err.starts_with("ridge: error: --gpus 0,1: -ngl uses one GPU"));
}

TEST_CASE("bench measures an EAGLE-3 head in a file of its own") {
  const auto write = [](const char* name, const std::vector<std::byte>& image) {
    return folder().write(name, {reinterpret_cast<const char*>(image.data()), image.size()});
  };
  const ridge::tests::EaglePair pair;
  const std::string model = write("bench-eagle-model.gguf", *pair.model_image()),
                    head = write("bench-eagle3.gguf", *pair.head_image());
  const json report = bench({"-m", model, "--draft-model", head, "-t", "1", "-p", "0", "-n", "64", "-d", "40", "--spec",
                             "eagle3", "--accept", "1"});
  CHECK(names(report) == std::vector<std::string>{"tg64 @ d40", "tg64 eagle3 1 @ d40"});
  CHECK(report["tests"][1]["draft_heads_guess"] == true);
  CHECK(report["tests"][1]["tokens_per_step"] > 1);
}

TEST_CASE("bench measures a DFlash head in a file of its own, and fit counts it") {
  const auto write = [](const char* name, const std::vector<std::byte>& image) {
    return folder().write(name, {reinterpret_cast<const char*>(image.data()), image.size()});
  };
  const ridge::tests::DflashPair pair;
  const std::string model = write("bench-dflash-model.gguf", *pair.model_image()),
                    head = write("bench-dflash.gguf", *pair.head_image());
  const json report = bench({"-m", model, "--draft-model", head, "-t", "1", "-p", "0", "-n", "64", "-d", "40", "--spec",
                             "dflash", "--accept", "1"});
  CHECK(names(report) == std::vector<std::string>{"tg64 @ d40", "tg64 dflash 1 @ d40"});
  CHECK(report["tests"][1]["draft_heads_guess"] == true);
  CHECK(report["tests"][1]["tokens_per_step"] > 1);
  const auto refused_as = [](const std::vector<std::string>& command, const char* said) {
    const Result result = run_ridge(command);
    CHECK(result.status == 1);
    CHECK(result.err.find(said) != std::string::npos);
  };
  refused_as({"bench", "-m", model, "--draft-model", head, "--spec", "eagle3", "--accept", "1"},
             "not a head for --spec eagle3");
  refused_as({"logits", "-m", model, "--draft-model", head, "--mtp", "--ids", "1", "--out", folder() / "x.npy"},
             "logits of whole blocks");
  const Result fit = run_ridge({"fit", "-m", model, "--draft-model", head, "--device", "cpu"});
  CHECK(fit.status == 0);
  CHECK(fit.out.find("draft heads") != std::string::npos);
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
  CHECK(table.find("| type_k |") == std::string::npos);
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
  const Result tokens = run_ridge({"tokenize", "-m", path, "-p", "hi"});
  CHECK_MESSAGE(tokens.status == 0, tokens.err);
  CHECK(tokens.out.find("107") != std::string::npos); // 3 + 'h'
  CHECK(tokens.out.find("108") != std::string::npos);
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
    CHECK(!op.contains("waiting_seconds"));
  }
  for (const char* op : {"attn_q", "ffn_down", "output"}) CHECK(ops.find(op) != std::string::npos);
  CHECK(seconds > 0);
  // Steps at positions 16 to 19 read 1.5 more cached tokens on average than one at 16.
  CHECK(bytes == doctest::Approx(report["tests"][0]["bytes"].get<double>() / 4).epsilon(0.02));

  const Result run = run_ridge({"run", "-m", tiny_model(), "--device", "cpu", "-p", "x", "-n", "2", "--profile"});
  CHECK(run.status == 0);
  CHECK(run.err.find("one decoding step at position") != std::string::npos);
}

TEST_CASE("a profile of several streams is one of the step that decodes them together") {
  const json report = bench({"-m", tiny_model(), "-p", "0", "-n", "4", "-d", "16", "--batch", "4", "--profile"});
  const json& test = report["tests"][0];
  REQUIRE(test["test"] == "tg4 x4 @ d16");
  REQUIRE(test.contains("profile"));
  double bytes = 0;
  for (const json& op : test["profile"]["ops"]) bytes += op["bytes"].get<double>();
  CHECK(bytes == doctest::Approx(test["bytes"].get<double>() / 4).epsilon(0.02));

  const Result table = run_ridge(
      {"bench", "-m", tiny_model(), "--device", "cpu", "-r", "1", "-p", "0", "-n", "4", "--batch", "4", "--profile"});
  CHECK(table.status == 0);
  CHECK(table.out.find("tg4 x4: one decoding step of 4 sequences at position 0, µs") != std::string::npos);
}

TEST_CASE("a profile of a prompt is one of the tokens that are evaluated at once, and so is one of guesses") {
  const json report = bench({"-m", tiny_model(), "-p", "24", "-n", "0", "--verify", "3", "--profile"});
  REQUIRE(report["tests"].size() == 2);
  for (const json& test : report["tests"]) {
    REQUIRE(test.contains("profile"));
    const bool prompt = test["test"] == "pp24";
    double bytes = 0, flops = 0;
    for (const json& op : test["profile"]["ops"])
      bytes += op["bytes"].get<double>(), flops += op["flops"].get<double>();
    if (prompt) CHECK(bytes == doctest::Approx(test["bytes"].get<double>()).epsilon(0.02));
    CHECK(flops > 0);
  }
  const Result table = run_ridge(
      {"bench", "-m", tiny_model(), "--device", "cpu", "-r", "1", "-p", "24", "-ub", "16", "-n", "0", "--profile"});
  CHECK(table.status == 0);
  CHECK(table.out.find("pp24: one step of 16 tokens at position 0, µs") != std::string::npos);
}

TEST_CASE("roofline measures ceilings and says where they come from") {
  const Result result = run_ridge({"roofline", "--device", "cpu", "--ceilings", "--json"});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const json report = json::parse(result.out);
  std::map<std::string, json> ceilings;
  for (const json& c : report["ceilings"]) ceilings[c["name"]] = c;
  for (const char* name : {"dram_read", "dram_write", "dram_copy"})
    CHECK(ceilings.at(name)["measured_bytes_per_second"] > 0);
  CHECK(ceilings.at("fp32")["measured_operations_per_second"] > 0);
  CHECK(ceilings.at("int8")["measured_operations_per_second"] > 0);
  CHECK(ceilings.at("barrier")["measured_seconds"] > 0);
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
  CHECK(groups["model"] >= 2);
}

TEST_CASE("bench, roofline and --save refuse what makes no sense") {
  const auto refused = [](std::vector<std::string> args, int status, const char* said) {
    const Result result = run_ridge(args);
    CAPTURE(result.err);
    CHECK(result.status == status);
    CHECK(result.out.empty());
    CHECK(result.err.find(said) != std::string::npos);
  };
  const std::string adapter = folder() / "adapter.gguf";
  std::mt19937_64 random(3);
  AdapterImage image("llama", 8);
  image.add_pair(*gguf::File::open(tiny_model()).find_tensor("blk.0.attn_q.weight"), 4, random);
  image.write(adapter);
  refused({"bench", "--device", "cpu", "--shape", "qwen2.5-0.5b:Q4_0", "-p", "0", "-n", "1", "--lora", adapter}, 1,
          "adapter for a llama model");
  refused({"bench", "-m", tiny_model(), "-p", "5-1"}, 2, "--n-prompt");
  refused({"bench", "-m", tiny_model(), "-p", "0", "-n", "0"}, 2, "nothing to measure");
  refused({"bench", "-m", tiny_model(), "--save", "x"}, 2, "--save");
  refused({"bench", "-m", tiny_model(), "--spec", "synthetic:2"}, 2, "P from 0 to 1");
  refused({"bench", "-m", tiny_model(), "--spec", "mtp"}, 2, "--accept");
  refused({"bench", "-m", tiny_model(), "--accept", "0.5"}, 2, "--spec mtp");
  refused({"bench", "-m", tiny_model(), "--spec", "eagle3", "--accept", "1"}, 2, "--draft-model FILE");
  refused({"bench", "--spec", "dflash", "--accept", "1"}, 2, "--draft-model FILE");
  refused({"bench", "-m", tiny_model(), "--spec", "eagle3", "--accept", "1", "--draft-model", tiny_model()}, 1,
          "not a draft head");
  refused({"bench", "--shape", "llama-1b:Q4_K", "--spec", "eagle3", "--accept", "1"}, 2, "has no EAGLE-3 head");
  refused({"bench", "-m", tiny_model(), "--spec", "mtp", "--accept", "2"}, 2, "'2' is not a number from 0 to 1");
  refused({"bench", "-m", tiny_model(), "--spec", "mtp", "--accept", "1"}, 1, "has no draft head");
  refused({"bench", "--shape", "llama-1b:Q4_K", "--spec", "mtp", "--accept", "1"}, 2, "has no draft heads");
  refused({"bench", "-m", tiny_model(), "--verify", "4", "--batch", "2"}, 2, "one sequence");
  refused({"bench", "-m", tiny_model(), "-ctk", "q9"}, 2, "q9");
  refused({"bench", "-m", tiny_model(), "--shared", "4"}, 2, "--clients");
  refused({"bench", "-m", tiny_model(), "--clients", "2", "-p", "0"}, 2, "--n-prompt");
  refused({"bench", "-m", tiny_model(), "--clients", "2", "-p", "8", "--shared", "8"}, 2, "must be shorter");
  refused({"bench", "-m", tiny_model(), "--clients", "2", "--profile"}, 2, "--profile");
  refused({"bench", "-m", tiny_model(), "--clients", "2", "-o", "csv"}, 2, "md or json");
  refused({"roofline", "--device", "cpu", "--ladder"}, 1, "GPU");
}

TEST_CASE("bench plays a load of many clients, whose prompts share their beginning or nothing") {
  const auto load = [](std::vector<std::string> more) {
    std::vector<std::string> args = {"bench", "--device", "cpu", "-m", tiny_model(), "-p",        "24,40", "-n",
                                     "8",     "-t",       "1",   "-o", "json",       "--clients", "3"};
    args.insert(args.end(), more.begin(), more.end());
    const Result result = run_ridge(args);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    const json report = json::parse(result.out);
    REQUIRE(report["loads"].size() == 1);
    return report["loads"][0];
  };
  const json apart = load({});
  CHECK(apart["requests"] == 12);
  CHECK(apart["generated_tokens"] == 12 * 8);
  CHECK(apart["prompt_tokens"] >= 12 * 24);
  CHECK(apart["prompt_tokens"] <= 12 * 40);
  CHECK(apart["cached_tokens"].get<double>() < 0.1 * apart["prompt_tokens"].get<double>());
  for (const char* times : {"first_token_seconds", "between_tokens_seconds"}) {
    CHECK(apart[times]["median"] > 0);
    CHECK(apart[times]["median"] <= apart[times]["p90"]);
    CHECK(apart[times]["p90"] <= apart[times]["p99"]);
    CHECK(apart[times]["p99"] <= apart["seconds"]);
  }
  CHECK(apart["arrivals_per_second"].is_null());
  CHECK(apart["bytes_per_second"] > 0);

  const json shared = load({"--requests", "20", "--shared", "20", "--arrivals", "1000"});
  CHECK(shared["requests"] == 20);
  CHECK(shared["cached_tokens"] >= 17 * 20);
  CHECK(shared["cached_tokens"] <= 20 * 20);
  CHECK(shared["arrivals_per_second"] == 1000);

  CHECK(shared["streams"] == 3);

  const json in_turn = load({"--parallel", "1"}); // far shorter than a turn
  CHECK(in_turn["streams"] == 1);
  CHECK(in_turn["generated_tokens"] == 12 * 8);
  CHECK(in_turn["steps"] >= 12 * 8); // a token each; those that run at once, if they meet, share steps

  const Result table = run_ridge(
      {"bench", "--device", "cpu", "-m", tiny_model(), "-p", "8", "-n", "4", "--clients", "3", "--parallel", "2"});
  CHECK(table.status == 0);
  for (const char* part :
       {"3 clients, 12 requests, 2 at once, preempted 0 times", "first token", "between tokens", "GB/s measured"})
    CHECK(table.out.find(part) != std::string::npos);
}

TEST_CASE("bench --share prints a block of Markdown that names the machine and the model, and nothing personal") {
  const std::string folder_of_mine = folder() / "Jane Doe";
  std::filesystem::create_directories(folder_of_mine);
  std::filesystem::copy_file(tiny_model(), folder_of_mine + "/secret.gguf",
                             std::filesystem::copy_options::overwrite_existing);
  const Result result =
      run({"env", "USER=janedoe", "LOGNAME=janedoe", RIDGE_BINARY, "bench", "-m", folder_of_mine + "/secret.gguf",
           "--device", "cpu", "-p", "8", "-n", "4", "-r", "1", "-t", "1", "--share"});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  CHECK(result.out.starts_with("### "));
  for (const char* part :
       {"| pp8 |", "| tg4 |", "- machine: ", "- models: llama", "- build: ridge ", "1 threads", "GB/s"})
    CHECK_MESSAGE(result.out.find(part) != std::string::npos, part);
  for (const char* part : {"Jane", "jane", "secret"}) CHECK_MESSAGE(result.out.find(part) == std::string::npos, part);
  CHECK(run_ridge({"bench", "--share", "--json"}).status == 2);
}
