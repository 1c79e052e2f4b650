#include "engine/speculation/speculation.h"

#include "core/error.h"
#include "engine/options.h"
#include "engine/speculation/model_drafter.h"
#include "engine/speculation/ngram_drafter.h"

#include <algorithm>

namespace ridge::engine {
namespace {

// Padding at the end of a vocabulary may differ; what a token stands for may not.
void check_vocabulary(const LoadedModel& draft, const LoadedModel& model) {
  const text::Tokenizer &ours = model.need_tokenizer(), &theirs = draft.need_tokenizer();
  const int64_t common = std::min(ours.vocab_size(), theirs.vocab_size());
  for (int32_t token = 0; token < common; ++token)
    if (ours.token_text(token) != theirs.token_text(token))
      throw_error("--draft-model {}: token {} is \"{}\", but \"{}\" in {}: a draft model needs the same vocabulary",
                  draft.file.path(), token, theirs.token_text(token), ours.token_text(token), model.file.path());
}

std::unique_ptr<Drafter> open_draft_model(const core::ModelOptions& options, const LoadedModel& model,
                                          const LoadSteps& steps) {
  core::ModelOptions of_draft = options;
  of_draft.model = options.draft_model;
  of_draft.context = model.executor->config().context;
  of_draft.gpu_layers = -1;
  auto draft = std::make_unique<LoadedModel>(open_model(of_draft.model, steps));
  check_vocabulary(*draft, model);
  core::ExecutorConfig config = executor_config(of_draft, draft->program.trained_context);
  config.max_outputs = 1;
  start_executor(*draft, config, options.device, -1, steps);
  return std::make_unique<ModelDrafter>(std::move(draft), model.program.vocab);
}

} // namespace

void check_speculation(const core::ModelOptions& options) {
  const bool named = !options.draft_model.empty();
  if (options.speculation == "draft" && !named)
    throw Error("--spec draft: needs a model; name it with --draft-model FILE", Error::kUsage);
  if (named && options.speculation != "draft" && options.speculation != "auto")
    throw Error(fmt::format("--draft-model: --spec {} uses none; leave one of them away", options.speculation),
                Error::kUsage);
}

core::ExecutorConfig generating_config(const core::ModelOptions& options, int64_t trained_context) {
  core::ExecutorConfig config = executor_config(options, trained_context);
  if (options.speculation != "off") config.max_outputs = kMostGuesses + 1;
  return config;
}

std::unique_ptr<Speculator> make_speculator(const core::ModelOptions& options, const LoadedModel& model,
                                            const LoadSteps& steps) {
  if (options.speculation == "off") return nullptr;
  std::unique_ptr<Drafter> drafter;
  if (options.draft_model.empty())
    drafter = std::make_unique<NgramDrafter>();
  else
    drafter = open_draft_model(options, model, steps);
  return std::make_unique<Speculator>(std::move(drafter), options.draft_tokens);
}

} // namespace ridge::engine
