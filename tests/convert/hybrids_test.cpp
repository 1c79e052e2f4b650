// Calibration of models with recurrent layers, experts and per-head matrices.
#include "convert/calibrated.h"
#include "convert/calibration.h"
#include "convert/requantize.h"
#include "kernels/cpu/executor/executor.h"
#include "models/model.h"
#include "support/numerics.h"
#include "support/recipes/recipe.h"
#include "support/reference.h"
#include "support/temporary_folder.h"

#include <algorithm>
#include <numeric>
#include <random>

using namespace ridge;
using convert::Requantization;

namespace {

constexpr const char* kRecipes[] = {"qwen35-dense",    "qwen35moe-moe",       "qwen3next-moe",  "lfm2-dense",
                                    "lfm2moe-moe",     "nemotron_h-dense",    "granite-dense",  "nemotron_h_moe-dense",
                                    "falcon-h1-dense", "granitehybrid-dense", "granitemoe-moe", "mamba2-dense",
                                    "qwen2moe-moe",    "gpt-oss-moe",         "gemma3-dense",   "gemma4-26b-a4b",
                                    "deepseek2-moe",   "qwen4exp-moe"};

std::unique_ptr<core::Executor> executor_of(const core::Program& program, core::InputObserver* observer = nullptr) {
  core::ExecutorConfig config;
  config.context = config.max_batch = config.max_outputs = 64;
  config.exact = true;
  config.k_type = config.v_type = core::KvType::f32;
  config.observer = observer;
  return kernels::cpu::make_cpu_executor(program, config);
}

std::vector<float> logits_of(const gguf::File& file, const std::vector<int32_t>& ids) {
  const core::Program program = models::build_program(file);
  std::vector<float> all;
  convert::run_chunk(*executor_of(program), ids,
                     [&](int64_t, std::span<const float> row) { all.insert(all.end(), row.begin(), row.end()); });
  return all;
}

bool routes(const core::Program& program) {
  return std::ranges::find(program.ops, core::OpKind::route, &core::Op::kind) != program.ops.end();
}

Requantization plan_of_hybrid(const gguf::File& file, std::string_view recipe) {
  return convert::plan_requantization(file, models::find_recipe(recipe), {}, nullptr);
}

void write_plan(const Requantization& plan, const std::string& path, convert::CalibratedQuantizer* calibrated) {
  const auto prepared = [&](std::string_view name) { return calibrated->tensor(name); };
  convert::write(plan, {path}, nullptr, convert::encode_on_cpu,
                 calibrated ? std::function<const convert::Prepared*(std::string_view)>(prepared) : nullptr, nullptr,
                 nullptr);
}

} // namespace

TEST_CASE("every matrix of a hybrid has an importance, each expert its own, parts of a tensor one in common") {
  REQUIRE_REFERENCE();
  for (const char* name : kRecipes) {
    CAPTURE(name);
    const tests::Recipe recipe(name);
    const gguf::File file = recipe.open();
    const core::Program program = models::build_program(file);
    convert::ImatrixCollector collector(program, true);
    const std::vector<int32_t> ids = recipe.ids();
    convert::run_chunk(*executor_of(program, &collector), ids);
    const gguf::Imatrix imatrix = collector.result();
    const Requantization plan = plan_of_hybrid(file, "Q8_0");
    for (size_t i = 0; i < plan.sources.size(); ++i) {
      const auto& source = plan.sources[i];
      if (plan.types[i] == source.type() || plan.is_output(source) || source.name().ends_with("token_embd.weight"))
        continue;
      CAPTURE(source.name());
      if (std::ranges::find(program.weights, source.name(), &core::Weight::name) == program.weights.end()) continue;
      const auto entry = imatrix.entries.find(source.name());
      REQUIRE(entry != imatrix.entries.end());
      const int64_t count = source.dims().size() > 2 ? source.dims()[2] : 1;
      CHECK(std::ssize(entry->second.counts) == count);
      CHECK(std::ssize(entry->second.sum_of_squares) == count * source.cols());
      const float tokens = std::accumulate(entry->second.counts.begin(), entry->second.counts.end(), 0.0f);
      if (count == 1) CHECK(tokens == static_cast<float>(ids.size()));
      if (count > 1) CHECK(std::fmod(tokens, static_cast<float>(ids.size())) == 0);
    }
  }
}

TEST_CASE("calibrating a hybrid leaves it what it was, with tensors that ops read in parts") {
  REQUIRE_REFERENCE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  const tests::TemporaryFolder folder;
  for (const char* name : {"qwen35-dense", "qwen3next-moe", "lfm2-dense", "nemotron_h-dense", "falcon-h1-dense",
                           "gpt-oss-moe", "gemma3-dense", "deepseek2-moe"}) {
    CAPTURE(name);
    const tests::Recipe recipe(name);
    const gguf::File file = recipe.open();
    const core::Program program = models::build_program(file);
    const Requantization plan = plan_of_hybrid(file, "Q8_0");
    const std::vector<int32_t> ids = recipe.ids();
    const std::vector<float> truth = logits_of(file, ids);
    write_plan(plan, folder / "plain.gguf", nullptr);
    const double plain = tests::nmse(logits_of(gguf::File::open(folder / "plain.gguf"), ids), truth);
    std::mt19937_64 random(seed);
    std::vector<std::vector<int32_t>> chunks(2);
    for (auto& chunk : chunks)
      for (int i = 0; i < 32; ++i) chunk.push_back(static_cast<int32_t>(random() % program.vocab));
    for (const convert::CalibrationMethod method :
         {convert::CalibrationMethod{true, false}, {true, true}, {false, false, true}}) {
      CAPTURE(method.scales);
      CAPTURE(method.feedback);
      convert::CalibratedQuantizer calibrated(plan, program, method, chunks, kernels::cpu::make_cpu_executor, 1);
      write_plan(plan, folder / "calibrated.gguf", &calibrated);
      CHECK(std::filesystem::file_size(folder / "calibrated.gguf") ==
            std::filesystem::file_size(folder / "plain.gguf"));
      // Routers amplify small changes.
      const double bound = routes(program) ? 0.2 : 4 * plain;
      CHECK(tests::nmse(logits_of(gguf::File::open(folder / "calibrated.gguf"), ids), truth) < bound);
    }
  }
}
