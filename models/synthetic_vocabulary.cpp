// A byte vocabulary, so that saved synthetic models can tokenize.
#include "models/synthetic.h"

#include <fmt/format.h>

namespace ridge::models {

void add_byte_vocabulary(gguf::Metadata& metadata, int64_t tokens) {
  constexpr int32_t kUnknown = 2, kControl = 3, kUnused = 5, kByte = 6;
  std::vector<std::string> texts = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> kinds = {kUnknown, kControl, kControl};
  for (int byte = 0; byte < 256; ++byte) texts.push_back(fmt::format("<0x{:02X}>", byte));
  kinds.resize(texts.size(), kByte);
  while (std::ssize(texts) < tokens) texts.push_back(fmt::format("<unused{}>", texts.size()));
  kinds.resize(texts.size(), kUnused);
  metadata.set("tokenizer.ggml.model", "llama");
  metadata.set("tokenizer.ggml.scores", std::vector<float>(texts.size(), 0));
  metadata.set("tokenizer.ggml.token_type", kinds);
  metadata.set("tokenizer.ggml.tokens", texts);
  metadata.set("tokenizer.ggml.bos_token_id", uint32_t{1});
  metadata.set("tokenizer.ggml.eos_token_id", uint32_t{2});
}

} // namespace ridge::models
