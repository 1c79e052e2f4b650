// Pooling and token types of text encoders.
#include "convert/import/config/config.h"

namespace ridge::convert::import {

void read_pooling(JsonFiles& files, const Config& config, gguf::Metadata& metadata) {
  const std::string name = "1_Pooling/config.json"; // as in sentence-transformers
  const Json& document = files.get(name);
  if (!document.is_object()) return;
  const Fields fields(document, files.path(name));
  struct Mode {
    const char* field;
    uint32_t number;
  };
  for (const Mode& mode :
       {Mode{"pooling_mode_mean_tokens", 1}, {"pooling_mode_cls_token", 2}, {"pooling_mode_lasttoken", 3}})
    if (fields.get_bool(mode.field, false))
      return metadata.set(std::string(config.architecture->name) + ".pooling_type", mode.number);
}

void read_token_types(const Config& config, gguf::Metadata& metadata) {
  if (const double types = config.evaluate("type_vocab_size").value_or(0); types >= 1 && types <= 1 << 16)
    metadata.set("tokenizer.ggml.token_type_count", static_cast<uint32_t>(types));
}

} // namespace ridge::convert::import
