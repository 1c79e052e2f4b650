// A model as a server serves it: opened, on its executor, with its template and the scheduler of its requests.
#pragma once

#include "core/requests.h"
#include "server/service.h"

#include <string>

namespace ridge::server {

// How models are opened and served: the same for all models of a server.
struct ModelSetup {
  core::ModelOptions model; // but for its file
  core::SamplingOptions sampling;
  core::TemplateOptions chat_template;
  int64_t parallel = 4; // requests evaluated together
};

double bytes_of_weights(const core::Program& program);

class ServedModel {
 public:
  // `opened` has no executor yet. Throws Error where it cannot run: no tokenizer, not enough memory.
  ServedModel(engine::LoadedModel opened, const ModelSetup& setup, std::string name, const engine::LoadSteps& steps,
              const engine::Notice& log);

  Service& service() { return service_; }
  // What an opened model will need at least: its weights, and the caches of its streams.
  static double bytes_needed(const engine::LoadedModel& opened, const ModelSetup& setup);

 private:
  static core::ExecutorConfig config_of(const engine::LoadedModel& opened, const ModelSetup& setup);

  engine::LoadedModel model_; // stays where it is: the executor refers to its Program
  core::SamplingOptions sampling_;
  text::ChatTemplate template_;
  Service service_;
};

} // namespace ridge::server
