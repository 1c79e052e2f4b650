#include "app/models/first_models.h"

#include <numeric>

namespace ridge::app {
namespace {

constexpr int64_t kMega = 1'000'000;

// Repositories of the makers or of ggml-org; they need no account.
constexpr FirstModel kFirstModels[] = {
    {"Gemma 3 270M", "hf:ggml-org/gemma-3-270m-it-GGUF:Q8_0", 292 * kMega, 292 * kMega,
     "fast, short answers on any machine"},
    {"Qwen3 0.6B", "hf:Qwen/Qwen3-0.6B-GGUF:Q8_0", 639 * kMega, 639 * kMega, "simple questions; can reason first"},
    {"Qwen3 1.7B", "hf:Qwen/Qwen3-1.7B-GGUF:Q8_0", 1'834 * kMega, 1'834 * kMega, "everyday questions without a GPU"},
    {"Qwen3 4B", "hf:Qwen/Qwen3-4B-GGUF:Q4_K_M", 2'497 * kMega, 2'497 * kMega,
     "everyday questions, tools, many languages"},
    {"Qwen3-VL 4B", "hf:Qwen/Qwen3-VL-4B-Instruct-GGUF:Q4_K_M", 3'334 * kMega, 2'497 * kMega,
     "questions about pictures, too"},
    {"Qwen3 8B", "hf:Qwen/Qwen3-8B-GGUF:Q4_K_M", 5'028 * kMega, 5'028 * kMega, "better answers; wants a GPU with 8 GB"},
    {"gpt-oss 20B", "hf:ggml-org/gpt-oss-20b-GGUF", 12'110 * kMega, 2'300 * kMega,
     "reasoning, tools; quick for its size"},
    {"Qwen3 30B-A3B", "hf:Qwen/Qwen3-30B-A3B-GGUF:Q4_K_M", 18'557 * kMega, 2'000 * kMega,
     "the best of these without a large GPU"},
    {"Qwen3 32B", "hf:Qwen/Qwen3-32B-GGUF:Q4_K_M", 19'762 * kMega, 19'762 * kMega,
     "careful answers; wants a GPU with 24 GB"},
};

constexpr size_t kOffered = 6;
// Bytes read per token on the CPU: 6 and 12 tokens/s at 30 GB/s.
constexpr int64_t kAcceptableTokenBytes = 5'100 * kMega, kFastTokenBytes = 2'500 * kMega;
constexpr int64_t kFastDownloadBytes = 6'000 * kMega;

double gpu_room(const engine::Room& room) {
  return room.gpus.empty() ? room.gpu : std::accumulate(room.gpus.begin(), room.gpus.end(), 0.0);
}

} // namespace

std::span<const FirstModel> first_models() { return kFirstModels; }

std::string_view words_for(RunsOn runs_on) {
  switch (runs_on) {
  case RunsOn::gpu: return "GPU";
  case RunsOn::gpu_and_cpu: return "GPU and CPU";
  case RunsOn::cpu: return "CPU";
  case RunsOn::nothing: return "does not fit";
  }
  return "";
}

RunsOn runs_on(int64_t file_bytes, const engine::Room& room) {
  // The KV cache of 4,096 tokens of an 8B takes 600 MB; scratch grows with layer width.
  constexpr double kBesideShare = 1.1, kBesideBytes = 600e6;
  const double need = kBesideShare * static_cast<double>(file_bytes) + kBesideBytes;
  if (need <= gpu_room(room)) return RunsOn::gpu;
  if (need > gpu_room(room) + room.cpu) return RunsOn::nothing;
  return gpu_room(room) > kBesideBytes ? RunsOn::gpu_and_cpu : RunsOn::cpu;
}

FirstChoice first_choice(const engine::Room& room) {
  FirstChoice choice;
  const auto is_quick = [&](const FirstModel& model, int64_t token_bytes) {
    const RunsOn where = runs_on(model.bytes, room);
    return where == RunsOn::gpu || (where != RunsOn::nothing && model.token_bytes <= token_bytes);
  };
  for (const FirstModel& model : kFirstModels)
    if (is_quick(model, kAcceptableTokenBytes)) choice.models.push_back(&model);
  if (choice.models.size() > kOffered)
    choice.models.erase(choice.models.begin() + 1, choice.models.end() - (kOffered - 1));
  for (size_t i = 0; i < choice.models.size(); ++i)
    if (choice.models[i]->bytes <= kFastDownloadBytes && is_quick(*choice.models[i], kFastTokenBytes)) choice.best = i;
  return choice;
}

} // namespace ridge::app
