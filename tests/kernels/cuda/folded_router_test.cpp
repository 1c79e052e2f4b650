// Routers folded into projections, against naive.h.
#include "device.h"
#include "support/executor_runs.h"

#include <algorithm>
#include <numeric>

using namespace ridge;
using core::OpKind;
using core::ValueId;
using quant::Type;
using tests::consecutive;
using tests::fast_config;
using tests::make_executor;
using tests::RandomProgram;
using tests::Steps;

namespace {

constexpr double kFastTransformer = 1e-4; // NMSE of 16-bit activations and f16 tiles

void check_folds(core::Executor& executor, RandomProgram& model, int32_t tokens) {
  const std::string plan = executor.describe_plan(consecutive(model, 0, tokens).batch());
  CAPTURE(plan);
  CHECK(plan.find("matvec_router") != std::string::npos);
  if (tokens == 1) CHECK(plan.find("sort_experts") == std::string::npos);
}

std::unique_ptr<core::Executor> unfused_executor(const core::Program& program, const core::ExecutorConfig& config) {
  tests::GpuOptions options;
  options.fuse = false;
  return tests::make_cuda_executor(program, config, options);
}

std::unique_ptr<core::Executor> experts_on_host(const core::Program& program, const core::ExecutorConfig& config) {
  tests::GpuOptions options;
  options.experts_on_host = true;
  options.most_copies = 6;
  return tests::make_cuda_executor(program, config, options);
}

struct Choice {
  core::Gate gate;
  bool router_bias = false, selection_bias = false, share_scales = false, by_score = false;

  void set(RandomProgram::Shape& shape) const {
    shape.route = core::RouteParams{0, 0, true, gate};
    shape.route->by_score = by_score;
    shape.router_bias = router_bias;
    shape.selection_bias = selection_bias;
    shape.share_scales = share_scales;
  }
};

// Router rows are multiples of one random row, biases of 0.3: input errors scale all scores alike, so rounding changes
// no choice unless all are near 0.
void space_scores(RandomProgram& model) {
  for (const core::Op& route : model.program.ops) {
    if (route.kind != OpKind::route) continue;
    for (const core::Op& router : model.program.ops) {
      if (std::ranges::count(router.outputs, route.inputs[0]) == 0) continue;
      const core::Weight& w = model.program.weights[router.weights[0]];
      const auto overwrite = [&](core::WeightId weight, const std::vector<float>& values) {
        const std::byte* const to = model.program.weights[weight].data;
        const auto at = std::ranges::find_if(model.storage, [&](const auto& data) { return data.data() == to; });
        REQUIRE(at != model.storage.end());
        REQUIRE(at->size() == values.size() * sizeof(float));
        std::memcpy(at->data(), values.data(), at->size());
      };
      std::vector<float> row(w.cols), rows, biases;
      std::normal_distribution<float> number(0, 1 / std::sqrt(static_cast<float>(w.cols)));
      for (float& x : row) x = number(model.random);
      std::vector<int64_t> places(w.rows);
      std::iota(places.begin(), places.end(), 0);
      std::ranges::shuffle(places, model.random);
      for (const int64_t place : places) {
        const float multiple = 4 * static_cast<float>(place) / static_cast<float>(w.rows - 1) - 2;
        for (const float x : row) rows.push_back(multiple * x);
        biases.push_back(0.3f * multiple);
      }
      overwrite(router.weights[0], rows);
      if (router.weights.size() > 1) overwrite(router.weights[1], biases);
    }
  }
}

double smallest_scores(tests::Naive& naive, const core::Program& program) {
  double smallest = INFINITY;
  for (const core::Op& op : program.ops)
    if (op.kind == OpKind::route)
      for (const tests::Naive::Row& row : naive.value(op.inputs[0]))
        smallest =
            std::min(smallest, std::abs(*std::ranges::max_element(row, {}, [](double x) { return std::abs(x); })));
  return smallest;
}

// Against naive.h, until scores are near 0. Returns the two-token steps compared.
int check_choices(const tests::MakeExecutor& make, RandomProgram& model) {
  core::ExecutorConfig config = fast_config();
  config.streams = 2;
  const auto executor = make(model.program, config);
  tests::Naive naive(model.program, config.k_type, config.v_type);
  int of_two = 0, position = 0;
  for (const int tokens : {1, 2, 2, 1, 2}) {
    Steps steps = consecutive(model, position, tokens);
    position += tokens;
    if (tokens == 2 && position == 5) steps.streams[1] = 1, steps.positions[1] = 0, --position;
    const std::vector<float> expected = naive.forward(steps.batch());
    if (smallest_scores(naive, model.program) < 0.05) break;
    CHECK(tests::nmse(tests::run(*executor, steps), expected) < kFastTransformer);
    of_two += tokens == 2;
  }
  return of_two;
}

void gated_layers(RandomProgram& model, const RandomProgram::Shape& shape, Type type, bool norm_behind) {
  ValueId x = model.embed(type, shape.width, shape.vocab);
  for (model.layer = 0; model.layer < shape.layers; ++model.layer) {
    const ValueId h = model.norm(x, shape.width);
    const ValueId gate = model.linear(h, type, 1024), y = model.norm(model.linear(h, type, 1024), 64);
    const ValueId gated = model.op(OpKind::glu, {gate, y}, {}, 1024, core::ActivationParams{core::Activation::silu});
    x = model.op(OpKind::add, {x, model.linear(gated, type, shape.width)}, {}, shape.width);
    ValueId experts = model.moe(model.norm(x, shape.width), shape, type);
    if (norm_behind) experts = model.norm(experts, shape.width);
    x = model.op(OpKind::add, {x, experts}, {}, shape.width);
  }
  model.layer = -1;
  model.finish(x, Type::Q8_0);
}

} // namespace

TEST_CASE("CUDA: a router that is folded into the projection in front of it chooses, weights and gates as by itself") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  int models = 0, other_choices = 0;
  for (const Type type : {Type::Q8_0, Type::Q4_K, Type::Q6_K, Type::MXFP4, Type::IQ4_XS})
    for (const auto& [experts, used] : {std::pair(5, 5), {150, 150}, {8, 2}})
      for (const Choice choice : {Choice{core::Gate::softmax},
                                  {core::Gate::softmax_of_chosen},
                                  {core::Gate::softmax_of_chosen, true},
                                  {core::Gate::softmax, false, true, true},
                                  {core::Gate::softmax, true, true, false, true},
                                  {core::Gate::sigmoid, false, true, true}}) {
        const bool short_blocks = type == Type::Q8_0 || type == Type::MXFP4;
        if (experts > 8 && !short_blocks) continue;
        CAPTURE(type);
        CAPTURE(experts);
        CAPTURE(choice.gate);
        CAPTURE(choice.router_bias);
        CAPTURE(choice.selection_bias);
        RandomProgram model(seed);
        RandomProgram::Shape shape = {.layers = 3, .heads = 16, .kv_heads = 4, .hidden = short_blocks ? 32 : 256};
        shape.width = short_blocks ? 32 * model.integer(10, 16) : 512;
        shape.experts = experts;
        shape.used = used;
        shape.output_bias = model.integer(0, 1) != 0;
        shape.shared_expert = model.integer(0, 1) != 0;
        choice.set(shape);
        model.transformer(shape, type, Type::Q8_0);
        check_folds(*make_executor(model.program, fast_config()), model, 1);
        const bool chooses = used < experts; // rounding may choose another expert
        const auto tokens = model.random;    // which amplify rounding more or less
        const double error = tests::worst_error(make_executor, model, fast_config(),
                                                chooses ? std::vector{1, 1} : std::vector{3, 1, 1, 2, 1, 2});
        models += chooses;
        if (error < kFastTransformer) continue;
        model.random = tokens;
        if (chooses)
          ++other_choices;
        else
          CHECK(error < 4 * tests::worst_error(unfused_executor, model, fast_config(), {3, 1, 1, 2, 1, 2}));
      }
  CHECK(other_choices <= models / 4);
}

TEST_CASE("CUDA: a folded router's few of many experts are those of the largest scores, for one and two tokens") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  int of_two = 0;
  for (const auto& [experts, used] : {std::pair(256, 8), {150, 8}, {64, 2}, {33, 1}})
    for (const Choice choice : {Choice{core::Gate::softmax},
                                {core::Gate::softmax_of_chosen},
                                {core::Gate::softmax_of_chosen, true},
                                {core::Gate::sigmoid, true, false, true}}) {
      CAPTURE(experts);
      CAPTURE(choice.gate);
      CAPTURE(choice.router_bias);
      RandomProgram model(seed);
      RandomProgram::Shape shape = {.layers = 3, .width = 544, .heads = 16, .kv_heads = 4, .hidden = 32};
      shape.experts = experts;
      shape.used = used;
      shape.shared_expert = experts == 150;
      choice.set(shape);
      model.transformer(shape, Type::Q8_0, Type::Q8_0);
      space_scores(model);
      const tests::MakeExecutor make = experts == 64 ? experts_on_host : make_executor;
      for (const int tokens : {1, 2}) check_folds(*make(model.program, fast_config()), model, tokens);
      of_two += check_choices(make, model);
    }
  CHECK(of_two >= 12);
}

TEST_CASE(
    "CUDA: a router is folded behind a projection that waits for its input, and in front of experts with a norm") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  int of_two = 0;
  for (const bool norm_behind : {false, true})
    for (const core::Gate gate : {core::Gate::softmax, core::Gate::softmax_of_chosen}) {
      CAPTURE(norm_behind);
      CAPTURE(gate);
      RandomProgram model(seed);
      RandomProgram::Shape shape = {.layers = 3, .width = 320, .hidden = 32, .experts = 40, .used = 3};
      shape.shared_expert = gate == core::Gate::softmax;
      shape.route = core::RouteParams{0, 0, true, gate};
      gated_layers(model, shape, Type::Q8_0, norm_behind);
      space_scores(model);
      check_folds(*make_executor(model.program, fast_config()), model, 1);
      of_two += check_choices(make_executor, model);
    }
  CHECK(of_two >= 3);
}
