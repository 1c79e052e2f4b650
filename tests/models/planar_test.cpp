// Matrices in planar parts: whole, divided between uses, and where the file may have others instead.
#include "models/file/planar.h"

#include "core/half.h"
#include "gguf/writer.h"
#include "kernels/cpu/executor/executor.h"
#include "models/model.h"
#include "models/synthetic.h"
#include "support/numerics.h"

#include <doctest/doctest.h>

#include <cstring>

using namespace ridge;

namespace {

constexpr float kScale = 1.0f / 64;

uint8_t code_at(int64_t i) { return static_cast<uint8_t>(i * 37 % 0x60 | (i % 3 == 0 ? 0x80 : 0)); }

bool is_packed(const gguf::TensorInfo& tensor) {
  return tensor.dims.size() == 2 && tensor.type == quant::Type::F16 && tensor.name.starts_with("blk.") &&
         tensor.name.find("ssm_") == std::string::npos;
}

// With the matrices of layers as FP8 in planar parts, or as the numbers that these stand for.
gguf::File file_of(const models::Shape& shape, bool planar) {
  gguf::Metadata metadata = models::metadata_of(shape);
  std::vector<gguf::TensorInfo> tensors;
  std::vector<std::vector<std::byte>> contents;
  const auto add = [&](std::string name, gguf::TensorType type, std::vector<int64_t> dims, const auto& numbers) {
    const auto bytes = std::as_bytes(std::span(numbers));
    tensors.push_back({std::move(name), type, std::move(dims)});
    contents.emplace_back(bytes.begin(), bytes.end());
  };
  for (gguf::TensorInfo& tensor : models::tensors_of(shape)) {
    int64_t count = 1;
    for (const int64_t dim : tensor.dims) count *= dim;
    if (!is_packed(tensor)) {
      add(tensor.name, tensor.type, tensor.dims, models::random_weights(tensor.type.format()->type, count));
    } else if (planar) {
      std::vector<uint8_t> codes(count);
      for (int64_t i = 0; i < count; ++i) codes[i] = code_at(i);
      add(tensor.name + ".qdata", gguf::PlainType::I8, tensor.dims, codes);
      add(tensor.name + ".scales", quant::Type::F32, {1, tensor.dims[1]}, std::vector<float>(tensor.dims[1], kScale));
    } else {
      std::vector<float> numbers(count);
      for (int64_t i = 0; i < count; ++i) numbers[i] = kScale * core::f32_from_e4m3(code_at(i));
      add(tensor.name, quant::Type::F32, tensor.dims, numbers);
    }
  }
  if (planar) metadata.set("ridge.quant.scheme", "fp8_e4m3");
  auto image = std::make_shared<std::vector<std::byte>>();
  gguf::Writer writer(*image, metadata, tensors);
  for (const std::vector<std::byte>& bytes : contents) writer.write(bytes);
  writer.finish();
  return gguf::File::from_bytes(image, planar ? "planar" : "plain");
}

std::vector<float> logits_of(const gguf::File& file) {
  const core::Program program = models::build_program(file);
  core::ExecutorConfig config;
  config.context = config.max_batch = config.max_outputs = 8;
  config.exact = true;
  const auto executor = kernels::cpu::make_cpu_executor(program, config);
  const std::vector<int32_t> tokens = {3, 1, 4, 1, 5}, positions = {0, 1, 2, 3, 4}, last = {4};
  executor->forward({.tokens = tokens, .positions = positions, .outputs = last});
  const auto row = executor->logits(0);
  return {row.begin(), row.end()};
}

} // namespace

TEST_CASE("planar matrices give the logits of their numbers, also those that have parts and those of shared experts") {
  const models::Shape gated = {.name = "gated",
                               .architecture = "qwen35moe",
                               .layers = 4,
                               .width = 64,
                               .ffn_width = 64,
                               .heads = 2,
                               .kv_heads = 1,
                               .head_dim = 64,
                               .vocab = 96,
                               .rope_base = 1e4,
                               .experts = 4,
                               .experts_used = 2,
                               .layer_kinds = "DDDA",
                               .rope_dims = 32,
                               .output_gate = true,
                               .inner = 128,
                               .state = 64,
                               .inner_heads = 2,
                               .inner_groups = 1,
                               .conv_kernel = 4,
                               .shared_ffn_width = 128};
  const models::Shape fused = {.name = "fused",
                               .architecture = "phi3",
                               .layers = 2,
                               .width = 64,
                               .ffn_width = 128,
                               .heads = 2,
                               .kv_heads = 1,
                               .head_dim = 32,
                               .vocab = 96,
                               .rope_base = 1e4};
  const models::Shape latent = {.name = "latent",
                                .architecture = "deepseek2",
                                .layers = 2,
                                .width = 64,
                                .ffn_width = 64,
                                .heads = 2,
                                .kv_heads = 1,
                                .head_dim = 96,
                                .vocab = 96,
                                .rope_base = 1e4,
                                .experts = 4,
                                .experts_used = 2,
                                .rope_dims = 32,
                                .shared_ffn_width = 64,
                                .dense_layers = 1,
                                .dense_ffn_width = 128,
                                .latent = 64,
                                .query_latent = 64,
                                .value_dim = 64};
  for (const models::Shape& shape : {gated, fused, latent}) {
    CAPTURE(shape.name);
    CHECK(tests::nmse(logits_of(file_of(shape, true)), logits_of(file_of(shape, false))) < 1e-10);
  }
}
