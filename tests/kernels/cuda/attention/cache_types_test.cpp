// GPU attention over caches of codes against naive.h.
#include "attention_models.h"
#include "kernels/cuda/decoding_checks.h"
#include "kernels/cuda/device.h"
#include "support/executor_runs.h"

#include <tuple>

using namespace ridge;
using core::KvType;
using core::RopeStyle;
using tests::attention_model;
using tests::exact_config;
using tests::GpuOptions;
using tests::Heads;
using tests::make_cuda_executor;
using tests::RandomProgram;
using tests::window;

namespace {

using enum KvType;

constexpr KvType kCodes[] = {q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl};
constexpr double kBound = 1e-3; // last bits decide between codes; a wrong rotation, scale or order gives 0.1 and more

double worst_error(RandomProgram& model, KvType k_type, KvType v_type, const GpuOptions& options = {},
                   int64_t context = 1000) {
  core::ExecutorConfig config = exact_config();
  config.context = context;
  config.max_batch = config.max_outputs = 300;
  config.k_type = k_type;
  config.v_type = v_type;
  const auto make = [&](const core::Program& program, const core::ExecutorConfig& own) {
    return make_cuda_executor(program, own, options);
  };
  return tests::worst_error(make, model, config, {150, 1, 3, 70, 1, 90, 300, 1, 64, 2});
}

// Multiplies the weights of the n-th product: 0 to 3 make queries, keys, values and the layer's output.
void scale_product(RandomProgram& model, int n, float factor) {
  for (const core::Op& op : model.program.ops) {
    if (op.kind != core::OpKind::linear || n-- != 0) continue;
    const std::byte* data = model.program.weights[op.weights[0]].data;
    for (std::vector<std::byte>& bytes : model.storage)
      if (bytes.data() == data) {
        auto* weights = reinterpret_cast<float*>(bytes.data());
        for (size_t i = 0; i < bytes.size() / sizeof(float); ++i) weights[i] *= factor;
      }
    return;
  }
}

} // namespace

TEST_CASE("CUDA: attention over caches of codes, for any head width, in prompts and decoding") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  GpuOptions options;
  for (const auto& [heads, kv_heads, dim] : {std::tuple(8, 1, 64),
                                             {8, 2, 128},
                                             {12, 1, 128},
                                             {8, 4, 256},
                                             {6, 2, 96},
                                             {4, 2, 32},
                                             {8, 2, 160},
                                             {12, 1, 192},
                                             {6, 1, 512},
                                             {40, 2, 128}})
    for (const KvType type : kCodes) {
      options.as_compute = options.as_compute ? 0 : 89;
      if (!share.takes_next()) continue;
      CAPTURE(heads);
      CAPTURE(dim);
      CAPTURE(core::format_of(type).name);
      CAPTURE(options.as_compute);
      RandomProgram model = attention_model(seed, {heads, kv_heads, dim, dim, RopeStyle::split}, seed % 2 == 0);
      CHECK(worst_error(model, type, type, options) < kBound);
    }
}

TEST_CASE("CUDA: tiny and large keys and values in caches of codes") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  for (const float factor : {1.f / 1024, 1024.f})
    for (const KvType type : kCodes) {
      if (!share.takes_next()) continue;
      CAPTURE(factor);
      CAPTURE(core::format_of(type).name);
      RandomProgram model = attention_model(seed, {8, 2, 128, 128, RopeStyle::split}, false);
      scale_product(model, 0, 1 / factor);
      scale_product(model, 1, factor);
      scale_product(model, 2, factor);
      scale_product(model, 3, 1 / factor);
      CHECK(worst_error(model, type, type) < kBound);
    }
}

TEST_CASE("CUDA: attention over long caches of q8_0") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const int64_t dim : {64, 128, 256}) {
    CAPTURE(dim);
    RandomProgram model = attention_model(seed, {8, 2, dim, dim, RopeStyle::split, {}, true}, seed % 2 == 0);
    CHECK(worst_error(model, q8_0, q8_0, {}, 20000) < kBound);
  }
}

TEST_CASE("CUDA: attention over caches of codes with an odd number of rows") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const int64_t dim : {64, 128})
    for (const KvType type : {q5_0, q5_1, q4_1}) {
      CAPTURE(dim);
      CAPTURE(core::format_of(type).name);
      RandomProgram model = attention_model(seed, {4, 1, dim, dim, RopeStyle::split}, false);
      CHECK(worst_error(model, type, type, {}, 1001) < kBound);
    }
}

TEST_CASE("CUDA: windows, sinks and soft caps over caches of codes") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  size_t next = seed % std::size(kCodes);
  for (const auto& [heads, kv_heads, dim] : {std::tuple(8, 1, 64), {8, 2, 128}, {8, 4, 256}, {6, 2, 96}})
    for (const core::AttentionParams& sees :
         {window(1), window(40), window(300), window(64, true), window(0, false, 2)})
      for (const bool sinks : {false, true}) {
        const KvType type = kCodes[next++ % std::size(kCodes)];
        if (!share.takes_next()) continue;
        CAPTURE(dim);
        CAPTURE(sees.window);
        CAPTURE(sees.chunked);
        CAPTURE(sees.soft_cap);
        CAPTURE(sinks);
        CAPTURE(core::format_of(type).name);
        RandomProgram model =
            attention_model(seed, {heads, kv_heads, dim, dim, RopeStyle::split, sees, sinks}, seed % 2 == 0);
        CHECK(worst_error(model, type, type) < kBound);
      }
}

TEST_CASE("CUDA: keys and values are cached in types of their own") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  for (const int64_t dim : {64, 128, 256, 96})
    for (const auto& [k_type, v_type] : {std::pair(q8_0, q4_0),
                                         {q4_1, q8_0},
                                         {f16, q5_1},
                                         {iq4_nl, f16},
                                         {q5_0, q4_1},
                                         {f32, q4_0},
                                         {q5_1, bf16},
                                         {q8_0, q4_1},
                                         {bf16, bf16}}) {
      if (!share.takes_next()) continue;
      CAPTURE(dim);
      CAPTURE(core::format_of(k_type).name);
      CAPTURE(core::format_of(v_type).name);
      RandomProgram model = attention_model(seed, {8, 2, dim, dim, RopeStyle::split}, false);
      CHECK(worst_error(model, k_type, v_type) < kBound);
    }
}

TEST_CASE("CUDA: streams decode together over caches of codes") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  for (const Heads& h : {Heads{8, 4, 64, 32}, Heads{8, 2, 128, 128}, Heads{16, 2, 256, 64},
                         Heads{16, 2, 64, 64, RopeStyle::split, window(40), true}})
    for (const KvType type : kCodes) {
      if (!share.takes_next()) continue;
      CAPTURE(h.dim);
      CAPTURE(h.rotated);
      CAPTURE(core::format_of(type).name);
      RandomProgram model = attention_model(seed, h, false);
      tests::check_streams(model, 600, type, type, kBound);
    }
}

TEST_CASE("CUDA: rings over caches of codes give what whole caches give") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const KvType type : kCodes) {
    CAPTURE(core::format_of(type).name);
    RandomProgram model = attention_model(seed, {8, 2, 128, 128, RopeStyle::split, window(70)}, false);
    core::ExecutorConfig config = exact_config();
    config.context = 700;
    config.max_batch = config.max_outputs = 45;
    config.rewind_tokens = 6;
    config.k_type = config.v_type = type;
    const auto make = [](const core::Program& program, const core::ExecutorConfig& own) {
      return make_cuda_executor(program, own);
    };
    CHECK(tests::worst_error_of_rings(make, model, config) < kBound);
  }
}
