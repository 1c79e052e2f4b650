// DFlash heads in checkpoints.
#include "convert/import/import.h"
#include "core/error.h"
#include "gguf/gguf.h"
#include "pieces.h"

using namespace ridge;
using namespace ridge::tests;

namespace {

struct BlockHead {
  Pieces pieces{"DFlashDraftModel"};
  TemporaryFolder out;

  BlockHead() {
    pieces.config.update({{"num_hidden_layers", 2},
                          {"num_target_layers", 9},
                          {"block_size", 8},
                          {"max_position_embeddings", 64},
                          {"rope_theta", 1e6},
                          {"rms_norm_eps", 1e-6},
                          {"layer_types", {"sliding_attention", "full_attention"}},
                          {"sliding_window", 16},
                          {"dflash_config", {{"target_layer_ids", {1, 3, 6}}, {"mask_token_id", 2}}}});
    pieces.add("fc.weight", {4, 12});
    for (const char* norm : {"hidden_norm", "norm"}) pieces.add(std::string(norm) + ".weight", {4});
    for (const char* layer : {"layers.0.", "layers.1."}) {
      const std::string at = layer;
      pieces.add(at + "self_attn.q_proj.weight", {8, 4}, 100);
      pieces.add(at + "self_attn.k_proj.weight", {4, 4});
      pieces.add(at + "self_attn.v_proj.weight", {4, 4});
      pieces.add(at + "self_attn.o_proj.weight", {4, 8});
      for (const char* norm : {"self_attn.q_norm", "self_attn.k_norm", "input_layernorm", "post_attention_layernorm"})
        pieces.add(at + norm + ".weight", {4});
      for (const char* matrix : {"gate_proj", "up_proj", "down_proj"})
        pieces.add(at + "mlp." + matrix + ".weight", {4, 4});
    }
  }
  gguf::File converted() {
    pieces.folder.write("config.json", pieces.config.dump());
    pieces.folder.write("model.safetensors", pieces.file.bytes());
    const std::string path = out.path() + "/dflash.gguf";
    convert::import::convert({.input = pieces.folder.path(), .output = path, .type = "f32"});
    return gguf::File::open(path);
  }
};

} // namespace

TEST_CASE("convert: a DFlash head becomes a file, its layers counted by what goes in") {
  BlockHead head;
  const gguf::File file = head.converted();
  CHECK(file.get_string("general.architecture") == "dflash");
  CHECK(file.find("dflash.target_layers")->as_ints() == std::vector<int64_t>{2, 4, 7});
  CHECK(file.get_int("dflash.block_size") == 8);
  CHECK(file.get_int("tokenizer.ggml.mask_token_id") == 2);
  CHECK(file.get_int("dflash.attention.sliding_window") == 16);
  CHECK(file.find("dflash.attention.sliding_window_pattern")->as_ints() == std::vector<int64_t>{1, 0});
  for (const char* name : {"fc.weight", "enc.output_norm.weight", "output_norm.weight", "blk.1.attn_q_norm.weight"})
    CHECK(file.find_tensor(name) != nullptr);
  const gguf::Tensor* q = file.find_tensor("blk.0.attn_q.weight"); // rotated in halves: rows stay in order
  REQUIRE(q);
  std::vector<float> numbers(32);
  std::memcpy(numbers.data(), q->data.data(), sizeof(float) * 32);
  for (size_t i = 0; i < numbers.size(); ++i) CHECK(numbers[i] == 100 + static_cast<float>(i));
}

TEST_CASE("convert: what a DFlash head's config.json leaves out") {
  BlockHead head;
  head.pieces.config["dflash_config"].erase("target_layer_ids");
  head.pieces.add("fc.weight", {4, 8}); // as many rows as layers
  CHECK(head.converted().find("dflash.target_layers")->as_ints() == std::vector<int64_t>{2, 7});
  head.pieces.config["mask_token_id"] = 1;
  head.pieces.config["dflash_config"].erase("mask_token_id");
  CHECK(head.converted().get_int("tokenizer.ggml.mask_token_id") == 1);
  head.pieces.config.erase("num_target_layers");
  CHECK_THROWS_WITH_AS(head.converted(), doctest::Contains("which layers of the model the head reads"), Error);
  head.pieces.config["target_layer_ids"] = {1, -1};
  CHECK_THROWS_WITH_AS(head.converted(), doctest::Contains("expected the numbers of layers"), Error);
  head.pieces.config["target_layer_ids"] = {1, 2};
  head.pieces.config.erase("mask_token_id");
  CHECK_THROWS_WITH_AS(head.converted(), doctest::Contains("mask_token_id"), Error);
  head.pieces.config["mask_token_id"] = 3; // of three tokens
  CHECK_THROWS_WITH_AS(head.converted(), doctest::Contains("mask_token_id"), Error);
}
