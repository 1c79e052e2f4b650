// Perplexity and divergence: the sums against naive ones, the command against sums over `ridge logits`.
#include "app/support.h"
#include "core/error.h"
#include "measure/divergence.h"
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
using nlohmann::json;

namespace {

const std::string kText = std::string(RIDGE_SOURCE_DIR) + "/tests/data/harbour.txt";

std::vector<float> random_logits(std::mt19937_64& random, size_t n, float spread) {
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(n);
  for (float& v : logits) v = normal(random);
  return logits;
}

std::vector<double> softmax(const std::vector<float>& logits) {
  std::vector<double> p;
  double sum = 0;
  for (const float v : logits) sum += std::exp(static_cast<double>(v));
  for (const float v : logits) p.push_back(std::exp(static_cast<double>(v)) / sum);
  return p;
}

json perplexity(std::vector<std::string> args) {
  args.insert(args.begin(), {"perplexity", "--json", "--device", "cpu"});
  const Result result = run_ridge(args);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  return json::parse(result.out);
}

// A second random model with the same vocabulary.
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

TEST_CASE("a position's comparison agrees with the definitions in double precision") {
  const uint64_t seed = fresh_seed();
  INFO("seed ", seed);
  std::mt19937_64 random(seed);
  for (const float spread : {0.1f, 2.0f, 8.0f}) {
    const auto p_logits = random_logits(random, 1000, spread), q_logits = random_logits(random, 1000, spread);
    const auto p = softmax(p_logits), q = softmax(q_logits);
    double expected = 0;
    for (size_t i = 0; i < p.size(); ++i) expected += p[i] * std::log(p[i] / q[i]);
    const PositionScore s = compare(q_logits, p_logits, 17);
    CHECK(s.divergence == doctest::Approx(expected).epsilon(1e-5));
    CHECK(s.log_probability == doctest::Approx(std::log(q[17])).epsilon(1e-5));
    CHECK(s.reference_log_probability == doctest::Approx(std::log(p[17])).epsilon(1e-5));
    CHECK(log_probability(q_logits, 17) == s.log_probability);
    CHECK(compare(p_logits, p_logits, 17).divergence == doctest::Approx(0).epsilon(1e-6));
    CHECK(compare(p_logits, p_logits, 17).same_top);
  }
}

TEST_CASE("a compact reference gives a lower bound that grows to the divergence with the tokens it names") {
  const uint64_t seed = fresh_seed();
  INFO("seed ", seed);
  std::mt19937_64 random(seed);
  const auto p = random_logits(random, 500, 3);
  auto q = p;
  for (float& v : q) v += std::normal_distribution<float>(0, 0.3f)(random);
  const PositionScore full = compare(q, p, 3);
  double last = 0;
  for (const size_t top : {1u, 8u, 64u, 499u}) {
    std::vector<TopDistribution::Entry> entries(top);
    const PositionScore s = compare(q, reduce(p, 3, entries), 3);
    CHECK(s.divergence <= full.divergence + 1e-6);
    CHECK(s.divergence >= last - 1e-6);
    CHECK(s.log_probability == full.log_probability);
    CHECK(s.reference_log_probability == doctest::Approx(full.reference_log_probability).epsilon(1e-6));
    CHECK(s.same_top == full.same_top);
    last = s.divergence;
  }
  CHECK(last == doctest::Approx(full.divergence).epsilon(1e-3));
}

TEST_CASE("a report's means, errors and quantiles are those of its positions") {
  std::vector<PositionScore> scores;
  for (int i = 0; i <= 100; ++i) scores.push_back({-2, -1, i * 0.01, i % 4 == 0});
  const DivergenceReport r = report(scores);
  CHECK(r.divergence.value == doctest::Approx(0.5));
  CHECK(r.divergence.error == doctest::Approx(std::sqrt(101.0 / 12 * 102) / 100 / std::sqrt(101.0)).epsilon(1e-3));
  CHECK(r.divergence_median == doctest::Approx(0.5));
  CHECK(r.divergence_99 == doctest::Approx(0.99));
  CHECK(r.divergence_max == doctest::Approx(1));
  CHECK(r.perplexity.value == doctest::Approx(std::exp(2)));
  CHECK(r.reference_perplexity.value == doctest::Approx(std::exp(1)));
  CHECK(r.log_ratio.value == doctest::Approx(1));
  CHECK(r.probability_change_rms == doctest::Approx(std::exp(-1) - std::exp(-2)));
  CHECK(r.same_top.value == doctest::Approx(26.0 / 101));
}

TEST_CASE("perplexity is that of the second half of every chunk, each begun with BOS") {
  constexpr int64_t kContext = 32, kChunks = 3;
  const json found = perplexity({"-m", tiny_model(), "-f", kText, "-c", "32", "--chunks", "3", "--exact"});
  std::string ids = run_ridge({"tokenize", "-m", tiny_model(), "-f", kText, "--ids"}).out;
  std::vector<int32_t> tokens;
  for (std::istringstream in(ids); tokens.size() < kContext * kChunks;) in >> tokens.emplace_back();
  double nats = 0;
  int64_t count = 0;
  for (int64_t chunk = 0; chunk < kChunks; ++chunk) {
    std::vector<int32_t> part(tokens.begin() + chunk * kContext, tokens.begin() + (chunk + 1) * kContext);
    part[0] = 1; // BOS of the tiny model
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

TEST_CASE("perplexity shows the field's progress and final line") {
  const Result result = run_ridge({"perplexity", "-m", tiny_model(), "-f", kText, "-c", "64", "--chunks", "2"});
  REQUIRE(result.status == 0);
  CHECK(result.out.starts_with("[1]"));
  CHECK(result.out.find(",[2]") != std::string::npos);
  CHECK(result.out.find("\nFinal estimate: PPL = ") != std::string::npos);
  CHECK(result.out.find(" +/- ") != std::string::npos);
}

TEST_CASE("however a chunk is cut into batches, the perplexity is the same") {
  const auto with = [](const char* batch) {
    return perplexity(
               {"-m", tiny_model(), "-f", kText, "-c", "300", "-ub", batch, "--exact", "--chunks", "2"})["perplexity"]
        .get<double>();
  };
  CHECK(with("300") == doctest::Approx(with("7")).epsilon(1e-6));
}

TEST_CASE("a model does not diverge from itself, and diverges from another") {
  const json same = perplexity({"-m", tiny_model(), "-f", kText, "-c", "128", "--against", tiny_model()})["divergence"];
  CHECK(same["kld_max_nats"].get<double>() < 1e-6);
  CHECK(same["same_top_share"] == 1);
  const json other =
      perplexity({"-m", other_model(), "-f", kText, "-c", "128", "--against", tiny_model()})["divergence"];
  CHECK(other["kld_mean_nats"].get<double>() > 0.01);
  CHECK(other["kld_median_nats"] <= other["kld_p99_nats"]);
}

TEST_CASE("a base file gives what the model itself gives, at 8 + 8 k bytes a position") {
  const std::string base = folder() / "base.kld";
  perplexity(
      {"-m", tiny_model(), "-f", kText, "-c", "128", "--chunks", "4", "--kl-divergence-base", base, "--kl-top", "300"});
  const json file = perplexity({"-m", other_model(), "--kl-divergence-base", base, "--kl-divergence"})["divergence"];
  const json model = perplexity(
      {"-m", other_model(), "-f", kText, "-c", "128", "--chunks", "4", "--against", tiny_model()})["divergence"];
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
      {"-m", tiny_model(), "-f", kText, "-c", "16", "--chunks", "2", "--kl-divergence-base", path, "--kl-top", "4"});
  const std::string whole = read_file(path);
  const auto refused = [&](std::string bytes, const char* said) {
    const std::string broken = folder().write("broken.kld", bytes);
    check_refused({"-m", tiny_model(), "--kl-divergence-base", broken, "--kl-divergence"}, 1, said);
  };
  refused(whole.substr(0, whole.size() - 1), "cut");
  refused("GGUF" + whole.substr(4), "no base file");
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
  for (int i = 0; i < 300; ++i) { // whatever is flipped: an Error or a readable file
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
  check_refused({"-m", tiny_model(), "-f", kText, "--kl-divergence"}, 2, "--kl-divergence-base");
  check_refused({"-m", tiny_model(), "-f", folder().write("short.txt", "too short")}, 1, "less than one chunk");
}

TEST_CASE("perplexity writes nothing over what it reads, and nothing where two references are asked for") {
  const std::string text = folder().write("text.txt", read_file(kText));
  check_refused({"-m", tiny_model(), "-f", text, "--kl-divergence-base", text}, 1, "is read as well");
  CHECK(read_file(text) == read_file(kText));
  const std::string model = folder().write("copy.gguf", read_file(tiny_model()));
  check_refused({"-m", model, "-f", text, "--kl-divergence-base", model}, 1, "is read as well");
  CHECK(read_file(model) == read_file(tiny_model()));
  const std::string base = folder() / "never.kld";
  for (const std::string& against : {other_model(), folder() / "missing.gguf"})
    check_refused({"-m", tiny_model(), "-f", text, "--against", against, "--kl-divergence-base", base}, 2, "--against");
  CHECK(!std::filesystem::exists(base));
}

TEST_CASE("perplexity puts as many layers on the GPU as it is told to") {
  const Result result =
      run_ridge({"perplexity", "-m", tiny_model(), "-f", kText, "-c", "64", "--chunks", "1", "-ngl", "1"});
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

TEST_CASE("the perplexity of a real model on a fixed text stays what it is, on every device to four digits") {
  REQUIRE_REFERENCE();
  const std::string model = reference_dir() + "/models/stories260K.gguf";
  for (const char* device : {"cpu", "cuda"}) {
    if (std::string(device) == "cuda" && !std::filesystem::exists("/dev/nvidia0")) {
      MESSAGE("cuda skipped: no CUDA device");
      continue;
    }
    const json r = perplexity({"-m", model, "-f", kText, "-c", "256", "--device", device});
    CHECK(r["perplexity"].get<double>() == doctest::Approx(10.158).epsilon(2e-4));
  }
}
