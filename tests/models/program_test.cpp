// Programs from real files, and refusals.
#include "models/model.h"

#include "core/error.h"
#include "model_image.h"
#include "support/reference.h"

#include <algorithm>
#include <functional>
#include <map>

using namespace ridge;

namespace {

std::string refusal(const gguf::File& file) {
  try {
    models::build_program(file);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

int count(const core::Program& program, core::OpKind kind) {
  return static_cast<int>(std::ranges::count(program.ops, kind, &core::Op::kind));
}

} // namespace

TEST_CASE("every reference model becomes a Program whose decode step reads all of its matrices") {
  REQUIRE_REFERENCE();
  for (const char* name :
       {"archs/llama-experts", "archs/llama-gqa-tied-freqs", "archs/llama-linear", "archs/llama-yarn", "archs/qwen2",
        "archs/qwen3", "archs/qwen3moe", "models/stories260K", "types/tiny-Q4_K"}) {
    CAPTURE(name);
    const gguf::File file = gguf::File::open(tests::reference_dir() + "/" + name + ".gguf");
    const core::Program program = models::build_program(file);
    CHECK(count(program, core::OpKind::attention) == file.get_int(program.architecture + ".block_count"));
    const bool experts = count(program, core::OpKind::route) > 0;
    CHECK(experts == (std::string(name).find("experts") != std::string::npos ||
                      std::string(name).find("moe") != std::string::npos));

    double stored = 0, embedding = 0, embedding_row = 0;
    for (const gguf::Tensor& tensor : file.tensors()) {
      if (tensor.name == "rope_freqs.weight") continue;
      stored += static_cast<double>(tensor.data.size());
      if (tensor.name == "token_embd.weight") {
        embedding = static_cast<double>(tensor.data.size());
        embedding_row = embedding / static_cast<double>(tensor.dims[1]);
      }
    }
    const bool tied = !file.find_tensor("output.weight");
    const double read = core::program_cost(program, {}).weight_bytes;
    if (experts) {
      CHECK(read < stored);
    } else {
      CHECK(read == doctest::Approx(stored - (tied ? 0 : embedding) + embedding_row));
    }
  }
}

TEST_CASE("biases are picked up where a file has them") {
  REQUIRE_REFERENCE();
  const gguf::File file = gguf::File::open(tests::reference_dir() + "/archs/qwen2.gguf");
  const core::Program program = models::build_program(file);
  for (const core::Op& op : program.ops)
    if (op.name.ends_with("attn_q")) CHECK(op.weights.size() == 2);
}

TEST_CASE("a vocabulary without a model is refused by what it lacks") {
  REQUIRE_REFERENCE();
  const gguf::File file = gguf::File::open(tests::reference_dir() + "/vocab/ggml-vocab-llama-bpe.gguf");
  CHECK(refusal(file).find("token_embd.weight is missing") != std::string::npos);
}

TEST_CASE("tokens of T5's encoder see later ones where the file is for texts, or says so") {
  const auto is_causal = [](const std::function<void(gguf::Metadata&)>& change) {
    tests::ModelImage image;
    gguf::Metadata& keys = image.metadata;
    keys.set("general.architecture", "t5encoder");
    for (const auto& [key, value] : std::map<std::string, uint32_t>{{"vocab_size", 32},
                                                                    {"context_length", 64},
                                                                    {"embedding_length", 64},
                                                                    {"block_count", 1},
                                                                    {"feed_forward_length", 96},
                                                                    {"attention.head_count", 4},
                                                                    {"attention.key_length", 16},
                                                                    {"attention.value_length", 16},
                                                                    {"attention.relative_buckets_count", 8}})
      keys.set("t5encoder." + key, value);
    keys.set("t5encoder.attention.layer_norm_rms_epsilon", 1e-6f);
    change(keys);
    const auto add = [&](const char* name, std::vector<int64_t> dims) {
      image.tensors.push_back({std::string(name) + ".weight", quant::Type::F32, std::move(dims)});
    };
    add("token_embd", {64, 32});
    add("enc.output_norm", {64});
    for (const char* norm : {"enc.blk.0.attn_norm", "enc.blk.0.ffn_norm"}) add(norm, {64});
    for (const char* matrix : {"enc.blk.0.attn_q", "enc.blk.0.attn_k", "enc.blk.0.attn_v", "enc.blk.0.attn_o"})
      add(matrix, {64, 64});
    add("enc.blk.0.attn_rel_b", {4, 8});
    for (const char* matrix : {"enc.blk.0.ffn_up", "enc.blk.0.ffn_gate"}) add(matrix, {64, 96});
    add("enc.blk.0.ffn_down", {96, 64});
    const gguf::File file = image.open();
    const core::Program program = models::build_program(file, models::Ending::hidden);
    return !core::sees_ahead(program);
  };
  CHECK(is_causal([](gguf::Metadata& keys) { keys.set("tokenizer.ggml.model", "none"); }));
  CHECK_FALSE(is_causal([](gguf::Metadata& keys) { keys.set("tokenizer.ggml.model", "t5"); }));
  CHECK(is_causal([](gguf::Metadata& keys) {
    keys.set("tokenizer.ggml.model", "t5");
    keys.set("t5encoder.attention.causal", true);
  }));
}

TEST_CASE("an unknown architecture is refused by name") {
  tests::ModelImage image(tests::ModelImage::dense("llama"));
  image.metadata.set("general.architecture", "perceptron");
  CHECK(image.refusal().find("unknown architecture 'perceptron'; `ridge models --architectures` lists") !=
        std::string::npos);
  image.metadata.set("general.architecture", "qwen3-moe");
  CHECK(image.refusal().find("(closest supported: 'qwen3moe')") != std::string::npos);
  image.metadata.set("general.architecture", "clip");
  CHECK(image.refusal().find("give the model with -m and this file with --mmproj") != std::string::npos);
}
