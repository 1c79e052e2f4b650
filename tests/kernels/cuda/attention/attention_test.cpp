// GPU attention against naive.h, for widths with and without kernels.
#include "core/rings.h"
#include "kernels/cuda/executor/executor.h"

#include "attention_models.h"
#include "kernels/cuda/decoding_checks.h"
#include "kernels/cuda/device.h"
#include "support/executor_runs.h"

#include <algorithm>
#include <tuple>

using namespace ridge;
using core::KvType;
using core::RopeStyle;
using tests::attention_model;
using tests::consecutive;
using tests::exact_config;
using tests::GpuOptions;
using tests::Heads;
using tests::make_cuda_executor;
using tests::RandomProgram;
using tests::run;
using tests::Steps;
using tests::window;

namespace {

double worst_error(RandomProgram& model, const core::ExecutorConfig& config, const std::vector<int32_t>& sizes,
                   const GpuOptions& options = {}) {
  return tests::worst_error([&](const core::Program& program,
                                const core::ExecutorConfig& c) { return make_cuda_executor(program, c, options); },
                            model, config, sizes);
}

bool has_codes(int64_t dim, KvType k, KvType v) {
  return dim % core::kKvBlock == 0 || (k != KvType::q8_0 && v != KvType::q8_0);
}

} // namespace

TEST_CASE("CUDA: streams decode together with rope of a part of a head, fused and unfused, for any head width") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  using enum KvType;
  using enum RopeStyle;
  tests::Share share;
  for (const Heads& h : {Heads{16, 2, 256, 64},
                         Heads{24, 4, 256, 256},
                         Heads{16, 1, 256, 128, adjacent},
                         Heads{3, 3, 256, 64, adjacent},
                         Heads{10, 2, 256, 36},
                         Heads{10, 2, 256, 192},
                         Heads{8, 2, 128, 64},
                         Heads{8, 4, 64, 32},
                         Heads{8, 2, 80, 32},
                         Heads{6, 2, 96, 96},
                         Heads{4, 4, 112, 112},
                         Heads{12, 1, 192, 64},
                         Heads{6, 3, 32, 32},
                         Heads{16, 2, 64, 64, split, window(40), true},
                         Heads{16, 2, 64, 64, split, {}, true},
                         Heads{8, 4, 128, 128, split, window(300)},
                         Heads{8, 4, 128, 128, adjacent, window(64, true), true},
                         Heads{8, 4, 256, 256, split, window(100)},
                         Heads{4, 2, 256, 256, split, window(37, false, 3)},
                         Heads{4, 2, 128, 128, split, window(0, false, 2), true},
                         Heads{6, 2, 96, 96, split, window(50), true},
                         Heads{8, 1, 512, 128},
                         Heads{6, 2, 512, 512, split, window(300, false, 4), true}})
    for (const auto& [k_type, v_type] : {std::pair(f16, f16), {q8_0, q8_0}, {q8_0, f16}, {f16, q8_0}}) {
      if (!has_codes(h.dim, k_type, v_type) || !share.takes_next()) continue;
      CAPTURE(h.heads);
      CAPTURE(h.kv_heads);
      CAPTURE(h.dim);
      CAPTURE(h.rotated);
      CAPTURE(h.style);
      CAPTURE(k_type);
      CAPTURE(v_type);
      RandomProgram model = attention_model(seed, h, (seed + h.heads) % 2 == 0);
      tests::check_streams(model, 380, k_type, v_type, k_type == f16 && v_type == f16 ? 1e-6 : 3e-5);
    }
}

TEST_CASE("CUDA: a few tokens of a stream attend to each other before their keys are stored, and leave them behind") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  using enum RopeStyle;
  tests::Share share;
  for (const Heads& h : {Heads{2, 2, 64, 64},
                         Heads{8, 4, 64, 32, adjacent},
                         Heads{8, 2, 64, 64},
                         Heads{8, 1, 64, 64, adjacent},
                         Heads{16, 1, 64, 64},
                         Heads{2, 2, 128, 128},
                         Heads{4, 2, 128, 128},
                         Heads{8, 2, 128, 128},
                         Heads{12, 4, 128, 128, adjacent},
                         Heads{16, 2, 128, 128},
                         Heads{10, 1, 128, 128},
                         Heads{16, 1, 128, 64, adjacent},
                         Heads{36, 4, 128, 128},
                         Heads{3, 3, 256, 64, adjacent},
                         Heads{4, 2, 256, 256},
                         Heads{8, 2, 256, 64},
                         Heads{8, 1, 256, 192},
                         Heads{16, 1, 256, 256},
                         Heads{18, 2, 256, 256},
                         Heads{8, 2, 64, 64, split, window(1)},
                         Heads{8, 2, 128, 128, split, window(5), true},
                         Heads{16, 2, 64, 64, split, window(40), true},
                         Heads{8, 4, 128, 128, split, window(300)},
                         Heads{8, 4, 128, 128, adjacent, window(64, true), true},
                         Heads{4, 2, 256, 256, split, window(100)},
                         Heads{8, 2, 128, 128, split, {}, true}})
    for (const int chip : {0, (seed + h.heads) % 2 ? 89 : 75}) { // other chips may have room for one round of keys only
      if (!share.takes_next()) continue;
      CAPTURE(h.heads);
      CAPTURE(h.kv_heads);
      CAPTURE(h.dim);
      CAPTURE(h.rotated);
      CAPTURE(h.style);
      CAPTURE(h.sees.window);
      CAPTURE(chip);
      const bool norms = (seed + h.heads + chip) % 2 == 0, exact = (seed + h.dim / 64 + chip) % 2 == 0;
      CAPTURE(norms);
      CAPTURE(exact);
      RandomProgram model = attention_model(seed, h, norms);
      core::ExecutorConfig config = exact_config();
      config.context = 700;
      config.max_batch = config.max_outputs = 160;
      config.rewind_tokens = 16;
      config.streams = 2;
      config.k_type = config.v_type = KvType::f16;
      config.exact = exact;
      const double bound = exact ? 1e-6 : 3e-5;
      GpuOptions options, unfused;
      if (chip) options.as_compute = unfused.as_compute = chip;
      unfused.fuse = false;
      const auto fused = make_cuda_executor(model.program, config, options),
                 plain = make_cuda_executor(model.program, config, unfused);
      tests::Naive naive(model.program, config.k_type, config.v_type);
      int32_t at[2] = {};
      const auto check = [&](int32_t stream, int32_t tokens) {
        CAPTURE(stream);
        CAPTURE(at[stream]);
        CAPTURE(tokens);
        const Steps steps = consecutive(model, at[stream], tokens, stream);
        at[stream] += tokens;
        const std::vector<float> result = run(*fused, steps);
        CHECK(tests::nmse(result, run(*plain, steps)) < bound);
        CHECK(tests::nmse(result, naive.forward(steps.batch())) < bound);
        const bool has_room = chip == 0 || h.dim < 256;
        if (tokens <= 16 && has_room)
          CHECK(fused->describe_plan(steps.batch()).find("rope_attention") != std::string::npos);
      };
      const auto any = [&](int64_t least, int64_t most) { return static_cast<int32_t>(model.integer(least, most)); };
      check(0, any(2, 16));
      check(1, any(2, 16));
      // Batches across the ends of key rounds and of block splits.
      for (const int32_t border : {32, 128, 256, 384, 512, 640}) {
        while (at[1] < border - 16) check(1, std::min(border - any(1, 15) - at[1], 160));
        const int32_t tokens = any(2, 16);
        check(1, tokens);
        at[1] -= any(0, tokens - 1);
        check(1, 1);
        check(1, any(2, 3));
        check(1, 16);
      }
      check(0, any(2, 16));
      check(0, 1);
    }
}

TEST_CASE("CUDA: wide heads over more keys than eight blocks take are merged in groups, twice the same") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  for (const Heads& h : {Heads{1, 1, 256, 64}, Heads{8, 1, 256, 64}, Heads{14, 1, 256, 64}, Heads{2, 1, 192, 192}})
    for (const KvType type : {KvType::f16, KvType::q8_0}) {
      if (!share.takes_next()) continue;
      CAPTURE(h.heads);
      CAPTURE(h.dim);
      CAPTURE(type);
      RandomProgram model = attention_model(seed, h);
      const int32_t most = h.heads > 2 ? 1100 : 2400;
      core::ExecutorConfig config = exact_config();
      config.context = most + 10;
      config.max_batch = config.max_outputs = most / 2;
      config.k_type = config.v_type = type;
      // Two tokens per tile: the first does not see the last group's keys.
      CHECK(worst_error(model, config, {most / 2, 1, 1, most / 2 - 82, 1, 2, 13, 1}) < 3e-5);
      CHECK(tests::gives_the_same_twice(model, config, most / 2));
    }
}

TEST_CASE("CUDA: prompts go on in the middle of a cache, for any head width") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  for (const Heads& h :
       {Heads{16, 2, 256, 64}, Heads{6, 1, 256, 256}, Heads{3, 3, 256, 64, RopeStyle::adjacent}, Heads{20, 1, 256, 64},
        Heads{8, 2, 128, 64}, Heads{4, 2, 64, 32}, Heads{5, 1, 80, 80}, Heads{6, 2, 96, 48}, Heads{4, 2, 192, 64},
        Heads{32, 1, 512, 512}, Heads{20, 1, 512, 64}, Heads{16, 1, 512, 128}, Heads{36, 3, 512, 256}})
    for (const auto& [type, chip] : {std::pair(KvType::f16, 0), {KvType::q8_0, 0}, {KvType::f16, 89}}) {
      if (!has_codes(h.dim, type, type) || !share.takes_next()) continue;
      CAPTURE(chip);
      CAPTURE(h.heads);
      CAPTURE(h.kv_heads);
      CAPTURE(h.dim);
      CAPTURE(h.rotated);
      CAPTURE(h.style);
      CAPTURE(type);
      RandomProgram model = attention_model(seed, h, seed % 2 == 0);
      core::ExecutorConfig config = exact_config();
      config.context = 700;
      config.max_batch = config.max_outputs = 300;
      config.k_type = config.v_type = type;
      config.exact = false;
      GpuOptions options;
      options.as_compute = chip;
      CHECK(worst_error(model, config, {150, 1, 3, 70, 1, 90, 300, 64}, options) < 3e-5);
    }
}

TEST_CASE("CUDA: wide heads with room for one round of keys, and with none") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  for (const int chip : {89, 75})
    for (const KvType type : {KvType::f16, KvType::q8_0}) {
      if (!share.takes_next()) continue;
      CAPTURE(chip);
      CAPTURE(type);
      RandomProgram model = attention_model(seed, {40, 40, 256, 64});
      core::ExecutorConfig config = exact_config();
      config.context = 420;
      config.max_batch = config.max_outputs = 260;
      config.k_type = config.v_type = type;
      GpuOptions options;
      options.as_compute = chip;
      CHECK(worst_error(model, config, {127, 1, 1, 1, 254, 1, 1}, options) < 3e-5);
    }
}

TEST_CASE("CUDA: windows, sinks and soft caps, in prompts that begin before the window and token by token") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  using enum RopeStyle;
  tests::Share share;
  GpuOptions options;
  for (const auto& [heads, kv_heads, dim] :
       {std::tuple(8, 1, 64), {6, 3, 64}, {8, 2, 128}, {8, 4, 256}, {6, 2, 96}, {8, 1, 512}, {40, 2, 128}, {3, 1, 24}})
    for (const core::AttentionParams& sees :
         {window(0), window(1), window(40), window(128), window(300), window(64, true), window(200, true),
          window(0, false, 2), window(100, false, 1)})
      for (const bool sinks : {false, true})
        for (const KvType type : {KvType::f16, KvType::q8_0, KvType::f32}) {
          if ((sees.window == 0 && sees.soft_cap == 0 && !sinks && dim != 512) || !has_codes(dim, type, type) ||
              !share.takes_next())
            continue;
          CAPTURE(heads);
          CAPTURE(dim);
          CAPTURE(sees.window);
          CAPTURE(sees.chunked);
          CAPTURE(sees.soft_cap);
          options.as_compute = options.as_compute ? 0 : 89;
          CAPTURE(options.as_compute);
          CAPTURE(sinks);
          CAPTURE(type);
          RandomProgram model = attention_model(seed, {heads, kv_heads, dim, dim, split, sees, sinks}, seed % 2 == 0);
          core::ExecutorConfig config = exact_config();
          config.context = 700;
          config.max_batch = config.max_outputs = 300;
          config.k_type = config.v_type = type;
          config.exact = type == KvType::f32;
          // Cache codes may round differently; tokens at a chunk's start see few others.
          const double bound = type == KvType::q8_0 ? 1e-4 : 3e-5;
          CHECK(worst_error(model, config, {150, 1, 3, 70, 1, 90, 300, 1, 64, 2}, options) < bound);
        }
}

TEST_CASE("CUDA: caches that hold only a window give what whole ones give, in laps of any length") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  using enum RopeStyle;
  tests::Share share;
  const KvType types[] = {KvType::f16, KvType::q8_0, KvType::f32, KvType::f16, KvType::q8_0};
  size_t next = seed % std::size(types);
  bool fuse = seed % 2;
  for (const auto& [heads, kv_heads, dim] :
       {std::tuple(8, 1, 64), {8, 2, 128}, {8, 4, 256}, {6, 2, 96}, {6, 1, 512}, {20, 1, 128}, {3, 1, 24}})
    for (const core::AttentionParams& sees :
         {window(1), window(5), window(70), window(300), window(40, true), window(100, false, 1)}) {
      const KvType type = types[next++ % std::size(types)];
      fuse = !fuse;
      if (!has_codes(dim, type, type) || !share.takes_next()) continue;
      CAPTURE(heads);
      CAPTURE(dim);
      CAPTURE(sees.window);
      CAPTURE(sees.chunked);
      CAPTURE(type);
      CAPTURE(fuse);
      RandomProgram model = attention_model(seed, {heads, kv_heads, dim, dim, split, sees, sees.chunked});
      core::ExecutorConfig config = exact_config();
      config.context = 1500;
      config.max_batch = config.max_outputs = 150;
      config.rewind_tokens = 6;
      config.k_type = config.v_type = type;
      config.exact = type == KvType::f32;
      const int64_t rows = core::cache_rows(model.program, config)[0].rows;
      CHECK(rows < 500);
      config.context = 2 * rows + config.max_batch;
      GpuOptions options;
      options.fuse = fuse;
      const auto make = [&](const core::Program& program, const core::ExecutorConfig& c) {
        return make_cuda_executor(program, c, options);
      };
      REQUIRE(core::cache_rows(model.program, config)[0].rows == rows);
      CHECK(tests::worst_error_of_rings(make, model, config) < (type == KvType::q8_0 ? 1e-4 : 3e-5));
    }
}

TEST_CASE("CUDA: heads of 512 over more keys than eight blocks take, and a chip without room for them") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const int chip : {0, 86})
    for (const Heads& h : {Heads{1, 1, 512, 64}, Heads{16, 1, 512, 512}}) {
      CAPTURE(chip);
      CAPTURE(h.heads);
      RandomProgram model = attention_model(seed, h);
      core::ExecutorConfig config = exact_config();
      config.context = 1300;
      config.max_batch = config.max_outputs = 600;
      config.k_type = config.v_type = KvType::f16;
      GpuOptions options;
      if (chip) options.as_compute = chip;
      CHECK(worst_error(model, config, {600, 1, 1, 580, 1, 2, 13, 1}, options) < 3e-5);
    }
}
