// Files written by other programs.
#include "gguf/gguf.h"
#include "gguf/touch.h"
#include "support/reference.h"

#include <filesystem>

using namespace ridge;

namespace {

std::vector<std::filesystem::path> reference_files(const std::vector<std::string>& folders) {
  std::vector<std::filesystem::path> paths;
  for (const std::string& folder : folders)
    for (const auto& entry : std::filesystem::directory_iterator(tests::reference_dir() + "/" + folder))
      if (entry.path().extension() == ".gguf") paths.push_back(entry.path());
  return paths;
}

} // namespace

TEST_CASE("a copy of every reference file is the same to the byte") {
  REQUIRE_REFERENCE();
  const auto paths = reference_files({"models", "types", "archs", "vocab"});
  REQUIRE(paths.size() == 21);
  for (const auto& path : paths) {
    CAPTURE(path.string());
    const gguf::File file = gguf::File::open(path.string());
    CHECK(file.version() == 3);
    CHECK(file.size_bytes() == std::filesystem::file_size(path));
    tests::touch(file);
    const auto copy = tests::copy_of(file);
    const std::string original = tests::read_file(path.string());
    REQUIRE(copy.size() == original.size());
    CHECK(std::memcmp(copy.data(), original.data(), copy.size()) == 0);
  }
}

TEST_CASE("real vocabularies have the number of tokens their models are known for") {
  REQUIRE_REFERENCE();
  const std::pair<const char*, size_t> kVocabularies[] = {
      {"gpt-2", 50257}, {"llama-bpe", 128256}, {"llama-spm", 32000}, {"phi-3", 32064}, {"qwen2", 151936}};
  for (const auto& [name, tokens] : kVocabularies) {
    CAPTURE(name);
    const gguf::File file =
        gguf::File::open(tests::reference_dir() + "/vocab/ggml-vocab-" + std::string(name) + ".gguf");
    const gguf::Value* list = file.find("tokenizer.ggml.tokens");
    REQUIRE(list);
    CHECK(list->as_strings().value().size() == tokens);
    CHECK(file.find("tokenizer.ggml.token_type")->as_ints().value().size() == tokens);
    CHECK(file.tensors().empty());
  }
}

TEST_CASE("a real model's hyperparameters and tensors are read as its makers wrote them") {
  REQUIRE_REFERENCE();
  const gguf::File file = gguf::File::open(tests::reference_dir() + "/models/stories260K.gguf");
  CHECK(file.get_string("general.architecture") == "llama");
  CHECK(file.get_int("llama.block_count") == 5);
  CHECK(file.get_int("llama.embedding_length") == 64);
  CHECK(file.get_int("llama.attention.head_count") == 8);
  CHECK(file.get_int("llama.attention.head_count_kv") == 4);
  CHECK(file.get_float("llama.attention.layer_norm_rms_epsilon") == doctest::Approx(1e-5));
  CHECK(file.find("tokenizer.ggml.tokens")->as_strings().value()[403] == "▁Once");
  const gguf::Tensor* embedding = file.find_tensor("token_embd.weight");
  REQUIRE(embedding);
  CHECK(embedding->type == quant::Type::F32);
  CHECK(embedding->dims == std::array<int64_t, 4>{64, 512, 1, 1});
  CHECK(embedding->data.size() == 4 * 64 * 512);
}

TEST_CASE("every type of the reference files is known by the name its file carries") {
  REQUIRE_REFERENCE();
  for (const auto& path : reference_files({"types"})) {
    CAPTURE(path.string());
    const gguf::File file = gguf::File::open(path.string());
    const gguf::Tensor* matrix = file.find_tensor("blk.0.ffn_up.weight");
    REQUIRE(matrix);
    CHECK("tiny-" + std::string(matrix->type.name()) == path.stem().string());
    CHECK(matrix->weights() == 256 * 256);
    REQUIRE(matrix->type.format());
    CHECK(matrix->data.size() == static_cast<size_t>(matrix->type.format()->row_bytes(256 * 256)));
  }
}
