// A model file and the objects made from it.
#pragma once

#include "api/requests.h"
#include "core/executor.h"
#include "gguf/gguf.h"
#include "models/adapters/adapter_file.h"
#include "models/model.h"
#include "text/tokenizer/tokenizer.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

class PictureShelf; // pictures/picture_shelf.h

using Notice = std::function<void(const std::string& line)>;

struct LoadSteps {
  std::function<void(std::string_view what, int64_t done, int64_t total)> progress; // bytes
  Notice note;
};

// A draft head (models::build_draft_head, models::build_eagle_head) or an encoder (core::Program::start_token).
struct LoadedHead {
  core::Program program;
  std::unique_ptr<core::Executor> executor = nullptr;
  std::shared_ptr<const gguf::File> file = nullptr;
  int64_t first_token = 0; // the text's token at its position 0
};

struct LoadedModel {
  gguf::File file;
  core::Program program;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<core::Executor> executor;
  double gpu_share = 0; // of the bytes read per token
  std::vector<int> gpus = {};
  double gpu_memory_left = 0; // rest of Placement::gpu_memory; 0: no limit
  std::vector<LoadedHead> heads = {};
  std::optional<LoadedHead> encoder = {};
  std::shared_ptr<PictureShelf> pictures = nullptr; // null: no picture input
  // In the order of Program::adapters, which points into them.
  std::vector<std::shared_ptr<const models::AdapterFile>> adapters = {};

  std::span<const LoadedHead> auxiliary_models() const { return encoder ? std::span(&*encoder, 1) : std::span(heads); }
  // Throws Error if there is none.
  const text::Tokenizer& need_tokenizer() const;
};

// Null if the file has none.
std::unique_ptr<text::Tokenizer> find_tokenizer(const gguf::File& file);

// An empty path means the built-in guide, with a note.
gguf::File open_file(const std::string& path, const LoadSteps& steps);

// Whether to accept models that cannot give a text's probabilities token by token (diffusion, encoder).
enum class AllowWholeTexts : bool { no, yes };

// Makes no executor. With Ending::logits, throws Error for models without an output matrix and, with
// AllowWholeTexts::no, for those that evaluate texts whole. `eagle` is a draft head's file, which must outlive the
// model.
LoadedModel open_model(gguf::File file, models::Ending ending = models::Ending::logits,
                       const gguf::File* eagle = nullptr, AllowWholeTexts whole = AllowWholeTexts::no);
LoadedModel open_model(const std::string& path, const LoadSteps& steps = {},
                       models::Ending ending = models::Ending::logits);
enum class Device { cuda, cpu };

struct Placement {
  int64_t gpu_layers = -1;      // the last layers and the output; -1: as many as fit
  bool experts_on_host = false; // even if the GPU has room
  double gpu_memory = 0;        // bytes per GPU; 0: all free memory
  double host_memory = -1;      // bytes for experts; -1: all free memory
  std::vector<int> gpus = {};   // allowed GPUs; empty: all, as few as hold the model
  int ranks = 0;                // that share each layer (ranks/ranks.h); 0: one per named GPU
  int stages = 1;
  int64_t long_batch = 0;   // prompt tokens per batch where there is room (fit/fit.h); 0: as usual
  bool cpu_experts = false; // the CPU computes experts that the GPU lacks, where that is sooner

  int first_gpu() const { return gpus.empty() ? 0 : gpus[0]; }
};
// Throws a usage Error for invalid sizes, GPU lists or combinations.
Placement placement_of(const api::ModelOptions& options);
// Number of ranks in all stages; 0: one per named GPU. Throws a usage Error if the stages do not divide it.
int ranks_in_all(const Placement& placement);

// `name` is auto, cuda or cpu. auto falls back to the CPU, with a note if a GPU is unusable; cuda throws Error instead.
// Unless the placement decides, a model too large for the GPU keeps its routed experts in host memory or the file, or
// else as many layers as fit run on the GPU, with a note. Draft heads are placed first. `to_need_less` is advice for a
// lack of memory.
Device start_executor(LoadedModel& model, const core::ExecutorConfig& config, const std::string& name,
                      const Placement& placement = {}, const LoadSteps& steps = {},
                      const char* to_need_less = "lower -ngl (layers on the GPU), -c (context) or -ub (batch)");

// Starts a draft head, on the CPU if the GPU has no room.
void start_executor(LoadedHead& head, const core::ExecutorConfig& config, const std::string& name,
                    const Placement& placement, const LoadSteps& steps);

// Bytes per second: an upper bound for decoding. threads 0: all cores.
double measure_read_bandwidth(Device device, int threads);
double measure_read_bandwidth(const LoadedModel& model);

} // namespace ridge::engine
