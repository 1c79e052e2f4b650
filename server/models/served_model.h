// A model as a server serves it: opened, on its executor, with the service of its requests.
#pragma once

#include "core/requests.h"
#include "server/models/model_service.h"

#include <memory>
#include <string>

namespace ridge::server {

// How models are opened and served: the same for all models of a server.
struct ModelSetup {
  core::ModelOptions model; // but for its file
  core::SamplingOptions sampling;
  core::TemplateOptions chat_template;
  core::PrefixOptions prefixes;
  int64_t parallel = 4;         // requests evaluated together
  std::string slot_folder = {}; // where clients may save what streams hold; empty: nowhere
  PictureFetch fetch_picture = nullptr;
};

double bytes_of_weights(const core::Program& program);

// Opens a file as what it is: a model that embeds or scores texts with its hidden state as the end, any other with its
// logits, and with its draft heads where `options` have them guess. An empty path means the built-in guide. Throws
// Error for what cannot be opened.
engine::LoadedModel open_served(const std::string& path, core::ModelOptions options, const engine::LoadSteps& steps);

class ServedModel {
 public:
  // `opened`, by open_served(), has no executor yet. Throws Error where it cannot run: no tokenizer, not enough memory.
  ServedModel(engine::LoadedModel opened, const ModelSetup& setup, std::string name, const engine::LoadSteps& steps,
              const engine::Notice& log);
  ~ServedModel();

  ModelService& service();
  // What an opened model will need at least: its weights, and the caches of its streams; those of draft heads, too.
  static double bytes_needed(const engine::LoadedModel& opened, const ModelSetup& setup);

 private:
  struct Kind;
  struct Writing;
  struct Embedding;
  struct Ranking;
  std::unique_ptr<Kind> kind_;
};

} // namespace ridge::server
