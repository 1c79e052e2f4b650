// A Program in two parts joined by the residual stream, for models that only partly fit a GPU.
#pragma once

#include "core/executor.h"

#include <functional>
#include <memory>

namespace ridge::core {

struct SplitProgram {
  Program front, back; // front's output is back's input
};

// Number of transformer layers; earlier ops belong to the first.
int32_t layer_count(const Program& program);

// Returns the first possible cut from `layer` on, or a number above layer_count. Layers that share a cache, chosen
// positions or rows beside the residual stream stay together.
int32_t next_cut(const Program& program, int32_t layer);

// Cuts before `layer`, 1 to layer_count (back is only the output). Back recomputes what it needs of ops before the
// layers. Front takes a draft head's input; hidden rows stay where computed. Throws std::logic_error for impossible
// cuts (next_cut) or several crossing values.
SplitProgram split_program(const Program& program, int32_t layer);

// Runs the parts in turn.
using MakeExecutor = std::function<std::unique_ptr<Executor>(const Program&, const ExecutorConfig&)>;
std::unique_ptr<Executor> make_split_executor(SplitProgram parts, const ExecutorConfig& config,
                                              const MakeExecutor& make_front, const MakeExecutor& make_back);

// A part has an output row per token, unless the cut is after the last layer's gather.
ExecutorConfig config_of_part(const Program& part, ExecutorConfig config);

// The parts of make_pipeline_executor.
std::vector<Program> pipeline_parts(const Program& program, int stages);

// Cuts the Program into `stages` parts of about equal weight bytes and runs them in turn. Throws a usage Error for too
// many stages.
using MakeStage = std::function<std::unique_ptr<Executor>(const Program&, const ExecutorConfig&, int stage)>;
// Long batches go in pieces, at which the stages work at once. `companion` outlives the stages.
std::unique_ptr<Executor> make_pipeline_executor(const Program& program, const ExecutorConfig& config, int stages,
                                                 const MakeStage& make, std::shared_ptr<void> companion = {});

} // namespace ridge::core
