// LoRA adapters and their default scales (llama.cpp).
#include "core/strings/printable.h"
#include "server/json/reply.h"
#include "server/requests/sampling_fields.h"
#include "server/routes.h"

#include <filesystem>

namespace ridge::server {
namespace {

constexpr size_t kLongest = 4096; // bytes

} // namespace

void lora_adapters(Service& service, const HttpRequest&, HttpResponse& response) {
  const engine::LoadedModel& model = service.model();
  const std::vector<float> scales = service.adapter_scales();
  Json list = Json::array();
  for (size_t i = 0; i < scales.size(); ++i) {
    const core::Adapter& adapter = model.program.adapters[i];
    const models::AdapterFile& file = *model.adapters[i];
    list.push_back({{"id", i},
                    {"path", core::printable(std::filesystem::path(adapter.file).filename().string(),
                                             kLongest)}, // the folder stays private
                    {"scale", scales[i]},
                    {"task_name", core::printable(file.task(), kLongest)},
                    {"prompt_prefix", core::printable(file.prompt_prefix(), kLongest)}});
    if (adapter.invocation.empty()) continue;
    list.back()["alora_invocation_string"] =
        core::printable(service.tokenizer().decode(adapter.invocation, {.render_special = true}), kLongest);
    list.back()["alora_invocation_tokens"] = adapter.invocation;
  }
  reply(response, list);
}

// Adapters that the list leaves out get 0.
void set_lora_adapters(Service& service, const HttpRequest& request, HttpResponse& response) {
  service.set_adapter_scales(adapter_scales(parse_list(request.body), "body", service.model().program.adapters.size()));
  reply(response, {{"success", true}});
}

} // namespace ridge::server
