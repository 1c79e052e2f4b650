// The common base of served models.
#pragma once

#include "engine/loading/loaded_model.h"
#include "engine/pictures/picture_shelf.h"
#include "engine/sequences/scheduler.h"
#include "server/json/fields.h"
#include "server/models/request_list.h"

#include <atomic>
#include <functional>
#include <string>

namespace ridge::server {

struct RequestCounts : engine::Scheduler::Counts {
  int64_t failed = 0;
  int64_t ignored_fields = 0; // unknown to all APIs
  int64_t schema_misses = 0;  // calls and answers that break what grammars cannot express
};

// Fetches the file at a client's http(s) address, within so many seconds. Throws Error.
using PictureFetch = std::function<std::string(const std::string& url, double seconds)>;

// Thrown if a request has media but the model is open without its encoder (Models::with()).
struct PicturesWanted {};

class ModelService {
 public:
  ModelService(const ModelService&) = delete;
  ModelService& operator=(const ModelService&) = delete;
  virtual ~ModelService() = default;

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
  // Ends answers as if their clients had gone.
  void abandon() { abandoned_ = true; }
  bool abandoned() const { return abandoned_; }

  // How long the model stays loaded without use, in seconds.
  void keep_for(double seconds) { kept_for_ = seconds; }
  double kept_for(double otherwise) const { return kept_for_ < 0 ? otherwise : kept_for_.load(); }

  const engine::LoadedModel& model() const { return model_; }
  const text::Tokenizer& tokenizer() const { return model_.need_tokenizer(); }
  int64_t context() const { return model_.executor->config().context; }
  const std::string& name() const { return name_; }
  // Media that requests may have: the open encoder's, or those of one with which the model can be reopened.
  engine::Senses senses() const { return model_.pictures ? model_.pictures->reader().encoders().senses() : offered_; }
  bool takes_media() const { return senses().pictures || senses().sounds; }
  void offer(engine::Senses senses) { offered_ = senses; } // before any request
  // Empty: addresses are refused.
  const PictureFetch& picture_fetch() const { return fetch_; }
  void fetch_pictures_by(PictureFetch fetch) { fetch_ = std::move(fetch); } // before any request
  void log(const std::string& line) const { log_(line); }
  RequestList& requests() { return requests_; }
  void count_schema_miss(const std::string& line) {
    ++schema_misses_;
    log_(line);
  }

  virtual engine::Scheduler::Counts counts() const = 0;
  RequestCounts request_counts() const { return {counts(), failed_, ignored_fields_, schema_misses_}; }
  void count_failure() { ++failed_; }
  void count_ignored_fields(int64_t count) { ignored_fields_ += count; }
  virtual void drain() = 0; // accepts no more work and waits for the rest

 protected:
  // `model` needs an executor and must outlive the service. `name` is for clients. `log` gets a line per request, from
  // any thread. Throws Error without a tokenizer.
  ModelService(const engine::LoadedModel& model, std::string name, engine::Notice log)
      : model_(model), name_(std::move(name)), log_(std::move(log)) {
    model.need_tokenizer();
  }

 private:
  const engine::LoadedModel& model_;
  const std::string name_;
  const engine::Notice log_;
  std::atomic<int64_t> users_ = 0;
  std::atomic<double> kept_for_ = -1; // below 0: unspecified
  std::atomic<bool> abandoned_ = false;
  engine::Senses offered_;
  PictureFetch fetch_;
  std::atomic<int64_t> failed_ = 0, ignored_fields_ = 0, schema_misses_ = 0;
  RequestList requests_;
};

// In Ollama's words: embedding; or completion, tools, thinking; vision, audio.
Json capabilities(const gguf::File& file, const core::Program& program, engine::Senses senses);

struct FileFacts {
  Json capabilities = Json::array(), details = Json::object();
  Json meta = Json::object();
  // in SHA-256 form; covers only metadata and sampled weights, since hashing whole files takes long
  std::string digest;
  int64_t bytes = 0;
};
FileFacts facts_of(const gguf::File& file, const core::Program& program, engine::Senses senses);

} // namespace ridge::server
