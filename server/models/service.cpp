#include "server/models/service.h"

#include <algorithm>
#include <utility>

namespace ridge::server {
namespace {

// The number of remembered answers. Caches rarely hold older ones.
size_t most_known(const engine::Scheduler& scheduler, const core::Executor& executor) {
  constexpr int64_t kWherePromptsAreKept = 256;
  const int64_t most = 4 * executor.config().streams;
  return scheduler.keeps_prefixes() ? std::max(most, kWherePromptsAreKept) : most;
}

} // namespace

Service::Service(const engine::LoadedModel& model, const text::ChatTemplate& chat_template, Json template_variables,
                 api::SamplingOptions sampling, std::string name, engine::Notice log,
                 std::unique_ptr<engine::Speculator> speculator, const engine::PrefixSettings& prefixes)
    : ModelService(model, std::move(name), std::move(log)), sampling_(std::move(sampling)), sequences_(model),
      scheduler_(*model.executor, model.program, std::move(speculator), prefixes),
      chats_(model, chat_template, std::move(template_variables), most_known(scheduler_, *model.executor)) {
  for (const core::Adapter& adapter : model.program.adapters) adapter_scales_.push_back(adapter.scale);
}

Generation Service::chat(const Json& messages, const engine::ToolUse* tools, const Json& variables, const Json& schema,
                         const engine::LastTurn& last) const {
  return chats_.chat(messages, tools, variables, schema, last, sampling_);
}

} // namespace ridge::server
