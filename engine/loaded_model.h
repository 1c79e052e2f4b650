// A model file and the objects made from it.
#pragma once

#include "core/executor.h"
#include "core/requests.h"
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

// One line that the user should know.
using Notice = std::function<void(const std::string& line)>;

// Callbacks during loading; each may be empty.
struct LoadSteps {
  std::function<void(std::string_view what, int64_t done, int64_t total)> progress; // bytes
  Notice note;
};

// A draft head of a model's file (models::build_draft_head), or one that is a file of its own
// (models::build_eagle_head); or the encoder of a model that reads a text before it writes
// (core::Program::start_token).
struct LoadedHead {
  core::Program program; // points into the files
  std::unique_ptr<core::Executor> executor = nullptr;
  std::shared_ptr<const gguf::File> file = nullptr; // its own
  int64_t first_token = 0;                          // of a text that it reads, at position 0
};

struct LoadedModel {
  gguf::File file;
  core::Program program;                            // points into file
  std::unique_ptr<text::Tokenizer> tokenizer;       // null where the file has none
  std::unique_ptr<core::Executor> executor;         // runs program
  double gpu_share = 0;                             // of the bytes that one token reads
  std::vector<int> gpus = {};                       // that run it; empty: the first, or none
  double gpu_memory_left = 0;                       // of Placement::gpu_memory, on the first of them; 0: no limit
  std::vector<LoadedHead> heads = {};               // those that guess; program then keeps hidden rows
  std::optional<LoadedHead> encoder = {};           // whose Program runs within `executor`
  std::shared_ptr<PictureShelf> pictures = nullptr; // null: it takes none
  // In the order of Program::adapters, which points into them.
  std::vector<std::shared_ptr<const models::AdapterFile>> adapters = {};

  // What runs beside `program`: draft heads, or the encoder.
  std::span<const LoadedHead> beside() const { return encoder ? std::span(&*encoder, 1) : std::span(heads); }
  // The tokenizer, or an Error that says the file has none.
  const text::Tokenizer& need_tokenizer() const;
};

// Null where the file has none.
std::unique_ptr<text::Tokenizer> find_tokenizer(const gguf::File& file);

// The file at `path`. An empty path means the built-in guide, with a note.
gguf::File open_file(const std::string& path, const LoadSteps& steps);

// Whether models are taken, where text is to be written, that have no probabilities of a text token by token: those
// whose tokens see later ones, which write by diffusion, and those with an encoder. Their texts are evaluated whole.
enum class Whole : bool { no, yes };

// Builds the Program and the tokenizer; no executor yet. With Ending::logits, throws Error for a model that cannot
// write text: one without an output matrix, or, unless wanted, one that evaluates texts whole. `eagle`: a draft head's
// file, which must outlive the model; the Program then keeps the rows that it takes.
LoadedModel open_model(gguf::File file, models::Ending ending = models::Ending::logits,
                       const gguf::File* eagle = nullptr, Whole whole = Whole::no);
// The same of open_file().
LoadedModel open_model(const std::string& path, const LoadSteps& steps = {},
                       models::Ending ending = models::Ending::logits);
// Where models run: on a GPU that is there and has room, or on the CPU.
enum class Device { cuda, cpu };

// What of a model goes where, if there is a GPU.
struct Placement {
  int64_t gpu_layers = -1;      // the last so many layers on the GPU, the output being one of them; -1: as fits
  bool experts_on_host = false; // routed experts stay in the host's memory, also where the GPU has room for them
  double gpu_memory = 0;        // bytes that may be taken on each GPU; 0: what is free
  double host_memory = -1;      // bytes that experts may take in the host's memory; -1: what is free
  std::vector<int> gpus = {};   // numbers of those that may be used; empty: all, as few as hold the model
  int ranks = 0;                // that layers are shared out to (ranks/ranks.h); 0: one per GPU that is named
  int stages = 1;               // of layers, one after the other, each with such ranks
  int64_t long_batch = 0;       // tokens of a prompt at once where experts stay in the host's memory; 0: as elsewhere

  int first_gpu() const { return gpus.empty() ? 0 : gpus[0]; }
};
// Throws a usage Error for what is no size or no list of GPUs, or for several GPUs where layers are not shared out.
Placement placement_of(const core::ModelOptions& options);
// Ranks of all stages; 0: one per GPU that is named. GPUs that are named are shared out to the stages, all of them,
// where no number of ranks is given. Throws a usage Error where that does not come out even.
int ranks_in_all(const Placement& placement);

// `name` is auto, cuda or cpu. auto falls back to the CPU, with a note where there is a GPU that cannot be used; cuda
// throws Error then. GPUs that are named and not there are a usage Error where there are others. Weights are copied to
// the GPU, or read once for the CPU, with progress. What the placement leaves open: where a model does not fit the GPU,
// its routed experts stay in the host's memory or, as far as that has no room, in the file; where it has none, as many
// layers as fit run on the GPU and the rest on the CPU. A note says so. Draft heads come first, and the model gets what
// is left. to_need_less: advice for when the GPU has too little memory.
Device start_executor(LoadedModel& model, const core::ExecutorConfig& config, const std::string& name,
                      const Placement& placement = {}, const LoadSteps& steps = {},
                      const char* to_need_less = "lower -ngl (layers on the GPU), -c (context) or -ub (batch)");

// The same for a draft head by itself: on the GPU if it has room, else on the CPU.
void start_executor(LoadedHead& head, const core::ExecutorConfig& config, const std::string& name,
                    const Placement& placement, const LoadSteps& steps);

// Bytes per second: the upper bound of decoding on that device with `threads` threads (0: all cores).
double measure_read_bandwidth(Device device, int threads);
// The same for a model on two devices.
double measure_read_bandwidth(const LoadedModel& model);

} // namespace ridge::engine
