// Malformed encoder files give one line of error.
#include "core/error.h"
#include "engine/pictures/picture_reader.h"

#include "support/numerics.h"
#include "support/recipes/golden_rows.h"

using namespace ridge;

namespace {

std::string error_of(const nlohmann::ordered_json& recipe) {
  static const tests::TemporaryFolder folder;
  tests::Recipe made("encoder", recipe);
  const std::vector<std::byte> bytes = made.image();
  const std::string path = folder.write("mmproj.gguf", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  try {
    engine::PictureReader reader(path, {.threads = 1, .exact = true});
    if (reader.encoders().pictures) reader.read(tests::formula_picture(60, 40, 1));
    if (reader.encoders().sounds) reader.read(tests::formula_sound(300, 16000, 1));
  } catch (const core::Error& error) {
    CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
    CHECK(std::string_view(error.what()).size() > 10);
    return error.what();
  }
  return "";
}

nlohmann::ordered_json recipe_of(const std::string& name) {
  return nlohmann::ordered_json::parse(tests::read_file(tests::VisionCase::folder() + "/" + name + ".mmproj.json"));
}

void check_malformed(const std::string& name, const nlohmann::ordered_json& whole) {
  CAPTURE(name);
  CHECK(error_of(whole) == "");
  for (size_t i = 0; i < whole["metadata"].size(); ++i) {
    const auto key = whole["metadata"][i][0].get<std::string>();
    CAPTURE(key);
    const bool is_count = whole["metadata"][i][1] == 4;
    for (const int64_t value : {int64_t{0}, int64_t{1}, int64_t{3}, int64_t{0x7fffffff}, int64_t{0xffffffff}}) {
      nlohmann::ordered_json changed = whole;
      if (is_count) changed["metadata"][i][2] = value;
      if (is_count) error_of(changed);
    }
    nlohmann::ordered_json without = whole;
    without["metadata"].erase(i);
    error_of(without);
  }
  for (size_t i = 0; i < whole["tensors"].size(); ++i) {
    const auto tensor = whole["tensors"][i][0].get<std::string>();
    CAPTURE(tensor);
    if (name == "parakeet" && tensor.starts_with("mm.model.")) continue; // of another encoder
    nlohmann::ordered_json changed = whole;
    changed["tensors"][i][1][0] = changed["tensors"][i][1][0].get<int64_t>() + 1;
    // Some last layers and MiniCPM's positions are not read; Gemma's width is arbitrary.
    const bool any = (name == "mlp-pinpoints" && tensor.starts_with("v.blk.2.")) || tensor == "resampler.pos_embed_k" ||
                     (name == "gemma3" && tensor == "mm.input_projection.weight");
    CHECK((any || error_of(changed).find(".gguf: ") != std::string::npos));
    nlohmann::ordered_json without = whole;
    without["tensors"].erase(i);
    error_of(without);
    nlohmann::ordered_json renamed = whole;
    renamed["tensors"][i][0] = tensor.starts_with("a.") || tensor.starts_with("mm.a.") ? "a.unknown" : "v.unknown";
    CHECK(error_of(renamed) != "");
  }
}

} // namespace

TEST_CASE("hyperparameters out of range and missing tensors are named") {
  REQUIRE_REFERENCE();
  for (const char* name : {"qwen3vl-deep", "gemma3", "gemma4v", "internvl", "qwen25vl", "mlp-pinpoints", "lfm2",
                           "hunyuanvl", "minicpmv-v2", "qwen3a", "gemma4a-plain", "voxtral"})
    check_malformed(name, recipe_of(name));
}

TEST_CASE("hyperparameters out of range and missing tensors of llama.cpp's golden encoders are named") {
  for (const tests::GoldenCase& of : tests::golden_cases("mtmd"))
    if (of.name.find('-') == of.name.npos) check_malformed(of.name, of.document["mmproj"]);
}

TEST_CASE("files without an encoder are refused") {
  REQUIRE_REFERENCE();
  nlohmann::ordered_json recipe = recipe_of("gemma3");
  for (auto& entry : recipe["metadata"])
    if (entry[0] == "clip.projector_type") entry[2] = "unheard_of";
  CHECK(error_of(recipe).find("the projector 'unheard_of' is not supported yet") != std::string::npos);
  recipe = recipe_of("gemma3");
  for (auto& entry : recipe["metadata"])
    if (entry[0] == "general.architecture") entry[2] = "llama";
  CHECK(error_of(recipe).find("expected 'clip'") != std::string::npos);
  recipe = recipe_of("ultravox");
  for (auto& entry : recipe["metadata"])
    if (entry[0] == "clip.projector_type") entry[2] = "unheard_of";
  CHECK(error_of(recipe).find("the audio encoder 'unheard_of' is not supported yet") != std::string::npos);
}

TEST_CASE("pictures are read where the encoder of sound beside theirs has tensors that are not known") {
  REQUIRE_REFERENCE();
  nlohmann::ordered_json recipe = recipe_of("gemma4-both");
  CHECK(error_of(recipe) == "");
  recipe["tensors"].push_back({"a.unknown.weight", {8}, 0.0, 1.0});
  CHECK(error_of(recipe) == "");
  recipe["tensors"].push_back({"v.unknown.weight", {8}, 0.0, 1.0});
  CHECK(error_of(recipe).find("v.unknown.weight is not used") != std::string::npos);
}
