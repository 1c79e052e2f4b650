#include "app/loaded_model.h"

#include "core/error.h"
#include "kernels/cpu/executor.h"
#include "models/model.h"

namespace ridge::app {

const models::text::Tokenizer& LoadedModel::need_tokenizer() const {
  if (!tokenizer) throw_error("{}: has no tokenizer; give token ids instead (ridge logits --ids)", file.path());
  return *tokenizer;
}

std::unique_ptr<models::text::Tokenizer> find_tokenizer(const gguf::File& file) {
  const std::string_view model = file.get_string("tokenizer.ggml.model", "none");
  if (model == "none" || model == "no_vocab") return nullptr;
  return models::text::Tokenizer::from_file(file);
}

LoadedModel open_model(gguf::File file) {
  LoadedModel model{std::move(file), {}, nullptr, nullptr};
  model.program = models::build_program(model.file);
  model.tokenizer = find_tokenizer(model.file);
  return model;
}

void start_executor(LoadedModel& model, const core::ExecutorConfig& config) {
  model.executor = kernels::cpu::make_cpu_executor(model.program, config);
}

} // namespace ridge::app
