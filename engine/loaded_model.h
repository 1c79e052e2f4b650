// A model file and the objects made from it.
#pragma once

#include "core/executor.h"
#include "gguf/gguf.h"
#include "models/model.h"
#include "text/tokenizer/tokenizer.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace ridge::engine {

// One line that the user should know.
using Notice = std::function<void(const std::string& line)>;

// Callbacks during loading; each may be empty.
struct LoadSteps {
  std::function<void(std::string_view what, int64_t done, int64_t total)> progress; // bytes
  Notice note;
};

struct LoadedModel {
  gguf::File file;
  core::Program program;                      // points into file
  std::unique_ptr<text::Tokenizer> tokenizer; // null where the file has none
  std::unique_ptr<core::Executor> executor;   // runs program
  double gpu_share = 0;                       // of the bytes that one token reads

  // The tokenizer, or an Error that says the file has none.
  const text::Tokenizer& need_tokenizer() const;
};

// Null where the file has none.
std::unique_ptr<text::Tokenizer> find_tokenizer(const gguf::File& file);

// Builds the Program and the tokenizer; no executor yet. With Ending::logits, throws Error for a model that cannot
// write text: one without an output matrix, or whose tokens see later ones.
LoadedModel open_model(gguf::File file, models::Ending ending = models::Ending::logits);
// Opens the file at `path`. An empty path means the built-in guide, with a note.
LoadedModel open_model(const std::string& path, const LoadSteps& steps = {},
                       models::Ending ending = models::Ending::logits);
// Draft head `head` of the file at `path` (models::build_draft_head), without a tokenizer. It shares the file's memory
// with the model, of which it needs the hidden rows (models::Ending::drafted).
LoadedModel open_draft_head(const std::string& path, int64_t head = 0);

// Where models run: on a GPU that is there and has room, or on the CPU.
enum class Device { cuda, cpu };

// `name` is auto, cuda or cpu. auto falls back to the CPU, with a note where there is a GPU that cannot be used; cuda
// throws Error then. Weights are copied to the GPU, or read once for the CPU, with progress.
// gpu_layers: the number of layers on the GPU, counted from the end, where the output counts as one; -1: as many as
// fit, with a note where some do not. The rest runs on the CPU. to_need_less: advice for when the GPU has too little
// memory.
Device start_executor(LoadedModel& model, const core::ExecutorConfig& config, const std::string& name,
                      int64_t gpu_layers = -1, const LoadSteps& steps = {},
                      const char* to_need_less = "lower -ngl (layers on the GPU), -c (context) or -ub (batch)");

// Bytes per second: the upper bound of decoding on that device with `threads` threads (0: all cores).
double measure_read_bandwidth(Device device, int threads);
// The same for a model on two devices.
double measure_read_bandwidth(const LoadedModel& model);

} // namespace ridge::engine
