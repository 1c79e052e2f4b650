// Products against naive.h, at sizes around the tiles'.
#include "kernels/cuda/executor/executor.h"

#include "kernels/cuda/device.h"
#include "support/naive.h"
#include "support/numerics.h"
#include "support/random_program.h"

#include <cmath>
#include <set>

using namespace ridge;
using quant::Type;
using tests::GpuOptions;
using tests::make_cuda_executor;
using tests::Naive;
using tests::RandomProgram;

namespace {

core::ExecutorConfig config_for(int64_t tokens) {
  core::ExecutorConfig config;
  config.context = 1024;
  config.max_batch = config.max_outputs = tokens;
  return config;
}

// The way of chips before Hopper runs on every chip.
std::vector<std::pair<const char*, GpuOptions>> ways() {
  GpuOptions ampere, turing;
  ampere.as_compute = 80, turing.as_compute = 75;
  return {{"this chip's way", {}}, {"as sm_80", ampere}, {"as sm_75", turing}};
}

std::vector<std::pair<const char*, GpuOptions>> ways_and_two(RandomProgram& model) {
  constexpr const char* kWays[] = {"matvec", "tiles-8", "tiles-16", "tiles-32", "dots", "prompt"};
  std::vector<std::pair<const char*, GpuOptions>> all = ways();
  for (const char* way : {"wide", kWays[model.integer(0, std::ssize(kWays) - 1)]}) {
    GpuOptions forced;
    forced.way = way;
    all.emplace_back("a forced way", forced);
  }
  return all;
}

// Whether a prompt uses matvecs, which round activations differently.
bool has_matvecs(core::Executor& executor, const std::vector<int32_t>& tokens) {
  std::vector<int32_t> positions(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) positions[i] = static_cast<int32_t>(i);
  return executor.describe_plan({tokens, positions, {}, positions}).find(" matvec ") != std::string::npos;
}

std::vector<float> run(core::Executor& executor, const std::vector<int32_t>& tokens, int32_t position) {
  std::vector<int32_t> positions(tokens.size()), outputs(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    outputs[i] = static_cast<int32_t>(i);
    positions[i] = position + outputs[i];
  }
  executor.forward({tokens, positions, {}, outputs});
  std::vector<float> all;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::span<const float> row = executor.logits(static_cast<int64_t>(i));
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

std::vector<int32_t> some_tokens(RandomProgram& model, int64_t count) {
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(model.integer(0, model.program.vocab - 1));
  return tokens;
}

std::vector<float> naive(RandomProgram& model, const std::vector<int32_t>& tokens,
                         core::KvType cache = core::KvType::f16) {
  std::vector<int32_t> positions(tokens.size()), outputs(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) positions[i] = outputs[i] = static_cast<int32_t>(i);
  Naive reference(model.program, cache, cache);
  return reference.forward({tokens, positions, {}, outputs});
}

std::span<const float> row_of(const std::vector<float>& all, int64_t rows, int64_t i) {
  const int64_t width = std::ssize(all) / rows;
  return std::span(all).subspan(i * width, width);
}

std::set<int32_t> tokens_above(double bound, const std::vector<int32_t>& tokens, const std::vector<float>& logits,
                               const std::vector<float>& expected) {
  std::set<int32_t> found;
  for (int64_t i = 0; i < std::ssize(tokens); ++i) {
    const int64_t rows = std::ssize(tokens);
    if (!(tests::nmse(row_of(logits, rows, i), row_of(expected, rows, i)) < bound)) found.insert(tokens[i]);
  }
  return found;
}

// Except tokens with nearly equal scores, where rounding may choose differently.
void check_experts(RandomProgram& model, const RandomProgram::Shape& shape, Type type, int64_t count, double bound,
                   const std::vector<std::string>& ways) {
  const bool norm = model.integer(0, 1) != 0;
  CAPTURE(shape.experts);
  CAPTURE(shape.used);
  CAPTURE(shape.width);
  CAPTURE(shape.hidden);
  CAPTURE(shape.expert_bias);
  CAPTURE(norm);
  CAPTURE(count);
  const core::ValueId x = model.embed(Type::F32, shape.width, 50);
  model.finish(model.moe(norm ? model.norm(x, shape.width) : x, shape, type));
  const std::vector<int32_t> tokens = some_tokens(model, count);
  const std::vector<float> expected = naive(model, tokens);
  for (const std::string& way : ways) {
    CAPTURE(way);
    GpuOptions options;
    options.way = way;
    const auto executor = make_cuda_executor(model.program, config_for(count), options);
    const std::set<int32_t> others = tokens_above(bound, tokens, run(*executor, tokens, 0), expected);
    CHECK(others.size() <= (shape.used < shape.experts ? 1 + static_cast<size_t>(count) / 100 : 0));
  }
}

} // namespace

TEST_CASE("CUDA: products are right for any number of tokens, rows and columns, in every format") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const quant::FormatInfo& format : tests::share_of(quant::formats())) {
    CAPTURE(format.name);
    RandomProgram model(seed ^ static_cast<uint64_t>(format.type));
    const int64_t cols =
        format.block_weights * (format.block_weights == 256 ? model.integer(1, 9) : model.integer(1, 67));
    core::ValueId x = model.embed(Type::F32, cols, 40);
    x = model.linear(x, format.type, model.integer(1, 600), model.integer(0, 1) != 0);
    model.finish(x);
    CAPTURE(cols);
    // Around the tiles, and beyond for every fifth format.
    const bool more = static_cast<int>(format.type) % 5 == 0;
    for (const int64_t count : {int64_t{2}, model.integer(3, 40), model.integer(41, 96), model.integer(97, 192),
                                more ? model.integer(513, 640) : model.integer(193, 512)}) {
      CAPTURE(count);
      const std::vector<int32_t> tokens = some_tokens(model, count);
      const std::vector<float> expected = naive(model, tokens);
      for (const auto& [way, options] : ways_and_two(model)) {
        CAPTURE(std::string(way));
        CAPTURE(options.way);
        const auto executor = make_cuda_executor(model.program, config_for(640), options);
        const double bound = has_matvecs(*executor, tokens) ? tests::single_token_bound(format) : 1e-6;
        CHECK(tests::nmse(run(*executor, tokens, 0), expected) < bound);
      }
    }
  }
}

TEST_CASE("CUDA: gate and up hand down its input, however large or small its values are") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  for (const Type type : {Type::F16, Type::F32, Type::Q8_0, Type::Q4_K, Type::Q6_K, Type::IQ3_S, Type::MXFP4})
    for (const bool experts : {false, true}) {
      if (!share.takes_next()) continue;
      CAPTURE(type);
      CAPTURE(experts);
      RandomProgram model(seed ^ static_cast<uint64_t>(type));
      RandomProgram::Shape shape;
      shape.width = 256 * model.integer(1, 5);
      shape.hidden = 256 * model.integer(1, experts ? 5 : 64);
      shape.used = shape.experts = experts ? model.integer(1, 4) : 0;
      CAPTURE(shape.width);
      CAPTURE(shape.hidden);
      const core::ValueId x = model.embed(Type::F32, shape.width, 60);
      auto* rows = reinterpret_cast<float*>(model.storage.back().data());
      for (int64_t row = 0; row < 60; ++row) {
        const int64_t range = experts ? 6 : 14;
        const float scale = std::exp2(static_cast<float>(model.integer(-range, range)));
        for (int64_t i = 0; i < shape.width; ++i) rows[row * shape.width + i] *= scale;
      }
      core::ValueId y = experts ? model.moe(x, shape, type) : model.dense(x, shape, type);
      y = model.op(core::OpKind::add, {x, y}, {}, shape.width);
      model.finish(model.linear(model.norm(y, shape.width), type, 64));
      const auto executor = make_cuda_executor(model.program, config_for(96));
      for (const int64_t count : {model.integer(3, 8), model.integer(9, 32), model.integer(33, 96)}) {
        CAPTURE(count);
        const std::vector<int32_t> tokens = some_tokens(model, count);
        const std::vector<float> logits = run(*executor, tokens, 0), expected = naive(model, tokens);
        for (int64_t i = 0; i < count; ++i)
          CHECK(tests::nmse(row_of(logits, count, i), row_of(expected, count, i)) <
                3e-4); // 1.3e-4 in one of many seeds
      }
    }
}

TEST_CASE("CUDA: products of prompts hand one another what they make, however large or small it is") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  for (const Type type : {Type::F16, Type::BF16, Type::Q8_0, Type::Q4_K})
    for (const int form : {0, 1, 2}) {
      if (!share.takes_next()) continue;
      CAPTURE(type);
      CAPTURE(form);
      RandomProgram model(seed ^ static_cast<uint64_t>(type) << 8 ^ form);
      const int64_t unit = type == Type::Q4_K ? 256 : type == Type::Q8_0 ? 32 : 1;
      RandomProgram::Shape shape;
      shape.width = unit * model.integer(256 / unit, 1536 / unit);
      shape.hidden = unit * model.integer(256 / unit, 3000 / unit);
      CAPTURE(shape.width);
      CAPTURE(shape.hidden);
      const core::ValueId x = model.embed(Type::F32, shape.width, 60);
      auto* rows = reinterpret_cast<float*>(model.storage.back().data());
      for (int64_t row = 0; row < 60; ++row) {
        const float scale = std::exp2(static_cast<float>(model.integer(-14, form == 0 ? 14 : 30)));
        for (int64_t i = 0; i < shape.width; ++i) rows[row * shape.width + i] *= scale;
      }
      // Gate and up; a norm and an activated matrix; then a product.
      core::ValueId y = x;
      if (form == 0) {
        y = model.dense(x, shape, type);
      } else {
        const core::ValueId normed = model.layer_norm(x, form == 1);
        y = model.activate(model.linear(normed, type, shape.hidden, true), core::Activation::gelu);
        if (form == 2) y = model.activate(model.linear(y, type, shape.hidden, true), core::Activation::silu);
        y = model.linear(y, type, shape.width, true);
      }
      y = model.op(core::OpKind::add, {x, y}, {}, shape.width);
      model.finish(model.linear(model.norm(y, shape.width), type, 64));
      GpuOptions ampere;
      ampere.as_compute = 80;
      GpuOptions forced;
      forced.way = model.integer(0, 1) != 0 ? "prompt" : "wide";
      CAPTURE(forced.way);
      const auto executor = make_cuda_executor(model.program, config_for(2048), forced),
                 plain = make_cuda_executor(model.program, config_for(2048), ampere);
      for (const int64_t count : {model.integer(513, 1024), model.integer(1537, 2048)}) {
        CAPTURE(count);
        const std::vector<int32_t> tokens = some_tokens(model, count);
        const std::vector<float> logits = run(*executor, tokens, 0), floats = run(*plain, tokens, 0),
                                 expected = naive(model, tokens);
        for (int64_t i = 0; i < count; ++i) {
          CAPTURE(i);
          const auto error = [&](const std::vector<float>& of) {
            return tests::nmse(row_of(of, count, i), row_of(expected, count, i));
          };
          CHECK(error(logits) < std::max(1e-4, 4 * error(floats)));
        }
      }
    }
}

TEST_CASE("CUDA: GeForce cards multiply prompts as bytes, with norms, gates, biases and sums, in every format") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  GpuOptions geforce;
  geforce.as_compute = 89;
  geforce.way = "bytes";
  tests::Share share;
  for (const quant::FormatInfo& format : quant::formats()) {
    if (!format.packed || !share.takes_next()) continue;
    CAPTURE(format.name);
    RandomProgram model(seed ^ static_cast<uint64_t>(format.type));
    RandomProgram::Shape shape;
    const auto some = [&](int64_t most) {
      return format.block_weights * model.integer(1, most / format.block_weights);
    };
    shape.width = some(1536), shape.hidden = some(2560);
    CAPTURE(shape.width);
    CAPTURE(shape.hidden);
    const core::ValueId x = model.embed(Type::F32, shape.width, 40);
    const core::ValueId y =
        model.op(core::OpKind::add, {x, model.dense(model.norm(x, shape.width), shape, format.type)}, {}, shape.width);
    model.finish(model.linear(y, format.type, model.integer(1, 300), true));
    const int64_t count = model.integer(97, 400);
    CAPTURE(count);
    const std::vector<int32_t> tokens = some_tokens(model, count);
    const auto executor = make_cuda_executor(model.program, config_for(count), geforce);
    CHECK(tests::nmse(run(*executor, tokens, 0), naive(model, tokens)) < 5e-4);
  }
}

TEST_CASE("CUDA: a prompt at once, in pieces of any size and token by token give the same logits") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  for (const Type type : {Type::F16, Type::Q8_0, Type::Q4_K, Type::IQ4_XS})
    for (const bool bias : {false, true}) {
      if (!share.takes_next()) continue;
      CAPTURE(type);
      CAPTURE(bias);
      RandomProgram model(seed);
      RandomProgram::Shape shape;
      shape.bias = bias;
      shape.hidden = 768;
      model.transformer(shape, type, Type::Q6_K);
      const std::vector<int32_t> tokens = some_tokens(model, 310);
      std::vector<float> reference;
      // Random models amplify rounding, as f16 caches alone show.
      const double spread = tests::nmse(naive(model, tokens), naive(model, tokens, core::KvType::f32)),
                   bound = std::max(1e-4, 100 * spread);
      const auto executor = make_cuda_executor(model.program, config_for(310));
      for (int32_t i = 0; i < std::ssize(tokens); ++i) {
        const std::vector<float> logits = run(*executor, {tokens[i]}, i);
        reference.insert(reference.end(), logits.begin(), logits.end());
      }
      for (const auto& [way, options] : ways()) {
        CAPTURE(std::string(way));
        const auto other = make_cuda_executor(model.program, config_for(310), options);
        CHECK(tests::nmse(run(*other, tokens, 0), reference) < bound);
        std::vector<float> in_pieces;
        for (int64_t at = 0; at < std::ssize(tokens);) {
          const int64_t size = std::min(model.integer(1, 150), std::ssize(tokens) - at);
          const std::vector<int32_t> piece(tokens.begin() + at, tokens.begin() + at + size);
          const std::vector<float> logits = run(*other, piece, static_cast<int32_t>(at));
          in_pieces.insert(in_pieces.end(), logits.begin(), logits.end());
          at += size;
        }
        CHECK(tests::nmse(in_pieces, reference) < bound);
      }
    }
}

TEST_CASE("CUDA: in exact mode logits are the same to the bit, however many tokens a step evaluates") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  for (const Type type : {Type::F32, Type::F16, Type::BF16, Type::Q8_0, Type::Q4_K, Type::IQ4_XS})
    for (const int64_t experts : {0, 4}) {
      if (!share.takes_next()) continue;
      CAPTURE(type);
      CAPTURE(experts);
      RandomProgram model(seed);
      RandomProgram::Shape shape;
      shape.hidden = 256 * model.integer(1, 6);
      shape.experts = experts;
      shape.used = experts / 2;
      model.transformer(shape, type, type);
      core::ExecutorConfig config = config_for(150);
      config.exact = true;
      config.k_type = config.v_type = core::KvType::f32;
      const auto executor = make_cuda_executor(model.program, config);
      const std::vector<int32_t> tokens = some_tokens(model, 150);
      const auto in_pieces = [&](auto next_size) {
        std::vector<float> all;
        for (int64_t at = 0; at < std::ssize(tokens);) {
          const int64_t size = std::min<int64_t>(next_size(), std::ssize(tokens) - at);
          const std::vector<float> logits =
              run(*executor, {tokens.begin() + at, tokens.begin() + at + size}, static_cast<int32_t>(at));
          all.insert(all.end(), logits.begin(), logits.end());
          at += size;
        }
        return all;
      };
      const std::vector<float> reference = in_pieces([] { return 1; });
      for (const int64_t size : {2, 3, 16}) {
        CAPTURE(size);
        CHECK(in_pieces([&] { return size; }) == reference);
      }
      CHECK(in_pieces([&] { return model.integer(1, 32); }) == reference);
    }
}

TEST_CASE("CUDA: a shared expert beside the chosen ones is the same for one token and for many") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  for (const Type type : {Type::F16, Type::Q8_0, Type::Q4_K, Type::Q6_K, Type::IQ2_XS})
    for (const bool fuse : {true, false}) {
      if (!share.takes_next()) continue;
      CAPTURE(type);
      CAPTURE(fuse);
      RandomProgram model(seed);
      RandomProgram::Shape shape;
      shape.used = shape.experts = model.integer(1, 5);
      shape.width = 256 * model.integer(1, 9);
      shape.hidden = 256 * model.integer(1, 5);
      const core::ValueId x = model.norm(model.embed(Type::F32, shape.width, 50), shape.width);
      model.finish(
          model.op(core::OpKind::add, {model.moe(x, shape, type), model.dense(x, shape, type)}, {}, shape.width));
      for (auto [way, options] : ways()) {
        CAPTURE(std::string(way));
        options.fuse = fuse;
        const auto executor = make_cuda_executor(model.program, config_for(300), options);
        for (const int64_t count : {1, 2, 3, 6, 7, 9, 130}) {
          CAPTURE(count);
          const std::vector<int32_t> tokens = some_tokens(model, count);
          CHECK(tests::nmse(run(*executor, tokens, 0), naive(model, tokens)) < 2e-5);
        }
      }
    }
}

TEST_CASE("CUDA: a token's experts are added up with all that goes into their sum") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const quant::FormatInfo& format : tests::share_of(quant::formats())) {
    CAPTURE(format.name);
    const Type type = format.type;
    RandomProgram model(seed ^ static_cast<uint64_t>(type));
    const int64_t unit = std::max<int64_t>(format.block_weights, 32);
    RandomProgram::Shape shape;
    shape.used = shape.experts = model.integer(1, 9);
    shape.width = unit * model.integer(1, 1200 / unit);
    shape.hidden = unit * model.integer(1, 2400 / unit);
    shape.expert_bias = model.integer(0, 1) != 0;
    const bool shared = model.integer(0, 2) != 0, gated = model.integer(0, 1) != 0, residual = model.integer(0, 1) != 0;
    CAPTURE(shape.used);
    CAPTURE(shape.width);
    CAPTURE(shape.hidden);
    CAPTURE(shape.expert_bias);
    CAPTURE(shared);
    CAPTURE(gated);
    CAPTURE(residual);
    const core::ValueId x = model.embed(Type::F32, shape.width, 50), h = model.norm(x, shape.width);
    core::ValueId sum = model.moe(h, shape, type);
    if (shared) {
      shape.hidden = model.integer(0, 2) == 0 ? unit : shape.hidden;
      core::ValueId beside = model.dense(h, shape, type);
      if (gated)
        beside = model.op(core::OpKind::glu, {model.linear(h, Type::F32, 1), beside}, {}, shape.width,
                          core::ActivationParams{core::Activation::sigmoid});
      sum = model.op(core::OpKind::add, {sum, beside}, {}, shape.width, core::AddParams{0.5f});
    }
    if (residual) sum = model.op(core::OpKind::add, {x, sum}, {}, shape.width, core::AddParams{0.75f});
    model.finish(model.linear(sum, Type::Q8_0, 64));
    const auto executor = make_cuda_executor(model.program, config_for(64));
    for (const int64_t count : {1, 2, 3}) {
      CAPTURE(count);
      const std::vector<int32_t> tokens = some_tokens(model, count);
      CHECK(tests::nmse(run(*executor, tokens, 0), naive(model, tokens)) < 10 * tests::single_token_bound(format));
    }
  }
}

TEST_CASE("CUDA: experts see exactly the tokens that chose them, however many those are") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::Share share;
  for (const Type type : {Type::F32, Type::F16, Type::Q8_0, Type::Q4_K, Type::IQ3_S}) {
    if (!share.takes_next()) continue;
    CAPTURE(type);
    RandomProgram model(seed);
    RandomProgram::Shape shape;
    shape.experts = model.integer(2, 20);
    shape.used = model.integer(1, std::min<int64_t>(shape.experts, 5));
    shape.width = 256 * model.integer(1, 5);
    shape.hidden = 256 * model.integer(1, 3);
    model.finish(model.moe(model.embed(Type::F32, shape.width, 50), shape, type));
    CAPTURE(shape.experts);
    CAPTURE(shape.used);
    const auto executor = make_cuda_executor(model.program, config_for(300));
    for (const int64_t count : {int64_t{1}, model.integer(2, 20), model.integer(21, 300)}) {
      CAPTURE(count);
      const std::vector<int32_t> tokens = some_tokens(model, count);
      const std::vector<float> logits = run(*executor, tokens, 0), expected = naive(model, tokens);
      const std::set<int32_t> others = tokens_above(1e-5, tokens, logits, expected);
      CHECK(others.size() <= (shape.used < shape.experts ? 1 + static_cast<size_t>(count) / 100 : 0));
    }
  }
}

TEST_CASE("CUDA: experts that few tokens chose each give what they should, in every format, of any size") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const quant::FormatInfo& format : tests::share_of(quant::formats())) {
    CAPTURE(format.name);
    RandomProgram model(seed ^ static_cast<uint64_t>(format.type));
    const int64_t unit = std::max<int64_t>(format.block_weights, 32);
    RandomProgram::Shape shape;
    shape.experts = model.integer(4, 40);
    shape.used = model.integer(1, 4);
    shape.width = unit * model.integer(1, 2304 / unit);
    shape.hidden = unit * model.integer(1, 1024 / unit);
    shape.expert_bias = model.integer(0, 1) != 0;
    check_experts(model, shape, format.type, 2 * shape.experts / shape.used, 10 * tests::single_token_bound(format),
                  {"", "dots", "matvec"});
  }
}

TEST_CASE("CUDA: experts that many tokens chose each give what they should, in every format, of any size") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const quant::FormatInfo& format : tests::share_of(quant::formats())) {
    CAPTURE(format.name);
    RandomProgram model(seed ^ static_cast<uint64_t>(format.type));
    const int64_t unit = std::max<int64_t>(format.block_weights, 32);
    RandomProgram::Shape shape;
    shape.experts = model.integer(2, 6);
    shape.used = model.integer(1, 2);
    shape.width = unit * model.integer(1, 768 / unit);
    shape.hidden = unit * model.integer(1, 768 / unit);
    shape.expert_bias = model.integer(0, 1) != 0;
    check_experts(model, shape, format.type, model.integer(13, 130) * shape.experts / shape.used, 1e-5,
                  {"wide", model.integer(0, 1) != 0 ? "tiles-16" : "tiles-32"});
  }
}
