// Dataflow between running kernels, without a GPU.
#include "kernels/cuda/plan/plan.h"

#include "support/random_program.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ridge;
using kernels::cuda::HeadsStep;
using kernels::cuda::kNone;
using kernels::cuda::LatentStep;
using kernels::cuda::MatrixStep;
using kernels::cuda::NormStep;
using kernels::cuda::Plan;
using kernels::cuda::Step;
using kernels::cuda::SumStep;

namespace {

template <typename Work>
bool is(const Step& step) {
  return step.get<Work>();
}

bool passes_by_dataflow(const Step& step) {
  const auto* heads = step.get<HeadsStep>();
  const auto* norm = step.get<NormStep>();
  return step.matrix() || (heads && heads->attention) || (norm && norm->residual != kNone) || step.get<SumStep>();
}

bool chooses(const Step& step) { return step.is_op(core::OpKind::route); }

// The safety rules of Planner::find_dataflow.
void check_rules(const core::Program& program, const Plan& plan) {
  std::vector<int> writer(program.values.size(), -1);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    CAPTURE(i);
    if (step.dataflow_input) {
      CHECK(passes_by_dataflow(step));
      const MatrixStep* m = step.matrix();
      int first_writer = static_cast<int>(i);
      for (const core::ValueId id : step.inputs) {
        if (m && m->of_heads && id == m->ids) continue;
        CHECK(plan.dataflow_values[id]);
        if (step.waits_for(id)) first_writer = std::min(first_writer, writer[id]);
      }
      if (m && m->ids != kNone && !m->of_heads) first_writer = writer[m->ids];
      const auto* sum = step.get<SumStep>();
      for (const SumStep::Term& term : sum ? sum->terms : std::vector<SumStep::Term>())
        if (term.factors != kNone && chooses(plan.steps[writer[term.factors]])) first_writer = writer[term.factors];
      for (size_t between = first_writer + 1; between < i; ++between)
        CHECK((plan.steps[between].dataflow_input || plan.steps[between].known_ids));
    }
    for (const core::ValueId id : step.outputs) {
      writer[id] = static_cast<int>(i);
      if (plan.dataflow_values[id]) CHECK((passes_by_dataflow(step) || chooses(step)));
    }
  }
  CHECK_FALSE(plan.dataflow_values[program.result()]);
}

int64_t count_dataflow_steps(const Plan& plan) {
  return std::ranges::count_if(plan.steps, [](const Step& step) { return step.dataflow_input; });
}

} // namespace

TEST_CASE("plan: all steps of a layer but the first one's take their input from running kernels") {
  tests::RandomProgram model(1);
  tests::RandomProgram::Shape shape;
  shape.layers = 4;
  model.transformer(shape, quant::Type::Q8_0, quant::Type::Q8_0);
  const Plan plan = kernels::cuda::make_plan(model.program, true);
  check_rules(model.program, plan);
  // q k v, attention, output, gate and up, down; the first q k v and output read the embedding.
  CHECK(count_dataflow_steps(plan) >= 3 + 2 * 5 + 3);
}

TEST_CASE("plan: experts take their numbers from a running kernel, and their sum their shares, and others wait") {
  tests::RandomProgram model(1);
  tests::RandomProgram::Shape shape;
  shape.experts = 4;
  shape.used = 2;
  shape.layers = 3;
  model.transformer(shape, quant::Type::Q8_0, quant::Type::Q8_0);
  for (const bool fuse : {true, false}) {
    const Plan plan = kernels::cuda::make_plan(model.program, fuse);
    check_rules(model.program, plan);
    int64_t experts = 0, sums = 0;
    for (const Step& step : plan.steps) {
      experts += step.matrix() && step.matrix()->ids != kNone && step.dataflow_input;
      sums += step.get<SumStep>() && step.dataflow_input;
    }
    CHECK(experts == (fuse ? 3 * 2 : 0)); // unfused ones follow norms and gates
    CHECK(sums == (fuse ? 3 : 0));
  }
}

TEST_CASE("plan: a router is folded into the projection in front of it, but where groups of experts are chosen") {
  using core::Gate;
  const auto folded = [](const tests::RandomProgram::Shape& shape, quant::Type type = quant::Type::Q8_0) {
    tests::RandomProgram model(1);
    model.transformer(shape, type, quant::Type::Q8_0);
    const Plan plan = kernels::cuda::make_plan(model.program, true);
    check_rules(model.program, plan);
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      if (!plan.steps[i].folded) continue;
      const MatrixStep &projection = *plan.steps[i - 1].matrix(), &router = *plan.steps[i].matrix();
      const core::ValueId numbers = plan.steps[i + 1].outputs[0];
      for (const core::ValueId id : {projection.residual, projection.parts[0].out, router.parts[0].out, numbers})
        CHECK(plan.dataflow_values[id]);
    }
    return std::ranges::count_if(plan.steps, &Step::folded);
  };
  tests::RandomProgram::Shape shape = {.layers = 5, .heads = 16};
  shape.experts = 6;
  shape.used = 2;
  shape.shared_expert = true;
  CHECK(folded(shape) == 4); // the first residual is the embedding, which has no running kernel
  shape.route = core::RouteParams{0, 0, true, Gate::softmax_of_chosen};
  CHECK(folded(shape) == 4);
  CHECK(folded(shape, quant::Type::F16) == 0); // no integer products

  tests::RandomProgram::Shape other = shape;
  other.heads = 4; // 256 columns are not whole warp tiles
  CHECK(folded(other) == 0);
  other = shape;
  other.router_bias = true;
  CHECK(folded(other) == 4);
  other = shape;
  other.selection_bias = true;
  other.route = core::RouteParams{0, 0, true, Gate::sigmoid};
  CHECK(folded(other) == 4);
  other.route->groups = 2;
  CHECK(folded(other) == 0);
}

TEST_CASE("plan: experts, a gated shared expert and the residual stream are one sum") {
  using core::OpKind;
  tests::RandomProgram m(1);
  tests::RandomProgram::Shape shape;
  shape.width = shape.hidden = 64;
  shape.experts = 4;
  shape.used = 2;
  const core::ValueId x = m.embed(quant::Type::F32, 64, 30);
  const core::ValueId gate = m.linear(x, quant::Type::F32, 1), shared = m.linear(x, quant::Type::F32, 64);
  const core::ValueId gated =
      m.op(OpKind::glu, {gate, shared}, {}, 64, core::ActivationParams{core::Activation::sigmoid});
  const core::ValueId sum =
      m.op(OpKind::add, {m.moe(x, shape, quant::Type::F32), gated}, {}, 64, core::AddParams{0.5f});
  m.finish(m.op(OpKind::add, {x, sum}, {}, 64, core::AddParams{3}));
  const Plan plan = kernels::cuda::make_plan(m.program, true);
  const auto found = std::ranges::find_if(plan.steps, is<SumStep>);
  REQUIRE(found != plan.steps.end());
  REQUIRE(found->get<SumStep>()->terms.size() == 3);
  CHECK(found->get<SumStep>()->terms[0].x == x);
  CHECK(found->get<SumStep>()->terms[0].factors == kNone);
  CHECK(found->get<SumStep>()->terms[1].factors != kNone);
  CHECK_FALSE(found->get<SumStep>()->terms[1].gated);
  CHECK(found->get<SumStep>()->terms[1].scale == 3);
  CHECK(found->get<SumStep>()->terms[2].x == shared);
  CHECK(found->get<SumStep>()->terms[2].factors == gate);
  CHECK(found->get<SumStep>()->terms[2].gated);
  CHECK(found->get<SumStep>()->terms[2].scale == 1.5f);
  CHECK(std::ranges::none_of(
      plan.steps, [](const Step& step) { return step.is_op(OpKind::add) || step.is_op(OpKind::expert_sum); }));
}

TEST_CASE("plan: a shared expert of the routed ones' size goes with them, one of another size or format does not") {
  using quant::Type;
  for (const auto& [shared_width, shared_type] :
       {std::pair(int64_t{96}, Type::Q8_0), {128, Type::Q8_0}, {96, Type::Q4_0}}) {
    CAPTURE(shared_width);
    CAPTURE(shared_type);
    tests::RandomProgram m(1);
    tests::RandomProgram::Shape shape;
    shape.width = 64;
    shape.hidden = 96;
    shape.experts = 6;
    shape.used = 2;
    const core::ValueId x = m.embed(Type::F32, 64, 30), routed = m.moe(x, shape, Type::Q8_0);
    shape.hidden = shared_width;
    m.finish(m.op(core::OpKind::add, {routed, m.dense(x, shape, shared_type)}, {}, 64));
    const Plan plan = kernels::cuda::make_plan(m.program, true);
    check_rules(m.program, plan);
    int64_t joined = 0, others = 0;
    for (const Step& step : plan.steps) {
      const MatrixStep* m = step.matrix();
      if (!m) continue;
      joined += std::ssize(m->shared_expert);
      others += m->ids == kNone;
      for (const MatrixStep& shared : m->shared_expert) {
        CHECK(std::ranges::count(step.outputs, shared.parts[0].out) == 1);
        CHECK(std::ranges::count(step.inputs, shared.x) == 1);
      }
    }
    const bool alike = shared_width == 96 && shared_type == Type::Q8_0;
    CHECK(joined == (alike ? 2 : 0));
    CHECK(others == (alike ? 2 : 4));
  }
}

TEST_CASE("plan: matrices of heads take their input from a running kernel, before the latent cache is written") {
  using core::OpKind;
  tests::RandomProgram m(1);
  m.program.kv_layers = {{1, 192, 128, true}};
  m.program.rope_tables.push_back({std::vector<float>(32, 0.1f), 1, core::RopeStyle::split});
  const core::ValueId x = m.embed(quant::Type::F32, 64, 30), q = m.linear(x, quant::Type::Q8_0, 4 * 64),
                      q_in = m.linear(x, quant::Type::Q8_0, 4 * 64);
  const core::ValueId r = m.op(OpKind::rope, {m.linear(x, quant::Type::Q8_0, 64)}, {}, 64, core::RopeParams{0, 1, 64});
  const core::ValueId q_r = m.op(OpKind::rope, {q_in}, {}, 4 * 64, core::RopeParams{0, 4, 64});
  m.op(OpKind::latent_store, {m.linear(x, quant::Type::Q8_0, 128), r}, {}, 0, core::KvParams{0});
  const core::ValueId ids = m.value(4, false, core::ValueKind::i32);
  m.program.ops.push_back({OpKind::head_ids, -1, "head_ids", {}, {ids}, {}, {}});
  const auto of_heads = [&](core::ValueId in, int64_t cols, int64_t rows) {
    return m.op(OpKind::expert_linear, {in, ids}, {m.weight(quant::Type::Q8_0, cols, rows, 4)}, 4 * rows,
                core::ExpertParams{4});
  };
  const core::ValueId attended =
      m.op(OpKind::latent_attention, {of_heads(q, 64, 128), q_r}, {}, 4 * 128, core::AttentionParams{0, 4, 0.1f});
  m.finish(m.linear(of_heads(attended, 128, 32), quant::Type::Q8_0, 64));
  const Plan plan = kernels::cuda::make_plan(m.program, true);
  check_rules(m.program, plan);
  std::vector<size_t> heads;
  for (size_t i = 0; i < plan.steps.size(); ++i)
    if (plan.steps[i].matrix() && plan.steps[i].matrix()->of_heads) heads.push_back(i);
  REQUIRE(heads.size() == 2);
  CHECK(plan.steps[heads[0]].dataflow_input);
  CHECK_FALSE(plan.steps[heads[1]].dataflow_input);
  CHECK(plan.steps[heads[1] + 1].dataflow_input);
  CHECK(plan.steps[heads[0] + 1].get<LatentStep>());
  const auto numbers = std::ranges::find(plan.steps, true, &Step::known_ids);
  REQUIRE(numbers != plan.steps.end());
  CHECK(numbers->op->kind == OpKind::head_ids);
}

TEST_CASE("plan: norms behind products take rows from running kernels and pass them on, norms of heads do not") {
  for (const int64_t group : {64, 16}) {
    CAPTURE(group);
    tests::RandomProgram m(1);
    const core::ValueId x = m.linear(m.embed(quant::Type::F32, 64, 30), quant::Type::Q8_0, 64);
    const core::ValueId sum = m.op(core::OpKind::add, {x, m.norm(m.linear(x, quant::Type::Q8_0, 64), group)}, {}, 64);
    m.finish(m.op(core::OpKind::add, {sum, m.linear(sum, quant::Type::Q8_0, 64)}, {}, 64));
    const Plan plan = kernels::cuda::make_plan(m.program, true);
    check_rules(m.program, plan);
    const auto found = std::ranges::find_if(plan.steps, is<NormStep>);
    REQUIRE(found != plan.steps.end());
    CHECK(found->dataflow_input == (group == 64));
    CHECK(std::next(found)->dataflow_input == (group == 64));
    CHECK(plan.dataflow_values[sum] == (group == 64));
  }
}

TEST_CASE("plan: a norm goes with the gate before or behind it, unless others read what is between") {
  using core::OpKind;
  for (const bool gates_input : {false, true})
    for (const bool shared : {false, true}) {
      tests::RandomProgram m(1);
      const core::ValueId x = m.embed(quant::Type::F32, 64, 30), z = m.linear(x, quant::Type::F32, 64);
      const auto gated = [&](core::ValueId y) {
        return m.op(OpKind::glu, {z, y}, {}, 64, core::ActivationParams{core::Activation::silu});
      };
      const core::ValueId between = gates_input ? gated(x) : m.norm(x, 16);
      const core::ValueId out = gates_input ? m.norm(between, 16) : gated(between);
      m.finish(shared ? m.op(OpKind::add, {out, between}, {}, 64) : out);
      const Plan plan = kernels::cuda::make_plan(m.program, true);
      const auto found = std::ranges::find_if(
          plan.steps, [](const Step& step) { return step.get<NormStep>() && step.get<NormStep>()->gate != kNone; });
      REQUIRE((found != plan.steps.end()) == !shared);
      if (shared) continue;
      CHECK(found->get<NormStep>()->x == x);
      CHECK(found->get<NormStep>()->gate == z);
      CHECK(found->get<NormStep>()->gates_input == gates_input);
    }
}

TEST_CASE(
    "plan: a norm goes with the sum behind it and the constant that this is multiplied by, unless others read it") {
  using core::OpKind;
  for (const bool second : {false, true})
    for (const bool scaled : {false, true})
      for (const bool shared : {false, true}) {
        CAPTURE(second);
        CAPTURE(scaled);
        CAPTURE(shared);
        tests::RandomProgram m(1);
        const core::ValueId x = m.embed(quant::Type::F32, 64, 30), y = m.norm(x, 64);
        const float scale = second ? 3 : 1;
        core::ValueId out =
            m.op(OpKind::add, second ? std::vector{x, y} : std::vector{y, x}, {}, 64, core::AddParams{scale});
        if (scaled)
          out = m.op(OpKind::activate, {out}, {}, 64, core::ActivationParams{core::Activation::identity, 0.5f});
        m.finish(shared ? m.op(OpKind::glu, {y, out}, {}, 64, core::ActivationParams{core::Activation::sigmoid}) : out);
        const Plan plan = kernels::cuda::make_plan(m.program, true);
        const auto found = std::ranges::find_if(plan.steps, is<NormStep>);
        REQUIRE((found != plan.steps.end()) == !shared);
        if (shared) continue;
        CHECK(found->get<NormStep>()->x == x);
        CHECK(found->get<NormStep>()->residual == x);
        CHECK(found->get<NormStep>()->scale == scale);
        CHECK(found->get<NormStep>()->factor == (scaled ? 0.5f : 1));
        CHECK(found->outputs == std::vector{out});
      }
}

TEST_CASE("plan: activations of gates that products apply are those that one sigmoid makes") {
  using core::Activation;
  const auto gates = [](core::ActivationParams params) {
    tests::RandomProgram m(1);
    const core::ValueId x = m.embed(quant::Type::F32, 64, 30);
    const core::ValueId gate = m.linear(x, quant::Type::F32, 64), up = m.linear(x, quant::Type::F32, 64);
    m.finish(m.op(core::OpKind::glu, {gate, up}, {}, 64, params));
    const Plan plan = kernels::cuda::make_plan(m.program, true);
    return std::ranges::any_of(plan.steps, [](const Step& step) { return step.matrix() && step.matrix()->glu; });
  };
  CHECK(gates({Activation::silu}));
  CHECK(gates({Activation::silu, 1.702f, 7, false, 1}));
  CHECK(gates({Activation::gelu}));
  CHECK_FALSE(gates({Activation::silu, 1, 7, true}));
  CHECK_FALSE(gates({Activation::gelu_erf}));
  CHECK_FALSE(gates({Activation::relu}));
}

TEST_CASE("plan: a norm of values goes with the heads where its factors are 1") {
  using core::OpKind;
  for (const bool ones : {false, true}) {
    CAPTURE(ones);
    tests::RandomProgram m(1);
    m.program.rope_tables.push_back({std::vector<float>(32, 0.1f), 1, core::RopeStyle::split});
    m.program.kv_layers.push_back({2, 64, 64});
    const core::ValueId x = m.embed(quant::Type::F32, 64, 30), q_in = m.linear(x, quant::Type::F32, 256),
                        kv_in = m.linear(x, quant::Type::F32, 128);
    const core::ValueId q = m.op(OpKind::rope, {m.norm(q_in, 64)}, {}, 256, core::RopeParams{0, 4, 64}),
                        k = m.op(OpKind::rope, {m.norm(kv_in, 64)}, {}, 128, core::RopeParams{0, 2, 64});
    const core::ValueId v =
        m.op(OpKind::rms_norm, {kv_in}, {m.factors(64, 1, ones ? 1 : 2)}, 128, core::NormParams{1e-5f, 64});
    m.op(OpKind::kv_store, {k, v}, {}, 0, core::KvParams{0});
    m.finish(m.op(OpKind::attention, {q}, {}, 256, core::AttentionParams{0, 4, 1}));
    const Plan plan = kernels::cuda::make_plan(m.program, true);
    const auto found = std::ranges::find_if(plan.steps, is<HeadsStep>);
    REQUIRE(found != plan.steps.end());
    CHECK(found->get<HeadsStep>()->normalizes_v == ones);
    CHECK(found->get<HeadsStep>()->v_in == (ones ? kv_in : v));
    CHECK(found->dataflow_input == ones);
  }
}

TEST_CASE("plan: the norm and rotations before a latent cache go with it, unless others read what is between") {
  using core::OpKind;
  constexpr int64_t kC = 64, kR = 32, kHeads = 3;
  for (const bool shared : {false, true}) {
    CAPTURE(shared);
    tests::RandomProgram m(1);
    m.program.rope_tables.push_back({std::vector<float>(kR / 2, 0.1f), 1, core::RopeStyle::adjacent});
    m.program.kv_layers.push_back({1, kC + kR, kC, true});
    const core::ValueId x = m.embed(quant::Type::F32, 64, 30);
    const core::ValueId q_c = m.linear(x, quant::Type::F32, kHeads * kC),
                        q_in = m.linear(x, quant::Type::F32, kHeads * kR), c_in = m.linear(x, quant::Type::F32, kC),
                        r_in = m.linear(x, quant::Type::F32, kR);
    const core::ValueId c = m.norm(c_in, kC);
    const core::ValueId q_r = m.op(OpKind::rope, {q_in}, {}, kHeads * kR, core::RopeParams{0, kHeads, kR});
    const core::ValueId r = m.op(OpKind::rope, {r_in}, {}, kR, core::RopeParams{0, 1, kR});
    m.op(OpKind::latent_store, {c, r}, {}, 0, core::KvParams{0});
    const core::ValueId out =
        m.op(OpKind::latent_attention, {q_c, q_r}, {}, kHeads * kC, core::AttentionParams{0, kHeads, 1});
    m.finish(shared ? m.op(OpKind::concat, {m.op(OpKind::concat, {out, c}, {}, (kHeads + 1) * kC), q_r}, {},
                           (kHeads + 1) * kC + kHeads * kR)
                    : out);
    const Plan plan = kernels::cuda::make_plan(m.program, true);
    const auto found = std::ranges::find_if(plan.steps, is<LatentStep>);
    REQUIRE(found != plan.steps.end());
    CHECK(found->get<LatentStep>()->r_in == r_in);
    CHECK(found->get<LatentStep>()->c_in == (shared ? c : c_in));
    CHECK((found->get<LatentStep>()->c_norm == kNone) == shared);
    CHECK(found->get<LatentStep>()->q_in == (shared ? kNone : q_in));
    CHECK(found->outputs == (shared ? std::vector<core::ValueId>{} : std::vector{q_r}));
  }
}

TEST_CASE("plan: a layer that attends to another one's cache turns its queries alone, and waits for its predecessor") {
  using core::OpKind;
  using quant::Type;
  tests::RandomProgram model(1);
  model.program.rope_tables.push_back({std::vector<float>(32, 0.1f), 1, core::RopeStyle::split});
  model.program.kv_layers.push_back({2, 64, 64});
  core::ValueId x = model.embed(Type::Q8_0, 256, 64);
  const core::RopeParams of_q = {0, 4, 64}, of_k = {0, 2, 64};
  for (model.layer = 0; model.layer < 2; ++model.layer) {
    const core::ValueId h = model.norm(x, 256);
    core::ValueId q = model.norm(model.linear(h, Type::Q8_0, 256), 64);
    q = model.op(OpKind::rope, {q}, {}, 256, of_q);
    if (model.layer == 0) {
      const core::ValueId both = model.linear(h, Type::Q8_0, 128);
      const core::ValueId k = model.op(OpKind::rope, {model.norm(both, 64)}, {}, 128, of_k);
      model.op(OpKind::kv_store, {k, model.norm(both, 64)}, {}, 0, core::KvParams{0});
    }
    const core::ValueId attended = model.op(OpKind::attention, {q}, {}, 256, core::AttentionParams{0, 4, 1, 16});
    x = model.op(OpKind::add, {x, model.linear(attended, Type::Q8_0, 256)}, {}, 256);
  }
  model.layer = -1;
  model.finish(x, Type::Q8_0);

  const Plan plan = kernels::cuda::make_plan(model.program, true);
  check_rules(model.program, plan);
  std::vector<const Step*> heads, attention;
  for (const Step& step : plan.steps) {
    if (step.get<HeadsStep>()) heads.push_back(&step);
    if (step.is_op(OpKind::attention)) attention.push_back(&step);
  }
  REQUIRE(heads.size() == 1);
  CHECK(heads[0]->get<HeadsStep>()->attention);
  CHECK(heads[0]->get<HeadsStep>()->k_norm != kNone);
  REQUIRE(attention.size() == 1);
  CHECK_FALSE(attention[0]->dataflow_input);
}
