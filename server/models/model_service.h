// What models that are served have in common, whether they write texts or embed them.
#pragma once

#include "engine/loaded_model.h"
#include "engine/pictures/picture_shelf.h"
#include "engine/sequences/scheduler.h"
#include "server/fields.h"
#include "server/models/request_list.h"

#include <atomic>
#include <functional>
#include <string>

namespace ridge::server {

// What a model's requests were, so far.
struct RequestCounts : engine::Scheduler::Counts {
  int64_t failed = 0;         // whose answers ended with an error
  int64_t ignored_fields = 0; // that no API has
  int64_t schema_misses = 0;  // calls, and answers of a schema, that break what the grammar left out of it
};

// The file at an http:// or https:// address, which a client wrote, within so many seconds. Throws Error.
using PictureFetch = std::function<std::string(const std::string& url, double seconds)>;

// Thrown where a request has pictures or sounds and the model, which takes some, is not open for them yet
// (Models::with()).
struct PicturesWanted {};

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

  // How long the model is to stay when no request uses it, in seconds; where nothing was said, `otherwise`.
  void keep_for(double seconds) { kept_for_ = seconds; }
  double kept_for(double otherwise) const { return kept_for_ < 0 ? otherwise : kept_for_.load(); }

  const engine::LoadedModel& model() const { return model_; }
  const text::Tokenizer& tokenizer() const { return model_.need_tokenizer(); }
  int64_t context() const { return model_.executor->config().context; }
  const std::string& name() const { return name_; }
  // What requests may have beside text: the model has its encoder, or there is one with which it is opened again.
  engine::Senses senses() const { return model_.pictures ? model_.pictures->reader().encoders().senses() : offered_; }
  bool takes_media() const { return senses().pictures || senses().sounds; }
  void offer(engine::Senses senses) { offered_ = senses; } // before any request
  // Gets pictures that requests name by an address; empty: such are refused.
  const PictureFetch& picture_fetch() const { return fetch_; }
  void fetch_pictures_by(PictureFetch fetch) { fetch_ = std::move(fetch); } // before any request
  void log(const std::string& line) const { log_(line); }
  RequestList& requests() { return requests_; }
  // A call, or an answer of a schema, that breaks what the grammar had to leave out of the schema. The log gets a line.
  void count_schema_miss(const std::string& line) {
    ++schema_misses_;
    log_(line);
  }

  virtual engine::Scheduler::Counts counts() const = 0; // of its work alone
  RequestCounts request_counts() const { return {counts(), failed_, ignored_fields_, schema_misses_}; }
  void count_failure() { ++failed_; }
  void count_ignored_fields(int64_t count) { ignored_fields_ += count; }
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
  std::atomic<int64_t> users_ = 0;
  std::atomic<double> kept_for_ = -1; // below 0: nothing was said
  std::atomic<bool> abandoned_ = false;
  engine::Senses offered_;
  PictureFetch fetch_;
  std::atomic<int64_t> failed_ = 0, ignored_fields_ = 0, schema_misses_ = 0;
  RequestList requests_;
};

// What clients may ask of a model, in Ollama's words: embedding; or completion, tools and, where its template knows
// reasoning, thinking; and vision and audio, where it takes pictures and sounds.
Json capabilities(const gguf::File& file, const core::Program& program, engine::Senses senses);

// What lists say of a model's file, in Ollama's words.
struct FileFacts {
  Json capabilities = Json::array(), details = Json::object();
  Json meta = Json::object(); // in the words of llama.cpp's server
  std::string digest; // in the form of a SHA-256; of the metadata and samples of the weights, as whole files take long
  int64_t bytes = 0;
};
FileFacts facts_of(const gguf::File& file, const core::Program& program, engine::Senses senses);

} // namespace ridge::server
