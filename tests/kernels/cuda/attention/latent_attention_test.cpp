// Latent attention against naive.h.
#include "kernels/cuda/executor/executor.h"

#include "core/host_device/kv_rotation.h"
#include "kernels/cuda/device.h"
#include "support/executor_runs.h"

using namespace ridge;
using core::KvType;
using core::OpKind;
using quant::Type;
using tests::consecutive;
using tests::make_cuda_executor;
using tests::RandomProgram;
using tests::run;
using tests::Steps;

namespace {

struct LatentHeads {
  int64_t heads, value_dim, rest; // value, and rest of a key
};

RandomProgram latent_model(uint64_t seed, const LatentHeads& h) {
  RandomProgram model(seed);
  model.program.kv_layers = {{1, h.value_dim + h.rest, h.value_dim, true}};
  const core::ValueId x = model.embed(Type::F32, 32, 40), c = model.linear(x, Type::F32, h.value_dim);
  model.op(OpKind::latent_store, {c, h.rest > 0 ? model.linear(x, Type::F32, h.rest) : c}, {}, 0, core::KvParams{0});
  const core::ValueId q = model.linear(x, Type::F32, h.heads * h.value_dim),
                      rest = h.rest > 0 ? model.linear(x, Type::F32, h.heads * h.rest) : q;
  model.finish(
      model.op(OpKind::latent_attention, {q, rest}, {}, h.heads * h.value_dim, core::AttentionParams{0, h.heads, 300}));
  return model;
}

struct ChosenPositions {
  int64_t most, span;
  bool tail;
};

RandomProgram chosen_model(uint64_t seed, const LatentHeads& h, const ChosenPositions& choice) {
  constexpr int64_t kIndexHeads = 11, kIndexDim = 64;
  RandomProgram model(seed);
  model.program.kv_layers = {{1, kIndexDim, 0, true, choice.span}, {1, h.value_dim + h.rest, h.value_dim, true}};
  const core::ValueId x = tests::embed_places(model, 32, 40, 1024);
  const core::ValueId chosen = tests::choose_positions(model, x, 0, kIndexHeads, choice.most, choice.tail);
  model.op(OpKind::latent_store, {model.linear(x, Type::F32, h.value_dim), model.linear(x, Type::F32, h.rest)}, {}, 0,
           core::KvParams{1});
  const core::ValueId q = model.linear(x, Type::F32, h.heads * h.value_dim),
                      rest = model.linear(x, Type::F32, h.heads * h.rest);
  model.finish(model.op(OpKind::chosen_attention, {q, rest, chosen}, {}, h.heads * h.value_dim,
                        core::AttentionParams{1, h.heads, 0.05f}));
  return model;
}

// Over a window and another cache's entries, all or chosen ones.
RandomProgram mixed_model(uint64_t seed, int64_t heads, int64_t dim, int64_t window, const ChosenPositions& choice) {
  constexpr int64_t kIndexHeads = 5, kIndexDim = 32;
  const int64_t span = choice.span;
  RandomProgram model(seed);
  model.program.kv_layers = {{1, dim, dim, true}, {1, dim, 0, true, span}, {1, kIndexDim, 0, true, span}};
  const core::ValueId x = tests::embed_places(model, 32, 40, 1024), kv = model.linear(x, Type::F32, dim);
  model.op(OpKind::latent_store, {kv, kv}, {}, 0, core::KvParams{0});
  model.op(OpKind::index_store, {model.linear(x, Type::F32, dim)}, {}, 0, core::KvParams{1});
  const core::ValueId q = model.linear(x, Type::F32, heads * dim);
  core::ValueId chosen = q;
  if (choice.most > 0)
    chosen = tests::choose_positions(model, x, 2, kIndexHeads, choice.most);
  else
    model.program.kv_layers.pop_back();
  std::vector<core::WeightId> sinks;
  if (model.integer(0, 1) == 1) sinks.push_back(model.factors(heads, -2, 2));
  model.finish(model.op(OpKind::mixed_attention, {q, chosen}, sinks, heads * dim,
                        core::MixedParams{0, 1, heads, 0.05f, window}));
  return model;
}

core::ExecutorConfig config_of(KvType type) {
  core::ExecutorConfig config = tests::exact_config();
  config.context = config.max_batch = config.max_outputs = 600;
  config.k_type = config.v_type = type;
  return config;
}

} // namespace

TEST_CASE("CUDA: latent attention of prompts and decoding, for any number of heads") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  using enum KvType;
  tests::Share share;
  for (const LatentHeads& h :
       {LatentHeads{1, 512, 64}, LatentHeads{4, 512, 64}, LatentHeads{16, 512, 64}, LatentHeads{20, 512, 64},
        LatentHeads{33, 512, 32}, LatentHeads{24, 512, 0}, LatentHeads{70, 512, 64}, LatentHeads{3, 256, 64},
        LatentHeads{16, 256, 32}, LatentHeads{40, 256, 64}, LatentHeads{4, 96, 32}, LatentHeads{20, 512, 16}})
    for (const KvType type : {f16, q8_0, f32, q4_0, q5_1}) {
      if ((core::has_blocks(type) && h.rest % core::kKvBlock != 0) || !share.takes_next()) continue;
      CAPTURE(h.heads);
      CAPTURE(h.value_dim);
      CAPTURE(h.rest);
      CAPTURE(type);
      RandomProgram model = latent_model(seed, h);
      const auto make = [](const core::Program& program, const core::ExecutorConfig& config) {
        return make_cuda_executor(program, config);
      };
      const std::vector<int32_t> sizes =
          h.heads > 30 ? std::vector<int32_t>{70, 1, 9, 90, 1} : std::vector<int32_t>{150, 1, 1, 2, 13, 200, 1, 70, 1};
      CHECK(tests::worst_error(make, model, config_of(type), sizes) < (core::format_of(type).rotated ? 1e-3
                                                                       : type == f16                 ? 1e-6
                                                                                                     : 3e-5));
    }
}

// Few tokens choose among many: where two scores are as near as rounding, f32 may choose another position than naive.h.
TEST_CASE("CUDA: latent attention to chosen positions, all of them, some, and none") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  for (const LatentHeads& h : {LatentHeads{70, 512, 64}, LatentHeads{20, 512, 64}, LatentHeads{128, 256, 32},
                               LatentHeads{3, 256, 64}, LatentHeads{40, 512, 64}, LatentHeads{5, 96, 32}})
    for (const ChosenPositions& choice : {ChosenPositions{600, 1, false}, ChosenPositions{100, 1, false},
                                          ChosenPositions{96, 4, false}, ChosenPositions{99, 4, true}})
      for (const KvType type : {KvType::f16, KvType::q8_0}) {
        if (!share.takes_next()) continue;
        CAPTURE(h.heads);
        CAPTURE(h.value_dim);
        CAPTURE(choice.most);
        CAPTURE(choice.span);
        CAPTURE(type);
        RandomProgram model = chosen_model(seed, h, choice);
        const auto make = [](const core::Program& program, const core::ExecutorConfig& config) {
          return make_cuda_executor(program, config);
        };
        if (h.value_dim >= 256)
          CHECK(make(model.program, config_of(type))->describe_plan(consecutive(model, 0, 1).batch()).find("plain") ==
                std::string::npos);
        const bool all = choice.most >= 600;
        CHECK(tests::worst_error(make, model, config_of(type),
                                 all ? std::vector<int32_t>{1, 2, 90, 1, 13, 200, 1, 70, 1}
                                     : std::vector<int32_t>{1, 2, 1, 60, 1, 40, 3, 1}) <
              (type == KvType::f16 ? 1e-6 : 3e-5));
      }
}

TEST_CASE("CUDA: latent attention to a window and to entries, all of them and chosen ones") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  for (const auto& [heads, dim] : {std::pair<int64_t, int64_t>{64, 512}, {3, 512}, {20, 256}})
    for (const int64_t window : {7, 40, 128})
      for (const ChosenPositions& choice : {ChosenPositions{0, 4, false}, ChosenPositions{0, 37, false},
                                            ChosenPositions{96, 4, false}, ChosenPositions{600, 4, false}})
        for (const KvType type : {KvType::f16, KvType::q8_0}) {
          if (!share.takes_next()) continue;
          CAPTURE(heads);
          CAPTURE(dim);
          CAPTURE(window);
          CAPTURE(choice.most);
          CAPTURE(choice.span);
          CAPTURE(type);
          RandomProgram model = mixed_model(seed, heads, dim, window, choice);
          const auto make = [](const core::Program& program, const core::ExecutorConfig& config) {
            return make_cuda_executor(program, config);
          };
          CHECK(make(model.program, config_of(type))->describe_plan(consecutive(model, 0, 1).batch()).find("plain") ==
                std::string::npos);
          CHECK(tests::worst_error(make, model, config_of(type),
                                   choice.most == 96 ? std::vector<int32_t>{1, 2, 1, 60, 1, 40, 3, 1}
                                                     : std::vector<int32_t>{1, 2, 90, 1, 13, 200, 1, 70, 1}) <
                (type == KvType::f16 ? 1e-6 : 3e-5));
        }
}

// With few and many blocks per tile, which follow the context, and lengths on both sides of those that share rows.
TEST_CASE("CUDA: latent attention whose blocks share the rows of few keys") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  const auto make = [](const core::Program& program, const core::ExecutorConfig& config) {
    return make_cuda_executor(program, config);
  };
  tests::Share share;
  for (const LatentHeads& h :
       {LatentHeads{1, 512, 64}, LatentHeads{2, 512, 64}, LatentHeads{7, 256, 64}, LatentHeads{20, 512, 64},
        LatentHeads{37, 256, 32}, LatentHeads{64, 512, 64}, LatentHeads{128, 256, 64}})
    for (const int64_t context : {300, 4000})
      for (const KvType type : {KvType::f16, KvType::q8_0}) {
        if (!share.takes_next()) continue;
        CAPTURE(h.heads);
        CAPTURE(context);
        CAPTURE(type);
        RandomProgram model = latent_model(seed, h);
        core::ExecutorConfig config = config_of(type);
        config.context = config.max_batch = config.max_outputs = context;
        const std::vector<int32_t> sizes = h.heads > 30
                                               ? std::vector<int32_t>{1, 1, 5, 57, 1, 3, 64, 1, 4, 1}
                                               : std::vector<int32_t>{1, 1, 2, 5, 54, 1, 1, 3, 120, 1, 4, 67, 1, 2};
        CHECK(tests::worst_error(make, model, config, sizes) < (type == KvType::f16 ? 1e-6 : 3e-5));
      }
}

TEST_CASE("CUDA: latent attention of streams that decode together, and of a stream that went back") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const LatentHeads& h : {LatentHeads{16, 512, 64}, LatentHeads{24, 256, 64}}) {
    CAPTURE(h.heads);
    RandomProgram model = latent_model(seed, h);
    core::ExecutorConfig config = config_of(KvType::f16);
    config.streams = 3;
    const auto executor = make_cuda_executor(model.program, config);
    tests::Naive naive(model.program, KvType::f16, KvType::f16);
    std::vector<int32_t> next = {3, 140, 300};
    for (int32_t stream = 0; stream < 3; ++stream) {
      const Steps prefix = consecutive(model, 0, next[stream], stream);
      run(*executor, prefix);
      naive.forward(prefix.batch());
    }
    for (int round = 0; round < 4; ++round) {
      Steps steps;
      for (const int32_t stream : {2, 0, 1}) {
        steps.tokens.push_back(static_cast<int32_t>(model.integer(0, model.program.vocab - 1)));
        steps.streams.push_back(stream);
        steps.positions.push_back(next[stream]++);
        steps.outputs.push_back(static_cast<int32_t>(steps.outputs.size()));
      }
      CHECK(tests::nmse(run(*executor, steps), naive.forward(steps.batch())) < 1e-6);
      if (round == 1) next[2] = 130;
    }
  }
}
