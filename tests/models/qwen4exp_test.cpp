// Indexers and n-grams beyond the reference's recipes.
#include "kernels/cpu/executor/executor.h"
#include "models/model.h"

#include "core/error.h"
#include "support/recipes/recipe_runs.h"

using namespace ridge;

namespace {

gguf::File changed(const std::vector<std::pair<std::string, gguf::OwnedValue>>& keys) {
  const tests::Recipe recipe("qwen4exp-moe");
  gguf::Metadata further;
  for (const auto& [key, value] : keys) further.set("qwen4exp." + key, value);
  return gguf::File::from_bytes(std::make_shared<std::vector<std::byte>>(recipe.image(further)), recipe.name);
}

int64_t count_of(const core::Program& program, core::OpKind kind) {
  return std::ranges::count(program.ops, kind, &core::Op::kind);
}

} // namespace

TEST_CASE("qwen4exp: the same at once, in pieces and after going back, whatever is chosen and hashed") {
  REQUIRE_REFERENCE();
  using Layers = std::vector<uint32_t>;
  const std::vector<int32_t> ids = tests::Recipe("qwen4exp-moe").ids();
  for (const uint32_t ratio : {1, 3, 7})
    for (const uint32_t top : {1, 6}) {
      CAPTURE(ratio);
      CAPTURE(top);
      const gguf::File file =
          changed({{"attention.compress_ratios", Layers(4, ratio)},
                   {"attention.indexer.top_k", top},
                   {"ple.layer_multipliers", std::vector<uint64_t>{35184372088831, 70368744177664, 1234567890123}},
                   {"ple.eos_token_id", uint32_t{20}}});
      const core::Program program = models::build_program(file);
      CHECK(count_of(program, core::OpKind::sparse_attention) == 2);
      const auto make = kernels::cpu::make_cpu_executor;
      const core::ExecutorConfig config = tests::exact_config();
      const std::vector<float> whole = tests::in_pieces(make, program, config, ids, ids.size());
      CHECK(tests::nmse(tests::in_pieces(make, program, config, ids, 1), whole) <= 1e-9);
      CHECK(tests::nmse(tests::in_pieces(make, program, config, ids, 5), whole) <= 1e-9);
      CHECK(tests::nmse(tests::after_going_back(make, program, config, ids), whole) <= 1e-9);
    }
}

TEST_CASE("qwen4exp: a layer whose blocks have no positions attends to all") {
  REQUIRE_REFERENCE();
  const gguf::File file = changed({{"attention.compress_ratios", std::vector<uint32_t>{0, 0, 0, 4}}});
  const core::Program program = models::build_program(file);
  CHECK(count_of(program, core::OpKind::attention) == 1);
  CHECK(count_of(program, core::OpKind::sparse_attention) == 1);
}

TEST_CASE("qwen4exp: what its n-grams cannot be is told in one line") {
  REQUIRE_REFERENCE();
  const auto refused = [](const std::string& key, const gguf::OwnedValue& value, const char* message) {
    const gguf::File file = changed({{key, value}});
    CHECK_THROWS_WITH_AS(models::build_program(file), message, Error);
  };
  refused("ple.layers", std::vector<uint32_t>{0, 2},
          "qwen4exp-moe: qwen4exp.ple.layers is 2 layers: n-grams in more than one layer are not supported yet");
  refused("ple.head_offsets", std::vector<uint64_t>{0, 128, 256, 385},
          "qwen4exp-moe: 128 rows starting at 385 for n-gram head 3, but per_layer_token_embd.weight has 512");
  refused("ple.ngram_size", uint32_t{1}, "qwen4exp-moe: qwen4exp.ple.ngram_size is 1, expected at least 2");
}
