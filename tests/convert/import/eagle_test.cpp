// EAGLE-3 heads in checkpoints.
#include "convert/import/eagle.h"
#include "convert/import/import.h"
#include "core/error.h"
#include "gguf/gguf.h"
#include "pieces.h"
#include "support/drafts/eagle_pair.h"

using namespace ridge;
using namespace ridge::tests;

namespace {

// A head of SpecForge for a model as wide as the head.
struct Head {
  Pieces pieces{"LlamaForCausalLM"};
  TemporaryFolder out;

  Head() {
    pieces.config.update({{"draft_vocab_size", 2}, {"head_dim", 2}, {"tie_word_embeddings", false}});
    pieces.add("fc.weight", {4, 12});
    pieces.add("midlayer.self_attn.q_proj.weight", {4, 8});
    pieces.add("midlayer.self_attn.k_proj.weight", {2, 8});
    pieces.add("midlayer.self_attn.v_proj.weight", {2, 8});
    pieces.add("midlayer.self_attn.o_proj.weight", {4, 4});
    for (const char* norm : {"hidden_norm", "input_layernorm", "post_attention_layernorm"})
      pieces.add(std::string("midlayer.") + norm + ".weight", {4});
    for (const char* matrix : {"gate_proj", "up_proj", "down_proj"})
      pieces.add(std::string("midlayer.mlp.") + matrix + ".weight", {4, 4});
    pieces.add("norm.weight", {4});
    pieces.add("lm_head.weight", {2, 4});
    set_tokens({0, 1});
  }
  void set_tokens(const std::vector<int64_t>& steps) { pieces.file.add("d2t", "I64", {std::ssize(steps)}, steps); }
  std::string path() const { return out.path() + "/head.gguf"; }
  gguf::File converted(const std::string& base = "") {
    pieces.folder.write("config.json", pieces.config.dump());
    pieces.folder.write("model.safetensors", pieces.file.bytes());
    convert::import::convert({.input = pieces.folder.path(), .output = path(), .base = base});
    return gguf::File::open(path());
  }
};

} // namespace

TEST_CASE("convert: a head of SpecForge becomes an EAGLE-3 file, its layers counted by what goes in") {
  Head head;
  head.pieces.config["eagle_config"] = {{"eagle_aux_hidden_state_layer_ids", {1, 4, 7}}};
  const gguf::File file = head.converted();
  CHECK(file.get_string("general.architecture") == "eagle3");
  CHECK(file.find("eagle3.target_layers")->as_ints() == std::vector<int64_t>{2, 5, 8});
  CHECK(file.get_int("eagle3.target_hidden_size") == 4);
  for (const char* name : {"fc.weight", "blk.0.attn_norm_2.weight", "blk.0.attn_q.weight", "output.weight", "d2t"})
    CHECK(file.find_tensor(name) != nullptr);
  std::vector<int64_t> tokens(2);
  std::memcpy(tokens.data(), file.find_tensor("d2t")->data.data(), sizeof(int64_t) * 2);
  CHECK(tokens == std::vector<int64_t>{0, 2}); // 1 + 1
}

TEST_CASE("convert: layers of a head that does not say them are the model's second, middle and third to last") {
  Head head;
  CHECK_THROWS_WITH_AS(head.converted(), doctest::Contains("--base"), Error);
  head.pieces.config["eagle_aux_hidden_state_layer_ids"] = {2, 4};
  CHECK_THROWS_WITH_AS(head.converted(), doctest::Contains("numbers of 3 layers"), Error);
  head.pieces.config.erase("eagle_aux_hidden_state_layer_ids");
  Pieces model("LlamaForCausalLM");
  model.config["num_hidden_layers"] = 12;
  model.folder.write("config.json", model.config.dump());
  CHECK(head.converted(model.folder.path()).find("eagle3.target_layers")->as_ints() == std::vector<int64_t>{2, 6, 9});
  EaglePair pair;
  pair.model_layers = 8;
  const auto image = pair.model_image();
  model.folder.write("model.gguf", std::string(reinterpret_cast<const char*>(image->data()), image->size()));
  CHECK(head.converted(model.folder.path() + "/model.gguf").find("eagle3.target_layers")->as_ints() ==
        std::vector<int64_t>{2, 4, 5});
  model.config["num_hidden_layers"] = 4;
  model.folder.write("config.json", model.config.dump());
  CHECK_THROWS_WITH_AS(head.converted(model.folder.path()), doctest::Contains("has 4 layers"), Error);
}

TEST_CASE("convert: a head's tokens are the model's, each once") {
  Head head;
  head.pieces.config["eagle_aux_hidden_state_layer_ids"] = {2, 4, 5};
  for (const std::vector<int64_t>& steps : std::vector<std::vector<int64_t>>{{0, 2}, {1, 0}, {-1, 0}, {0, INT64_MAX}}) {
    head.set_tokens(steps);
    CHECK_THROWS_WITH_AS(head.converted(), doctest::Contains("d2t: entry"), Error);
  }
  head.set_tokens({0, 1, 0});
  CHECK_THROWS_AS(head.converted(), Error); // the output matrix has two rows
  head.set_tokens({0, 1});
  head.pieces.add("fc.weight", {4, 11});
  CHECK_THROWS_WITH_AS(head.converted(), doctest::Contains("fc.weight"), Error);
  Head other;
  other.pieces.config["architectures"] = {"LlamaForCausalLMEagle3"};
  other.pieces.config["num_hidden_layers"] = 2;
  CHECK_THROWS_WITH_AS(other.converted(), doctest::Contains("num_hidden_layers: is 2"), Error);
}
