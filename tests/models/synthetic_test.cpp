// Routing in synthetic models.
#include "models/synthetic.h"

#include "kernels/cpu/executor/executor.h"
#include "models/model.h"

#include <doctest/doctest.h>

#include <map>
#include <mutex>
#include <random>
#include <set>

using namespace ridge;

namespace {

gguf::File with_experts() {
  return gguf::File::from_bytes(models::synthetic_model("lfm2-8b-a1b:IQ1_S"), "lfm2-8b-a1b:IQ1_S");
}

class Choices final : public core::InputObserver {
 public:
  void observe(const core::Op& op, int64_t expert, std::span<const float* const>) override {
    if (op.kind != core::OpKind::expert_linear) return;
    const std::lock_guard lock(mutex_);
    of_op[op.weights[0]].insert(expert);
  }
  std::map<core::WeightId, std::set<int64_t>> of_op;

 private:
  std::mutex mutex_;
};

} // namespace

TEST_CASE("no two experts of a synthetic model have equal rows in the router") {
  const gguf::File file = with_experts();
  int routers = 0;
  std::set<std::vector<std::byte>> rows;
  for (const gguf::Tensor& tensor : file.tensors()) {
    if (!tensor.name.ends_with("ffn_gate_inp.weight")) continue;
    ++routers;
    const auto row_bytes = static_cast<ptrdiff_t>(tensor.data.size() / static_cast<size_t>(tensor.dims[1]));
    for (auto row = tensor.data.begin(); row != tensor.data.end(); row += row_bytes)
      CHECK(rows.emplace(row, row + row_bytes).second);
  }
  CHECK(routers == 22);
}

TEST_CASE("tokens of a synthetic model choose different experts") {
  const gguf::File file = with_experts();
  const core::Program program = models::build_program(file);
  Choices choices;
  core::ExecutorConfig config;
  config.context = config.max_batch = 12;
  config.observer = &choices;
  const auto executor = kernels::cpu::make_cpu_executor(program, config);
  std::mt19937 random(1);
  for (int32_t position = 0; position < 12; ++position) {
    const int32_t token = static_cast<int32_t>(random() % program.vocab);
    executor->forward({{&token, 1}, {&position, 1}, {}, {}});
  }
  double different = 0;
  for (const auto& [op, experts] : choices.of_op) different += static_cast<double>(experts.size());
  different /= static_cast<double>(choices.of_op.size());
  CHECK(different > 20); // of 32; even routing gives 25.6, identical routing 8
}

TEST_CASE("a synthetic model has the keys that llama.cpp does without a default for, and says its type") {
  struct Wanted {
    const char *model, *key;
    int64_t value;
  };
  for (const Wanted& wanted : {Wanted{"gemma-4-12b:Q4_K_M", "gemma4.embedding_length_per_layer_input", 0},
                               {"glm-4.7-flash:Q4_K_M", "deepseek2.expert_shared_count", 1},
                               {"deepseek-v2-lite:Q4_K_M", "deepseek2.expert_shared_count", 2},
                               {"rwkv7-2.9b:Q4_K_M", "rwkv7.attention.decay_lora_rank", 96},
                               {"grovemoe:Q4_K_M", "grovemoe.experts_per_group", 2},
                               {"minimax-m3:Q4_K_M", "minimax-m3.attention.indexer.top_k", 16},
                               {"deepseek-v3.2:Q4_K_M", "deepseek32.expert_shared_count", 1},
                               {"deepseek-v4-flash:Q4_K_M", "deepseek4.hyper_connection.count", 4},
                               {"llama-8b:F16", "general.file_type", 1},
                               {"llama-8b:Q6_K", "general.file_type", 18},
                               {"llama-8b:Q4_K_M", "general.file_type", 15}}) {
    CAPTURE(wanted.model);
    const gguf::Metadata metadata = models::synthetic_metadata(wanted.model);
    REQUIRE(metadata.find(wanted.key));
    CHECK(metadata.find(wanted.key)->view().as_int() == wanted.value);
  }
}

TEST_CASE("a synthetic model's decays of heads have the shape that llama.cpp requires") {
  for (const models::Shape& shape : models::shapes())
    for (const gguf::TensorInfo& tensor : models::tensors_of(shape))
      if (shape.architecture == "kimi-linear" && tensor.name.ends_with(".ssm_a"))
        CHECK(tensor.dims == std::vector<int64_t>{1, shape.heads});
}
