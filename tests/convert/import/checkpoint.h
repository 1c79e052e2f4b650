// A one-layer llama checkpoint with packed linears.
#pragma once

#include "convert/import/config/config.h"
#include "support/numerics.h"
#include "support/safetensors_writer.h"
#include "support/temporary_folder.h"

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace ridge::tests {

using Numbers = std::vector<double>;

inline convert::import::Config config_in(const TemporaryFolder& folder, gguf::Metadata& metadata,
                                         const gguf::Safetensors* tensors = nullptr) {
  convert::import::JsonFiles files(folder.path());
  return convert::import::read_config(files, metadata, tensors);
}

struct Checkpoint {
  TemporaryFolder folder;
  nlohmann::json config = {{"architectures", {"LlamaForCausalLM"}},
                           {"hidden_size", 64},
                           {"intermediate_size", 128},
                           {"num_hidden_layers", 1},
                           {"num_attention_heads", 2},
                           {"num_key_value_heads", 1},
                           {"vocab_size", 96},
                           {"max_position_embeddings", 128},
                           {"rms_norm_eps", 1e-5},
                           {"rope_theta", 10000.0}};
  SafeFile file;
  std::map<std::string, Numbers> expected; // by GGUF name, in checkpoint row order
  std::mt19937_64 random{printed_seed()};

  int64_t integer(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); }
  float real() { return std::normal_distribution<float>(0, 0.2f)(random); }

  // Adds the module's tensors and returns its weights.
  using Pack = std::function<Numbers(Checkpoint&, const std::string& name, int64_t rows, int64_t cols)>;

  static Numbers plain(Checkpoint& c, const std::string& name, int64_t rows, int64_t cols) {
    std::vector<float> values(rows * cols);
    for (float& value : values) value = c.real();
    c.file.add(name + ".weight", "F32", {rows, cols}, values);
    return {values.begin(), values.end()};
  }

  void write(const Pack& pack = plain) {
    struct Linear {
      const char *from, *to;
      int64_t rows, cols;
    };
    const std::string layer = "model.layers.0.";
    for (const Linear& l :
         {Linear{"self_attn.q_proj", "attn_q", 64, 64}, Linear{"self_attn.k_proj", "attn_k", 32, 64},
          Linear{"self_attn.v_proj", "attn_v", 32, 64}, Linear{"self_attn.o_proj", "attn_output", 64, 64},
          Linear{"mlp.gate_proj", "ffn_gate", 128, 64}, Linear{"mlp.up_proj", "ffn_up", 128, 64},
          Linear{"mlp.down_proj", "ffn_down", 64, 128}})
      expected[std::string("blk.0.") + l.to + ".weight"] = pack(*this, layer + l.from, l.rows, l.cols);
    expected["token_embd.weight"] = plain(*this, "model.embed_tokens", 96, 64);
    expected["output.weight"] = plain(*this, "lm_head", 96, 64);
    for (const char* name : {"model.layers.0.input_layernorm", "model.layers.0.post_attention_layernorm", "model.norm"})
      file.add(name + std::string(".weight"), "F32", {64}, std::vector<float>(64, 1.0f));
    save();
  }
  void save() const {
    folder.write("config.json", config.dump());
    folder.write("model.safetensors", file.bytes());
  }
};

// 256 bytes, "he", "hel", special tokens (the first is BOS), "<think>".
inline nlohmann::json byte_level_tokenizer(const std::vector<std::string>& special = {"<s>"}) {
  nlohmann::json vocab;
  std::vector<std::string> letters;
  int extra = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const bool shown = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const int point = shown ? byte : 256 + extra++;
    std::string text;
    if (point < 0x80) {
      text = static_cast<char>(point);
    } else {
      text = {static_cast<char>(0xc0 | point >> 6), static_cast<char>(0x80 | (point & 0x3f))};
    }
    vocab[text] = byte;
  }
  vocab["he"] = 256;
  vocab["hel"] = 257;
  nlohmann::json added = nlohmann::json::array();
  int id = 258;
  for (const std::string& text : special) added.push_back({{"id", id++}, {"content", text}, {"special", true}});
  added.push_back({{"id", id}, {"content", "<think>"}, {"special", false}});
  return {
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"h e", nlohmann::json{"he", "l"}}}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"added_tokens", added},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single",
         {{{"SpecialToken", {{"id", special[0]}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}}}}};
}

} // namespace ridge::tests
