// Draft heads.
#include "core/error.h"
#include "core/stages/split.h"
#include "kernels/cpu/executor/executor.h"
#include "models/model.h"

#include "message_of.h"
#include "support/drafts/draft_model.h"
#include "support/numerics.h"
#include "support/recipes/draft_runs.h"

#include <numeric>

using namespace ridge;
using kernels::cpu::make_cpu_executor;
using tests::DraftModel;
using tests::DraftPair;
using tests::message_of;

namespace {

std::vector<int32_t> some_ids(int64_t count, int64_t vocab) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>((i * i * 7 + 3 * i + 5) % vocab));
  return ids;
}

std::vector<float> floats(const tests::Naive::Matrix& rows) {
  std::vector<float> all;
  for (const tests::Naive::Row& row : rows) all.insert(all.end(), row.begin(), row.end());
  return all;
}

} // namespace

TEST_CASE("draft heads of tiny models have the reference's logits, in pieces and after going back, too") {
  REQUIRE_REFERENCE();
  const std::vector<std::string> names = tests::draft_recipes();
  CHECK(names.size() >= 10);
  for (const std::string& name : names) tests::check_draft_recipe(make_cpu_executor, name);
}

TEST_CASE("a draft head computes what its Program means, from the hidden rows that the model's means") {
  for (const DraftModel& model : {DraftModel::attention(), DraftModel::recurrent(), DraftModel::chained()}) {
    CAPTURE(std::string(model.shape.architecture));
    const gguf::File file = model.open();
    REQUIRE(models::draft_heads(file) == model.heads);
    const std::vector<int32_t> ids = some_ids(20, model.shape.vocab);
    for (int64_t head = 0; head < model.heads; ++head) {
      CAPTURE(head);
      DraftPair pair(file, make_cpu_executor, tests::exact_config(), head);
      std::vector<float> logits;
      pair.run(ids, 0, ids.size(), ids.size(), logits);
      const auto width = static_cast<size_t>(model.shape.width);

      std::vector<int32_t> positions(ids.size()), none;
      std::iota(positions.begin(), positions.end(), 0);
      tests::Naive meaning(pair.model(), core::KvType::f32, core::KvType::f32);
      meaning.forward({ids, positions, {}, none});
      const std::vector<float> rows = floats(meaning.value(pair.model().hidden));
      CHECK(tests::nmse(rows, {pair.input().begin() + static_cast<std::ptrdiff_t>(width),
                               pair.input().begin() + static_cast<std::ptrdiff_t>((ids.size() + 1) * width)}) < 1e-9);

      tests::Naive of_head(pair.head(), core::KvType::f32, core::KvType::f32);
      const core::Batch batch = {ids, positions, {}, positions, pair.input().first(ids.size() * width)};
      CHECK(tests::nmse(logits, of_head.forward(batch)) < 1e-9);
      const std::span<const float> own = pair.head_executor().hidden();
      CHECK(tests::nmse({own.begin(), own.end()}, floats(of_head.value(pair.head().hidden))) < 1e-9);

      for (const size_t size : {1, 3})
        CHECK(tests::nmse(tests::draft_logits(file, make_cpu_executor, tests::exact_config(), ids, size, head),
                          logits) < 1e-9);
    }
    CHECK(tests::nmse(tests::draft_logits_after_going_back(file, make_cpu_executor, tests::exact_config(), ids),
                      tests::draft_logits(file, make_cpu_executor, tests::exact_config(), ids, ids.size())) < 1e-9);
  }
}

TEST_CASE("a draft head without tables and matrices of its own takes the model's") {
  DraftModel model = DraftModel::attention();
  model.own_ends = false;
  const gguf::File file = model.open();
  const core::Program head = models::build_draft_head(file), whole = models::build_program(file);
  const auto weight_of = [](const core::Program& program, core::ValueId id) {
    const auto op = std::ranges::find_if(program.ops, [&](const core::Op& o) { return o.outputs == std::vector{id}; });
    return program.weights[op->weights[0]].name;
  };
  CHECK(weight_of(head, head.logits) == "output.weight");
  CHECK(weight_of(head, head.hidden) == "output_norm.weight");
  CHECK(head.weights[head.ops[0].weights[0]].name == "token_embd.weight");
  CHECK(head.vocab == whole.vocab);
  CHECK(core::layer_count(head) == 1);
  CHECK(head.kv_layers.size() == 1);
  CHECK(whole.kv_layers.size() == 2);
}

TEST_CASE("a draft head with logits of the first tokens only has the same ones, from as much less of the matrix") {
  for (const bool own_ends : {true, false}) {
    CAPTURE(own_ends);
    DraftModel model = DraftModel::attention();
    model.own_ends = own_ends;
    const gguf::File file = model.open();
    const core::Program whole = models::build_draft_head(file);
    core::Program part = models::build_draft_head(file);
    models::cut_vocabulary(part, whole.vocab + 1);
    CHECK(part.choices() == whole.vocab);
    models::cut_vocabulary(part, 10);
    core::validate(part);
    CHECK(part.choices() == 10);
    CHECK(part.vocab == whole.vocab);
    CHECK(part.weights[part.ops.back().weights[0]].rows == 10);
    CHECK(part.weights[part.ops.front().weights[0]].rows == whole.vocab);
    const std::vector<int32_t> ids = {3, 11, 5, 7}, positions = {0, 1, 2, 3};
    std::vector<float> input(ids.size() * whole.values[whole.input].width);
    for (size_t i = 0; i < input.size(); ++i) input[i] = std::sin(static_cast<float>(i));
    const auto a = make_cpu_executor(whole, tests::exact_config()), b = make_cpu_executor(part, tests::exact_config());
    for (core::Executor* executor : {a.get(), b.get()}) executor->forward({ids, positions, {}, positions, input});
    for (int64_t i = 0; i < std::ssize(ids); ++i) {
      const std::span<const float> all = a->logits(i), first = b->logits(i);
      REQUIRE(first.size() == 10);
      CHECK(std::ranges::equal(all.first(10), first));
    }
  }
}

TEST_CASE("only a model that drafts keeps hidden rows, and its logits are the same") {
  for (const DraftModel& model : {DraftModel::attention(), DraftModel::recurrent(), DraftModel::chained()}) {
    const gguf::File file = model.open();
    const core::Program plain = models::build_program(file),
                        drafted = models::build_program(file, models::Ending::drafted);
    CHECK(plain.hidden < 0);
    CHECK(!drafted.values[drafted.hidden].gathered);
    const std::vector<int32_t> ids = some_ids(9, model.shape.vocab);
    const auto run = [&](const core::Program& program, core::Executor& executor) {
      tests::Steps steps;
      for (int32_t i = 0; i < 9; ++i) {
        steps.tokens.push_back(ids[i]);
        steps.positions.push_back(i);
        if (i % 2 == 0) steps.outputs.push_back(i);
      }
      const std::vector<float> logits = tests::run(executor, steps);
      CHECK(executor.hidden().size() == (program.hidden < 0 ? 0 : 9 * static_cast<size_t>(model.shape.width)));
      return logits;
    };
    const auto executor = make_cpu_executor(drafted, tests::exact_config());
    const std::vector<float> expected = run(drafted, *executor);
    CHECK(tests::nmse(run(plain, *make_cpu_executor(plain, tests::exact_config())), expected) < 1e-10);
    const std::vector<float> hidden(executor->hidden().begin(), executor->hidden().end());
    for (int32_t layer = 1; layer <= core::layer_count(drafted); ++layer) {
      CAPTURE(layer);
      const auto split = core::make_split_executor(core::split_program(drafted, layer), tests::exact_config(),
                                                   make_cpu_executor, make_cpu_executor);
      CHECK(run(drafted, *split) == expected);
      CHECK(std::ranges::equal(split->hidden(), hidden));
    }
  }
}

TEST_CASE("a draft head splits behind its layer, too") {
  const DraftModel model = DraftModel::chained();
  const gguf::File file = model.open();
  const std::vector<int32_t> ids = some_ids(12, model.shape.vocab);
  const tests::MakeExecutor split = [](const core::Program& program, const core::ExecutorConfig& config) {
    return core::make_split_executor(core::split_program(program, 1), config, make_cpu_executor, make_cpu_executor);
  };
  CHECK(tests::draft_logits(file, split, tests::exact_config(), ids, 5) ==
        tests::draft_logits(file, make_cpu_executor, tests::exact_config(), ids, 5));
}

TEST_CASE("a file without a usable draft head is refused with one line") {
  DraftModel model = DraftModel::attention();
  CHECK(message_of([&] { models::build_draft_head(model.open(), 1); }) ==
        "draft.gguf: has 1 draft heads, but no number 1");
  model.heads = 0;
  const gguf::File without = model.open();
  CHECK(models::draft_heads(without) == 0);
  CHECK(message_of([&] { models::build_draft_head(without); }) ==
        "draft.gguf: has no draft head (a file with one has glm4moe.nextn_predict_layers and tensors blk.3.nextn.*)");
  CHECK_NOTHROW(models::build_program(without, models::Ending::drafted)); // a separate file may have the head
  DraftModel other = DraftModel::attention();
  other.shape.architecture = "qwen3";
  CHECK(message_of([&] { models::build_program(other.open(), models::Ending::drafted); }) ==
        "draft.gguf: draft heads of qwen3 models are not supported yet");
}

TEST_CASE("a tensor of a draft head's layer that has no place in it is refused") {
  const DraftModel model = DraftModel::attention();
  std::vector<gguf::TensorInfo> tensors = model.tensors();
  tensors.push_back({"blk.2.other.weight", quant::Type::F32, {3}});
  std::vector<std::byte> image;
  gguf::Writer writer(image, model.metadata(), tensors);
  for (const gguf::TensorInfo& tensor : tensors) writer.write(std::vector<std::byte>(tensor.bytes()));
  writer.finish();
  const gguf::File file = gguf::File::from_bytes(std::make_shared<std::vector<std::byte>>(image), "draft.gguf");
  CHECK_NOTHROW(models::build_program(file));
  CHECK(message_of([&] { models::build_draft_head(file); }).find("blk.2.other.weight is not used") !=
        std::string::npos);
}

TEST_CASE("a synthetic shape has its draft heads behind the layers, where they are wanted") {
  models::Shape shape = DraftModel::recurrent().shape;
  shape.layers = 4;
  shape.layer_kinds = "DDDA";
  for (const int64_t heads : {0, 1}) {
    shape.draft_layers = heads;
    std::vector<std::byte> image;
    gguf::Metadata metadata = models::metadata_of(shape);
    metadata.set("tokenizer.ggml.model", "none");
    gguf::Writer writer(image, metadata, models::tensors_of(shape));
    for (const gguf::TensorInfo& tensor : models::tensors_of(shape))
      writer.write(std::vector<std::byte>(tensor.bytes()));
    writer.finish();
    const gguf::File file = gguf::File::from_bytes(std::make_shared<std::vector<std::byte>>(image), "shape.gguf");
    CHECK(models::draft_heads(file) == heads);
    CHECK(core::layer_count(models::build_program(file)) == 4);
    if (heads > 0) CHECK(models::build_draft_head(file).kv_layers.size() == 1);
  }
  CHECK_THROWS_WITH(models::synthetic_model("llama-1b:Q4_K", true), "--shape: llama-1b has no draft heads");
}
