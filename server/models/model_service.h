// What models that are served have in common, whether they write texts or embed them.
#pragma once

#include "engine/loaded_model.h"
#include "engine/sequences/scheduler.h"
#include "server/fields.h"
#include "server/models/request_list.h"

#include <atomic>
#include <string>

namespace ridge::server {

class ModelService {
 public:
  ModelService(const ModelService&) = delete;
  ModelService& operator=(const ModelService&) = delete;
  virtual ~ModelService() = default;

  // While one lives, the service is needed.
  class Use {
   public:
    explicit Use(ModelService& service) : service_(&service) { ++service.users_; }
    Use(const Use& other) : Use(*other.service_) {}
    Use& operator=(const Use&) = delete;
    ~Use() { --service_->users_; }
    ModelService& service() const { return *service_; }

   private:
    ModelService* const service_;
  };
  int64_t users() const { return users_; }
  // Answers end from now on as if their clients had gone.
  void abandon() { abandoned_ = true; }
  bool abandoned() const { return abandoned_; }

  const engine::LoadedModel& model() const { return model_; }
  const text::Tokenizer& tokenizer() const { return model_.need_tokenizer(); }
  int64_t context() const { return model_.executor->config().context; }
  const std::string& name() const { return name_; }
  void log(const std::string& line) const { log_(line); }
  RequestList& requests() { return requests_; }
  // A call, or an answer of a schema, that breaks what the grammar had to leave out of the schema. The log gets a line.
  void count_schema_miss(const std::string& line) {
    ++schema_misses_;
    log_(line);
  }
  int64_t schema_misses() const { return schema_misses_; }

  virtual engine::Scheduler::Counts counts() const = 0;
  virtual void drain() = 0; // takes no further work and returns when all has ended

 protected:
  // The model's executor runs; the model must outlive the service. `name` is what clients call it. `log` gets a line
  // for each request that was served, from any thread. Throws Error for a model without a tokenizer.
  ModelService(const engine::LoadedModel& model, std::string name, engine::Notice log)
      : model_(model), name_(std::move(name)), log_(std::move(log)) {
    model.need_tokenizer();
  }

 private:
  const engine::LoadedModel& model_;
  const std::string name_;
  const engine::Notice log_;
  std::atomic<int64_t> users_ = 0, schema_misses_ = 0;
  std::atomic<bool> abandoned_ = false;
  RequestList requests_;
};

// What clients may ask of a model, in Ollama's words: embedding; or completion, tools and, where its template knows
// reasoning, thinking.
Json capabilities(const gguf::File& file, const core::Program& program);

} // namespace ridge::server
