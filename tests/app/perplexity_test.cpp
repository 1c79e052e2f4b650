// ridge perplexity compared with sums over `ridge logits`, another model and a base file.
#include "app/support.h"
#include "core/error.h"
#include "gguf/gguf.h"
#include "measure/logits_base.h"
#include "support/numerics.h"
#include "support/reference.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <random>

using namespace ridge::tests;
using namespace ridge::measure;
using json = nlohmann::ordered_json;

namespace {

const std::string kHarbour = std::string(RIDGE_SOURCE_DIR) + "/tests/data/harbour.txt";

json perplexity(std::vector<std::string> args) {
  args.insert(args.begin(), {"perplexity", "--json", "--device", "cpu"});
  const Result result = run_ridge(args);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  return json::parse(result.out);
}

std::string other_model() {
  static const std::string path = [] {
    TinyModel other;
    other.seed = 8;
    other.write(folder() / "other.gguf");
    return folder() / "other.gguf";
  }();
  return path;
}

void check_refused(std::vector<std::string> args, int status, const std::string& said) {
  args.insert(args.begin(), "perplexity");
  const Result result = run_ridge(args);
  CAPTURE(result.err);
  CHECK(result.status == status);
  CHECK(result.out.empty());
  CHECK(result.err.find(said) != std::string::npos);
}

} // namespace

TEST_CASE("perplexity is that of the second half of every chunk, each begun with BOS") {
  constexpr int64_t kContext = 32, kChunks = 3;
  const json found = perplexity({"-m", tiny_model(), "-f", kHarbour, "-c", "32", "--chunks", "3", "--exact"});
  std::string ids = run_ridge({"tokenize", "-m", tiny_model(), "-f", kHarbour, "--ids"}).out;
  std::vector<int32_t> tokens;
  for (std::istringstream in(ids); tokens.size() < kContext * kChunks;) in >> tokens.emplace_back();
  double nats = 0;
  int64_t count = 0;
  for (int64_t chunk = 0; chunk < kChunks; ++chunk) {
    std::vector<int32_t> part(tokens.begin() + chunk * kContext, tokens.begin() + (chunk + 1) * kContext);
    part[0] = 1;
    const std::string out = folder() / "chunk.npy";
    REQUIRE(run_ridge({"logits", "-m", tiny_model(), "--device", "cpu", "--exact", "--out", out, "--ids",
                       fmt::format("{}", fmt::join(part, ","))})
                .status == 0);
    const std::string npy = read_file(out);
    const size_t vocab = (npy.size() - 128) / 4 / kContext;
    for (int64_t i = kContext / 2; i + 1 < kContext; ++i, ++count) {
      std::vector<float> row(vocab);
      std::memcpy(row.data(), npy.data() + 128 + i * vocab * 4, vocab * 4);
      nats -= std::log(softmax(row)[part[i + 1]]);
    }
  }
  CHECK(found["scored_tokens"] == count);
  CHECK(found["perplexity"].get<double>() == doctest::Approx(std::exp(nats / count)).epsilon(1e-5));
  CHECK(found["machine"]["commit"].get<std::string>().size() >= 7);
}

TEST_CASE("perplexity has a running line on a terminal, and a final one everywhere") {
  const std::vector<std::string> args = {"perplexity", "-m", tiny_model(), "-f", kHarbour, "-c", "64", "--chunks", "2"};
  const Result result = run_ridge(args);
  REQUIRE(result.status == 0);
  CHECK(result.out.starts_with("Final estimate: PPL = "));
  CHECK(result.out.find(" +/- ") != std::string::npos);
  CHECK(result.err.find("chunk") == std::string::npos);
  CHECK(result.err.find('\r') == std::string::npos);

  std::vector<std::string> typed = args;
  typed.insert(typed.begin(), RIDGE_BINARY);
  Terminal terminal(typed, {{"TERM", "xterm"}, {"LC_ALL", "C.UTF-8"}, {"RIDGE_CONFIG", "none"}});
  REQUIRE(terminal.expect("perplexity [")); // the bar
  REQUIRE(terminal.expect(" after chunk 1 of 2"));
  REQUIRE(terminal.expect("\r\033[KFinal estimate: PPL = "));
  CHECK(terminal.exit_status() == 0);
}

TEST_CASE("however a chunk is cut into batches, the perplexity is the same") {
  const auto with = [](const char* batch) {
    return perplexity({"-m", tiny_model(), "-f", kHarbour, "-c", "300", "-ub", batch, "--exact", "--chunks",
                       "2"})["perplexity"]
        .get<double>();
  };
  CHECK(with("300") == doctest::Approx(with("7")).epsilon(1e-6));
}

TEST_CASE("a model does not diverge from itself, and diverges from another") {
  const json same =
      perplexity({"-m", tiny_model(), "-f", kHarbour, "-c", "128", "--against", tiny_model()})["divergence"];
  CHECK(same["kld_max_nats"].get<double>() < 1e-6);
  CHECK(same["same_top_share"] == 1);
  const json other =
      perplexity({"-m", other_model(), "-f", kHarbour, "-c", "128", "--against", tiny_model()})["divergence"];
  CHECK(other["kld_mean_nats"].get<double>() > 0.01);
  CHECK(other["kld_median_nats"] <= other["kld_p99_nats"]);
}

TEST_CASE("a text from standard input goes to both models, and to two of other tokens it is refused") {
  const std::vector<std::string> args = {"perplexity",  "--json",     "--device", "cpu",      "-m",
                                         other_model(), "-c",         "128",      "--chunks", "2",
                                         "--against",   tiny_model(), "-f"};
  const auto from = [&](const std::string& file, const std::string& input) {
    std::vector<std::string> all = args;
    all.push_back(file);
    const Result result = run_ridge(all, input);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    return json::parse(result.out);
  };
  const json piped = from("-", read_file(kHarbour)), read = from(kHarbour, "");
  CHECK(piped["scored_tokens"] == 2 * 63);
  CHECK(piped["divergence"]["kld_mean_nats"] == read["divergence"]["kld_mean_nats"]);

  TinyModel no_bos;
  no_bos.further.set("tokenizer.ggml.add_bos_token", false);
  no_bos.write(folder() / "no-bos.gguf");
  const Result refused =
      run_ridge({"perplexity", "-m", tiny_model(), "-f", "-", "-c", "128", "--against", folder() / "no-bos.gguf"},
                read_file(kHarbour));
  CHECK(refused.status == 1);
  CHECK(refused.err.find("tokenizes this text differently") != std::string::npos);
}

TEST_CASE("a base file gives what the model itself gives, at 8 + 8 k bytes a position") {
  const std::string base = folder() / "base.kld";
  perplexity({"-m", tiny_model(), "-f", kHarbour, "-c", "128", "--chunks", "4", "--kl-divergence-base", base,
              "--kl-top", "300"});
  const json file = perplexity({"-m", other_model(), "--kl-divergence-base", base, "--kl-divergence"})["divergence"];
  const json model = perplexity(
      {"-m", other_model(), "-f", kHarbour, "-c", "128", "--chunks", "4", "--against", tiny_model()})["divergence"];
  CHECK(std::filesystem::file_size(base) == 32 + 4 * 4 * 128 + 4 * 63 * (8 + 8 * 300));
  const auto both = [&](const char* key) { return std::pair(file[key].get<double>(), model[key].get<double>()); };
  const auto [bound, exact] = both("kld_mean_nats");
  CHECK(bound <= exact + 1e-6);
  CHECK(bound > 0.9 * exact);
  for (const char* key : {"reference_perplexity", "same_top_share", "probability_change_rms"}) {
    const auto [a, b] = both(key);
    CHECK(a == doctest::Approx(b).epsilon(1e-4));
  }
  CHECK(file["lower_bound_by_top_tokens"] == true);
}

TEST_CASE("a broken base file is refused with its place") {
  const std::string path = folder() / "whole.kld";
  perplexity(
      {"-m", tiny_model(), "-f", kHarbour, "-c", "16", "--chunks", "2", "--kl-divergence-base", path, "--kl-top", "4"});
  const std::string whole = read_file(path);
  const auto refused = [&](std::string bytes, const char* said) {
    const std::string broken = folder().write("broken.kld", bytes);
    check_refused({"-m", tiny_model(), "--kl-divergence-base", broken, "--kl-divergence"}, 1, said);
  };
  refused(whole.substr(0, whole.size() - 1), "truncated");
  refused("GGUF" + whole.substr(4), "not a base file");
  const auto patched = [&](size_t at, uint32_t value) {
    std::string bytes = whole;
    std::memcpy(bytes.data() + at, &value, 4);
    return bytes;
  };
  refused(patched(8, 2), "version 2");
  refused(patched(16, 0xffffffff), "context");
  refused(patched(32, 1 << 20), "token 1048576 at index 0");
  refused(patched(32 + 2 * 16 * 4, 0x7fc00000), "chunk 0, position 0");  // NaN
  refused(patched(32 + 2 * 16 * 4 + 8, 1 << 20), "chunk 0, position 0"); // an id
  const uint64_t seed = fresh_seed();
  INFO("seed ", seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 300; ++i) { // must be an Error or a readable file
    std::string bytes = whole;
    for (int j = 0; j < 3; ++j) bytes[random() % bytes.size()] = static_cast<char>(random());
    try {
      const LogitsBase base(folder().write("fuzzed.kld", bytes));
      CHECK(base.tokens().size() == 32);
    } catch (const ridge::Error& error) {
      CHECK(std::string(error.what()).find("fuzzed.kld") != std::string::npos);
    }
  }
}

TEST_CASE("perplexity refuses what makes no sense") {
  check_refused({"-m", tiny_model()}, 2, "-f FILE");
  check_refused({"-m", tiny_model(), "-f", kHarbour, "--kl-divergence"}, 2, "--kl-divergence-base");
  check_refused({"-m", tiny_model(), "-f", folder().write("short.txt", "too short")}, 1, "fewer than one chunk");
}

TEST_CASE("perplexity writes nothing over what it reads, and nothing where two references are asked for") {
  const std::string text = folder().write("text.txt", read_file(kHarbour));
  check_refused({"-m", tiny_model(), "-f", text, "--kl-divergence-base", text}, 1, "is also an input");
  CHECK(read_file(text) == read_file(kHarbour));
  const std::string model = folder().write("copy.gguf", read_file(tiny_model()));
  check_refused({"-m", model, "-f", text, "--kl-divergence-base", model}, 1, "is also an input");
  CHECK(read_file(model) == read_file(tiny_model()));
  const std::string base = folder() / "never.kld";
  for (const std::string& against : {other_model(), folder() / "missing.gguf"})
    check_refused({"-m", tiny_model(), "-f", text, "--against", against, "--kl-divergence-base", base}, 2, "--against");
  CHECK(!std::filesystem::exists(base));
}

TEST_CASE("a perplexity that is no number is an error") {
  std::string bytes = read_file(tiny_model());
  const ridge::gguf::File file = ridge::gguf::File::open(tiny_model());
  const auto all = file.find_tensor("output_norm.weight")->data;
  std::string large;
  for (size_t i = 0; i < all.size() / sizeof(float); ++i) {
    const float weight = 3e38f;
    large.append(reinterpret_cast<const char*>(&weight), sizeof weight);
  }
  const size_t at = bytes.rfind(std::string(reinterpret_cast<const char*>(all.data()), all.size()));
  folder().write("overflows.gguf", bytes.replace(at, large.size(), large));
  check_refused({"-m", folder() / "overflows.gguf", "-f", kHarbour, "-c", "32", "--json", "--device", "cpu"}, 1,
                "logits in chunk 1 are NaN or infinite");
  check_refused({"-m", tiny_model(), "--against", folder() / "overflows.gguf", "-f", kHarbour, "-c", "32", "--json",
                 "--device", "cpu"},
                1, "overflows.gguf: logits in chunk 1");
}

TEST_CASE("perplexity puts as many layers on the GPU as it is told to") {
  const Result result =
      run_ridge({"perplexity", "-m", tiny_model(), "-f", kHarbour, "-c", "64", "--chunks", "1", "-ngl", "1"});
  CAPTURE(result.err);
  CHECK(result.status == 0);
  const auto said = [&](const char* words) { return result.err.find(words) != std::string::npos; };
  CHECK((said("1 of 3 layers on the GPU") || said("running on the CPU: ")));
}

TEST_CASE("fewer bits diverge more: Q8_0 < Q4_K < Q2_K") {
  REQUIRE_REFERENCE();
  std::mt19937 random(5);
  std::vector<uint32_t> ids(1024);
  for (uint32_t& id : ids) id = random() % 256;
  const std::string file = folder().write("ids.txt", fmt::format("{}", fmt::join(ids, " ")));
  double last = 0;
  for (const char* type : {"Q8_0", "Q6_K", "Q4_K", "Q2_K"}) {
    const json r = perplexity({"-m", reference_dir() + "/types/tiny-" + type + ".gguf", "--ids-file", file, "-c", "128",
                               "--against", reference_dir() + "/types/tiny-F16.gguf"});
    const double kld = r["divergence"]["kld_mean_nats"];
    CHECK(kld > 2 * last);
    last = kld;
  }
}

TEST_CASE("with --exact the cache has the type that was asked for, and one of fewer bits diverges more") {
  TinyModel model;
  model.heads = 2, model.kv_heads = 1; // heads of 32
  model.write(folder() / "wide.gguf");
  const std::string path = folder() / "wide.gguf", base = folder() / "wide.kld";
  perplexity({"-m", path, "-f", kHarbour, "-c", "128", "--exact", "--kl-divergence-base", base, "--kl-top", "300"});
  const auto divergence = [&](const char* type) {
    const json found = perplexity(
        {"-m", path, "--exact", "-ctk", type, "-ctv", type, "--kl-divergence-base", base, "--kl-divergence"});
    return found["divergence"]["kld_mean_nats"].get<double>();
  };
  const double f32 = divergence("f32"), q8_0 = divergence("q8_0"), q4_0 = divergence("q4_0");
  CHECK(f32 < 1e-6);
  CHECK(q8_0 > f32);
  CHECK(q4_0 > 4 * q8_0);
}

TEST_CASE("the perplexity of a real model on a fixed text stays what it is, on every device to four digits") {
  REQUIRE_REFERENCE();
  const std::string model = reference_dir() + "/models/stories260K.gguf";
  for (const char* device : {"cpu", "cuda"}) {
    if (std::string(device) == "cuda" && !std::filesystem::exists("/dev/nvidia0")) {
      MESSAGE("cuda skipped: no CUDA device");
      continue;
    }
    const json r = perplexity({"-m", model, "-f", kHarbour, "-c", "256", "--device", device});
    CHECK(r["perplexity"].get<double>() == doctest::Approx(10.158).epsilon(2e-4));
  }
}
