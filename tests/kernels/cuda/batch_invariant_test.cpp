// ExecutorConfig::batch_invariant: logits to the bit, whatever else is evaluated with a token.
#include "core/parallel/communicator.h"

#include "attention/attention_models.h"
#include "device.h"
#include "kernels/cuda/plan/expert_groups.h"
#include "support/executor_runs.h"

#include <cstring>
#include <functional>
#include <string>

using namespace ridge;
using core::KvType;
using core::OpKind;
using quant::Type;
using tests::RandomProgram;
using tests::Steps;
using tests::window;

namespace {

constexpr int32_t kStreams = 3;

// Logits of a text of stream 0 from token `first` on, in pieces; `crowded`: with tokens of the other streams around
// each.
std::vector<float> logits_in_pieces(core::Executor& executor, RandomProgram& model, const Steps& text, size_t first,
                                    const std::function<int64_t()>& next_size, bool crowded = false) {
  std::vector<float> all;
  int32_t pieces = 0;
  for (size_t at = first; at < text.tokens.size(); ++pieces) {
    Steps piece;
    const auto add = [&](int32_t token, int32_t position, int32_t stream) {
      piece.tokens.push_back(token);
      piece.positions.push_back(position);
      piece.streams.push_back(stream);
    };
    const auto add_others = [&](int32_t stream, int32_t count) {
      for (int32_t i = 0; crowded && i < count; ++i)
        add(static_cast<int32_t>(model.integer(0, model.program.vocab - 1)), count * pieces + i, stream);
    };
    add_others(1, 1);
    const size_t end = std::min(text.tokens.size(), at + static_cast<size_t>(next_size()));
    for (; at < end; ++at) {
      piece.outputs.push_back(static_cast<int32_t>(piece.tokens.size()));
      add(text.tokens[at], text.positions[at], 0);
    }
    add_others(2, 2);
    const std::vector<float> logits = tests::run(executor, piece);
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

// Rows of the end of `expected` that are not those of `got` to the bit.
int64_t different_rows(const std::vector<float>& got, const std::vector<float>& expected, int64_t columns) {
  REQUIRE(got.size() <= expected.size());
  const float* const from = expected.data() + (expected.size() - got.size());
  int64_t different = 0;
  for (size_t at = 0; at < got.size(); at += columns)
    different += std::memcmp(got.data() + at, from + at, columns * sizeof(float)) != 0;
  return different;
}

void check_bits(RandomProgram& model, int32_t tokens, KvType type = KvType::f16) {
  core::ExecutorConfig config = tests::fast_config();
  config.context = 2 * tokens + 8;
  config.max_batch = config.max_outputs = tokens + 3;
  config.streams = kStreams;
  config.k_type = config.v_type = type;
  config.batch_invariant = true;
  const auto executor = tests::make_executor(model.program, config);
  CHECK(kernels::cuda::allocated_memory(*executor).scratch ==
        kernels::cuda::plan_memory(model.program, config, kernels::cuda::limits_for_plans(), false).scratch);
  const Steps text = tests::consecutive(model, 0, tokens);
  const std::vector<float> alone = logits_in_pieces(*executor, model, text, 0, [] { return 1; });
  const int64_t columns = std::ssize(alone) / tokens;
  const auto check = [&](const std::string& how, size_t first, const std::function<int64_t()>& next_size,
                         bool crowded) {
    CAPTURE(how);
    CHECK(different_rows(logits_in_pieces(*executor, model, text, first, next_size, crowded), alone, columns) == 0);
  };
  const auto any = [&] { return model.integer(1, 32); };
  for (const int64_t size : {2, 3, 4, 5, 8, 16}) {
    CAPTURE(size);
    check(
        "in pieces", 0, [&] { return size; }, false);
  }
  check("in pieces of any size", 0, any, false);
  check(
      "each beside others", 0, [] { return 1; }, true);
  check("in pieces beside others", 0, any, true);
  check(
      "at once", 0, [&] { return int64_t{tokens}; }, false);
  if (model.program.states.empty()) check("after going back", static_cast<size_t>(tokens) - 20, any, false);
}

} // namespace

TEST_CASE("CUDA: batch-invariant logits are the same alone, among others and in prompts, in every format") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const quant::FormatInfo& format : tests::share_of(quant::formats())) {
    CAPTURE(format.name);
    RandomProgram model(seed);
    RandomProgram::Shape shape;
    shape.width = model.integer(0, 1) ? 1024 : 1280;
    shape.hidden = 256 * model.integer(1, 6);
    shape.head_norms = model.integer(0, 1) == 1;
    shape.bias = model.integer(0, 1) == 1;
    if (format.block_weights == 256) shape.value_type = Type::Q6_K;
    model.transformer(shape, format.type, format.type);
    check_bits(model, 70);
  }
}

TEST_CASE("CUDA: batch-invariant attention of any heads, windows and caches") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  for (const tests::Heads& heads : {tests::Heads{8, 1, 64, 64},
                                    {8, 2, 128, 128},
                                    {8, 4, 256, 64},
                                    {6, 1, 512, 512},
                                    {6, 2, 96, 96},
                                    {3, 1, 24, 24}})
    for (const core::AttentionParams& sees : {window(0), window(100), window(0, false, 2)})
      for (const KvType type : {KvType::f16, KvType::q8_0, KvType::q4_0}) {
        if ((type != KvType::f16 && heads.dim % core::kKvBlock > 0) || !share.takes_next()) continue;
        CAPTURE(heads.dim);
        CAPTURE(sees.window);
        CAPTURE(sees.soft_cap);
        CAPTURE(type);
        tests::Heads all = heads;
        all.sees = sees;
        all.sinks = seed % 2 == 1;
        RandomProgram model = tests::attention_model(seed, all, true);
        check_bits(model, 600, type);
      }
}

TEST_CASE("CUDA: batch-invariant latent attention") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  struct LatentHeads {
    int64_t heads, value_dim;
  };
  for (const LatentHeads& h : {LatentHeads{20, 512}, {70, 512}, {8, 256}, {4, 96}})
    for (const KvType type : {KvType::f16, KvType::q8_0}) {
      CAPTURE(h.heads);
      CAPTURE(type);
      RandomProgram model(seed);
      constexpr int64_t kRest = 64;
      model.program.kv_layers = {{1, h.value_dim + kRest, h.value_dim, true}};
      const core::ValueId x = model.embed(Type::F32, 32, 40);
      model.op(OpKind::latent_store, {model.linear(x, Type::F32, h.value_dim), model.linear(x, Type::F32, kRest)}, {},
               0, core::KvParams{0});
      const core::ValueId q = model.linear(x, Type::F32, h.heads * h.value_dim),
                          rest = model.linear(x, Type::F32, h.heads * kRest);
      model.finish(model.op(OpKind::latent_attention, {q, rest}, {}, h.heads * h.value_dim,
                            core::AttentionParams{0, h.heads, 0.1f}));
      check_bits(model, 300, type);
    }
}

TEST_CASE("CUDA: batch-invariant ops, recurrent ones in long prompts") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  tests::for_each_op(seed, [&](const std::string& name, RandomProgram& model) {
    const bool refused = kernels::cuda::chooses_experts(model.program) || name.starts_with("all_reduce");
    if (core::sees_ahead(model.program) || refused || !share.takes_next()) return;
    CAPTURE(name);
    check_bits(model, 28);
  });
  for (const int64_t dim : {64, 128}) {
    CAPTURE(dim);
    constexpr int64_t kHeads = 4;
    RandomProgram delta(seed), scan(seed);
    delta.program.states.push_back({"delta", kHeads * dim * dim});
    core::ValueId x = delta.embed(Type::F32, 16, 30);
    const core::ValueId qkv = delta.linear(x, Type::F32, 3 * kHeads * dim), alpha = delta.linear(x, Type::F32, kHeads),
                        beta = delta.linear(x, Type::F32, kHeads);
    const core::WeightId decay = delta.factors(kHeads, -2, -0.01), step = delta.factors(kHeads, -3, 1);
    delta.finish(delta.op(OpKind::delta_rule, {qkv, qkv, qkv, alpha, beta}, {decay, step}, kHeads * dim,
                          core::DeltaParams{0, kHeads, kHeads, dim, 1e-20f, true, 0, kHeads * dim, 2 * kHeads * dim}));
    check_bits(delta, 150);
    scan.program.states.push_back({"scan", kHeads * 64 * dim});
    x = scan.embed(Type::F32, 16, 30);
    const core::ValueId xbc = scan.linear(x, Type::F32, kHeads * 64 + 2 * dim), dt = scan.linear(x, Type::F32, kHeads);
    const core::WeightId a = scan.factors(kHeads, -2, -0.01), d = scan.factors(kHeads, -1, 1),
                         bias = scan.factors(kHeads, -3, 1);
    scan.finish(scan.op(OpKind::scan, {xbc, xbc, xbc, dt}, {a, d, bias}, kHeads * 64,
                        core::ScanParams{0, kHeads, 64, 1, dim, 0, kHeads * 64, kHeads * 64 + dim}));
    check_bits(scan, 150);
  }
}

TEST_CASE("CUDA: batch-invariant logits of experts and on several GPUs are refused with a reason") {
  REQUIRE_DEVICE();
  RandomProgram model(1);
  model.transformer({}, Type::F32, Type::F32);
  core::ExecutorConfig config = tests::fast_config();
  config.batch_invariant = true;
  const auto communicators = core::make_thread_communicators(2);
  config.communicator = communicators[0].get();
  CHECK_THROWS_WITH_AS(tests::make_executor(model.program, config), doctest::Contains("--gpus 0"), Error);
  config.communicator = nullptr;
  RandomProgram experts(1);
  experts.transformer({.experts = 8, .used = 3}, Type::F32, Type::F32);
  CHECK_THROWS_WITH_AS(tests::make_executor(experts.program, config), doctest::Contains("--device cpu"), Error);
}
