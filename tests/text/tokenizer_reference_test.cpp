// Reference IDs for real vocabularies.
#include "support/reference.h"
#include "text/tokenizer/tokenizer.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <iterator>
#include <sstream>

using namespace ridge;
using text::Tokenizer;

namespace {

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t start = 0;
  for (size_t found; (found = text.find(separator, start)) != std::string::npos; start = found + separator.size())
    parts.push_back(text.substr(start, found - start));
  parts.push_back(text.substr(start));
  return parts;
}

} // namespace

TEST_CASE("real vocabularies give the ids their makers' tokenizers give, and the text back") {
  REQUIRE_REFERENCE();
  for (const auto& entry : std::filesystem::directory_iterator(tests::reference_dir() + "/vocab")) {
    if (entry.path().extension() != ".gguf") continue;
    const std::string path = entry.path();
    CAPTURE(path);
    const auto tokenizer = Tokenizer::from_file(gguf::File::open(path));
    CHECK(tokenizer->warnings().empty());
    const auto texts = split(tests::read_file(path + ".inp"), "\n__ggml_vocab_test__\n");
    const auto lines = split(tests::read_file(path + ".out"), "\n");
    REQUIRE(lines.size() >= texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(texts[i]);
      std::istringstream in(lines[i]);
      const std::vector<int32_t> expected(std::istream_iterator<int32_t>(in), {});
      const auto ids = tokenizer->encode(texts[i]);
      CHECK(ids == expected);
      CHECK(tokenizer->decode(ids) == texts[i]);
    }
  }
}

TEST_CASE("a real model's prompts become the ids it was run with") {
  REQUIRE_REFERENCE();
  const std::string path = tests::reference_dir() + "/models/stories260K";
  const auto tokenizer = Tokenizer::from_file(gguf::File::open(path + ".gguf"));
  const auto cases = nlohmann::json::parse(tests::read_file(path + ".greedy.json"));
  REQUIRE_FALSE(cases.empty());
  for (const auto& run : cases) {
    const auto prompt = run.at("prompt").get<std::string>();
    const auto ids = tokenizer->encode(prompt, {.add_special = true});
    CHECK(ids == run.at("prompt_ids").get<std::vector<int32_t>>());
    CHECK(tokenizer->decode(ids) == prompt);
  }
}
