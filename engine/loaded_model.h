// A model file with everything that is made from it, in the order of dependence.
#pragma once

#include "core/executor.h"
#include "gguf/gguf.h"
#include "text/tokenizer/tokenizer.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace ridge::engine {

// One line that the user should know.
using Notice = std::function<void(const std::string& line)>;

// What loading says while it goes on; each may be empty.
struct LoadSteps {
  std::function<void(std::string_view what, int64_t done, int64_t total)> progress; // bytes
  Notice note;
};

struct LoadedModel {
  gguf::File file;
  core::Program program;                      // points into file
  std::unique_ptr<text::Tokenizer> tokenizer; // null where the file has none
  std::unique_ptr<core::Executor> executor;   // runs program
  double gpu_share = 0;                       // of the bytes that a token takes

  // The tokenizer, or an Error that says the file has none.
  const text::Tokenizer& need_tokenizer() const;
};

// Null where the file has none.
std::unique_ptr<text::Tokenizer> find_tokenizer(const gguf::File& file);

// Builds the Program and the tokenizer; no executor yet.
LoadedModel open_model(gguf::File file);
// The file at `path`, or, where that is empty, the built-in guide; then it says so.
LoadedModel open_model(const std::string& path, const LoadSteps& steps = {});

// Where models run: on a GPU that is there and has room, or on the CPU.
enum class Device { cuda, cpu };

// `name` is auto, cuda or cpu. auto falls back to the CPU, and says so where a GPU is there that cannot be used; cuda
// is an Error where it cannot. For the GPU the weights are copied to it, for the CPU read once, with progress.
// gpu_layers: the last so many layers go there, the output being one; -1: all for which there is room, which is said
// where it is not all. The rest runs on the CPU. to_need_less: advice for where the GPU has too little memory.
Device start_executor(LoadedModel& model, const core::ExecutorConfig& config, const std::string& name,
                      int64_t gpu_layers = -1, const LoadSteps& steps = {},
                      const char* to_need_less = "lower -ngl (layers on the GPU), -c (context) or -ub (batch)");

// Bytes per second: the roof of decoding on that device with so many threads (0: all cores).
double measure_read_bandwidth(Device device, int threads);
// Likewise for a model on two devices.
double measure_read_bandwidth(const LoadedModel& model);

} // namespace ridge::engine
