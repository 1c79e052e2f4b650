// What `fit` says of memory against what an executor takes, for every architecture and the shapes of benchmarks; and
// where layers go.
#include "engine/fit/fit.h"

#include "kernels/cpu/executor/executor.h"
#include "kernels/cuda/plan/memory_plan.h"
#include "models/architecture.h"
#include "models/model.h"
#include "models/synthetic.h"
#include "support/recipe_runs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

using namespace ridge;

namespace {

// Address space of this process in bytes: executors reserve all that they may come to use.
double mapped_bytes() {
  std::ifstream file("/proc/self/statm");
  double pages = 0;
  file >> pages;
  return pages * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

// The error of `fit` as a share of what an executor for so much context takes, above some MB that allocators keep.
double error_of(const core::Program& program, int64_t context) {
  core::ExecutorConfig config;
  config.context = context;
  config.streams = 2;
  config.threads = 2;
  const kernels::cpu::MemoryUse use = kernels::cpu::memory_use(program, config);
  const double before = mapped_bytes();
  const auto executor = kernels::cpu::make_cpu_executor(program, config);
  const double taken = mapped_bytes() - before;
  const auto said = static_cast<double>(use.cache + use.state + use.scratch);
  CHECK(executor->memory_bytes() == said);
  constexpr double kAllocator = 2e6;
  return std::max(0.0, std::abs(taken - said) - kAllocator) / taken;
}

struct Shape {
  gguf::File file;
  core::Program program;
  explicit Shape(const char* spec)
      : file(gguf::File::from_bytes(models::synthetic_model(spec), spec)), program(models::build_program(file)) {}
};

engine::Room room_of(double cpu, double gpu = 0) { return {cpu, gpu}; }

} // namespace

TEST_CASE("memory is what a CPU executor takes, for every recipe of the reference") {
  if (!tests::have_reference()) {
    MESSAGE("skipped: no reference");
    return;
  }
  for (const std::string& name : tests::known_recipes()) {
    CAPTURE(name);
    const gguf::File file = tests::Recipe(name).open();
    const core::Program program = models::build_program(file);
    const bool learned = std::ranges::any_of( // positions: there are no more
        program.weights, [](const core::Weight& weight) { return weight.name.starts_with("position_embd"); });
    CHECK(error_of(program, learned ? program.trained_context : 20'000) < 0.02);
  }
}

TEST_CASE("memory is what a CPU executor takes, for a shape of the benchmark") {
  const Shape model("llama-1b:Q4_K_M");
  CHECK(error_of(model.program, 8192) < 0.02);
  CHECK(std::abs(static_cast<double>(engine::weight_bytes(model.program)) / 1e9 - 0.948) < 0.001);
}

TEST_CASE("a GPU's layouts keep the bytes of files, rows padded") {
  for (const quant::FormatInfo& format : quant::formats()) {
    CAPTURE(format.name);
    for (const int64_t cols : {4096, 1024}) {
      const kernels::cuda::LayoutBytes layout = kernels::cuda::layout_bytes(format, cols);
      CHECK(layout.row >= format.row_bytes(cols));
      CHECK(layout.row < format.row_bytes(cols) + 16 * (cols / 256 + 1));
      CHECK(layout.matrix(1) == layout.row_block * layout.row);
      CHECK(layout.matrix(64) == 64 * layout.row);
    }
  }
}

TEST_CASE("layers go to the GPU as far as they fit, and the largest context fits exactly") {
  const Shape model("llama-1b:Q4_K_M");
  core::ExecutorConfig config;
  config.context = 8192;
  config.threads = 1;
  config.max_outputs = 1;
  const engine::Fit roomy = engine::fit(model.program, config, room_of(64e9, 24e9));
  CHECK(roomy.fits);
  CHECK(roomy.gpu_layers == roomy.layers);
  CHECK_FALSE(roomy.cpu);
  CHECK(roomy.largest_context == model.program.trained_context);
  CHECK(roomy.full_gpu_bytes > roomy.gpu_bytes);

  const double all = static_cast<double>(roomy.gpu->total());
  const engine::Fit tight = engine::fit(model.program, config, room_of(64e9, all - 3e8));
  CHECK(tight.fits);
  CHECK(tight.gpu_layers > 0);
  CHECK(tight.gpu_layers < tight.layers);
  CHECK(static_cast<double>(tight.gpu->total()) <= all - 3e8);
  CHECK(tight.cpu->weights + tight.gpu->weights >= engine::weight_bytes(model.program));

  const engine::Fit none = engine::fit(model.program, config, room_of(64e9, 1e8));
  CHECK(none.gpu_layers == 0);
  CHECK_FALSE(none.gpu);

  const double cpu = static_cast<double>(none.cpu->total());
  const engine::Fit lacking = engine::fit(model.program, config, room_of(cpu - 1e8));
  CHECK_FALSE(lacking.fits);
  REQUIRE(lacking.largest_context > 0);
  CHECK(lacking.largest_context < 8192);
  config.context = lacking.largest_context;
  CHECK(engine::fit(model.program, config, room_of(cpu - 1e8)).fits);
  config.context += 256;
  CHECK_FALSE(engine::fit(model.program, config, room_of(cpu - 1e8)).fits);
  CHECK(engine::what_would_fit(model.program, lacking, 1'235'814'400) ==
        fmt::format("-c {} fits", lacking.largest_context));

  const engine::Fit hopeless = engine::fit(model.program, config, room_of(8e8));
  CHECK(engine::what_would_fit(model.program, hopeless, 1'235'814'400).find("of it would fit with -c 4096") !=
        std::string::npos);
  const engine::Fit tiny = engine::fit(model.program, config, room_of(1e6));
  CHECK(engine::what_would_fit(model.program, tiny, 1'235'814'400).starts_with("no type of it would"));
}
