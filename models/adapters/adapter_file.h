// A LoRA adapter in a GGUF file. Tensor NAME of the model has NAME.lora_a [cols, rank] and NAME.lora_b [rank, rows],
// with a matrix per expert; token_embd.weight has [rank, tokens] and [rank, width]. W x becomes W x + scale * alpha /
// rank * B A x. Files are untrusted: any mismatch throws Error.
#pragma once

#include "gguf/gguf.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::models {

inline constexpr std::string_view kEmbeddingTable = "token_embd.weight";

bool is_adapter(const gguf::File& file);

class AdapterFile {
 public:
  struct Pair {
    const gguf::Tensor *a = nullptr, *b = nullptr;
    int64_t rank = 0;
    float factor = 1; // alpha / rank
  };

  static AdapterFile open(const std::string& path);
  explicit AdapterFile(gguf::File file);

  const gguf::File& file() const { return file_; }
  std::string name() const;
  std::string_view architecture() const { return file_.get_string("general.architecture"); }
  std::string_view task() const { return file_.get_string("adapter.lora.task_name", ""); }
  std::string_view prompt_prefix() const { return file_.get_string("adapter.lora.prompt_prefix", ""); }
  const std::map<std::string, Pair, std::less<>>& pairs() const { return pairs_; }
  const Pair* find(std::string_view tensor) const {
    const auto found = pairs_.find(tensor);
    return found == pairs_.end() ? nullptr : &found->second;
  }
  // Tokens that activate an activated adapter (aLoRA); empty: always active.
  const std::vector<int32_t>& invocation() const { return invocation_; }
  uint64_t fingerprint() const { return fingerprint_; }

  // Throws Error if the model has another architecture, or `tensor` another shape [cols, rows, count].
  void check_architecture(const gguf::File& model) const;
  void check_shape(const std::string& tensor, const gguf::File& model, int64_t cols, int64_t rows, int64_t count) const;

 private:
  void read_pairs();
  void check_pair(const std::string& tensor, Pair& pair, float alpha) const;

  gguf::File file_;
  std::map<std::string, Pair, std::less<>> pairs_;
  std::vector<int32_t> invocation_;
  uint64_t fingerprint_ = 0;
};

} // namespace ridge::models
