#include "engine/speculation/speculation.h"

#include "engine/pictures/open_pictures.h"

#include "core/error.h"
#include "engine/adapters/adapters.h"
#include "engine/diffusion/canvas.h"
#include "engine/loading/fit.h"
#include "engine/options.h"
#include "engine/speculation/block_drafter.h"
#include "engine/speculation/head_drafter.h"
#include "engine/speculation/model_drafter.h"
#include "engine/speculation/ngram_drafter.h"
#include "models/dflash.h"
#include "models/eagle.h"
#include "models/guide.h"

#include <algorithm>

namespace ridge::engine {
namespace {

void check_vocabulary(const text::Tokenizer& theirs, const std::string& draft, const LoadedModel& model) {
  const text::Tokenizer& ours = model.need_tokenizer();
  const int64_t common = std::min(ours.vocab_size(), theirs.vocab_size());
  for (int32_t token = 0; token < common; ++token)
    if (ours.token_text(token) != theirs.token_text(token))
      throw_error("--draft-model {}: token {} is \"{}\", but \"{}\" in {}: a draft model needs the same vocabulary",
                  draft, token, theirs.token_text(token), ours.token_text(token), model.file.path());
}

std::unique_ptr<Drafter> open_draft_model(const api::ModelOptions& options, const LoadedModel& model,
                                          const LoadSteps& steps) {
  api::ModelOptions of_draft = options;
  of_draft.model = options.draft_model;
  of_draft.context = model.executor->config().context;
  of_draft.gpu_layers = -1;
  auto draft = std::make_unique<LoadedModel>(open_model(of_draft.model, steps));
  check_vocabulary(draft->need_tokenizer(), draft->file.path(), model);
  core::ExecutorConfig config = executor_config(of_draft, draft->program.trained_context);
  config.max_outputs = 1;
  Placement beside;
  if (options.gpu_layers == 0) beside.gpu_layers = 0;
  if (!model.gpus.empty()) beside.gpus = {model.gpus[0]};
  beside.gpu_memory = model.gpu_memory_left;
  start_executor(*draft, config, options.device, beside, steps);
  return std::make_unique<ModelDrafter>(std::move(draft), model.program.vocab);
}

} // namespace

void check_speculation(const api::ModelOptions& options) {
  const bool named = !options.draft_model.empty();
  if (options.speculation == "draft" && !named)
    throw Error("--spec draft: needs a draft model; give it with --draft-model FILE", Error::kUsage);
  if (named && options.speculation != "draft" && options.speculation != "auto")
    throw Error(
        fmt::format("--draft-model: cannot be combined with --spec {}; remove one of them", options.speculation),
        Error::kUsage);
}

namespace {

models::Ending ending_of_head(Pictures pictures) {
  return pictures == Pictures::yes ? models::Ending::pictures : models::Ending::logits;
}

models::Ending ending_of_model(bool drafts, Pictures pictures) {
  if (pictures == Pictures::yes) return drafts ? models::Ending::drafted_pictures : models::Ending::pictures;
  return drafts ? models::Ending::drafted : models::Ending::logits;
}

Pictures pictures_of(const api::ModelOptions& options) { return Pictures(!options.mmproj.empty()); }

} // namespace

LoadedHead eagle_head(std::shared_ptr<const gguf::File> head, const gguf::File& model, Pictures pictures) {
  core::Program program = models::build_eagle_head(*head, model, ending_of_head(pictures));
  return {std::move(program), nullptr, std::move(head), 1};
}

LoadedHead dflash_head(std::shared_ptr<const gguf::File> head, const gguf::File& model) {
  core::Program program = models::build_dflash_head(*head, model);
  return {std::move(program), nullptr, std::move(head)};
}

std::unique_ptr<Drafter> make_head_drafter(const LoadedModel& model) {
  if (guesses_blocks(model.heads[0])) return std::make_unique<BlockDrafter>(model);
  return std::make_unique<HeadDrafter>(model);
}

namespace {

// Byte-pair vocabularies are roughly ordered by frequency: the first 65,536 tokens of Qwen's and Llama's cover 98 to
// 98.6 % of text and code, the first 32,768 only 93 to 96 %.
constexpr int64_t kGuessedTokens = 65536;

bool merges_in_order(const gguf::File& file) {
  const std::string_view tokenizer = file.get_string("tokenizer.ggml.model", "none");
  return tokenizer == "gpt2" || tokenizer == "none";
}

std::vector<LoadedHead> named_head(const gguf::File& file, const api::ModelOptions& options) {
  if (options.speculation != "auto" && options.speculation != "draft") return {};
  auto head = std::make_shared<const gguf::File>(gguf::File::open(options.draft_model));
  std::vector<LoadedHead> heads;
  if (models::is_eagle_head(*head))
    heads.push_back(eagle_head(std::move(head), file, pictures_of(options)));
  else if (models::is_dflash_head(*head))
    heads.push_back(dflash_head(std::move(head), file));
  return heads;
}

// The guide's head needs rows of several layers: there is none if these are divided.
std::vector<LoadedHead> guide_head(const gguf::File& guide, const api::ModelOptions& options) {
  std::vector<LoadedHead> heads;
  if (options.ranks.pipeline <= 1 && options.gpu_layers <= 0)
    heads.push_back(eagle_head(std::make_shared<const gguf::File>(models::open_guide_draft()), guide));
  return heads;
}

} // namespace

std::vector<LoadedHead> heads_to_use(const gguf::File& file, const api::ModelOptions& options, const LoadSteps& steps) {
  if (!options.draft_model.empty()) return named_head(file, options);
  const bool demanded = options.speculation == "mtp";
  if (!demanded && options.speculation != "auto") return {};
  if (!demanded && models::is_guide(file)) return guide_head(file, options);
  std::vector<LoadedHead> heads;
  try {
    const int64_t count = models::draft_heads(file);
    for (int64_t head = 0; head < count || (demanded && head == 0); ++head) {
      heads.push_back({models::build_draft_head(file, head, ending_of_head(pictures_of(options)))});
      if (merges_in_order(file)) models::cut_vocabulary(heads.back().program, kGuessedTokens);
    }
  } catch (const Error& error) {
    if (demanded) throw;
    if (steps.note) steps.note(fmt::format("running without the file's draft head: {}", error.what()));
    return {};
  }
  return heads;
}

LoadedModel open_with_heads(gguf::File file, std::vector<LoadedHead> heads, Pictures pictures) {
  const gguf::File* own = heads.empty() ? nullptr : heads[0].file.get();
  const models::Ending ending = ending_of_model(!heads.empty(), pictures);
  LoadedModel model = open_model(std::move(file), ending, own, AllowWholeTexts::yes);
  if (const auto tokenizer = own ? find_tokenizer(*own) : nullptr) check_vocabulary(*tokenizer, own->path(), model);
  model.heads = std::move(heads);
  return model;
}

LoadedModel open_generating(gguf::File file, const api::ModelOptions& options, const LoadSteps& steps) {
  std::vector<LoadedHead> heads = heads_to_use(file, options, steps);
  LoadedModel model = open_with_heads(std::move(file), std::move(heads), pictures_of(options));
  if (pictures_of(options) == Pictures::yes) add_pictures(model, options, steps.note);
  return with_adapters(std::move(model), options.adapters);
}

LoadedModel open_generating(const api::ModelOptions& options, const LoadSteps& steps) {
  return open_generating(open_file(options.model, steps), options, steps);
}

core::ExecutorConfig generating_config(const api::ModelOptions& options, const core::Program& program) {
  core::ExecutorConfig config = executor_config(options, program.trained_context);
  if (core::sees_ahead(program)) {
    config.max_batch = config.context;
    config.max_outputs = std::min(config.max_batch, kMaxOpenPlaces);
    return config;
  }
  // room for input and output; positions are relative
  if (program.start_token >= 0 && options.context < 0) config.context *= 2;
  if (options.speculation != "off") config.max_outputs = kMaxGuesses + 1;
  if (!options.mmproj.empty()) config.max_batch = std::max(config.max_batch, std::min(kMaxTokensAhead, config.context));
  return config;
}

std::unique_ptr<Speculator> make_speculator(const api::ModelOptions& options, const LoadedModel& model,
                                            const LoadSteps& steps) {
  if (options.speculation == "off") return nullptr;
  std::unique_ptr<Drafter> drafter;
  if (!model.heads.empty())
    drafter = make_head_drafter(model);
  else if (options.draft_model.empty())
    drafter = std::make_unique<NgramDrafter>();
  else
    drafter = open_draft_model(options, model, steps);
  return std::make_unique<Speculator>(std::move(drafter), options.draft_tokens);
}

} // namespace ridge::engine
