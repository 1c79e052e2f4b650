// A model with its executor and service.
#pragma once

#include "api/requests.h"
#include "server/models/model_service.h"

#include <memory>
#include <string>

namespace ridge::server {

struct ModelSetup {
  api::ModelOptions model;
  api::SamplingOptions sampling;
  api::TemplateOptions chat_template;
  api::PrefixOptions prefixes;
  int64_t parallel = 4;
  std::string slot_folder = {};
  PictureFetch fetch_picture = nullptr;
};

double bytes_of_weights(const core::Program& program);

// Embedding models and rerankers end with the hidden state, others with logits, and with draft heads if these are used.
// An empty path means the built-in guide. Throws Error.
engine::LoadedModel open_served(const std::string& path, api::ModelOptions options, const engine::LoadSteps& steps);

class ServedModel {
 public:
  // `opened` comes from open_served(). Throws Error without a tokenizer or enough memory.
  ServedModel(engine::LoadedModel opened, const ModelSetup& setup, std::string name, const engine::LoadSteps& steps,
              const engine::Notice& log);
  ~ServedModel();

  ModelService& service();
  // A lower bound: weights and caches, also of draft heads.
  static double bytes_needed(const engine::LoadedModel& opened, const ModelSetup& setup);

 private:
  struct Kind;
  struct Writing;
  struct Embedding;
  struct Ranking;
  std::unique_ptr<Kind> kind_;
};

} // namespace ridge::server
