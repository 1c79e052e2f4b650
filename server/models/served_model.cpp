#include "server/models/served_model.h"

#include "engine/options.h"
#include "engine/sampling_defaults.h"

#include <algorithm>
#include <set>
#include <utility>

namespace ridge::server {
namespace {

// Starts the executor of `model`, which stays where it is from then on.
core::SamplingOptions start(engine::LoadedModel& model, const core::ExecutorConfig& config, const ModelSetup& setup,
                            const engine::LoadSteps& steps) {
  model.need_tokenizer();
  core::SamplingOptions sampling = setup.sampling;
  engine::take_model_defaults(sampling, model.file, steps.note);
  engine::start_executor(model, config, setup.model.device, setup.model.gpu_layers, steps);
  return sampling;
}

} // namespace

double bytes_of_weights(const core::Program& program) {
  std::set<const std::byte*> seen; // tied weights are one
  int64_t bytes = 0;
  for (const core::Weight& weight : program.weights)
    if (seen.insert(weight.data).second) bytes += weight.total_bytes();
  return static_cast<double>(bytes);
}

ServedModel::ServedModel(engine::LoadedModel opened, const ModelSetup& setup, std::string name,
                         const engine::LoadSteps& steps, const engine::Notice& log)
    : model_(std::move(opened)), sampling_(start(model_, config_of(model_, setup), setup, steps)),
      template_(engine::choose_template(setup.chat_template, model_.file, steps.note)),
      service_(model_, template_, engine::template_variables(setup.chat_template, template_, steps.note), sampling_,
               std::move(name), log) {}

core::ExecutorConfig ServedModel::config_of(const engine::LoadedModel& opened, const ModelSetup& setup) {
  core::ExecutorConfig config = engine::executor_config(setup.model, opened.program.trained_context);
  config.streams = config.max_outputs = setup.parallel;
  config.max_batch = std::max(config.max_batch, setup.parallel);
  return config;
}

double ServedModel::bytes_needed(const engine::LoadedModel& opened, const ModelSetup& setup) {
  const core::ExecutorConfig config = config_of(opened, setup);
  const double cache = core::kv_cache_bytes(opened.program, config.context, core::bytes_per_element(config.k_type),
                                            core::bytes_per_element(config.v_type));
  return bytes_of_weights(opened.program) + static_cast<double>(config.streams) * cache;
}

} // namespace ridge::server
