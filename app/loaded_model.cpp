#include "app/loaded_model.h"

#include "core/error.h"
#include "kernels/cpu/executor.h"
#include "models/model.h"

namespace ridge::app {

const models::text::Tokenizer& LoadedModel::need_tokenizer() const {
  if (!tokenizer) throw_error("{}: has no tokenizer; give token ids instead (ridge logits --ids)", file.path());
  return *tokenizer;
}

LoadedModel open_model(gguf::File file) {
  LoadedModel model{std::move(file), {}, nullptr, nullptr};
  model.program = models::build_program(model.file);
  if (models::text::has_tokenizer(model.file)) model.tokenizer = models::text::Tokenizer::from_file(model.file);
  return model;
}

void start_executor(LoadedModel& model, const core::ExecutorConfig& config) {
  model.executor = kernels::cpu::make_cpu_executor(model.program, config);
}

} // namespace ridge::app
