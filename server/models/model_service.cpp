#include "server/models/model_service.h"

#include "engine/embedder.h"
#include "text/chat/reasoning.h"

namespace ridge::server {

Json capabilities(const gguf::File& file, const core::Program& program) {
  if (engine::is_embedding_model(file, program)) return {"embedding"};
  Json all = {"completion", "tools"};
  if (!text::find_reasoning_markers(file.get_string("tokenizer.chat_template", "")).open.empty())
    all.push_back("thinking");
  return all;
}

} // namespace ridge::server
