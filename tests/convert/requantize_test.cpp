// Requantization, calibration, type budgets.
#include "convert/requantize.h"

#include "convert/calibrated.h"
#include "convert/calibration.h"
#include "convert/type_search.h"
#include "core/error.h"
#include "kernels/cpu/executor/executor.h"
#include "models/model.h"
#include "support/numerics.h"
#include "support/reference.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

using namespace ridge;
using convert::Requantization;
using quant::Type;

namespace {

const std::vector<int32_t> kIds = {1, 2, 3, 100, 200, 250, 17, 42, 99, 128, 7, 9};

std::vector<float> logits_of(const std::string& path, const std::vector<int32_t>& ids = kIds) {
  const gguf::File file = gguf::File::open(path);
  const core::Program program = models::build_program(file);
  core::ExecutorConfig config;
  config.context = config.max_batch = config.max_outputs = 64;
  config.exact = true;
  config.k_type = config.v_type = core::KvType::f32;
  const auto executor = kernels::cpu::make_cpu_executor(program, config);
  std::vector<float> all;
  convert::run_chunk(*executor, ids,
                     [&](int64_t, std::span<const float> row) { all.insert(all.end(), row.begin(), row.end()); });
  return all;
}

std::vector<std::vector<int32_t>> random_chunks(uint64_t seed, int64_t vocab, int64_t chunks, int64_t tokens) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<int32_t>> result(static_cast<size_t>(chunks));
  for (auto& chunk : result)
    for (int64_t i = 0; i < tokens; ++i) chunk.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(vocab)));
  return result;
}

bool has_experts(const core::Program& program) {
  return std::ranges::find(program.ops, core::OpKind::route, &core::Op::kind) != program.ops.end();
}

struct Written {
  std::vector<std::string> paths;
  std::map<std::string, convert::TensorResult, std::less<>> results;
};

Written write_plan(const Requantization& plan, const std::string& path, uint64_t split = 0,
                   convert::CalibratedQuantizer* calibrated = nullptr) {
  Written written;
  const auto prepared = [&](std::string_view name) { return calibrated->tensor(name); };
  written.paths = convert::write(
      plan, {path, split}, nullptr, convert::encode_on_cpu,
      calibrated ? std::function<const convert::Prepared*(std::string_view)>(prepared) : nullptr,
      [&](const convert::TensorResult& r) { written.results.emplace(std::string(r.name), r); }, nullptr);
  return written;
}

Requantization plan_for(const gguf::File& file, std::string_view recipe, const models::RecipeOptions& options = {}) {
  return convert::plan_requantization(file, models::find_recipe(recipe), options, nullptr);
}

const tests::TinyModel kWide{.layers = 2, .width = 256, .heads = 4, .kv_heads = 2, .ffn_width = 512};

} // namespace

TEST_CASE("a file of every type that can be written runs, the better the more bits") {
  const tests::TemporaryFolder folder;
  kWide.write(folder / "f16.gguf");
  const gguf::File file = gguf::File::open(folder / "f16.gguf");
  const std::vector<float> truth = logits_of(folder / "f16.gguf");
  std::map<std::string, double> error;
  for (const quant::FormatInfo& format : quant::formats()) {
    if (!format.stored() || !quant::can_encode(format.type)) continue;
    CAPTURE(format.name);
    Requantization plan = plan_for(file, "Q8_0");
    for (size_t i = 0; i < plan.types.size(); ++i)
      if (plan.types[i] == Type::Q8_0) plan.types[i] = format.type;
    write_plan(plan, folder / "q.gguf");
    error[std::string(format.name)] = tests::nmse(logits_of(folder / "q.gguf"), truth);
    CHECK(std::isfinite(error[std::string(format.name)]));
  }
  CHECK(error["F32"] == 0);
  CHECK(error["Q8_0"] < 1e-2);
  CHECK(error["Q8_0"] < error["Q6_K"]);
  CHECK(error["Q6_K"] < error["Q4_K"]);
  CHECK(error["Q4_K"] < error["Q2_K"]);
}

TEST_CASE("metadata is carried over and brought up to date, and types are the recipe's") {
  const tests::TemporaryFolder folder;
  kWide.write(folder / "f16.gguf");
  const gguf::File in = gguf::File::open(folder / "f16.gguf");
  const Written written = write_plan(plan_for(in, "Q4_K_M"), folder / "q.gguf");
  const gguf::File out = gguf::File::open(folder / "q.gguf");
  CHECK(out.get_int("general.file_type") == 15);
  CHECK(out.get_int("general.quantization_version") == 2);
  for (const auto& [key, value] : in.metadata()) {
    CAPTURE(key);
    REQUIRE(out.find(key));
    CHECK(std::ranges::equal(out.find(key)->payload(), value.payload()));
  }
  CHECK(out.tensors().size() == in.tensors().size());
  for (size_t i = 0; i < in.tensors().size(); ++i) CHECK(out.tensors()[i].name == in.tensors()[i].name);
  CHECK(out.find_tensor("output.weight")->type == Type::Q6_K);
  CHECK(out.find_tensor("blk.0.attn_norm.weight")->type == Type::F32);
  CHECK(models::file_type_label(out) == "Q4_K_M");

  const convert::TensorResult& q = written.results.at("blk.1.attn_q.weight");
  CHECK(q.from == "F16");
  CHECK(q.to == "Q4_K");
  CHECK(q.error.sqnr_db() > 15);
  CHECK_FALSE(written.results.at("output_norm.weight").encoded);
}

TEST_CASE("a copy has the same tensors, whether in one file or several") {
  const tests::TemporaryFolder folder;
  kWide.write(folder / "f16.gguf");
  const gguf::File in = gguf::File::open(folder / "f16.gguf");
  const Requantization plan = convert::plan_requantization(in, nullptr, {}, nullptr);
  for (const uint64_t split : {uint64_t{0}, uint64_t{400000}}) {
    const Written written = write_plan(plan, folder / "copy.gguf", split);
    CHECK((written.paths.size() > 3) == (split > 0));
    const gguf::File out = gguf::File::open(written.paths.back());
    CHECK(out.shard_count() == std::ssize(written.paths));
    REQUIRE(out.tensors().size() == in.tensors().size());
    for (size_t i = 0; i < in.tensors().size(); ++i) {
      CHECK(out.tensors()[i].name == in.tensors()[i].name);
      CHECK(std::ranges::equal(out.tensors()[i].data, in.tensors()[i].data));
    }
    CHECK(out.get_string("general.architecture") == "llama");
  }
}

TEST_CASE("packed tensors are packed again only where that is allowed") {
  const tests::TemporaryFolder folder;
  kWide.write(folder / "f16.gguf");
  const gguf::File in = gguf::File::open(folder / "f16.gguf");
  write_plan(plan_for(in, "Q8_0"), folder / "q8.gguf");
  const gguf::File q8 = gguf::File::open(folder / "q8.gguf");
  const Requantization plan = plan_for(q8, "Q4_K_M");
  CHECK_THROWS_WITH_AS(convert::check_requantization(plan, false), doctest::Contains("--allow-requantize"), Error);
  convert::check_requantization(plan, true);
  write_plan(plan, folder / "q4.gguf");
  CHECK(gguf::File::open(folder / "q4.gguf").find_tensor("blk.0.attn_q.weight")->type == Type::Q4_K);
}

TEST_CASE("a weight that is no number is refused with its place") {
  const tests::TemporaryFolder folder;
  const std::string path = folder / "nan.gguf";
  {
    gguf::Writer writer(path, {}, {{"blk.0.ffn_up.weight", Type::F32, {64, 3}}});
    std::vector<float> weights(64 * 3, 0.5f);
    weights[64 + 7] = NAN;
    writer.write(std::as_bytes(std::span(weights)));
    writer.finish();
  }
  const gguf::File file = gguf::File::open(path);
  CHECK_THROWS_WITH_AS(write_plan(plan_for(file, "Q4_0"), folder / "q.gguf"),
                       doctest::Contains("tensor blk.0.ffn_up.weight: row 1, column 7 is nan"), Error);
  CHECK(folder.file_count() == 1);
  // As in a search: a thread per type.
  CHECK_THROWS_WITH_AS(
      convert::measure_choices(plan_for(file, "Q8_0"), {}, {}, nullptr, convert::encode_on_cpu, nullptr),
      doctest::Contains("a weight is NaN or infinite"), Error);
}

TEST_CASE("a weight that the type would change, because it is too large, is refused") {
  const tests::TemporaryFolder folder;
  const auto written = [&](float weight, const char* type) {
    const std::string path = folder / "large.gguf", out = folder / "out.gguf";
    {
      gguf::Writer writer(path, {}, {{"blk.0.ffn_up.weight", Type::F32, {256, 3}}});
      std::vector<float> weights(256 * 3, 0.5f);
      weights[256 + 7] = weight;
      writer.write(std::as_bytes(std::span(weights)));
      writer.finish();
    }
    std::filesystem::remove(out);
    const gguf::File file = gguf::File::open(path);
    try {
      write_plan(plan_for(file, type), out);
    } catch (const Error& error) {
      CHECK(!std::filesystem::exists(out));
      CHECK(std::string(error.what()).find("tensor blk.0.ffn_up.weight: row 1: the weight") == 0);
      return false;
    }
    return true;
  };
  CHECK(written(65504.0f, "F16"));
  CHECK_FALSE(written(70000.0f, "F16"));
  CHECK_FALSE(written(-1e30f, "F16"));
  CHECK(written(7e6f, "Q8_0")); // 127 times a scale of 55000
  CHECK_FALSE(written(9e6f, "Q8_0"));
  CHECK(written(-1e30f, "BF16"));
  CHECK_FALSE(written(3.4e38f, "BF16"));
  CHECK(written(3.4e38f, "F32"));
  for (const char* type : {"Q4_0", "Q4_1", "Q5_1", "Q2_K", "Q4_K_M", "Q6_K", "IQ4_NL", "IQ4_XS", "TQ2_0"}) {
    CAPTURE(type);
    CHECK(written(60000.0f, type));
    CHECK_FALSE(written(1e30f, type));
  }
}

TEST_CASE(
    "pieces that threads encode give what an encoder of whole chunks gives, errors and places of bad weights too") {
  constexpr int64_t kCols = 512, kRows = 300; // several pieces, the last one short
  const tests::TemporaryFolder folder;
  std::vector<float> weights(kRows * kCols);
  std::mt19937 random(5);
  for (float& w : weights) w = std::normal_distribution<float>(0, 0.02f)(random);
  const auto encoded = [&](Type type, const convert::EncodeRows& encode, int64_t chunk_weights) {
    const std::string path = folder / "weights.gguf";
    gguf::Writer writer(path, {}, {{"w", Type::F32, {kCols, kRows}}});
    writer.write(std::as_bytes(std::span(weights)));
    writer.finish();
    const gguf::File file = gguf::File::open(path);
    const auto sources = convert::weight_sources(file);
    std::vector<float> importance(kCols, 1.0f);
    importance[3] = 20;
    std::pair<std::vector<std::byte>, quant::ErrorStats> made;
    convert::StageSeconds seconds;
    made.second = convert::encode_tensor(
        sources[0], type, {importance}, encode,
        [&](std::span<const std::byte> bytes) { made.first.insert(made.first.end(), bytes.begin(), bytes.end()); },
        true, {}, &seconds, chunk_weights);
    CHECK(seconds.reading > 0);
    CHECK(seconds.encoding > 0);
    CHECK(seconds.measuring > 0);
    return made;
  };
  const convert::EncodeRows whole = [](const auto&... arguments) { convert::encode_on_cpu(arguments...); };
  for (const Type type : {Type::Q8_0, Type::Q4_K, Type::F16}) {
    const auto expected = encoded(type, whole, convert::kChunkWeights);
    for (const int64_t chunk : {convert::kChunkWeights, int64_t{100 * kCols}}) {
      const auto found = encoded(type, convert::encode_on_cpu, chunk);
      CHECK(found.first == expected.first);
      CHECK(found.second.error == doctest::Approx(expected.second.error));
      CHECK(found.second.max_error == expected.second.max_error);
      CHECK(found.second.weights == kRows * kCols);
    }
  }
  for (const int64_t bad : {270, 150}) {
    weights[bad * kCols + 9] = 70000.0f;
    for (const convert::EncodeRows& encode : {convert::EncodeRows(convert::encode_on_cpu), whole})
      CHECK_THROWS_WITH_AS(encoded(Type::F16, encode, 100 * kCols),
                           doctest::Contains(fmt::format("tensor w: row {}: the weight 70000", bad).c_str()), Error);
  }
  for (const int64_t bad : {280, 120}) {
    weights[bad * kCols + 9] = NAN;
    for (const convert::EncodeRows& encode : {convert::EncodeRows(convert::encode_on_cpu), whole})
      CHECK_THROWS_WITH_AS(encoded(Type::Q8_0, encode, convert::kChunkWeights),
                           doctest::Contains(fmt::format("tensor w: row {}, column 9 is nan", bad).c_str()), Error);
  }
}

TEST_CASE("the collected importance is the mean square of each matrix's inputs, and experts have their own") {
  REQUIRE_REFERENCE();
  const gguf::File file = gguf::File::open(tests::reference_dir() + "/archs/llama-experts.gguf");
  const core::Program program = models::build_program(file);
  convert::ImatrixCollector collector(program, true);
  core::ExecutorConfig config;
  config.context = config.max_batch = config.max_outputs = 32;
  config.observer = &collector;
  const auto executor = kernels::cpu::make_cpu_executor(program, config);
  convert::run_chunk(*executor, kIds);
  const gguf::Imatrix imatrix = collector.result();
  const auto tokens = static_cast<float>(kIds.size());
  CHECK(imatrix.entries.contains("output.weight") != imatrix.entries.contains("token_embd.weight")); // either, if tied
  const auto& q = imatrix.entries.at("blk.0.attn_q.weight");
  CHECK(q.counts == std::vector<float>{tokens});
  CHECK(imatrix.entries.at("blk.0.attn_k.weight").sum_of_squares == q.sum_of_squares);
  // attn_q's input: the first norm's output.
  const gguf::Tensor* table = file.find_tensor("token_embd.weight");
  const gguf::Tensor* norm = file.find_tensor("blk.0.attn_norm.weight");
  const int64_t width = table->dims[0];
  std::vector<float> row(static_cast<size_t>(width)), weight(row.size());
  std::vector<double> expected(row.size());
  norm->type.format()->decode(norm->data.data(), width, weight.data());
  for (const int32_t id : kIds) {
    table->type.format()->decode(table->data.data() + id * table->type.row_bytes(width), width, row.data());
    double square = 0;
    for (const float x : row) square += static_cast<double>(x) * x / static_cast<double>(width);
    const double rms = std::sqrt(square + file.get_float("llama.attention.layer_norm_rms_epsilon"));
    for (int64_t i = 0; i < width; ++i) expected[i] += std::pow(row[i] / rms * weight[i], 2);
  }
  for (int64_t i = 0; i < width; ++i) CHECK(q.sum_of_squares[i] == doctest::Approx(expected[i]).epsilon(1e-3));
  const auto& down = imatrix.entries.at("blk.0.ffn_down_exps.weight");
  CHECK(std::ssize(down.counts) == file.get_int("llama.expert_count"));
  CHECK(std::accumulate(down.counts.begin(), down.counts.end(), 0.0f) ==
        tokens * static_cast<float>(file.get_int("llama.expert_used_count")));
}

TEST_CASE("scales that calibration folds into norms, rows and biases leave the model what it was") {
  REQUIRE_REFERENCE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  const tests::TemporaryFolder folder;
  for (const char* name : {"llama-gqa-tied-freqs", "qwen2", "qwen3", "llama-experts", "qwen3moe"}) {
    CAPTURE(name);
    const std::string path = tests::reference_dir() + "/archs/" + name + ".gguf";
    const gguf::File file = gguf::File::open(path);
    const core::Program program = models::build_program(file);
    // These rows fit only F32 and Q8_0, so the effect of folding is visible.
    const Requantization plan = plan_for(file, "Q8_0");
    const auto chunks = random_chunks(seed, program.vocab, 4, 48);
    const std::vector<float> truth = logits_of(path);
    write_plan(plan, folder / "plain.gguf");
    const double plain = tests::nmse(logits_of(folder / "plain.gguf"), truth);
    for (const convert::CalibrationMethod method :
         {convert::CalibrationMethod{true, false}, {false, true}, {true, true}, {false, false, true}}) {
      CAPTURE(method.scales);
      CAPTURE(method.feedback);
      convert::CalibratedQuantizer calibrated(plan, program, method, chunks, kernels::cpu::make_cpu_executor, 0);
      write_plan(plan, folder / "calibrated.gguf", 0, &calibrated);
      // Routers amplify small changes.
      const double bound = has_experts(program) ? 0.2 : 3 * plain;
      CHECK(tests::nmse(logits_of(folder / "calibrated.gguf"), truth) < bound);
    }
  }
}

TEST_CASE("on the trained model feedback beats importance at the same bits") {
  REQUIRE_REFERENCE();
  const tests::TemporaryFolder folder;
  const std::string path = tests::reference_dir() + "/models/stories260K.gguf";
  const gguf::File file = gguf::File::open(path);
  const core::Program program = models::build_program(file);
  models::RecipeOptions options;
  options.pure = true;
  options.token_embedding = Type::Q8_0;
  const Requantization plan = plan_for(file, "Q4_0", options);
  const auto tokenizer = text::Tokenizer::from_file(file);
  std::string text = tests::read_file(tests::reference_dir() + "/models/stories260K.greedy.json");
  auto chunks = convert::calibration_chunks(*tokenizer, text, false, 64, 32);
  const std::vector<int32_t> unseen = chunks.back();
  chunks.pop_back();
  const std::vector<float> truth = logits_of(path, unseen);
  write_plan(plan, folder / "plain.gguf");
  convert::CalibratedQuantizer calibrated(plan, program, {.feedback = true}, chunks, kernels::cpu::make_cpu_executor,
                                          0);
  write_plan(plan, folder / "fed.gguf", 0, &calibrated);
  CHECK(std::filesystem::file_size(folder / "fed.gguf") == std::filesystem::file_size(folder / "plain.gguf"));
  const auto error = [&](const char* name) { return tests::nmse(logits_of(folder / name, unseen), truth); };
  CHECK(error("fed.gguf") < 0.75 * error("plain.gguf"));
}

TEST_CASE("types are bought by loss per byte, as far as the budget goes") {
  using Choices = std::vector<std::vector<convert::TypeChoice>>;
  const Choices choices = {
      {{Type::Q2_K, 10, 8}, {Type::Q4_K, 20, 2}, {Type::Q8_0, 40, 0}},
      {{Type::Q2_K, 100, 9}, {Type::Q4_K, 200, 1}},
      {},
      {{Type::Q2_K, 10, 1}, {Type::Q4_K, 20, 0.9}},
  };
  CHECK(convert::choose_types(choices, 120) == std::vector<int>{0, 0, -1, 0});
  CHECK(convert::choose_types(choices, 130) == std::vector<int>{1, 0, -1, 0});
  CHECK(convert::choose_types(choices, 249) == std::vector<int>{2, 0, -1, 1});
  CHECK(convert::choose_types(choices, 250) == std::vector<int>{2, 1, -1, 0});
  CHECK(convert::choose_types(choices, 1000) == std::vector<int>{2, 1, -1, 1});
  CHECK_THROWS_WITH_AS(convert::choose_types(choices, 119), doctest::Contains("too small"), Error);
}

TEST_CASE("at the size of a recipe, measured types lose less than the recipe") {
  const tests::TemporaryFolder folder;
  kWide.write(folder / "f16.gguf");
  const gguf::File file = gguf::File::open(folder / "f16.gguf");
  const auto loss = [](const Written& written) {
    double sum = 0;
    for (const auto& [name, result] : written.results)
      if (result.encoded)
        sum += convert::sensitivity(name, name == "output.weight", kWide.layers) * result.error.weighted_relative();
    return sum;
  };
  for (const char* recipe : {"Q4_K_M", "Q3_K_M", "Q5_K_M"}) {
    CAPTURE(recipe);
    const Requantization fixed = plan_for(file, recipe);
    Requantization searched = plan_for(file, "Q8_0");
    const auto choices = convert::measure_choices(searched, {}, {}, nullptr, convert::encode_on_cpu, nullptr);
    uint64_t rest = searched.bytes(), matrices = 0;
    for (size_t i = 0; i < choices.size(); ++i)
      if (!choices[i].empty()) matrices += searched.infos()[i].bytes();
    rest -= matrices;
    const auto chosen = convert::choose_types(choices, fixed.bytes() - rest);
    for (size_t i = 0; i < choices.size(); ++i)
      if (chosen[i] >= 0) searched.types[i] = choices[i][static_cast<size_t>(chosen[i])].type;
    CHECK(searched.bytes() <= fixed.bytes());
    CHECK(loss(write_plan(searched, folder / "searched.gguf")) < loss(write_plan(fixed, folder / "fixed.gguf")));
  }
}
