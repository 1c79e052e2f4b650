#include "core/program.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <stdexcept>

using namespace ridge::core;

namespace {

// x = embed; y = W x; z = swiglu(y, y2); logits = V (x + D z)
Program small_program() {
  Program p;
  p.vocab = 100;
  p.weights = {
      {"embed", 0, 8, 100, 1, 32, nullptr}, {"gate", 0, 8, 24, 1, 32, nullptr},    {"up", 0, 8, 24, 1, 32, nullptr},
      {"down", 0, 24, 8, 1, 96, nullptr},   {"output", 0, 8, 100, 1, 32, nullptr}, {"bias", 0, 24, 1, 1, 96, nullptr},
  };
  p.values = {{"x", 8},    {"gate", 24}, {"up", 24},  {"hidden", 24},
              {"down", 8}, {"sum", 8},   {"kept", 8}, {"logits", 100}};
  p.values[6].gathered = p.values[7].gathered = true;
  p.ops = {
      {OpKind::embed, -1, "embed", {}, {0}, {0}, EmbedParams{}},
      {OpKind::linear, 0, "gate", {0}, {1}, {1, 5}, {}},
      {OpKind::linear, 0, "up", {0}, {2}, {2}, {}},
      {OpKind::glu, 0, "swiglu", {1, 2}, {3}, {}, ActivationParams{Activation::silu}},
      {OpKind::linear, 0, "down", {3}, {4}, {3}, {}},
      {OpKind::add, 0, "add", {0, 4}, {5}, {}, AddParams{}},
      {OpKind::gather, 0, "gather", {5}, {6}, {}, {}},
      {OpKind::linear, -1, "output", {6}, {7}, {4}, {}},
  };
  p.logits = 7;
  return p;
}

} // namespace

TEST_CASE("a well-formed program is valid") { CHECK_NOTHROW(validate(small_program())); }

TEST_CASE("malformed programs are bugs that validate names") {
  Program p = small_program();
  SUBCASE("reads before the write") { p.ops[1].inputs = {5}; }
  SUBCASE("writes twice") { p.ops[2].outputs = {1}; }
  SUBCASE("a matrix of another width") { p.weights[3].cols = 23; }
  SUBCASE("a bias of another width") { p.weights[5].cols = 23; }
  SUBCASE("too few inputs") { p.ops[3].inputs = {1}; }
  SUBCASE("a gathered operand beside one that is not") { p.values[4].gathered = true; }
  SUBCASE("an output too many") { p.ops[0].outputs = {0, 1}; }
  SUBCASE("a weight too many") { p.ops[0].weights = {0, 5}; }
  SUBCASE("no weight") { p.ops[1].weights = {}; }
  SUBCASE("params of another op") { p.ops[3].params = ExpertParams{1}; }
  SUBCASE("several matrices for one") { p.weights[3].count = 2; }
  SUBCASE("a matrix for a bias") { p.weights[5].rows = 2; }
  SUBCASE("an order for a matrix") { p.weights[3].type = kOrderType; }
  SUBCASE("no logits") { p.logits = -1; }
  CHECK_THROWS_AS(validate(p), std::logic_error);
}

TEST_CASE("the table of ops says what each kind is") {
  CHECK(name_of(OpKind::embed) == "embed");
  CHECK(name_of(OpKind::expert_sum) == "expert_sum");
  CHECK(class_of(OpKind::expert_linear) == OpClass::matrix);
  CHECK(class_of(OpKind::kv_store) == OpClass::cache);
  const OpInfo& linear = info_of(OpKind::linear);
  CHECK(linear.inputs == 1);
  CHECK(linear.outputs == 1);
  CHECK(linear.required_weights == 1);
  REQUIRE(linear.weights.count == 2);
  CHECK(linear.weights.roles[1] == WeightRole::vector);
  CHECK(linear.params == OpParams().index());
  CHECK(info_of(OpKind::route).params == OpParams(RouteParams{}).index());
}

TEST_CASE("a linear op costs its weights once, its operands and two flops per weight and row") {
  const Program p = small_program();
  const Cost cost = op_cost(p, p.ops[1], {.tokens = 5});
  CHECK(cost.weight_bytes == 24 * 32 + 96);
  CHECK(cost.activation_bytes == 4 * 5 * (8 + 24));
  CHECK(cost.flops == 2 * 5 * 8 * 24);
  CHECK(cost.kv_bytes == 0);
}

TEST_CASE("an embedding reads one row per token") {
  const Program p = small_program();
  CHECK(op_cost(p, p.ops[0], {.tokens = 3}).weight_bytes == 3 * 32);
}

TEST_CASE("after gather only the wanted rows cost") {
  const Program p = small_program();
  CHECK(op_cost(p, p.ops[7], {.tokens = 50, .outputs = 1}).flops == 2 * 8 * 100);
  CHECK(op_cost(p, p.ops[6], {.tokens = 50, .outputs = 2}).activation_bytes == 2 * 4 * 2 * 8);
}

TEST_CASE("element-wise ops cost their flops per element, of the rows that they have") {
  Program p = small_program();
  CHECK(op_cost(p, p.ops[3], {.tokens = 3}).flops == 5 * 3 * 24);
  CHECK(op_cost(p, p.ops[5], {.tokens = 3}).flops == 3 * 8);
  p.values = {{"x", 16, ValueKind::f32, true}, {"shares", 2, ValueKind::f32, true}, {"y", 8, ValueKind::f32, true}};
  const Op sum{OpKind::expert_sum, 0, "sum", {0, 1}, {2}, {}, ExpertParams{2}};
  CHECK(op_cost(p, sum, {.tokens = 50, .outputs = 3}).flops == 2 * 3 * 16);
}

TEST_CASE("attention reads the whole cache once per stream and computes the causal half of the new square") {
  Program p;
  p.kv_layers = {{2, 16, 16}};
  p.values = {{"q", 64}, {"out", 64}};
  p.ops = {{OpKind::attention, 0, "attention", {0}, {1}, {}, AttentionParams{0, 4, 0.25f}}};
  const Cost one = op_cost(p, p.ops[0], {.tokens = 1, .past = 99});
  CHECK(one.kv_bytes == 100 * 2 * (16 + 16) * 2);
  CHECK(one.flops == 2 * 100 * 4 * (16 + 16));
  const Cost prompt = op_cost(p, p.ops[0], {.tokens = 10, .past = 0, .k_bytes = 4, .v_bytes = 4});
  CHECK(prompt.kv_bytes == 10 * 2 * (16 + 16) * 4);
  CHECK(prompt.flops == 2 * 55 * 4 * (16 + 16));
  const Cost streams = op_cost(p, p.ops[0], {.tokens = 8, .past = 99, .streams = 8});
  CHECK(streams.kv_bytes == 8 * one.kv_bytes);
  CHECK(streams.flops == 8 * one.flops);
}

TEST_CASE("attention with a window reads and computes what its tokens see") {
  Program p;
  p.kv_layers = {{2, 16, 16}};
  p.values = {{"q", 64}, {"out", 64}};
  for (const bool chunked : {false, true})
    for (const int64_t past : {0, 3, 10, 16, 100})
      for (const int64_t tokens : {1, 5, 40}) {
        CAPTURE(chunked);
        CAPTURE(past);
        CAPTURE(tokens);
        const AttentionParams params = {0, 4, 0.25f, 16, chunked};
        p.ops = {{OpKind::attention, 0, "attention", {0}, {1}, {}, params}};
        int64_t first = past, pairs = 0;
        for (int64_t position = past; position < past + tokens; ++position) {
          const int64_t seen = chunked ? position - position % 16 : std::max<int64_t>(0, position - 15);
          CHECK(params.first_seen(position) == seen);
          first = std::min(first, seen);
          pairs += position + 1 - seen;
        }
        const Cost cost = op_cost(p, p.ops[0], {.tokens = tokens, .past = past});
        CHECK(cost.kv_bytes == static_cast<double>(past + tokens - first) * 2 * (16 + 16) * 2);
        CHECK(cost.flops == static_cast<double>(2 * pairs * 4 * (16 + 16)));
      }
}

TEST_CASE("one token touches the experts it uses, many tokens all of them") {
  Program p;
  p.weights = {{"w", 0, 8, 4, 16, 32, nullptr}};
  p.values = {{"x", 8}, {"ids", 2, ValueKind::i32}, {"y", 8}};
  p.ops = {{OpKind::expert_linear, 0, "experts", {0, 1}, {2}, {0}, ExpertParams{2}}};
  CHECK(op_cost(p, p.ops[0], {.tokens = 1}).weight_bytes == doctest::Approx(2 * 4 * 32));
  CHECK(op_cost(p, p.ops[0], {.tokens = 1000}).weight_bytes == doctest::Approx(16 * 4 * 32));
  CHECK(op_cost(p, p.ops[0], {.tokens = 3}).flops == 2 * 3 * 2 * 4 * 8);
}

TEST_CASE("values that live at the same time never share a buffer, and others do") {
  const Program p = small_program();
  const BufferPlan plan = plan_buffers(p);
  const auto slot = [&](ValueId id) { return plan.slot_of_value[id]; };
  CHECK(std::set{slot(0), slot(1), slot(2), slot(3)}.size() == 4);
  CHECK(slot(4) != slot(0));
  CHECK(plan.slots.size() <= 6);
  for (size_t id = 0; id < p.values.size(); ++id) {
    CHECK(plan.slots[slot(id)].width >= p.values[id].width);
    CHECK(plan.slots[slot(id)].gathered == p.values[id].gathered);
  }
}
