// What the routes serve: one model behind a scheduler, and what a request for text needs of it.
#pragma once

#include "core/requests.h"
#include "engine/answer_text.h"
#include "engine/calls/call_constraint.h"
#include "engine/chat_prompt.h"
#include "engine/constraint.h"
#include "engine/known_text.h"
#include "engine/loaded_model.h"
#include "engine/sequences/scheduler.h"
#include "server/fields.h"
#include "server/responses/response_store.h"
#include "text/chat/chat_template.h"

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ridge::server {

// A request for text, whichever API it came by.
struct Generation {
  std::vector<int32_t> prompt;
  std::optional<text::jinja::TaintedText> chat_prompt; // a chat's prompt as text; none: a text is continued
  core::SamplingOptions sampling;                      // its grammar is GBNF text or a JSON schema
  bool keep_choices = false;
  std::shared_ptr<const engine::CallRules> calls = nullptr; // of the tools that the answer may call
};

class Service {
 public:
  // The model's executor runs; model and template must outlive the service. `name` is what clients call the model.
  // `sampling`: what requests leave open. `log` gets a line for each request that was served, from any thread.
  Service(const engine::LoadedModel& model, const text::ChatTemplate& chat_template, Json template_variables,
          core::SamplingOptions sampling, std::string name, engine::Notice log);

  // While one lives, the service is needed.
  class Use {
   public:
    explicit Use(Service& service) : service_(&service) { ++service.users_; }
    Use(const Use& other) : Use(*other.service_) {}
    Use& operator=(const Use&) = delete;
    ~Use() { --service_->users_; }
    Service& service() const { return *service_; }

   private:
    Service* const service_;
  };
  int64_t users() const { return users_; }

  // Starts one sequence. Throws Error for what cannot run: a prompt that is too long, a schema that is none.
  std::shared_ptr<engine::Sequence> start(const Generation& generation);
  engine::AnswerText text_of(const Generation& generation) const;

  // The prompt of a chat: its text and tokens. `variables` are handed to the template beside the service's own.
  // `tools`: null: none. Throws Error for parameters that no grammar can describe.
  Generation chat(const Json& messages, const engine::ToolUse* tools, const Json& variables) const;
  // A chat's answer is whole, and a later prompt that begins with it is to continue its tokens.
  void remember(const text::jinja::TaintedText& prompt, std::string_view answer, std::span<const int32_t> tokens);

  const engine::LoadedModel& model() const { return model_; }
  const text::Tokenizer& tokenizer() const { return model_.need_tokenizer(); }
  const text::ChatTemplate& chat_template() const { return template_; }
  const core::SamplingOptions& sampling() const { return sampling_; }
  engine::Scheduler& scheduler() { return scheduler_; }
  const engine::Scheduler& scheduler() const { return scheduler_; }
  ResponseStore& responses() { return responses_; }
  const ResponseStore& responses() const { return responses_; }
  const std::string& name() const { return name_; }
  void log(const std::string& line) const { log_(line); }
  int64_t context() const { return model_.executor->config().context; }
  int64_t started() const { return started_; } // seconds since 1970

 private:
  std::shared_ptr<const text::TokenTable> token_table();
  std::vector<int32_t> tokens_of(const text::jinja::TaintedText& prompt) const;

  const engine::LoadedModel& model_;
  const text::ChatTemplate& template_;
  const engine::CallFormat call_format_;
  const Json variables_;
  const core::SamplingOptions sampling_;
  const std::string name_;
  const engine::Notice log_;
  const int64_t started_;
  std::atomic<int64_t> users_ = 0;
  mutable std::mutex mutex_;
  std::deque<engine::KnownText> known_;                 // answers, the latest first
  std::shared_ptr<const text::TokenTable> token_table_; // made for the first request that needs it
  ResponseStore responses_;
  engine::Scheduler scheduler_;
};

} // namespace ridge::server
