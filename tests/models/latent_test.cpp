// Latent attention in older files.
#include "kernels/cpu/executor/executor.h"
#include "models/model.h"

#include "support/recipes/recipe_runs.h"

#include <map>

using namespace ridge;

namespace {

// Converts to attn_kv_b: per head the rows of k_b, not transposed, then those of v_b.
gguf::File with_joined_matrices(const tests::Recipe& recipe, int64_t k_dim, int64_t v_dim) {
  gguf::Metadata metadata;
  for (const auto& entry : recipe.document["metadata"]) {
    const std::string key = entry[0];
    if (!key.ends_with("_mla")) metadata.set(key, tests::Recipe::value(entry[1], entry[2]));
  }
  metadata.set("deepseek2.attention.key_length", static_cast<uint32_t>(k_dim));
  metadata.set("deepseek2.attention.value_length", static_cast<uint32_t>(v_dim));
  metadata.set("tokenizer.ggml.model", "none");

  std::vector<gguf::TensorInfo> infos;
  std::vector<std::vector<float>> values;
  std::map<std::string, std::vector<float>> k_b;
  for (const auto& tensor : recipe.document["tensors"]) {
    std::string name = tensor[0];
    std::vector<int64_t> dims = tensor[1];
    std::vector<float> weights = recipe.weights(tensor);
    const std::string blk = name.substr(0, name.find('.', 4) + 1);
    if (name.ends_with("attn_k_b.weight")) {
      k_b[blk] = weights;
      continue;
    }
    if (name.ends_with("attn_v_b.weight")) {
      const int64_t rank = dims[0], heads = dims[2], nope = std::ssize(k_b[blk]) / rank / heads;
      std::vector<float> joined;
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t row = 0; row < nope; ++row)
          for (int64_t i = 0; i < rank; ++i) joined.push_back(k_b[blk][(h * rank + i) * nope + row]);
        const auto head = weights.begin() + h * rank * v_dim;
        joined.insert(joined.end(), head, head + rank * v_dim);
      }
      name = blk + "attn_kv_b.weight";
      dims = {rank, heads * (nope + v_dim)};
      weights = std::move(joined);
    }
    infos.push_back({name, quant::Type::F32, dims});
    values.push_back(std::move(weights));
  }
  auto image = std::make_shared<std::vector<std::byte>>();
  gguf::Writer writer(*image, metadata, infos);
  for (const std::vector<float>& tensor : values) writer.write(std::as_bytes(std::span(tensor)));
  writer.finish();
  return gguf::File::from_bytes(image, "joined.gguf");
}

} // namespace

TEST_CASE("older files, with attn_kv_b, give the logits of those with attn_k_b and attn_v_b") {
  REQUIRE_REFERENCE();
  const tests::Recipe recipe("deepseek2-moe-heads");
  const gguf::File file = with_joined_matrices(recipe, 192, 128);
  const core::Program program = models::build_program(file);
  const std::vector<int32_t> ids = recipe.ids();
  const std::vector<float> logits =
      tests::in_pieces(kernels::cpu::make_cpu_executor, program, tests::exact_config(), ids, ids.size());
  CHECK(tests::nmse(logits, recipe.golden()) <= 1e-6);
}
