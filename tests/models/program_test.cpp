// Programs from real files: what every architecture's file becomes, and how files that do not fit are refused.
#include "models/model.h"

#include "core/error.h"
#include "model_image.h"
#include "support/reference.h"

#include <algorithm>

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

TEST_CASE("an unknown architecture is refused by name") {
  tests::ModelImage image(tests::ModelImage::dense("llama"));
  image.metadata.set("general.architecture", "perceptron");
  CHECK(image.refusal().find("unknown architecture 'perceptron'; `ridge models --architectures` lists") !=
        std::string::npos);
  image.metadata.set("general.architecture", "qwen3-moe");
  CHECK(image.refusal().find("(the nearest that runs is 'qwen3moe')") != std::string::npos);
}
