// The table of architectures.
#include "models/architecture.h"

#include "gguf/writer.h"
#include "models/model.h"
#include "models/synthetic.h"
#include "support/reference.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <sys/mman.h>

using namespace ridge;

TEST_CASE("each architecture has a name of its own, a builder, and classes that no other row has") {
  std::set<std::string_view> names, classes;
  for (const models::Architecture& row : models::architecture_table()) {
    CAPTURE(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(models::find_architecture(row.name) == &row);
    CHECK((row.file.build != nullptr));
    CHECK(!row.models.empty());
    CHECK(!row.layers.empty());
    for (const std::string_view hf_class : row.hf_classes) {
      CHECK(!hf_class.empty());
      CHECK(classes.insert(hf_class).second);
    }
  }
  CHECK(classes.contains("MixtralForCausalLM"));
  CHECK(models::find_architecture("gpt1") == nullptr);
}

TEST_CASE("docs/models.md shows every architecture as arches.def has it") {
  const std::string docs = tests::read_file(std::string(RIDGE_SOURCE_DIR) + "/docs/models.md");
  const size_t first = docs.find("| architecture |"), last = docs.find("\n\n", first);
  REQUIRE(last != std::string::npos);
  const std::string table = docs.substr(first, last + 1 - first);
  INFO("./dev docs writes it again");
  CHECK(table == models::architectures_as_markdown());
}

TEST_CASE(
    "a class of two architectures is one's with experts and the other's without, and no tensor is made twice alike") {
  std::set<std::string> classes;
  for (const models::Architecture& row : models::architecture_table()) {
    CAPTURE(row.name);
    for (const std::string_view hf_class : row.hf_classes) {
      const size_t space = hf_class.find(' ');
      CHECK(classes.insert(std::string(hf_class)).second);
      if (space == std::string_view::npos) continue;
      const std::string_view condition = hf_class.substr(space);
      CHECK((condition == " with experts" || condition == " without experts"));
      CHECK(!classes.contains(std::string(hf_class.substr(0, space))));
    }
    std::set<std::pair<std::string_view, std::string_view>> rules;
    for (const models::TensorRule& rule : row.checkpoint().tensors) CHECK(rules.emplace(rule.from, rule.to).second);
  }
}

TEST_CASE("every shape of synthetic models gives a Program") {
  for (const models::Shape& shape : models::shapes()) {
    CAPTURE(shape.name);
    const gguf::Metadata metadata = models::metadata_of(shape);
    std::vector<gguf::TensorInfo> tensors = models::tensors_of(shape);
    const std::vector<std::byte> head = gguf::file_head(metadata, tensors);
    const uint64_t size = gguf::file_bytes(metadata, tensors);
    // Zero weights, of which only those that are read take memory.
    void* image = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(image != MAP_FAILED);
    std::memcpy(image, head.data(), head.size());
    const auto file = gguf::File::from_span({static_cast<std::byte*>(image), size}, std::string(shape.name));
    if (const gguf::Tensor* factors = file.find_tensor("rope_freqs.weight"))
      std::fill_n(reinterpret_cast<float*>(const_cast<std::byte*>(factors->data.data())), factors->weights(), 1.0f);
    const core::Program program = models::build_program(file);
    CHECK(program.vocab == shape.vocab);
    ::munmap(image, size);
  }
}
