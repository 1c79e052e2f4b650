// A served model that writes texts, with its scheduler.
#pragma once

#include "engine/chat/chat_request.h"
#include "server/models/model_service.h"
#include "server/models/response_store.h"
#include "text/chat/chat_template.h"

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ridge::server {

using engine::Generation;

class Service final : public ModelService {
 public:
  // The template must outlive it. `sampling` has defaults. `speculator` drafts for a request that runs alone; it may be
  // null.
  Service(const engine::LoadedModel& model, const text::ChatTemplate& chat_template, Json template_variables,
          api::SamplingOptions sampling, std::string name, engine::Notice log,
          std::unique_ptr<engine::Speculator> speculator = nullptr, const engine::PrefixSettings& prefixes = {});

  // Throws Error for prompts that are too long, invalid schemas and the like.
  std::shared_ptr<engine::Sequence> start(const Generation& generation) {
    engine::SequenceRequest request = sequences_.sequence(generation);
    if (request.adapter_scales.empty()) request.adapter_scales = adapter_scales();
    return scheduler_.submit(std::move(request));
  }
  // Defaults for requests without scales.
  std::vector<float> adapter_scales() const {
    const std::scoped_lock lock(adapters_mutex_);
    return adapter_scales_;
  }
  void set_adapter_scales(std::vector<float> scales) {
    const std::scoped_lock lock(adapters_mutex_);
    adapter_scales_ = std::move(scales);
  }
  std::shared_ptr<const text::SharedGrammar> grammar(const std::string& gbnf) const { return sequences_.grammar(gbnf); }
  engine::AnswerText text_of(const Generation& generation) const { return sequences_.text_of(generation); }

  // See engine::ChatRequests::chat().
  Generation chat(const Json& messages, const engine::ToolUse* tools, const Json& variables,
                  const Json& schema = nullptr, const engine::LastTurn& last = {}) const;
  void remember(const text::jinja::TaintedText& prompt, std::string_view answer, std::span<const int32_t> tokens) {
    chats_.remember(prompt, answer, tokens);
  }

  const text::ChatTemplate& chat_template() const { return chats_.chat_template(); }
  const engine::CallFormat& call_format() const { return chats_.call_format(); }
  const api::SamplingOptions& sampling() const { return sampling_; }
  engine::Scheduler& scheduler() { return scheduler_; }
  const engine::Scheduler& scheduler() const { return scheduler_; }
  ResponseStore& responses() { return *responses_; }
  const ResponseStore& responses() const { return *responses_; }
  const std::shared_ptr<ResponseStore>& response_store() const { return responses_; }
  // For saved slots; both may be empty.
  const std::string& slot_folder() const { return slot_folder_; }
  const std::string& slot_model() const { return slot_model_; }
  void save_slots(std::string folder, std::string model) { // before any request
    slot_folder_ = std::move(folder), slot_model_ = std::move(model);
  }
  void share_responses(std::shared_ptr<ResponseStore> store) { responses_ = std::move(store); } // before any request
  engine::Scheduler::Counts counts() const override { return scheduler_.counts(); }
  void drain() override { scheduler_.drain(); }

 private:
  const api::SamplingOptions sampling_;
  const engine::SequenceRequests sequences_;
  mutable std::mutex adapters_mutex_;
  std::vector<float> adapter_scales_;
  std::string slot_folder_, slot_model_;
  std::shared_ptr<ResponseStore> responses_ = std::make_shared<ResponseStore>();
  engine::Scheduler scheduler_;
  engine::ChatRequests chats_;
};

} // namespace ridge::server
