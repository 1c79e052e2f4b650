// A Program in two parts with an executor each, for models that fit a GPU only in part: the first layers run where
// there is more memory, the rest where there is more speed. What passes between them is one value, the residual stream.
#pragma once

#include "core/executor.h"

#include <functional>
#include <memory>

namespace ridge::core {

struct SplitProgram {
  Program front, back; // back's input is front's output
};

// Transformer layers; what comes before them belongs to the first, and the output, by this count, is one more layer.
int32_t layer_count(const Program& program);

// Cuts before the ops of `layer`, from 1 (the first part is a single layer) to layer_count (the second is the output).
// Each part has the weights and cache layers of its own ops only.
SplitProgram split_program(const Program& program, int32_t layer);

// Runs both parts in turn and looks like an executor of the whole. `config` is what both were or will be made for.
using MakeExecutor = std::function<std::unique_ptr<Executor>(const Program&, const ExecutorConfig&)>;
std::unique_ptr<Executor> make_split_executor(SplitProgram parts, const ExecutorConfig& config,
                                              const MakeExecutor& make_front, const MakeExecutor& make_back);

} // namespace ridge::core
