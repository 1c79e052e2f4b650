// The GPU's cache of experts; logits do not depend on it.
#include "device.h"
#include "greedy.h"
#include "kernels/cuda/experts/expert_store.h"
#include "kernels/cuda/experts/weight_rows.h"
#include "kernels/cuda/runtime/context.h"
#include "models/model.h"
#include "support/recipes/recipe_runs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>

using namespace ridge;
using namespace ridge::kernels;

namespace {

std::unique_ptr<core::Executor> with_copies(const core::Program& program, const core::ExecutorConfig& config,
                                            int64_t copies, double host_limit = -1) {
  tests::GpuOptions options;
  options.experts_on_host = true;
  options.most_copies = copies;
  options.host_limit = host_limit;
  return tests::make_cuda_executor(program, config, options);
}

constexpr int64_t kLayers = 2;
tests::RandomProgram small_model(uint64_t seed, quant::Type type, int64_t experts = 8) {
  tests::RandomProgram model(seed);
  tests::RandomProgram::Shape shape;
  shape.layers = kLayers;
  shape.width = shape.hidden = 512;
  shape.experts = experts;
  shape.used = 2;
  model.transformer(shape, type, type);
  return model;
}

bool has_experts(const core::Program& program) { return !cuda::expert_groups(program).empty(); }

struct Layer {
  static constexpr int kExperts = 40, kBlockBytes = 5 * 1024 + 256;
  core::Program program;
  cuda::DeviceContext context{0};
  cuda::ExpertStore store;
  cuda::DeviceMemory ids{sizeof(int32_t) * 1024, "ids"};
  std::vector<double> heat = std::vector<double>(kExperts, 1.0);
  std::set<int> copied;
  int64_t found = 0, missed = 0;

  explicit Layer(int64_t copies)
      : store(program, {{.ids = 7, .experts = kExperts, .weights = {3}, .offsets = {0}, .block_bytes = kBlockBytes}},
              -1, false, context.limits().sm_count) {
    for (int i = 0; i < kExperts * kBlockBytes; ++i) store.place(3).data[i] = byte_of(i);
    store.take_slots(1 << 20, copies, context.launch());
  }
  static uint8_t byte_of(int64_t i) { return static_cast<uint8_t>(i * 2654435761u >> 13); }
  const cuda::ExpertCacheArgs& args() const { return *store.of_ids(7); }

  template <typename T>
  std::vector<T> read(const T* from, int64_t count) const {
    std::vector<T> values(count);
    RIDGE_CUDA(cudaMemcpy(values.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

  void use(const std::vector<int32_t>& chosen) {
    RIDGE_CUDA(cudaMemcpyAsync(ids.as(), chosen.data(), chosen.size() * sizeof(int32_t), cudaMemcpyHostToDevice,
                               context.stream()));
    cuda::launch_fetch_experts(context.launch(), args(), ids.as<int32_t>(), static_cast<int>(chosen.size()));
    context.synchronize();
    check(std::set<int>(chosen.begin(), chosen.end()));
  }

  // Wanted experts fill the slots, then the spill places, with the right bytes.
  void check(const std::set<int>& wanted) {
    const std::set<int> before = copied;
    for (const int e : wanted) ++(before.contains(e) ? found : missed);
    copied.clear();
    const std::vector<int64_t> places = read(args().places, kExperts);
    const int64_t first_slot = args().cached - args().host, first_spill = args().spill - args().host;
    std::set<int64_t> taken;
    int64_t copied_wanted = 0, spilled = 0;
    for (int e = 0; e < kExperts; ++e) {
      const auto is_in = [&](int64_t first, int64_t blocks) {
        return places[e] >= first && places[e] < first + blocks * kBlockBytes;
      };
      if (is_in(first_slot, args().slots)) {
        copied.insert(e);
        copied_wanted += wanted.contains(e);
      } else if (is_in(first_spill, args().spill_places)) {
        if (!wanted.contains(e)) continue;
        ++spilled;
      } else {
        CHECK(places[e] == int64_t{e} * kBlockBytes);
      }
      CHECK(taken.insert(places[e]).second);
      const std::vector<uint8_t> bytes = read(args().host + places[e], kBlockBytes);
      bool same = true;
      for (int i = 0; i < kBlockBytes; ++i) same &= bytes[i] == byte_of(int64_t{e} * kBlockBytes + i);
      CHECK(same);
    }
    CHECK(copied_wanted == std::min<int64_t>(std::ssize(wanted), args().slots));
    CHECK(spilled == std::min<int64_t>(std::ssize(wanted) - copied_wanted, args().spill_places));
    check_coldest_went(before, wanted);
    for (int e = 0; e < kExperts; ++e)
      heat[e] = heat[e] * std::exp2(-1 / cuda::kUsesHalfLife) + (wanted.contains(e) ? 1 : 0);
    const core::ExpertUse use = store.use();
    CHECK(use.hits == found);
    CHECK(use.misses == missed);
  }

  void check_coldest_went(const std::set<int>& before, const std::set<int>& wanted) {
    double kept = 1e30, gone = 0;
    for (const int e : before)
      if (!wanted.contains(e)) copied.contains(e) ? kept = std::min(kept, heat[e]) : gone = std::max(gone, heat[e]);
    CHECK(gone <= kept * 1.002); // heat is compared in 1/1024 of log2
  }
};

} // namespace

TEST_CASE("rows of several weights are copied at once, also from runs") {
  std::vector<std::byte> bytes(1 << 20);
  std::mt19937_64 random(1);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  core::Weight plain, runs;
  plain.cols = plain.row_bytes = 1000;
  plain.rows = 300;
  plain.count = 3;
  runs.cols = runs.row_bytes = 96;
  runs.rows = 60;
  runs.count = 5;
  runs.run_rows = 7;
  runs.run_stride = 2000;
  plain.data = runs.data = bytes.data();
  std::vector<uint8_t> first(200 * 1000), second(100 * 96);
  cuda::copy_rows(std::vector<cuda::RowCopy>{{&plain, 350, 200, first.data()}, {&runs, 45, 100, second.data()}});
  CHECK(std::memcmp(first.data(), bytes.data() + 350 * 1000, first.size()) == 0);
  bool same = true;
  for (int64_t i = 0; i < 100; ++i) {
    const int64_t row = 45 + i;
    same &= std::memcmp(&second[i * 96], bytes.data() + row / 7 * 2000 + row % 7 * 96, 96) == 0;
  }
  CHECK(same);
}

TEST_CASE("CUDA: the GPU keeps copies of the experts that were used most, and of what else a step wants") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const int64_t copies : {0, 1, 5, 17, 40, 100}) {
    CAPTURE(copies);
    Layer layer(copies);
    CHECK(layer.args().slots == std::min<int64_t>(copies, Layer::kExperts));
    for (int step = 0; step < 60; ++step) {
      std::vector<int32_t> chosen(step % 9 == 8 ? 300 : 1 + random() % 8);
      const auto among = step % 3 == 0 ? Layer::kExperts : 12;
      for (int32_t& e : chosen) e = static_cast<int32_t>(random() % among);
      layer.use(chosen);
    }
  }
}

TEST_CASE("CUDA: logits do not depend on where experts are, or how many the GPU has copies of") {
  REQUIRE_DEVICE();
  REQUIRE_REFERENCE();
  tests::Share share;
  for (const std::string& name : tests::known_recipes()) {
    const tests::Recipe recipe(name);
    const gguf::File file = recipe.open();
    const core::Program program = models::build_program(file);
    if (!has_experts(program) || !share.takes_next()) continue;
    CAPTURE(name);
    const std::vector<int32_t> ids = recipe.ids();
    const auto check = [&](const core::ExecutorConfig& config, size_t piece, std::initializer_list<int64_t> counts) {
      const std::vector<float> plain = tests::in_pieces(tests::make_executor, program, config, ids, piece);
      for (const int64_t copies : counts) {
        CAPTURE(copies);
        const auto make = [&](const auto& p, const auto& c) { return with_copies(p, c, copies); };
        CHECK(tests::in_pieces(make, program, config, ids, piece) == plain);
      }
    };
    check(tests::exact_config(), ids.size(), {3});
    check(tests::fast_config(), ids.size(), {0, 3});
    check(tests::fast_config(), 1, {1, 1000});
  }
}

TEST_CASE("CUDA: decoding with experts in the host's memory gives the same tokens in every type") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const quant::FormatInfo& format : tests::share_of(quant::formats())) {
    CAPTURE(format.name);
    const tests::RandomProgram model = small_model(seed, format.type);
    core::ExecutorConfig config = tests::fast_config();
    const auto plain = tests::make_executor(model.program, config);
    const std::vector<int32_t> tokens = tests::greedy_tokens(*plain, model.program.vocab, 1, 0, 40);
    for (const int64_t copies : {0, 2, 5}) {
      CAPTURE(copies);
      const auto executor = with_copies(model.program, config, copies);
      CHECK(tests::greedy_tokens(*executor, model.program.vocab, 1, 0, 40) == tokens);
      const core::ExpertUse use = executor->expert_use();
      CHECK(use.copies == copies);
      CHECK(use.experts == 8);
      CHECK(use.hits + use.misses == 2 * 40 * kLayers);
      CHECK((use.hits > 0) == (copies > 0));
    }
  }
}

TEST_CASE("CUDA: logits do not depend on which experts stay in the file") {
  REQUIRE_DEVICE();
  REQUIRE_REFERENCE();
  tests::Share share;
  for (const std::string& name : tests::known_recipes()) {
    const tests::Recipe recipe(name);
    const gguf::File file = recipe.open();
    const core::Program program = models::build_program(file);
    if (!has_experts(program) || !share.takes_next()) continue;
    CAPTURE(name);
    const cuda::ExpertSizes sizes = cuda::expert_sizes(cuda::expert_groups(program));
    const std::vector<int32_t> ids = recipe.ids();
    for (const size_t piece : {ids.size(), size_t{1}}) {
      const std::vector<float> plain =
          tests::in_pieces(tests::make_executor, program, tests::fast_config(), ids, piece);
      for (const auto& [copies, host] : {std::pair(0, 0), {0, 1}, {1, 0}, {2, 1}, {1, 2}}) {
        CAPTURE(copies);
        CAPTURE(host);
        const auto make = [&](const auto& p, const auto& c) {
          return with_copies(p, c, copies, static_cast<double>(host * sizes.copy_bytes));
        };
        CHECK(tests::in_pieces(make, program, tests::fast_config(), ids, piece) == plain);
      }
    }
  }
}

TEST_CASE("CUDA: decoding with experts in the file gives the same tokens, and reads each once if there is room") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const quant::FormatInfo& format : tests::share_of(quant::formats())) {
    CAPTURE(format.name);
    const tests::RandomProgram model = small_model(seed, format.type);
    const cuda::ExpertSizes sizes = cuda::expert_sizes(cuda::expert_groups(model.program));
    core::ExecutorConfig config = tests::fast_config();
    const auto plain = tests::make_executor(model.program, config);
    const std::vector<int32_t> tokens = tests::greedy_tokens(*plain, model.program.vocab, 1, 0, 40);
    for (const auto& [copies, host] : {std::pair(0, 3), {2, 0}, {2, 3}, {5, 3}}) {
      CAPTURE(copies);
      CAPTURE(host);
      const auto executor = with_copies(model.program, config, copies, static_cast<double>(host * sizes.copy_bytes));
      CHECK(tests::greedy_tokens(*executor, model.program.vocab, 1, 0, 40) == tokens);
      const core::ExpertUse use = executor->expert_use();
      CHECK(use.experts == 8);
      CHECK(use.copies == copies);
      CHECK(use.on_host == host);
      CHECK(use.hits + use.misses == 2 * 40 * kLayers);
      CHECK(use.file_reads <= use.misses);
      if (copies + host == 8) CHECK(use.file_reads <= 8 * kLayers);
    }
  }
}

TEST_CASE("CUDA: a limit of memory leaves room for fewer copies, and less than the rest needs is an error") {
  REQUIRE_DEVICE();
  const tests::RandomProgram model = small_model(1, quant::Type::F16, 64);
  const core::ExecutorConfig config = tests::fast_config();
  const auto options = [](double limit) {
    tests::GpuOptions options;
    options.experts_on_host = true;
    options.memory_limit = limit;
    return options;
  };
  const auto copies = [&](double limit) {
    return tests::make_cuda_executor(model.program, config, options(limit))->expert_use().copies;
  };
  CHECK(copies(0) == 64);
  const cuda::MemoryPlan plan = cuda::plan_memory(model.program, config, cuda::limits_for_plans(), true);
  const auto limit_for = [&](int64_t wanted) {
    return static_cast<double>(plan.total() + plan.experts.gpu_bytes(wanted, plan.experts.experts));
  };
  for (const int64_t wanted : {0, 8, 20, 40}) {
    CHECK(copies(limit_for(wanted)) == wanted);
    CHECK(copies(limit_for(wanted + 1) - 1) == wanted);
  }
  // Without host memory: a buffer, a staging block and spill places.
  const auto filed = [&](double limit) {
    tests::GpuOptions limited = options(limit);
    limited.host_limit = 0;
    return limited;
  };
  const int64_t least = plan.total() + plan.experts.gpu_bytes(0, 0);
  CHECK(cuda::fits(model.program, config, filed(static_cast<double>(least))));
  CHECK_FALSE(cuda::fits(model.program, config, filed(static_cast<double>(least - 1))));
  CHECK(tests::make_cuda_executor(model.program, config, filed(static_cast<double>(least)))->expert_use().copies == 0);
  CHECK(cuda::fits(model.program, config, options(limit_for(0))));
  CHECK_FALSE(cuda::fits(model.program, config, options(limit_for(0) - 1)));
  CHECK_THROWS_AS(copies(limit_for(0) - 1), cuda::OutOfMemory);
}
