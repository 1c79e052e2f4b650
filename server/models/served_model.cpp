#include "server/models/served_model.h"

#include "core/rings.h"
#include "engine/adapters/adapters.h"
#include "engine/embedder.h"
#include "engine/loading/fit.h"
#include "engine/loading/model_key.h"
#include "engine/options.h"
#include "engine/sampling_defaults.h"
#include "engine/speculation/speculation.h"
#include "server/models/embedding_service.h"
#include "server/models/rerank_service.h"
#include "server/models/service.h"

#include <algorithm>
#include <set>
#include <utility>

namespace ridge::server {
namespace {

// `model` must not move afterwards.
api::SamplingOptions start(engine::LoadedModel& model, const core::ExecutorConfig& config, const ModelSetup& setup,
                           const engine::LoadSteps& steps) {
  model.need_tokenizer();
  api::SamplingOptions sampling = setup.sampling;
  engine::take_model_defaults(sampling, model.file, steps.note);
  engine::start_executor(model, config, setup.model.device, engine::placement_of(setup.model), steps);
  return sampling;
}

core::ExecutorConfig config_of(const engine::LoadedModel& opened, const ModelSetup& setup) {
  core::ExecutorConfig config = engine::generating_config(setup.model, opened.program);
  engine::set_streams(config, setup.model, setup.parallel);
  constexpr int64_t kOfPrompts = 32; // outputs for the probabilities of prompt tokens
  config.max_outputs = setup.model.speculation == "off" ? setup.parallel : std::max(config.max_outputs, setup.parallel);
  config.max_outputs += kOfPrompts;
  return config;
}

} // namespace

double bytes_of_weights(const core::Program& program) {
  std::set<const std::byte*> seen; // tied weights count once
  int64_t bytes = 0;
  for (const core::Weight& weight : program.weights)
    if (seen.insert(weight.data).second) bytes += weight.total_bytes();
  return static_cast<double>(bytes);
}

engine::LoadedModel open_served(const std::string& path, api::ModelOptions options, const engine::LoadSteps& steps) {
  options.model = path;
  if (path.empty()) return engine::open_generating(options, steps);
  gguf::File file = gguf::File::open(path);
  if (engine::is_reranker(file) || engine::is_embedding_model(file, models::build_program(file)))
    return engine::with_adapters(engine::open_model(std::move(file), models::Ending::hidden), options.adapters);
  return engine::open_generating(std::move(file), options, steps);
}

// Must not move: executors refer to Programs, services to models.
struct ServedModel::Kind {
  virtual ~Kind() = default;
  virtual ModelService& service() = 0;
};

struct ServedModel::Writing final : Kind {
  Writing(engine::LoadedModel opened, const ModelSetup& setup, std::string name, const engine::LoadSteps& steps,
          const engine::Notice& log)
      : model(std::move(opened)), sampling(start(model, config_of(model, setup), setup, steps)),
        chat_template(engine::choose_template(setup.chat_template, model.file, steps.note)),
        texts(model, chat_template, engine::template_variables(setup.chat_template, chat_template, steps.note),
              sampling, std::move(name), log, engine::make_speculator(setup.model, model, steps),
              engine::prefix_settings(setup.prefixes, model.file, log)) {
    if (!setup.slot_folder.empty()) texts.save_slots(setup.slot_folder, engine::model_key(model.file));
  }
  ModelService& service() override { return texts; }

  engine::LoadedModel model;
  api::SamplingOptions sampling;
  text::ChatTemplate chat_template;
  Service texts;
};

struct ServedModel::Embedding final : Kind {
  Embedding(engine::LoadedModel opened, const ModelSetup& setup, std::string name, const engine::LoadSteps& steps,
            const engine::Notice& log)
      : embedder(std::move(opened), setup.model, {}, steps), vectors(embedder, std::move(name), log) {}
  ModelService& service() override { return vectors; }

  engine::Embedder embedder;
  EmbeddingService vectors;
};

struct ServedModel::Ranking final : Kind {
  Ranking(engine::LoadedModel opened, const ModelSetup& setup, std::string name, const engine::LoadSteps& steps,
          const engine::Notice& log)
      : reranker(std::move(opened), setup.model, false, steps), scores(reranker, std::move(name), log) {}
  ModelService& service() override { return scores; }

  engine::Reranker reranker;
  RerankService scores;
};

ServedModel::ServedModel(engine::LoadedModel opened, const ModelSetup& setup, std::string name,
                         const engine::LoadSteps& steps, const engine::Notice& log) {
  if (engine::is_reranker(opened.file))
    kind_ = std::make_unique<Ranking>(std::move(opened), setup, std::move(name), steps, log);
  else if (engine::is_embedding_model(opened.file, opened.program))
    kind_ = std::make_unique<Embedding>(std::move(opened), setup, std::move(name), steps, log);
  else
    kind_ = std::make_unique<Writing>(std::move(opened), setup, std::move(name), steps, log);
  service().fetch_pictures_by(setup.fetch_picture);
}

ServedModel::~ServedModel() = default;

ModelService& ServedModel::service() { return kind_->service(); }

double ServedModel::bytes_needed(const engine::LoadedModel& opened, const ModelSetup& setup) {
  core::ExecutorConfig config = config_of(opened, setup);
  if (engine::is_reranker(opened.file) || engine::is_embedding_model(opened.file, opened.program)) config.streams = 1;
  const auto need = [&](const core::Program& program, const core::ExecutorConfig& own) {
    return bytes_of_weights(program) +
           static_cast<double>(own.streams) * core::kv_cache_bytes(program, own, own.context);
  };
  double bytes = need(opened.program, config);
  for (const engine::LoadedHead& head : opened.auxiliary_models())
    bytes += need(head.program, engine::config_beside(head, config));
  return bytes;
}

} // namespace ridge::server
