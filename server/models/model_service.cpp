#include "server/models/model_service.h"

#include "core/files/sha256.h"
#include "engine/embedder.h"
#include "engine/loading/model_key.h"
#include "engine/reranking/ranking_head.h"
#include "models/model.h"
#include "text/chat/reasoning.h"

#include <fmt/format.h>

namespace ridge::server {

Json capabilities(const gguf::File& file, const core::Program& program, engine::Senses senses) {
  if (engine::is_reranker(file)) return {"rerank"};
  if (engine::is_embedding_model(file, program)) return {"embedding"};
  Json all = {"completion", "tools"};
  if (!text::find_reasoning_markers(file.get_string("tokenizer.chat_template", "")).open.empty())
    all.push_back("thinking");
  if (senses.pictures) all.push_back("vision");
  if (senses.sounds) all.push_back("audio");
  return all;
}

FileFacts facts_of(const gguf::File& file, const core::Program& program, engine::Senses senses) {
  const std::string key = engine::model_key(file);
  const auto parameters = static_cast<double>(models::parameter_count(file));
  const std::string& family = program.architecture;
  return {.capabilities = capabilities(file, program, senses),
          .details = {{"parent_model", ""},
                      {"format", "gguf"},
                      {"family", family},
                      {"families", {family}},
                      {"parameter_size", parameters >= 1e9 ? fmt::format("{:.1f}B", parameters / 1e9)
                                                           : fmt::format("{:.2f}M", parameters / 1e6)},
                      {"quantization_level", models::file_type_label(file)}},
          .meta = {{"n_vocab", program.vocab},
                   {"n_ctx_train", program.trained_context},
                   {"n_embd", file.get_int(fmt::format("{}.embedding_length", family), 0)},
                   {"n_params", models::parameter_count(file)},
                   {"size", file.size_bytes()}},
          .digest = core::Sha256().add(key).hex(),
          .bytes = static_cast<int64_t>(file.size_bytes())};
}

} // namespace ridge::server
