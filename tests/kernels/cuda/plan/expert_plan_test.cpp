// Kernels of a batch with experts.
#include "kernels/cuda/plan/expert_groups.h"
#include "kernels/cuda/plan/planning.h"
#include "kernels/cuda/plan/workspace_plan.h"

#include <map>

using namespace ridge;
using namespace ridge::tests;
using kernels::cuda::ProductKernel;

namespace {

RandomProgram::Shape two_of_eight_experts() {
  RandomProgram::Shape shape = one_layer();
  shape.experts = 8;
  shape.used = 2;
  return shape;
}

RandomProgram shared_expert_model(const RandomProgram::Shape& shape) {
  RandomProgram m(1);
  const core::ValueId x = m.embed(Type::F16, shape.width, 32);
  m.finish(m.op(core::OpKind::add, {m.moe(x, shape, Type::Q8_0), m.dense(x, shape, Type::Q8_0)}, {}, shape.width));
  return m;
}

} // namespace

TEST_CASE("batch plan: a folded router's scores come with a product of one or two tokens, others by itself") {
  RandomProgram::Shape shape = two_of_eight_experts();
  shape.layers = 4;
  shape.heads = 16;
  Setting setting(shape);
  for (const int64_t tokens : {1, 2}) {
    const BatchPlan plan = setting.plan(tokens);
    CHECK(count<MatvecRouter>(plan) == 3);
    const auto routes = std::ranges::count_if(all_of<PlainOp>(plan),
                                              [](const PlainOp& op) { return op.op->kind == core::OpKind::route; });
    CHECK(routes == 1);
    const KernelCall& projection = call_with<MatvecRouter>(plan);
    CHECK(projection.step == projection.first_step + 2);
    CHECK(projection.get<MatvecRouter>()->route->kind == core::OpKind::route);
    const auto* gate_and_up = (&projection + 1)->get<Matvec>();
    REQUIRE(gate_and_up);
    CHECK(gate_and_up->free_multiprocessors == tokens); // its blocks that choose experts end last
  }
  CHECK(count<MatvecRouter>(setting.plan(3)) == 0);
  setting.options.dataflow_sync = false;
  CHECK(count<MatvecRouter>(setting.plan(1)) == 0);
  setting.options.dataflow_sync = true;
  // On chips whose kernels follow one another, all multiprocessors are free again.
  for (const auto& [compute, folded] : std::map<int, int64_t>{{75, 0}, {80, 3}, {89, 3}}) {
    setting.limits = kernels::cuda::limits_of(compute, 132);
    const BatchPlan plan = setting.plan(1);
    CHECK(count<MatvecRouter>(plan) == folded);
    CHECK(plan.dataflow_tokens == (folded > 0));
    for (const KernelCall& call : plan.calls) CHECK_FALSE(call.overlap);
    for (const Matvec& matvec : all_of<Matvec>(plan)) CHECK(matvec.free_multiprocessors == 0);
  }
  shape.heads = 12; // rows of a part of a warp tile
  CHECK(count<MatvecRouter>(Setting(shape).plan(1)) == 0);
}

TEST_CASE("batch plan: experts are sorted where some are likely to be chosen twice") {
  RandomProgram::Shape shape = two_of_eight_experts();
  Setting setting(shape);
  const BatchPlan token = setting.plan(1);
  CHECK(count<SortExperts>(token) == 0);
  CHECK(count<ExpertBatch>(token) == 0);
  CHECK(count<Matvec>(token) == 6); // q k v, output, scores; gate and up, down; logits
  for (const Matvec& matvec : all_of<Matvec>(token))
    if (matvec.product.matrix.ids != kernels::cuda::kNone) CHECK(matvec.product.dataflow_input);

  setting.forced[""] = ProductKernel::tiles_32;
  const BatchPlan batch = setting.plan(64);
  CHECK(count<SortExperts>(batch) == 1);
  CHECK(count<ExpertBatch>(batch) == 2);
  CHECK(call_of<ExpertBatch>(batch).rows == 128);
  CHECK(call_of<ExpertBatch>(batch).tile_tokens == 32);
  CHECK_FALSE(call_of<ExpertBatch>(batch).wide);
  CHECK(call_of<SortExperts>(batch).tile_tokens == 32);
  setting.forced[""] = ProductKernel::wide;
  for (const auto& [tokens, tile] : std::map<int64_t, int>{{64, 32}, {128, 64}, {256, 160}, {512, 160}, {1024, 160}}) {
    const BatchPlan many = setting.plan(tokens);
    CHECK(call_of<SortExperts>(many).tile_tokens == tile);
    for (const int which : {0, 1}) {
      const ExpertBatch& experts = call_of<ExpertBatch>(many, which);
      CHECK(experts.wide);
      CHECK(experts.tile_tokens == tile);
    }
    const auto converts = [&](const ConvertInput& call) {
      return call.layout == kernels::cuda::HalfLayout::sorted_wide && call.sorted_tile == tile;
    };
    CHECK(std::ranges::count_if(all_of<ConvertInput>(many), converts) == 2);
  }
  setting.limits.prompt_products = false;
  CHECK_FALSE(call_of<ExpertBatch>(setting.plan(64)).wide);
  setting.limits.shared_per_block = 48 << 10;
  CHECK(count<ExpertBatch>(setting.plan(64)) == 0);
  setting.limits.small_batch = false;
  CHECK(count<SortExperts>(setting.plan(64)) == 0);
}

TEST_CASE("batch plan: experts that few tokens chose each are multiplied by integers, down's input being as it is") {
  Setting setting(two_of_eight_experts());
  setting.forced[""] = ProductKernel::dots;
  const BatchPlan few = setting.plan(8);
  CHECK(count<ExpertDots>(few) == 2);
  CHECK(count<ExpertBatch>(few) == 0);
  CHECK(call_of<ExpertDots>(few).tile_tokens == 8);
  CHECK(call_of<SortExperts>(few).tile_tokens == 8);
  for (const ConvertInput& call : all_of<ConvertInput>(few))
    CHECK(call.rows != 16); // gate and up share the router's, down has none
  setting.limits.bulk_copies = false;
  CHECK(count<ExpertDots>(setting.plan(8)) == 0);
  setting.limits.bulk_copies = true;
  setting.model = RandomProgram(1);
  setting.model.transformer(two_of_eight_experts(), Type::F16, Type::F16);
  CHECK(count<ExpertDots>(setting.plan(8)) == 0);
}

TEST_CASE("batch plan: a shared expert is one of each of a few tokens', and a product of its own for more tokens") {
  Setting setting(one_layer());
  setting.model = shared_expert_model(two_of_eight_experts());
  setting.least_side = 0;
  for (const int64_t tokens : {1, 2}) {
    const BatchPlan few = setting.plan(tokens, tokens);
    CHECK(count<Matvec>(few) == 4);
    for (const int number : {1, 2}) CHECK(call_of<Matvec>(few, number).rows == 3 * tokens);
  }
  const BatchPlan more = setting.plan(6, 6);
  CHECK(count<Matvec>(more) == 2);
  for (const int number : {0, 1}) CHECK(call_of<Matvec>(more, number).rows == 18);
  setting.limits.sm_count = 16; // 15 slots on 16 multiprocessors leave one over, 10 leave 6; 8 and 12 slots leave 0 and
                                // 4
  CHECK(call_of<Matvec>(setting.plan(5, 5), 1).rows == 15);
  CHECK(call_of<Matvec>(setting.plan(4, 4), 1).rows == 8);
}

TEST_CASE("workspace plan: a shared expert has what its products need where many tokens multiply by it apart") {
  const RandomProgram::Shape shape = two_of_eight_experts();
  const RandomProgram m = shared_expert_model(shape);
  core::ExecutorConfig config;
  config.max_batch = 130;
  kernels::cuda::DeviceLimits before_hopper = kernels::cuda::kPresumedLimits;
  before_hopper.prompt_products = before_hopper.bulk_copies = before_hopper.overlap = false;
  const kernels::cuda::Plan steps = kernels::cuda::make_plan(m.program, true);
  CHECK(kernels::cuda::plan_workspace(m.program, config, steps, before_hopper).gate ==
        config.max_batch * shape.hidden * 4);
}

TEST_CASE("batch plan: experts in the host's memory are fetched as soon as they are chosen") {
  RandomProgram::Shape shape = two_of_eight_experts();
  Setting setting(shape);
  setting.options.experts_on_host = true;
  for (const int64_t tokens : {1, 64}) {
    const std::vector<std::string_view> kernels = kernels_of(setting.plan(tokens));
    const auto fetch = std::ranges::find(kernels, "fetch_experts");
    REQUIRE(fetch != kernels.end());
    CHECK(*std::prev(fetch) == "op");
    CHECK(*std::next(fetch) == (tokens == 1 ? "matvec" : "sort_experts"));
    CHECK(std::ranges::count(kernels, "fetch_experts") == 1);
    CHECK(call_of<FetchExperts>(setting.plan(tokens)).rows == 2 * tokens);
    for (const Matvec& matvec : all_of<Matvec>(setting.plan(tokens)))
      CHECK_FALSE((matvec.product.matrix.ids >= 0 && matvec.product.dataflow_input));
  }
  const std::vector<kernels::cuda::ExpertGroup> groups = kernels::cuda::expert_groups(setting.model.program);
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].experts == 8);
  CHECK(groups[0].weights.size() == 3);
}

TEST_CASE(
    "batch plan: slots that have a matrix each are sorted for prompts, and latent attention is a call of its own") {
  Setting setting(one_layer());
  setting.model = RandomProgram(1);
  RandomProgram& m = setting.model;
  m.program.kv_layers = {{1, 192, 128, true}};
  const core::ValueId x = m.embed(Type::F16, 64, 32), q = m.linear(x, Type::Q8_0, 4 * 64);
  const core::ValueId ids = m.value(4, false, core::ValueKind::i32);
  m.program.ops.push_back({core::OpKind::head_ids, -1, "head_ids", {}, {ids}, {}, {}});
  const core::ValueId q_c =
      m.op(core::OpKind::expert_linear, {q, ids}, {m.weight(Type::Q8_0, 64, 128, 4)}, 4 * 128, core::ExpertParams{4});
  const core::ValueId q_r = m.linear(x, Type::Q8_0, 4 * 64);
  m.op(core::OpKind::latent_store, {m.linear(x, Type::Q8_0, 128), m.linear(x, Type::Q8_0, 64)}, {}, 0,
       core::KvParams{0});
  m.finish(m.op(core::OpKind::latent_attention, {q_c, q_r}, {}, 4 * 128, core::AttentionParams{0, 4, 0.1f}));
  for (const int64_t tokens : {1, 8, 512}) {
    const BatchPlan plan = setting.plan(tokens);
    CHECK(count<LatentAttention>(plan) == 1);
    CHECK(count<SortExperts>(plan) == (tokens == 1 ? 0 : 1));
    CHECK(count<ExpertBatch>(plan) == (tokens == 1 ? 0 : 1));
    CHECK(count<PlainOp>(plan) == (tokens == 1 ? 2 : 3)); // embed, store; gather
  }
  CHECK(kernels::cuda::expert_groups(m.program).empty());
  const auto sort = call_of<SortExperts>(setting.plan(512));
  CHECK(sort.rows == 4 * 512);
  CHECK(sort.experts == 4);
}

TEST_CASE("batch plan: in prompts each head multiplies all tokens by its matrix, in tiles that need no sorting") {
  using kernels::cuda::HalfLayout;
  constexpr int64_t kHeads = 16;
  Setting setting(one_layer());
  setting.least_side = 0;
  setting.config.max_batch = 2048;
  setting.model = RandomProgram(1);
  RandomProgram& m = setting.model;
  const core::ValueId x = m.embed(Type::F16, kHeads * 128, 32), ids = m.value(kHeads, false, core::ValueKind::i32);
  m.program.ops.push_back({core::OpKind::head_ids, -1, "head_ids", {}, {ids}, {}, {}});
  const auto of_heads = [&](core::ValueId in, int64_t cols, int64_t rows) {
    return m.op(core::OpKind::expert_linear, {in, ids}, {m.weight(Type::Q5_0, cols, rows, kHeads)}, kHeads * rows,
                core::ExpertParams{kHeads});
  };
  m.finish(of_heads(of_heads(x, 128, 512), 512, 128));
  const auto head_ids = [](const BatchPlan& plan) {
    return std::ranges::count_if(all_of<PlainOp>(plan),
                                 [](const PlainOp& op) { return op.op->kind == core::OpKind::head_ids; });
  };
  for (const int64_t tokens : {1, 2}) {
    const BatchPlan plan = setting.plan(tokens);
    CHECK(count<SortExperts>(plan) == 0);
    CHECK(count<ExpertBatch>(plan) == 0);
    CHECK(head_ids(plan) == 0);
  }
  const kernels::cuda::Plan steps = kernels::cuda::make_plan(m.program, true);
  const kernels::cuda::WorkspacePlan memory =
      kernels::cuda::plan_workspace(m.program, setting.config, steps, setting.limits);
  for (const auto& [tokens, tile] :
       std::map<int64_t, int>{{33, 64}, {64, 64}, {256, 256}, {300, 192}, {512, 256}, {2048, 256}}) {
    CAPTURE(tokens);
    const BatchPlan plan = setting.plan(tokens);
    const int64_t tiles = kHeads * ((tokens + tile - 1) / tile);
    CHECK(head_ids(plan) == 0);
    REQUIRE(count<SortExperts>(plan) == 1);
    CHECK(call_of<SortExperts>(plan).of_heads);
    CHECK(call_of<SortExperts>(plan).tile_tokens == tile);
    REQUIRE(count<ExpertBatch>(plan) == 2);
    for (const ExpertBatch& call : all_of<ExpertBatch>(plan)) {
      CHECK(call.wide);
      CHECK(call.tile_tokens == tile);
      CHECK(call.cut.token_tiles == tiles);
    }
    const auto converts = [&](const ConvertInput& call) {
      return call.layout == HalfLayout::sorted_wide && call.sorted_tile == tile && call.rows == kHeads * tokens;
    };
    CHECK(std::ranges::count_if(all_of<ConvertInput>(plan), converts) == 2);
    CHECK(memory.half_x >= tiles * tile * 512 * 2);
    CHECK(memory.exponents >= tiles * tile);
  }
  // Warpgroups that would have no rows split columns instead.
  const BatchPlan few = setting.plan(64);
  CHECK(call_of<ExpertBatch>(few, 0).cut.log2_parts == 0);
  CHECK(call_of<ExpertBatch>(few, 1).cut.log2_parts > 0);
  setting.options.fuse = false;
  setting.forced[""] = ProductKernel::wide;
  CHECK(head_ids(setting.plan(512)) == 1);
  CHECK_FALSE(call_of<SortExperts>(setting.plan(512)).of_heads);
  setting.options.fuse = true;
  setting.limits.prompt_products = false;
  for (const ExpertBatch& call : all_of<ExpertBatch>(setting.plan(512))) CHECK_FALSE(call.wide);
}

TEST_CASE("workspace plan: inputs of many heads have room, however much that is") {
  constexpr int64_t kHeads = 128, kTokens = 4096;
  Setting setting(one_layer());
  setting.config.max_batch = kTokens;
  setting.model = RandomProgram(1);
  RandomProgram& m = setting.model;
  const core::ValueId x = m.embed(Type::F16, kHeads * 512, 4), ids = m.value(kHeads, false, core::ValueKind::i32);
  m.program.ops.push_back({core::OpKind::head_ids, -1, "head_ids", {}, {ids}, {}, {}});
  m.finish(m.op(core::OpKind::expert_linear, {x, ids}, {m.weight(Type::Q8_0, 512, 16, kHeads)}, kHeads * 16,
                core::ExpertParams{kHeads}));
  const int64_t bytes = kHeads * kTokens * 512 * 2;
  REQUIRE(bytes > kernels::cuda::kMaxSortedWideBytes);
  CHECK(call_of<ExpertBatch>(setting.plan(kTokens)).wide);
  const kernels::cuda::Plan steps = kernels::cuda::make_plan(m.program, true);
  CHECK(kernels::cuda::plan_workspace(m.program, setting.config, steps, setting.limits).half_x >= bytes);
}
