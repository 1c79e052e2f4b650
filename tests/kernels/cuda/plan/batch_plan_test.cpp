// Kernels of a batch.
#include "kernels/cuda/plan/planning.h"
#include "support/ranks.h"

#include <utility>

using namespace ridge;
using namespace ridge::tests;
using kernels::cuda::MatrixStep;
using Names = std::vector<std::string_view>;

TEST_CASE("batch plan: a token is matvecs and one kernel of attention, and its gather has nothing to do") {
  const Setting setting(one_layer());
  const BatchPlan plan = setting.plan(1);
  // embed; q k v; attention; its output; gate and up; down; logits
  CHECK(kernels_of(plan) ==
        Names{"clear_dataflow", "op", "matvec", "rope_attention", "matvec", "matvec", "matvec", "matvec"});
  const MatrixStep& down = call_of<Matvec>(plan, 3).product.matrix;
  CHECK(call_with<Matvec>(plan, 3).writes_gathered);
  const core::Program& program = setting.model.program;
  CHECK(program.values[down.parts[0].out].gathered);
  CHECK(down.parts[0].out == call_of<Matvec>(plan, 4).product.matrix.x);
  CHECK(plan.dataflow_tokens == 1);
  CHECK_FALSE(plan.calls[1].overlap); // the first kernel waits for the previous batch
  for (size_t i = 2; i < plan.calls.size(); ++i) CHECK(plan.calls[i].overlap);
  CHECK(call_of<Matvec>(plan, 3).product.dataflow_input);
  CHECK(call_of<RopeAttention>(plan).rope.dataflow_input);
}

TEST_CASE("batch plan: a product of many rows leaves multiprocessors free for the attention behind it") {
  RandomProgram::Shape shape = one_layer();
  shape.heads = 32;
  const auto left = [&](int64_t tokens, int sm_count) {
    Setting setting(shape);
    setting.limits.sm_count = sm_count;
    std::vector<int> left;
    for (const KernelCall& call : setting.plan(tokens).calls) {
      if (const auto* matvec = call.get<Matvec>()) left.push_back(matvec->free_multiprocessors);
      if (const auto* pair = call.get<MatvecPair>()) left.push_back(pair->free_multiprocessors);
    }
    return left;
  };
  CHECK(left(1, 132) == std::vector{4, 0, 0, 0, 0});
  CHECK(left(2, 132) == std::vector{4, 0, 0, 0, 0});
  CHECK(left(1, 32) == std::vector{2, 0, 0, 0, 0});
  CHECK(left(1, 15) == std::vector{0, 0, 0, 0, 0});
  CHECK(left(1, 148)[0] == 0);
  shape.layers = 2;
  shape.width = 1024;
  shape.value_type = Type::Q6_K; // v is separate, launched with q and k; in the first layer attention waits
  CHECK(left(1, 132) == std::vector{0, 0, 0, 0, 4, 0, 0, 0, 0});
}

TEST_CASE("batch plan: batch-invariant kernels are the same for any number of tokens") {
  RandomProgram::Shape shape = one_layer();
  for (const auto& [experts, value_type] : {std::pair(0, Type::Q4_K), {0, Type::Q6_K}, {8, Type::Q4_K}}) {
    CAPTURE(experts);
    CAPTURE(quant::format(value_type).name);
    shape.experts = experts;
    shape.used = 2;
    shape.width = 1024; // others pair matrices of two formats
    shape.value_type = value_type;
    Setting setting(shape);
    setting.config.batch_invariant = true;
    setting.config.max_batch = 512;
    const auto kinds = [&](int64_t tokens) {
      Names kinds = kernels_of(setting.plan(tokens));
      std::erase(kinds, "clear_dataflow");
      std::erase(kinds, "op");                              // a gather has nothing to do for one token
      const auto [first, end] = std::ranges::unique(kinds); // attention comes in pieces
      kinds.erase(first, end);
      return kinds;
    };
    const Names alone = kinds(1);
    CHECK(std::ranges::count(alone, "rope_store") == 1);
    CHECK(std::ranges::count(alone, "attention") == 1);
    for (const int64_t tokens : {2, 3, 4, 16, 17, 64, 300}) {
      CAPTURE(tokens);
      CHECK(kinds(tokens) == alone);
    }
    std::vector<kernels::cuda::TokenRun> pieces;
    for (const Attention& piece : all_of<Attention>(setting.plan(40))) {
      CHECK_FALSE(piece.one_run);
      pieces.push_back({piece.first_row, piece.rows});
    }
    CHECK(pieces == std::vector<kernels::cuda::TokenRun>{{0, 16}, {16, 16}, {32, 8}});
  }
}

TEST_CASE("batch plan: pieces of prompts beside other tokens have attention calls of their own") {
  Setting setting(one_layer());
  PlanShape shape{.tokens = 300, .outputs = 5, .tile_tokens = 1, .distinct_streams = false};
  const auto rows_of = [&](const BatchPlan& plan) {
    std::vector<std::pair<std::string_view, kernels::cuda::TokenRun>> rows;
    const auto add = [&](const KernelCall& call, const Attention* attention) {
      if (attention) rows.push_back({call.name(), {attention->first_row, attention->rows}});
    };
    for (const KernelCall& call : plan.calls) {
      add(call, call.get<Attention>());
      add(call, call.get<PromptAttention>());
      add(call, call.get<PlainAttention>());
    }
    return rows;
  };
  using Rows = std::vector<std::pair<std::string_view, kernels::cuda::TokenRun>>;
  CHECK(rows_of(setting.plan(shape)) == Rows{{"attention", {0, 300}}});
  shape.prompts = {{4, 100}, {110, 190}};
  CHECK(rows_of(setting.plan(shape)) == Rows{{"attention", {0, 4}},
                                             {"prompt_attention", {4, 100}},
                                             {"attention", {104, 6}},
                                             {"prompt_attention", {110, 190}}});
  shape.prompts = {{0, 100}};
  CHECK(rows_of(setting.plan(shape)) == Rows{{"prompt_attention", {0, 100}}, {"attention", {100, 200}}});
  setting.attention = {};
  CHECK(rows_of(setting.plan(shape)) == Rows{{"plain_attention", {0, 300}}});
}

TEST_CASE("batch plan: steps of calls never go back, whatever the batch") {
  RandomProgram::Shape shape;
  shape.value_type = Type::Q6_K;
  for (const int64_t width : {256, 1024})
    for (const int64_t tokens : {1, 2, 8, 64, 96, 192, 512}) {
      shape.width = width;
      const Setting setting(shape);
      int32_t step = 0;
      for (const KernelCall& call : setting.plan(tokens).calls) {
        CHECK(call.first_step <= call.step);
        CHECK(call.step >= step);
        step = call.step;
      }
    }
}

TEST_CASE("batch plan: a token that is gathered, a token that is not, and no output") {
  const Setting setting(one_layer());
  const auto gathers = [](const BatchPlan& plan) {
    return std::ranges::count_if(all_of<PlainOp>(plan),
                                 [](const PlainOp& op) { return op.op->kind == core::OpKind::gather; });
  };
  CHECK(gathers(setting.plan(1, 1)) == 0);
  CHECK(gathers(setting.plan(2, 1)) == 1);
  CHECK(gathers(setting.plan(1, 0)) == 0);
  for (const KernelCall& call : setting.plan(1, 0).calls) CHECK_FALSE(call.writes_gathered);
  CHECK(count<Matvec>(setting.plan(1, 0)) == 4);
}

TEST_CASE("batch plan: two tokens are matvecs, whose attention has both in one tile where they are of one stream") {
  const Setting setting(one_layer());
  CHECK(kernels_of(setting.plan({2, 2, 16, false})) ==
        Names{"clear_dataflow", "op", "matvec", "rope_attention", "matvec", "matvec", "matvec", "op", "matvec"});
  CHECK(call_of<RopeAttention>(setting.plan({2, 2, 16, false})).attention.one_run);
  CHECK(call_of<RopeAttention>(setting.plan({2, 2, 16, false})).rope.dataflow_input);
  CHECK(count<RopeAttention>(setting.plan({2, 2, 1, true})) == 1);
  CHECK_FALSE(call_of<RopeAttention>(setting.plan({2, 2, 1, true})).attention.one_run);
  CHECK(setting.plan(2).dataflow_tokens == 2);
  CHECK(setting.plan(3).dataflow_tokens == 0);
}

TEST_CASE("batch plan: with one or two tokens matrices of two formats with one input share a kernel") {
  RandomProgram::Shape shape = one_layer();
  shape.value_type = Type::Q6_K;
  for (const int64_t width : {256, 1024}) { // rows of whole warp tiles
    shape.width = width;
    const Setting setting(shape);
    for (const int64_t tokens : {1, 2}) CHECK(count<MatvecPair>(setting.plan(tokens)) == (width == 1024));
    CHECK(count<MatvecPair>(setting.plan(3)) == 0);
  }
  shape.value_type = Type::Q8_0;
  CHECK(count<MatvecPair>(Setting(shape).plan(1)) == 0);
}

TEST_CASE("batch plan: up to 16 tokens of one stream in sequence are roped in attention, others in front of it") {
  Setting setting(one_layer());
  const auto fuses = [&](const PlanShape& shape) {
    const BatchPlan plan = setting.plan(shape);
    CHECK(count<RopeAttention>(plan) + count<Attention>(plan) == 1);
    CHECK(count<RopeAttention>(plan) + count<RopeStore>(plan) == 1);
    return count<RopeAttention>(plan) == 1;
  };
  for (int64_t tokens = 2; tokens <= 18; ++tokens) {
    CAPTURE(tokens);
    setting.attention.ropes_run = true;
    const PlanShape run{tokens, tokens, 16, false};
    CHECK(fuses(run) == (tokens <= 16));
    CHECK_FALSE(fuses({tokens, tokens, 1, false}));
    CHECK(fuses({tokens, tokens, 1, true}));
    CHECK_FALSE(call_of<RopeAttention>(setting.plan({tokens, tokens, 1, true})).attention.one_run);
    const std::ptrdiff_t calls = std::ssize(setting.plan(run).calls);
    if (tokens <= 16) {
      const Attention call = call_of<RopeAttention>(setting.plan(run)).attention;
      CHECK(call.one_run);
      CHECK(call.rows == tokens);
      CHECK(call.half.has_value() == (tokens > 2));
    }
    setting.attention.ropes_run = false;
    CHECK_FALSE(fuses(run));
    CHECK(std::ssize(setting.plan(run).calls) == calls + (tokens <= 16));
    CHECK(fuses({tokens, tokens, 1, true}));
  }
}

TEST_CASE("batch plan: products of few tokens find their input as they read it, converted once") {
  using kernels::cuda::HalfLayout;
  RandomProgram::Shape shape;
  int64_t products = 0;
  for (const int64_t width : {256, 1024})
    for (const int64_t hidden : {512, 512 + 32})
      for (const Type value_type : {Type::Q4_K, Type::Q6_K})
        for (const int shared_kib : {64, 160, 227})
          for (const int64_t tokens : {3, 8, 9, 16, 17, 64, 65, 96, 128, 200, 256, 400, 512}) {
            CAPTURE(width);
            CAPTURE(hidden);
            CAPTURE(quant::format(value_type).name);
            CAPTURE(shared_kib);
            CAPTURE(tokens);
            shape.width = width;
            shape.hidden = hidden;
            shape.value_type = value_type;
            Setting setting(shape);
            setting.limits.shared_per_block = shared_kib << 10;
            std::pair<core::ValueId, HalfLayout> converted(-1, {});
            core::ValueId written = -1;
            for (const KernelCall& call : setting.plan(tokens, tokens).calls) {
              const auto* roped = call.get<RopeAttention>();
              const auto* attention = roped ? &roped->attention : call.get<Attention>();
              if (!attention) attention = call.get<PromptAttention>();
              if (attention && attention->half) converted = {attention->out, *attention->half};
              if (const auto* conversion = call.get<ConvertInput>()) {
                const std::pair made(conversion->matrix.x, conversion->layout);
                CHECK(made != converted);
                converted = made;
              }
              const auto* batch = call.get<SmallBatch>();
              if (!batch) continue;
              ++products;
              CHECK(batch->rows == tokens);
              const MatrixStep& matrix = batch->product.matrix;
              if (batch->reads_half)
                CHECK(matrix.x == written);
              else
                CHECK(converted == std::pair(matrix.x, batch->wide ? HalfLayout::wide : HalfLayout::interleaved));
              if (batch->writes_half) written = matrix.parts[0].out;
            }
          }
  CHECK(products > 0);
}

TEST_CASE("batch plan: chips with little shared memory take products that fit them") {
  Setting setting(one_layer());
  setting.limits.shared_per_block = 64 << 10;
  CHECK(call_of<Matvec>(setting.plan(64, 1)).rows == 1);
  setting.limits.shared_per_block = 48 << 10;
  CHECK(count<Matvec>(setting.plan(64, 64)) == 5);
  setting.limits.prompt_products = false;
  setting.forced[""] = kernels::cuda::ProductKernel::gemm;
  CHECK(count<Gemm>(setting.plan(64, 64)) == 5);
  CHECK(count<GateUpGlu>(setting.plan(64, 64)) == 1);
  CHECK(count<SmallBatch>(setting.plan(64, 64)) == 0);
}

TEST_CASE("batch plan: gate and up write down's input as f16, whose largest values the conversion before has cleared") {
  RandomProgram::Shape shape = one_layer();
  for (const int64_t experts : {0, 4}) {
    shape.experts = experts;
    shape.used = experts / 2;
    Setting setting(shape);
    setting.forced[""] = kernels::cuda::ProductKernel::tiles_8;
    const BatchPlan plan = setting.plan(8, 8);
    const ConvertInput* clears = nullptr;
    const SmallBatch *writes = nullptr, *reads = nullptr;
    for (const KernelCall& call : plan.calls) {
      if (const auto* conversion = call.get<ConvertInput>(); conversion && conversion->cleared > 0) {
        CHECK_FALSE(clears);
        CHECK_FALSE(writes);
        clears = conversion;
      }
      const SmallBatch* batch = experts > 0 ? call.get<ExpertBatch>() : call.get<SmallBatch>();
      if (batch && batch->reads_half) reads = batch;
      if (batch && batch->writes_half) {
        CHECK_FALSE(reads);
        writes = batch;
      }
    }
    REQUIRE(clears);
    REQUIRE(writes);
    REQUIRE(reads);
    CHECK(clears->rows * clears->cleared == writes->rows);
    CHECK(reads->product.matrix.x == writes->product.matrix.parts[0].out);
  }
  shape.experts = 0;
  shape.hidden = 512 + 32;
  CHECK(count<ConvertInput>(Setting(shape).plan(8, 8)) == 4);
}

TEST_CASE(
    "batch plan: sums over ranges of columns are added up where the next product converts them, if there is one") {
  RandomProgram::Shape shape = one_layer();
  shape.layers = 2;
  shape.heads = 144;
  shape.hidden = 144 * shape.v_dim;
  Setting setting(shape);
  setting.forced[""] = kernels::cuda::ProductKernel::tiles_8;
  const BatchPlan plan = setting.plan(8, 8);
  int64_t left = 0, added = 0;
  for (size_t i = 0; i < plan.calls.size(); ++i) {
    if (const auto* conversion = plan.calls[i].get<ConvertInput>()) added += conversion->sums.has_value();
    const auto* batch = plan.calls[i].get<SmallBatch>();
    if (!batch || !batch->leaves_sums) continue;
    ++left;
    const auto* next = plan.calls.at(i + 1).get<ConvertInput>();
    REQUIRE(next);
    REQUIRE(next->sums);
    CHECK(next->sums->product.matrix.parts[0].out == batch->product.matrix.parts[0].out);
    CHECK(next->matrix.x == batch->product.matrix.parts[0].out);
  }
  CHECK(left == 3); // attention's output twice, the first down; the last down precedes a gather
  CHECK(added == left);
}

TEST_CASE("batch plan: prompts go through the prompt product where the chip has it, else through the plain one") {
  Setting setting(one_layer());
  const BatchPlan plan = setting.plan(3000);
  CHECK(count<PromptProduct>(plan) == 4);
  CHECK(count<PromptRope>(plan) == 1);
  CHECK(count<PromptAttention>(plan) == 1);
  CHECK(call_of<ConvertInput>(plan).layout == kernels::cuda::HalfLayout::tiles);
  setting.limits.prompt_products = false;
  const BatchPlan older = setting.plan(3000);
  CHECK(count<PromptProduct>(older) == 0);
  CHECK(count<Gemm>(older) == 4);
  CHECK(count<GateUpGlu>(older) == 1);
  CHECK(count<PromptAttention>(older) == 1);
  CHECK(call_of<ConvertInput>(older).layout == kernels::cuda::HalfLayout::rows);
  setting.limits.integer_products = true;
  setting.rates = kernels::cuda::known_chip("RTX 4090").rates();
  const BatchPlan geforce = setting.plan(3000);
  CHECK(count<IntegerProduct>(geforce) == 4);
  CHECK(count<Gemm>(geforce) + count<GateUpGlu>(geforce) == 0);
  CHECK(call_of<ConvertInput>(geforce).layout == kernels::cuda::HalfLayout::bytes);
  setting.config.wide = true;
  CHECK(count<Gemm>(setting.plan(3000)) == 4);
  setting.config.wide = false;
  setting.limits.integer_products = setting.limits.small_batch = false;
  setting.limits.shared_per_block = 64 << 10;
  CHECK(count<Gemm>(setting.plan(3000)) == 4);
  CHECK(count<Attention>(setting.plan(3000)) == 1);
  CHECK(count<Gemm>(setting.plan(16)) == 0);
  CHECK(count<Matvec>(setting.plan(16)) == 5);
}

TEST_CASE("batch plan: what products of prompts read, products, attention and layer norms in front write") {
  Setting setting(one_layer());
  const BatchPlan plan = setting.plan(3000);
  CHECK(count<ConvertInput>(plan) == 2);
  CHECK(call_of<PromptAttention>(plan).half == kernels::cuda::HalfLayout::tiles);
  const PromptProduct &output = call_of<PromptProduct>(plan, 1), &gate_up = call_of<PromptProduct>(plan, 2),
                      &down = call_of<PromptProduct>(plan, 3);
  CHECK((output.has_loose_bound && !output.reads_half && !output.writes_half)); // attention's exponents are 0
  CHECK((gate_up.writes_half && !gate_up.reads_half && !gate_up.has_loose_bound));
  CHECK((down.reads_half && down.has_loose_bound && !down.writes_half));

  for (const bool read_twice : {false, true}) {
    RandomProgram model(2);
    core::ValueId x = model.embed(Type::F16, 384, 40);
    const core::ValueId normed = model.layer_norm(x);
    core::ValueId y = model.activate(model.linear(normed, Type::F16, 512, true), core::Activation::gelu);
    y = model.linear(y, Type::F16, 384, true);
    if (read_twice) y = model.op(core::OpKind::add, {y, normed}, {}, 384);
    model.finish(model.op(core::OpKind::add, {x, y}, {}, 384));
    setting.model = std::move(model);
    const BatchPlan encoder = setting.plan(3000);
    CHECK(count<ConvertInput>(encoder) == 1);
    const bool norms = call_of<ConvertInput>(encoder).layer_norm;
    CHECK(norms == !read_twice);
    const PromptProduct& up = call_of<PromptProduct>(encoder);
    CHECK(up.products[0].matrix.glu->kind == core::Activation::gelu);
    CHECK((up.writes_half && call_of<PromptProduct>(encoder, 1).reads_half));
    for (const PlainOp& op : all_of<PlainOp>(encoder)) CHECK(op.op->kind != core::OpKind::activate);
    setting.limits.prompt_products = false;
    CHECK(count<Gemm>(setting.plan(3000)) == 2);
    setting.limits.prompt_products = true;
  }
}

TEST_CASE(
    "batch plan: a long prompt's products sum what they make over ranks, and what is joined is a call of its own") {
  RandomProgram::Shape shape;
  shape.width = 512;
  shape.hidden = 1024;
  shape.heads = shape.kv_heads = 8;
  Setting setting(shape);
  setting.config.max_batch = 1024;
  const std::vector<core::Shard> shards = tests::shards_of(setting.model.program, 2);
  setting.model.program = shards[0].program;
  using Places = std::vector<int64_t>;
  const auto summed_by_products = [&](int64_t tokens) {
    Places places;
    for (const PromptProduct& product : all_of<PromptProduct>(setting.plan(tokens)))
      if (product.sum) places.push_back(product.sum->index_in_step);
    return places;
  };
  const auto exchanged = [&](int64_t tokens) {
    Places places;
    for (const Exchange& exchange : all_of<Exchange>(setting.plan(tokens))) places.push_back(exchange.index_in_step);
    return places;
  };
  setting.forced[""] = kernels::cuda::ProductKernel::prompt; // as a communicator makes it for more than 512 tokens
  CHECK(summed_by_products(1000) == Places{0, 1, 2});
  CHECK(exchanged(1000) == Places{3, 4});
  CHECK(exchanged(100) == Places{0, 1, 2, 3, 4});
}

TEST_CASE("batch plan: a matvec sends what a sum over ranks receives next") {
  RandomProgram::Shape shape;
  shape.heads = shape.kv_heads = 8;
  Setting setting(shape);
  const std::vector<core::Shard> shards = tests::shards_of(setting.model.program, 2);
  setting.model.program = shards[0].program;
  for (const int64_t tokens : {1, 40}) {
    CAPTURE(tokens);
    int64_t sent = 0, received = 0;
    for (const Matvec& matvec : all_of<Matvec>(setting.plan(tokens))) sent += matvec.sends.has_value();
    for (const Exchange& exchange : all_of<Exchange>(setting.plan(tokens))) received += exchange.sent;
    CHECK(sent == received);
    CHECK((sent > 0) == (tokens == 1));
  }
}

TEST_CASE("batch plan: siblings of different formats share a launch, or what they read") {
  RandomProgram::Shape shape = one_layer();
  shape.value_type = Type::Q6_K;
  const BatchPlan apart = Setting(shape).plan(1);
  shape.width = 1024;
  const Setting setting(shape);

  const BatchPlan token = setting.plan(1);
  const KernelCall& pair = call_with<MatvecPair>(token);
  CHECK(pair.first_step + 1 == pair.step);
  CHECK(call_of<MatvecPair>(token).first.matrix.x == call_of<MatvecPair>(token).second.matrix.x);
  CHECK(pair.overlap);
  CHECK(count<MatvecPair>(apart) == 0);
  CHECK(count<Matvec>(apart) == count<Matvec>(token) + 2);

  const BatchPlan batch = setting.plan(8);
  const SmallBatch &first = call_of<SmallBatch>(batch, 0), &second = call_of<SmallBatch>(batch, 1);
  CHECK(first.sibling_follows);
  CHECK_FALSE(first.follows_sibling);
  CHECK(second.follows_sibling);
  CHECK_FALSE(second.sibling_follows);
  CHECK_FALSE(call_of<SmallBatch>(batch, 2).follows_sibling);
  // attention, and gate and up, write the next input; v reuses one
  CHECK(count<ConvertInput>(batch) == count<SmallBatch>(batch) - 3);
  shape.width = 10240; // in two ranges of columns
  for (const SmallBatch& batch : all_of<SmallBatch>(Setting(shape).plan(8)))
    CHECK_FALSE((batch.sibling_follows || batch.follows_sibling));

  const BatchPlan prompt = setting.plan(3000);
  CHECK(call_of<PromptProduct>(prompt).products.size() == 2);
  CHECK(count<PromptProduct>(prompt) == 4);
}

TEST_CASE("batch plan: where attention cannot take the rope, it is a kernel before the fast attention, for any batch") {
  Setting setting(one_layer());
  setting.attention.ropes_tokens = setting.attention.ropes_run = false;
  for (const int64_t tokens : {1, 8, 512}) {
    const BatchPlan plan = setting.plan(tokens);
    CHECK(count<RopeAttention>(plan) == 0);
    CHECK(count<RopeStore>(plan) + count<PromptRope>(plan) == 1);
    CHECK(count<Attention>(plan) + count<PromptAttention>(plan) == 1);
  }
  setting.attention.ropes_tokens = true;
  CHECK(count<RopeAttention>(setting.plan(1)) == 1);
}

TEST_CASE("batch plan: exact mode has matvecs for every batch") {
  Setting setting(one_layer());
  setting.config.exact = true;
  setting.config.k_type = setting.config.v_type = core::KvType::f32;
  setting.attention = {};
  for (const int64_t tokens : {1, 8, 64, 512}) {
    const BatchPlan plan = setting.plan(tokens);
    CHECK(count<Matvec>(plan) == 5);
    CHECK(count<ConvertInput>(plan) == 0);
    CHECK(count<PlainAttention>(plan) == 1);
    CHECK(count<RopeStore>(plan) == 1);
  }
}

TEST_CASE("batch plan: without fusions every op has its own call") {
  Setting setting(one_layer());
  setting.options.fuse = false;
  const BatchPlan plan = setting.plan(2);
  const core::Program& program = setting.model.program;
  CHECK(std::ssize(plan.calls) - count<ClearDataflow>(plan) == std::ssize(program.ops));
  for (const KernelCall& call : plan.calls)
    for (const MatrixStep* matrix : matrices_of(call)) {
      CHECK(matrix->norm == kernels::cuda::kNone);
      CHECK(matrix->parts.size() == 1);
    }
}

TEST_CASE("batch plan: an observer sees the input of every matrix before it is multiplied") {
  struct Observer final : core::InputObserver {
    void observe(const core::Op&, int64_t, std::span<const float* const>) override {}
  } observer;
  Setting setting(one_layer());
  setting.options.fuse = false;
  setting.config.observer = &observer;
  for (const int64_t tokens : {1, 8, 512}) CHECK(count<Observe>(setting.plan(tokens, tokens)) == 8);
}

TEST_CASE("batch plan: in serial mode no kernel starts before its predecessor ends, and the kernels are the same") {
  Setting setting(one_layer());
  const auto calls_of = [&](int64_t tokens) {
    Names calls = kernels_of(setting.plan(tokens));
    std::erase(calls, ClearDataflow::kName);
    return calls;
  };
  setting.forced[""] = kernels::cuda::ProductKernel::matvec;
  for (const int64_t tokens : {1, 2, 8, 64, 512}) {
    setting.options = kernels::cuda::with_serial_mode({}, nullptr);
    const Names overlapping = calls_of(tokens);
    setting.options = kernels::cuda::with_serial_mode({}, "1");
    CHECK(calls_of(tokens) == overlapping);
    const BatchPlan plan = setting.plan(tokens);
    CHECK(plan.dataflow_tokens == 0);
    for (const KernelCall& call : plan.calls) {
      CHECK_FALSE(call.overlap);
      CHECK_FALSE(has_dataflow_input(call));
    }
  }
  CHECK_FALSE(setting.options.graphs);
  for (const char* off : {static_cast<const char*>(nullptr), "", "0"}) {
    const kernels::cuda::CudaOptions options = kernels::cuda::with_serial_mode({}, off);
    CHECK((options.graphs && options.overlap && options.dataflow_sync));
  }
}

TEST_CASE("batch plan: decoding ends with the choice of a token") {
  const Setting setting(one_layer());
  const BatchPlan plan = setting.plan({1, 1, 16, true, true});
  CHECK(plan.calls.back().get<Sample>());
  CHECK(plan.calls.back().overlap);
  CHECK(count<Sample>(setting.plan(1)) == 0);
}

TEST_CASE("batch plan: the table has a line for each call, with its ops, format and size") {
  const Setting setting(one_layer());
  const kernels::cuda::Plan steps = kernels::cuda::make_plan(setting.model.program, true);
  const BatchPlan plan = setting.plan(1);
  const std::string table = kernels::cuda::describe(setting.model.program, steps, plan);
  CAPTURE(table);
  CHECK(std::ranges::count(table, '\n') == std::ssize(plan.calls) + std::ssize(plan.products) + 3);
  CHECK(table.starts_with("plan of 8 calls for 1 token, 1 wanted\n"));
  for (const char* part : {"rope_attention", "Q4_K", "512 x 256", "norm gated overlap dataflow", "gathers",
                           "blocks=", "warps=16", "expected"})
    CHECK(table.find(part) != std::string::npos);
}
