// ridge quantize, imatrix, inspect's errors.
#include "app/support.h"
#include "gguf/imatrix.h"
#include "support/reference.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <csignal>
#include <regex>

using namespace ridge;
using namespace ridge::tests;
using json = nlohmann::ordered_json;

namespace {

const std::string& wide_model() {
  static const std::string path = [] {
    TinyModel{.layers = 2, .width = 256, .heads = 4, .kv_heads = 2, .ffn_width = 512}.write(folder() / "wide.gguf");
    return folder() / "wide.gguf";
  }();
  return path;
}

// For searches that try all types.
const std::string& one_layer() {
  static const std::string path = [] {
    TinyModel{.layers = 1, .width = 256, .heads = 4, .kv_heads = 2, .ffn_width = 512}.write(folder() / "layer.gguf");
    return folder() / "layer.gguf";
  }();
  return path;
}

std::string some_text() {
  std::string text;
  for (int i = 0; i < 200; ++i)
    text += "the rain in spain stays mainly on the plain " + std::to_string(i * 7919) + ". ";
  return folder().write("text.txt", text);
}

void check_one_line(const Result& result, int status, const std::string& words) {
  CHECK(result.status == status);
  CHECK(result.err.starts_with("ridge: error: "));
  CHECK(std::ranges::count(result.err, '\n') == 1);
  CHECK_MESSAGE(result.err.find(words) != std::string::npos, result.err);
}

std::string big_model(const TemporaryFolder& where, int tensors) {
  std::vector<gguf::TensorInfo> infos;
  for (int i = 0; i < tensors; ++i)
    infos.push_back({"blk." + std::to_string(i) + ".ffn_up.weight", quant::Type::F16, {4096, 4096}});
  gguf::Metadata metadata;
  metadata.set("general.architecture", "llama");
  gguf::Writer writer(where / "big.gguf", metadata, infos);
  std::vector<uint16_t> row(4096);
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<uint16_t>(0x2000 + (i * 40503 & 0x8fff));
  for (int r = 0; r < 4096 * tensors; ++r) writer.write(std::as_bytes(std::span(row)));
  writer.finish();
  return where / "big.gguf";
}

void check_labels_apart(const std::string& picture, int expected) {
  struct Label {
    double left, right, bottom;
    std::string name;
  };
  std::vector<Label> labels;
  const std::regex element(
      "<text x=\"([0-9.-]+)\" "
      "y=\"([0-9.-]+)\"[^>]*font-size=\"11\"[^>]*text-anchor=\"([a-z]+)\"[^>]*>([A-Z0-9_]+)</text>");
  for (auto it = std::sregex_iterator(picture.begin(), picture.end(), element); it != std::sregex_iterator(); ++it) {
    const double at = std::stod((*it)[1]), width = 6 * static_cast<double>((*it)[4].length());
    const bool ends = (*it)[3] == "end";
    labels.push_back({ends ? at - width : at, ends ? at : at + width, std::stod((*it)[2]), (*it)[4]});
  }
  CHECK(static_cast<int>(labels.size()) == expected);
  for (size_t i = 0; i < labels.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const Label &a = labels[i], &b = labels[j];
      const bool over = a.left < b.right && b.left < a.right && std::abs(a.bottom - b.bottom) < 10;
      CHECK_MESSAGE(!over, a.name, " over ", b.name);
    }
}

} // namespace

TEST_CASE("quantize sums up by type, or with --verbose shows each tensor, and writes a model that runs") {
  const std::string out = folder() / "q4km.gguf";
  const Result summary = run_ridge({"quantize", wide_model(), out, "Q4_K_M"});
  REQUIRE(summary.status == 0);
  CHECK(summary.out.find("blk.1.ffn_down.weight") == std::string::npos);
  CHECK(summary.out.find("\nQ6_K  F16") != std::string::npos);
  CHECK(summary.out.find("bits per weight") != std::string::npos);
  CHECK(summary.err == "wrote " + out + "\n");
  const Result result = run_ridge({"quantize", wide_model(), out, "Q4_K_M", "--verbose"});
  REQUIRE(result.status == 0);
  CHECK(result.out.find("blk.1.ffn_down.weight") != std::string::npos);
  CHECK(result.out.find("> Q6_K") != std::string::npos);
  CHECK(run_ridge({"run", "-m", out, "--raw", "-p", "on", "-n", "5", "--ignore-eos"}).status == 0);

  const json report = json::parse(run_ridge({"quantize", wide_model(), out, "Q4_K_M", "--json"}).out);
  CHECK(report["written"] == json::array({out}));
  CHECK(report["bits_per_weight"] > 4);
  CHECK(report["tensors"].size() == 21);
  for (const json& tensor : report["tensors"])
    if (tensor["from"] != tensor["to"]) CHECK(tensor["sqnr_db"] > 10);
}

TEST_CASE("quantize takes a model by its name") {
  const std::string home = folder() / "named";
  std::filesystem::create_directories(home + "/models");
  std::filesystem::copy_file(wide_model(), home + "/models/Wide-F16.gguf",
                             std::filesystem::copy_options::overwrite_existing);
  const Result result = run({"env", "-i", "HOME=" + home, RIDGE_BINARY, "quantize", "wide-f16", "Q4_0", "--dry-run"});
  CHECK_MESSAGE(result.status == 0, result.err);
}

TEST_CASE("a dry run says what would be written, and writes nothing") {
  const std::string model = wide_model();
  const size_t files = folder().file_count();
  const json report = json::parse(run_ridge({"quantize", model, "Q3_K_M", "--dry-run", "--json"}).out);
  CHECK(report["written"].empty());
  CHECK(report["bits_per_weight"] < 5);
  CHECK(folder().file_count() == files);
}

TEST_CASE("options of quantize reach the tensors they name") {
  const json report = json::parse(
      run_ridge({"quantize", wide_model(), "Q4_K_M", "--dry-run", "--json", "--tensor-type", "blk\\.0.*ffn_up=Q8_0",
                 "--tensor-type", "ffn_up=Q3_K", "--output-tensor-type", "Q5_K", "--token-embedding-type", "q2_k"})
          .out);
  std::map<std::string, std::string> type;
  for (const json& tensor : report["tensors"]) type[tensor["name"]] = tensor["to"];
  CHECK(type["blk.0.ffn_up.weight"] == "Q8_0");
  CHECK(type["blk.1.ffn_up.weight"] == "Q3_K");
  CHECK(type["output.weight"] == "Q5_K");
  CHECK(type["token_embd.weight"] == "Q2_K");
}

TEST_CASE("wrong use of quantize is refused in one line") {
  const std::string out = folder() / "no.gguf";
  check_one_line(run_ridge({"quantize", wide_model(), out, "Q9_K"}), 2, "Q4_K_M");
  check_one_line(run_ridge({"quantize", wide_model(), out}), 2, "IN.gguf OUT.gguf TYPE");
  check_one_line(run_ridge({"quantize", wide_model(), out, "Q4_0", "--tensor-type", "ffn_up"}), 2, "PATTERN=TYPE");
  check_one_line(run_ridge({"quantize", wide_model(), out, "Q4_0", "--tensor-type", "(=Q8_0"}), 2,
                 "regular expression");
  check_one_line(run_ridge({"quantize", wide_model(), out, "Q4_0", "--target-size", "1GB"}), 2, "leave out TYPE");
  check_one_line(run_ridge({"quantize", wide_model(), out, "--target-size", "large"}), 2, "4.2GiB");
  check_one_line(run_ridge({"quantize", wide_model(), out, "--target-size", "1K"}), 1, "too small");
  check_one_line(run_ridge({"quantize", wide_model(), out, "Q4_0", "--method", "gptq"}), 2, "--calibration");
  check_one_line(run_ridge({"quantize", wide_model(), out, "Q4_0", "--parse-special"}), 2, "--calibration");
  check_one_line(run_ridge({"quantize", folder() / "missing.gguf", out, "Q4_0"}), 1, "missing.gguf");
  CHECK(!std::filesystem::exists(out));
}

TEST_CASE("a target size is kept to, and used") {
  const std::string out = folder() / "target.gguf";
  for (const char* size : {"400K", "600KB"}) {
    const Result result = run_ridge({"quantize", one_layer(), out, "--target-size", size, "--json"});
    REQUIRE(result.status == 0);
    const double target = json::parse(result.out)["search"]["target_bytes"];
    const auto bytes = static_cast<double>(std::filesystem::file_size(out));
    CHECK(bytes <= target);
    CHECK(bytes > 0.9 * target);
  }
  const json report = json::parse(run_ridge({"quantize", one_layer(), out, "--target-bpw", "4.6", "--json"}).out);
  CHECK(report["bits_per_weight"] <= 4.6);
  CHECK(report["bits_per_weight"] > 4.2);
}

TEST_CASE("a smaller divergence takes a larger file") {
  uint64_t last = 0;
  for (const char* target : {"0.02", "0.002", "0.0002"}) {
    const std::string out = folder() / "diverges.gguf";
    const Result result = run_ridge({"quantize", wide_model(), out, "--target-divergence", target, "--calibration",
                                     some_text(), "--calibration-tokens", "512", "--json"});
    REQUIRE_MESSAGE(result.status == 0, result.err);
    CHECK(json::parse(result.out)["search"]["expected_divergence_nats"] <= std::stod(target));
    CHECK(std::filesystem::file_size(out) > last);
    last = std::filesystem::file_size(out);
  }
}

TEST_CASE("exploring measures recipes and mixes of their sizes, and writes nothing but a picture") {
  const std::string svg = folder() / "frontier.svg";
  const Result result = run_ridge({"quantize", one_layer(), "--explore", "--svg", svg, "--calibration", some_text(),
                                   "--calibration-tokens", "256", "--json"});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const json report = json::parse(result.out);
  CHECK(report["tensors"].size() == 9);
  double least = 1e9;
  int recipes = 0, mixes = 0;
  for (const json& point : report["points"]) {
    point["recipe"].is_null() ? ++mixes : ++recipes;
    const double divergence = point["divergence_nats"];
    if (point["best"]) CHECK(divergence <= least);
    least = std::min(least, divergence);
  }
  CHECK(recipes > 15);
  CHECK(mixes > 5);
  const std::string picture = read_file(svg);
  CHECK(picture.find("Q4_K_M") != std::string::npos);
  check_labels_apart(picture, recipes);
  check_one_line(run_ridge({"quantize", wide_model(), "Q4_0", "--explore"}), 2, "--explore");
  check_one_line(run_ridge({"quantize", wide_model(), "out.gguf", "Q4_0", "--svg", svg}), 2, "--explore");
}

TEST_CASE("an importance matrix is made, used, and named in the result") {
  const std::string matrix = folder() / "im.gguf", out = folder() / "imq.gguf";
  const Result made = run_ridge(
      {"imatrix", "-m", wide_model(), "-f", some_text(), "-o", matrix, "-c", "64", "--chunks", "4", "--json"});
  REQUIRE(made.status == 0);
  CHECK(json::parse(made.out)["entries"] == 14);
  const gguf::Imatrix read = gguf::Imatrix::read(matrix);
  CHECK(read.chunks == 4);
  CHECK(read.entries.at("blk.1.ffn_down.weight").counts == std::vector<float>{256});

  REQUIRE(run_ridge({"quantize", wide_model(), out, "Q4_K_S", "--imatrix", matrix}).status == 0);
  const gguf::File file = gguf::File::open(out);
  CHECK(file.get_string("quantize.imatrix.file") == matrix);
  CHECK(file.get_int("quantize.imatrix.entries_count") == 14);
  CHECK(file.get_int("quantize.imatrix.chunks_count") == 4);
  // Another model's imatrix.
  check_one_line(run_ridge({"quantize", tiny_model(), folder() / "no.gguf", "Q4_0", "--imatrix", matrix}), 1,
                 "another model");
  check_one_line(run_ridge({"quantize", wide_model(), folder() / "no.gguf", "Q4_0", "--imatrix", wide_model()}), 1,
                 "not an importance matrix");
}

TEST_CASE("calibrated methods write ordinary types that run") {
  for (const char* method : {"awq", "gptq", "round", "awq+gptq", "awq+round"}) {
    const std::string out = folder() / "calibrated.gguf";
    const Result result = run_ridge({"quantize", wide_model(), out, "Q4_K_S", "--method", method, "--calibration",
                                     some_text(), "--calibration-tokens", "1024", "--json"});
    REQUIRE_MESSAGE(result.status == 0, result.err);
    CHECK(gguf::File::open(out).find_tensor("blk.1.ffn_up.weight")->type == quant::Type::Q4_K);
    CHECK(run_ridge({"run", "-m", out, "--raw", "-p", "on", "-n", "3", "--ignore-eos"}).status == 0);
  }
}

TEST_CASE("a calibrated method goes on after a kill, and leaves nothing behind when it is done") {
  const std::string out = folder() / "killed.gguf", unfinished = out + ".unfinished", whole = folder() / "whole.gguf";
  const auto args = [&](const std::string& output) {
    return std::vector<std::string>{
        RIDGE_BINARY,    "quantize",  wide_model(),           output, "Q4_K_S",   "--method", "gptq", "--device", "cpu",
        "--calibration", some_text(), "--calibration-tokens", "2048", "--verbose"};
  };
  { // killed after the first layer
    ridge::tests::Terminal quantize(args(out), {});
    REQUIRE(quantize.expect("blk.0.ffn_down.weight"));
  }
  const bool kept = std::filesystem::exists(unfinished);
  CHECK((kept || std::filesystem::exists(out))); // or the kill came too late
  const Result again = ridge::tests::run(args(out));
  REQUIRE_MESSAGE(again.status == 0, again.err);
  CHECK((again.err.find("were already done") != std::string::npos) == kept);
  CHECK(!std::filesystem::exists(unfinished));
  REQUIRE(ridge::tests::run(args(whole)).status == 0);
  CHECK(read_file(out) == read_file(whole));
}

TEST_CASE("inspect compares two files, and a tensor in several types") {
  const std::string out = folder() / "compared.gguf";
  REQUIRE(run_ridge({"quantize", wide_model(), out, "Q4_K_S"}).status == 0);
  const json compared = json::parse(run_ridge({"inspect", "--compare", out, wide_model(), "--json"}).out);
  CHECK(compared["tensors"].size() == 21);
  CHECK(compared["all"]["sqnr_db"] > 15);
  CHECK(compared["all"]["sqnr_db"] < 40);
  const json same = json::parse(run_ridge({"inspect", "--compare", out, out, "--json"}).out);
  CHECK(same["all"]["rmse"] == 0);
  check_one_line(run_ridge({"inspect", "--compare", tiny_model(), wide_model()}), 1, "different models");
  check_one_line(run_ridge({"inspect", "--compare", out}), 2, "expected 2 values, MODEL each");
  check_one_line(run_ridge({"inspect", out, "--compare", out, out}), 2, "two files");
  check_one_line(run_ridge({"inspect", out, "--imatrix", out}), 2, "--as");

  const std::vector<std::string> as = {"inspect", wide_model(),    "--tensor", "blk.0.ffn_up.weight",
                                       "--as",    "Q2_K,Q4_K,Q8_0"};
  CHECK(run_ridge(as).out.find("Q8_0") != std::string::npos);
  std::vector<std::string> with_json = as;
  with_json.push_back("--json");
  const json types = json::parse(run_ridge(with_json).out)["as"];
  REQUIRE(types.size() == 3);
  CHECK(types[0]["sqnr_db"] < types[1]["sqnr_db"]);
  CHECK(types[1]["cosine"] < types[2]["cosine"]);
  check_one_line(run_ridge({"inspect", wide_model(), "--tensor", "blk.0.ffn_up.weight", "--as", "Q9"}), 2, "Q9");
}

TEST_CASE("memory does not grow with the model") {
  const TemporaryFolder where;
  const std::string in = big_model(where, 12);
  const json report =
      json::parse(run_ridge({"quantize", in, where / "q.gguf", "Q8_0", "--pure", "--json", "--device", "cpu"}).out);
  CHECK(report["peak_memory_bytes"] < 150e6);
  const json copied =
      json::parse(run_ridge({"quantize", in, where / "c.gguf", "COPY", "--json", "--device", "cpu"}).out);
  CHECK(copied["peak_memory_bytes"] < 150e6);
}

TEST_CASE("killed at any moment, quantize leaves the folder as it was") {
  const TemporaryFolder where;
  const std::string in = big_model(where, 4);
  where.write("q.gguf", "old");
  for (const int64_t bytes : {0, 1 << 20, 10 << 20, 30 << 20}) {
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      ::close(1);
      exec({RIDGE_BINARY, "quantize", in, where / "q.gguf", "Q4_K", "--pure"});
    }
    REQUIRE(eventually("quantize to have written so much", [&] { return written_by(pid) >= bytes; }));
    ::kill(pid, SIGKILL);
    wait_for(pid);
    CHECK(where.file_count() == 2);
    const std::string found = read_file(where / "q.gguf");
    CHECK((found == "old" || found.size() > 37'000'000)); // all of the old or new file
  }
}

TEST_CASE("on a full disk, quantize says so and leaves nothing") {
  const TemporaryFolder where;
  const std::string out = where / "q.gguf";
  // A file size limit (512-byte blocks) simulates a full disk.
  const Result result = run({"sh", "-c", "trap '' XFSZ; ulimit -f 100; exec \"$0\" quantize \"$1\" \"$2\" Q8_0",
                             RIDGE_BINARY, wide_model(), out});
  check_one_line(result, 1, "cannot write: File too large");
  CHECK(where.file_count() == 0);
}

TEST_CASE("a truncated model is refused before anything is written") {
  const TemporaryFolder where;
  const std::string whole = read_file(wide_model());
  const std::string in = where.write("cut.gguf", whole.substr(0, whole.size() / 2));
  check_one_line(run_ridge({"quantize", in, where / "q.gguf", "Q8_0"}), 1, "cut.gguf");
  CHECK(where.file_count() == 1);
}
