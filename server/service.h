// A served model that writes texts: behind a scheduler, and with what a request for text needs of it.
#pragma once

#include "core/requests.h"
#include "engine/answer_text.h"
#include "engine/calls/call_rules_cache.h"
#include "engine/chat_prompt.h"
#include "engine/constraint.h"
#include "engine/known_text.h"
#include "server/models/model_service.h"
#include "server/responses/response_store.h"
#include "text/chat/chat_template.h"

#include <deque>
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
  int64_t priority = 0;                                     // lower ones go first
  std::shared_ptr<const engine::CallRules> calls = nullptr; // of the tools that a chat's answer may call, or its schema
};

class Service final : public ModelService {
 public:
  // The template must outlive the service. `sampling`: what requests leave open. `speculator`: who guesses for a
  // request that is answered alone; null: nobody. `prefixes`: where prompts are kept. The rest is ModelService's.
  Service(const engine::LoadedModel& model, const text::ChatTemplate& chat_template, Json template_variables,
          core::SamplingOptions sampling, std::string name, engine::Notice log,
          std::unique_ptr<engine::Speculator> speculator = nullptr, const engine::PrefixSettings& prefixes = {});

  // Starts one sequence. Throws Error for what cannot run: a prompt that is too long, a schema that is none.
  std::shared_ptr<engine::Sequence> start(const Generation& generation);
  engine::AnswerText text_of(const Generation& generation) const;

  // The prompt of a chat: its text and tokens. `variables` are handed to the template beside the service's own.
  // `tools`: null: none. `schema`: that the answer satisfies where it calls nothing; null: the service's own, or none.
  // Throws Error for a schema that is none.
  Generation chat(const Json& messages, const engine::ToolUse* tools, const Json& variables,
                  const Json& schema = nullptr) const;
  // A chat's answer is whole, and a later prompt that begins with it is to continue its tokens.
  void remember(const text::jinja::TaintedText& prompt, std::string_view answer, std::span<const int32_t> tokens);

  const text::ChatTemplate& chat_template() const { return template_; }
  const core::SamplingOptions& sampling() const { return sampling_; }
  engine::Scheduler& scheduler() { return scheduler_; }
  const engine::Scheduler& scheduler() const { return scheduler_; }
  ResponseStore& responses() { return responses_; }
  const ResponseStore& responses() const { return responses_; }
  engine::Scheduler::Counts counts() const override { return scheduler_.counts(); }
  void drain() override { scheduler_.drain(); }

 private:
  std::shared_ptr<const text::TokenTable> token_table();
  std::vector<int32_t> tokens_of(const text::jinja::TaintedText& prompt) const;

  const text::ChatTemplate& template_;
  const engine::CallFormat call_format_;
  mutable engine::CallRulesCache call_rules_;
  const Json variables_;
  const core::SamplingOptions sampling_;
  mutable std::mutex mutex_;
  std::deque<engine::KnownText> known_;                 // answers, the latest first
  std::shared_ptr<const text::TokenTable> token_table_; // made for the first request that needs it
  ResponseStore responses_;
  engine::Scheduler scheduler_;
};

} // namespace ridge::server
