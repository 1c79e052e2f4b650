// Compares `fit` with executors' memory; placement of layers.
#include "engine/loading/fit.h"

#include "core/error.h"
#include "core/kv_divergence.h"
#include "engine/loading/cache_offers.h"
#include "engine/speculation/speculation.h"
#include "kernels/cpu/executor/executor.h"
#include "models/architecture.h"
#include "models/model.h"
#include "models/synthetic.h"
#include "support/drafts/draft_model.h"
#include "support/random_program.h"
#include "support/recipes/recipe_runs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

using namespace ridge;

namespace {

// Bytes; executors reserve all they may use.
double mapped_bytes() {
  std::ifstream file("/proc/self/statm");
  double pages = 0;
  file >> pages;
  return pages * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

// Ignores some MB of the allocator.
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
  for (const std::string& name : tests::share_of(tests::known_recipes(), 4)) {
    CAPTURE(name);
    const gguf::File file = tests::Recipe(name).open();
    const core::Program program = models::build_program(file);
    const bool learned = std::ranges::any_of( // limited by learned positions
        program.weights, [](const core::Weight& weight) { return weight.name.starts_with("position_embd"); });
    CHECK(error_of(program, learned ? program.trained_context : 20'000) < 0.02);
  }
}

TEST_CASE("memory is what a CPU executor takes, for a shape of the benchmark") {
  const Shape model("llama-1b:Q4_K_M");
  CHECK(error_of(model.program, 8192) < 0.02);
  CHECK(std::abs(static_cast<double>(engine::weight_bytes(model.program)) / 1e9 - 0.948) < 0.001);
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
  const std::vector<engine::CacheOffer> offers = engine::cache_offers(model.program, lacking);
  REQUIRE(offers.size() > 2);
  CHECK(engine::what_would_fit(model.program, lacking, 1'235'814'400, offers) ==
        fmt::format("-c {} fits; {}", lacking.largest_context, engine::text_of(offers[0], 8192)));
  CHECK(offers[0].keys == core::KvType::q8_0);
  CHECK(offers[0].values == core::KvType::q8_0);
  for (size_t i = 0; i < offers.size(); ++i) {
    const engine::CacheOffer& offer = offers[i];
    CHECK(offer.bytes_now == lacking.cpu->cache);
    CHECK(offer.bytes < (i == 0 ? offer.bytes_now : offers[i - 1].bytes));
    CHECK(offer.nats == core::highest_divergence(offer.keys, offer.values, 8192)->nats);
    if (i > 0) CHECK(offer.nats >= offers[i - 1].nats);
    core::ExecutorConfig smaller = lacking.config;
    smaller.k_type = offer.keys, smaller.v_type = offer.values;
    const engine::Fit kept = engine::fit(model.program, smaller, room_of(cpu - 1e8));
    CHECK(kept.fits);
    CHECK(kept.cpu->cache == offer.bytes);
  }
  CHECK(engine::text_of({core::KvType::q8_0, core::KvType::q4_0, 1'500'000, 4'000'000, 0.0047, 0.957}, 8192) ==
        fmt::format("-ctk q8_0 -ctv q4_0 has room for -c 8192: a KV cache of 1.50 MB instead of 4.00 MB; in small "
                    "models in fast mode "
                    "4.3 of 100 tokens have another likeliest one than with f32 (with f16 {:.2g}), 0.0047 nats",
                    100 * (1 - core::highest_divergence(core::KvType::f16, core::KvType::f16, 8192)->same_top)));
  const engine::Fit narrow = engine::fit(model.program, lacking.config, room_of(cpu - 1.9e8));
  const std::vector<engine::CacheOffer> few = engine::cache_offers(model.program, narrow);
  REQUIRE(!few.empty());
  CHECK(few.size() < offers.size());
  CHECK(core::format_of(few[0].keys).bits == 4);

  const engine::Fit hopeless = engine::fit(model.program, config, room_of(8e8));
  CHECK(engine::what_would_fit(model.program, hopeless, 1'235'814'400, {}).find("version would fit with -c 4096") !=
        std::string::npos);
  const engine::Fit tiny = engine::fit(model.program, config, room_of(1e6));
  CHECK(engine::what_would_fit(model.program, tiny, 1'235'814'400, {}).starts_with("no smaller type would fit"));
}

TEST_CASE("several GPUs that share a model have a part each, and the largest context fits the fullest of them") {
  const Shape model("llama-1b:Q4_K_M");
  core::ExecutorConfig config;
  config.context = 8192;
  config.max_outputs = 1;
  const auto room_of_gpus = [](std::vector<double> gpus) {
    engine::Room room = room_of(64e9, gpus[0]);
    room.gpus = std::move(gpus);
    return room;
  };
  const engine::Fit one = engine::fit(model.program, config, room_of(64e9, 24e9));
  const engine::Fit two = engine::fit(model.program, config, room_of_gpus({24e9, 24e9}), {.ranks = 2});
  CHECK(two.fits);
  REQUIRE(two.ranks.size() == 2);
  for (const engine::RankFit& rank : two.ranks) {
    CHECK(rank.end_layer == two.layers);
    CHECK(2 * rank.need.cache == one.gpu->cache);
    // The whole embedding table: 2048 x 128256 weights of 4.5 bits.
    CHECK(std::abs(static_cast<double>(2 * rank.need.weights - one.gpu->weights) / 147.8e6 - 1) < 0.02);
  }
  CHECK(two.gpu->weights == two.ranks[0].need.weights + two.ranks[1].need.weights);
  CHECK(two.gpu_bytes < 0.55 * one.gpu_bytes);

  // The smaller GPU limits the fit.
  const double less = static_cast<double>(two.ranks[1].need.total()) - 1e7;
  const engine::Room uneven = room_of_gpus({24e9, less});
  const engine::Fit tight = engine::fit(model.program, config, uneven, {.gpus = {0, 1}});
  CHECK_FALSE(tight.fits);
  REQUIRE(tight.largest_context > 0);
  config.context = tight.largest_context;
  CHECK(engine::fit(model.program, config, uneven, {.gpus = {0, 1}}).fits);
  config.context += 256;
  CHECK_FALSE(engine::fit(model.program, config, uneven, {.gpus = {0, 1}}).fits);
  config.context = 8192;

  // By default as few GPUs as needed.
  const auto all = static_cast<double>(one.gpu->total());
  CHECK(engine::fit(model.program, config, room_of_gpus({all, all})).ranks.empty());
  CHECK(engine::fit(model.program, config, room_of_gpus({all - 1, all - 1, all - 1})).ranks.size() == 2);

  const engine::Fit stages =
      engine::fit(model.program, config, room_of_gpus({24e9, 24e9, 24e9, 24e9}), {.ranks = 2, .stages = 2});
  REQUIRE(stages.ranks.size() == 4);
  CHECK(stages.ranks[0].first_layer == 0);
  CHECK(stages.ranks[1].end_layer == stages.ranks[2].first_layer);
  CHECK(stages.ranks[3].end_layer == stages.layers);
  // All named GPUs by default.
  const engine::Room four = room_of_gpus({24e9, 24e9, 24e9, 24e9});
  const engine::Fit pairs = engine::fit(model.program, config, four, {.gpus = {0, 1, 2, 3}, .stages = 2});
  REQUIRE(pairs.ranks.size() == 4);
  CHECK(pairs.ranks[1].ranks == 2);
  CHECK(pairs.ranks[3].need.total() == stages.ranks[3].need.total());
  CHECK(engine::fit(model.program, config, four, {.stages = 2}).ranks.size() == 2);
  CHECK_THROWS_WITH_AS(engine::fit(model.program, config, four, {.gpus = {0, 1, 2}, .stages = 2}),
                       doctest::Contains("must be a multiple"), Error);
  CHECK_THROWS_AS(engine::fit(model.program, config, room_of_gpus({24e9}), {.ranks = 2}), Error);
  CHECK_THROWS_AS(engine::fit(model.program, config, room_of_gpus({24e9, 24e9}), {.gpus = {0, 2}}), Error);
}

TEST_CASE("a GPU's share of a recurrent state counts where several share the model") {
  if (!tests::have_reference()) {
    MESSAGE("skipped: no reference");
    return;
  }
  for (const char* name : {"qwen35-dense", "granitehybrid-dense"}) {
    CAPTURE(name);
    const gguf::File file = tests::Recipe(name).open();
    const core::Program program = models::build_program(file);
    core::ExecutorConfig config;
    config.context = 1024;
    engine::Room room = room_of(64e9, 8e9);
    const engine::Fit one = engine::fit(program, config, room);
    room.gpus = {8e9, 8e9};
    const engine::Fit two = engine::fit(program, config, room, {.ranks = 2});
    REQUIRE(two.ranks.size() == 2);
    // Padded to 64 floats per layer.
    CHECK(std::abs(2 * static_cast<double>(two.ranks[0].need.state) / static_cast<double>(one.gpu->state) - 1) < 0.05);
  }
}

TEST_CASE("experts go to the host's memory where a model does not fit the GPU, with as many copies as have room") {
  tests::RandomProgram model(1);
  tests::RandomProgram::Shape shape;
  shape.experts = 8;
  shape.used = 2;
  model.transformer(shape, quant::Type::Q4_0, quant::Type::Q4_0);
  for (core::Weight& weight : model.program.weights) // only the types: fitting reads no weights
    if (weight.count == 8) weight.count = 8 * 1024;
  constexpr int64_t kExperts = 8 * 1024;
  core::ExecutorConfig config;
  config.context = 4096;
  config.max_outputs = 1;
  const engine::Fit roomy = engine::fit(model.program, config, room_of(64e9, 40e9));
  CHECK(roomy.experts == 0);
  CHECK_FALSE(roomy.cpu);

  const double gpu = static_cast<double>(roomy.gpu->total() - roomy.gpu->weights / 2);
  const engine::Fit tight = engine::fit(model.program, config, room_of(64e9, gpu));
  CHECK(tight.fits);
  CHECK(tight.gpu_layers == tight.layers);
  CHECK(tight.experts == kExperts);
  CHECK(std::abs(static_cast<double>(tight.copies) / kExperts - 0.75 * 0.5) < 0.01); // a quarter is for spill places
  CHECK(static_cast<double>(tight.gpu->total()) <= gpu);
  CHECK(static_cast<double>(tight.gpu->total()) > gpu - static_cast<double>(tight.cpu->weights) / kExperts);
  CHECK(static_cast<double>(tight.cpu->weights) > 0.99 * static_cast<double>(roomy.gpu->weights));

  const engine::Fit wanted = engine::fit(model.program, config, room_of(64e9, 40e9), {.experts_on_host = true});
  CHECK(wanted.copies == kExperts);
  const engine::Fit by_layers = engine::fit(model.program, config, room_of(64e9, gpu), {.gpu_layers = 1});
  CHECK(by_layers.experts == 0);
  CHECK(by_layers.gpu_layers == 1);
  CHECK(tight.host_experts == kExperts);
  // An eighth is kept free.
  const auto all = static_cast<double>(tight.cpu->weights);
  const engine::Fit scarce = engine::fit(model.program, config, room_of(all / 2, gpu));
  CHECK(scarce.fits);
  CHECK(scarce.experts == kExperts);
  CHECK(std::abs(static_cast<double>(scarce.host_experts) / kExperts - 0.5 * 7 / 8) < 0.01);
  CHECK(static_cast<double>(scarce.gpu->total()) <= gpu);
  CHECK(scarce.copies > kExperts / 4);
  CHECK(tight.experts_in_file_only() == 0);
  CHECK(scarce.experts_in_file_only() == kExperts - scarce.host_experts - scarce.copies);
  const engine::Fit limited = engine::fit(model.program, config, room_of(64e9, gpu), {.host_memory = all / 4});
  CHECK(std::abs(static_cast<double>(limited.host_experts) / kExperts - 0.25) < 0.01);
  CHECK(limited.fits);
  // Larger batches, unless they cost more than an eighth of the copies.
  CHECK(tight.config.max_batch == 512);
  const engine::Fit longer = engine::fit(model.program, config, room_of(64e9, gpu), {.long_batch = 2048});
  CHECK(longer.config.max_batch == 2048);
  CHECK(longer.gpu->scratch > tight.gpu->scratch);
  CHECK(longer.copies < tight.copies);
  CHECK(longer.copies >= tight.copies - tight.copies / 8);
  const double few = static_cast<double>(tight.gpu->total() - tight.gpu->weights * 9 / 10);
  CHECK(engine::fit(model.program, config, room_of(64e9, few), {.long_batch = 2048}).config.max_batch == 512);
  const engine::Fit dense =
      engine::fit(Shape("llama-1b:Q4_K_M").program, config, room_of(64e9, 1e9), {.experts_on_host = true});
  CHECK(dense.experts == 0);
}

TEST_CASE("a model on the GPU reads prompts in long batches where these take little of what it leaves") {
  const Shape model("llama-1b:Q4_K_M");
  core::ExecutorConfig config;
  config.context = 8192;
  config.max_batch = 512;
  const auto fit = [&](double gpu, const engine::Placement& placement) {
    return engine::fit(model.program, config, room_of(64e9, gpu), placement);
  };
  const engine::Fit usual = fit(40e9, {}), longer = fit(40e9, {.long_batch = 2048});
  CHECK(usual.config.max_batch == 512);
  CHECK(longer.config.max_batch == 2048);
  CHECK(longer.gpu->scratch > usual.gpu->scratch);
  CHECK(longer.gpu->weights == usual.gpu->weights);
  const auto need = static_cast<double>(usual.gpu->total()),
             more = static_cast<double>(longer.gpu->total() - usual.gpu->total());
  CHECK(fit(need + 7.9 * more, {.long_batch = 2048}).config.max_batch == 512);
  CHECK(fit(need + 8.1 * more, {.long_batch = 2048}).config.max_batch == 2048);
  CHECK(fit(40e9, {.gpu_layers = 3, .long_batch = 2048}).config.max_batch == 512);
  CHECK(fit(0, {.long_batch = 2048}).config.max_batch == 512); // on the CPU
  CHECK(longer.largest_context == usual.largest_context);

  const auto fit_two = [&](double second) {
    engine::Room room = room_of(64e9, 40e9);
    room.gpus = {40e9, second};
    return engine::fit(model.program, config, room, {.ranks = 2, .long_batch = 2048});
  };
  const engine::Fit shared = fit_two(40e9);
  CHECK(shared.config.max_batch == 2048);
  CHECK(fit_two(static_cast<double>(shared.ranks[1].need.total())).config.max_batch == 512);
}

TEST_CASE("draft heads that are to guess count, and leave less room for the model") {
  api::ModelOptions options;
  const engine::LoadedModel model = engine::open_generating(tests::DraftModel::chained().open(), options);
  REQUIRE(model.heads.size() == 3);
  core::ExecutorConfig config;
  config.context = 1024;
  config.threads = 2;
  const auto fit = [&](const engine::Room& room) { return engine::fit(model.program, config, room, {}, model.heads); };
  engine::Need alone;
  int64_t on_gpu = 0;
  for (const engine::LoadedHead& head : model.heads) {
    alone += engine::cpu_need(head.program, engine::head_config(config));
    const engine::Need need = engine::gpu_need(head.program, engine::head_config(config));
    on_gpu += need.total() - need.reserve;
  }
  const engine::Fit on_cpu = fit(room_of(64e9));
  CHECK(on_cpu.heads.gpu.total() == 0);
  CHECK(on_cpu.heads.cpu.cache == alone.cache);
  CHECK(on_cpu.heads.cpu.weights == alone.weights);
  CHECK(on_cpu.cpu->total() == engine::cpu_need(model.program, config).total());

  const auto all = static_cast<double>(on_cpu.cpu->total() + on_cpu.heads.cpu.total());
  CHECK(fit(room_of(all)).fits);
  CHECK_FALSE(fit(room_of(all - 1)).fits);
  CHECK(fit(room_of(all)).largest_context < engine::fit(model.program, config, room_of(all)).largest_context);
  CHECK_FALSE(fit(room_of(static_cast<double>(alone.cache) / 2)).fits);

  const engine::Fit roomy = fit(room_of(64e9, 24e9));
  CHECK(roomy.heads.gpu.total() == on_gpu);
  CHECK(roomy.heads.cpu.total() == 0);
  CHECK(roomy.heads.left.gpu == 24e9 - static_cast<double>(on_gpu));
  CHECK(roomy.gpu_layers == roomy.layers);
  engine::Room presumed = room_of(64e9);
  presumed.gpus = {24e9, 24e9};
  CHECK(fit(presumed).heads.gpu.total() == on_gpu);
  CHECK(fit(presumed).heads.left.gpus[0] == 24e9 - static_cast<double>(on_gpu));
  // Heads are placed first; then not all layers fit.
  const engine::Fit tight = fit(room_of(64e9, static_cast<double>(roomy.gpu->total() + on_gpu) - 1));
  CHECK(tight.heads.gpu.total() == on_gpu);
  CHECK(tight.gpu_layers < tight.layers);
}

TEST_CASE("matrices that a draft head shares with its model count once") {
  tests::DraftModel made = tests::DraftModel::attention();
  made.own_ends = false;
  const engine::LoadedModel model = engine::open_generating(made.open(), {});
  const engine::Fit fit = engine::fit(model.program, {}, room_of(64e9), {}, model.heads);
  const int64_t ends = 2 * 2 * made.shape.width * made.shape.vocab + 4 * made.shape.width;
  CHECK(fit.heads.cpu.weights == engine::weight_bytes(model.heads[0].program) - ends);
}
