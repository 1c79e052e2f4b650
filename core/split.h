// A Program in two parts with an executor each, for models that fit a GPU only in part: the first layers run where
// there is more memory, the rest where there is more speed. One value passes between them, the residual stream.
#pragma once

#include "core/executor.h"

#include <functional>
#include <memory>

namespace ridge::core {

struct SplitProgram {
  Program front, back; // back's input is front's output
};

// The number of transformer layers. What comes before them belongs to the first one.
int32_t layer_count(const Program& program);

// The first place from `layer` on where a Program may be cut: layers that attend to one cache, or to positions that one
// of them chose, stay together, and so do a layer and those whose rows it takes beside the residual stream. Behind
// layer_count, if there is none.
int32_t next_cut(const Program& program, int32_t layer);

// Cuts before the ops of `layer`, from 1 (the first part is one layer) to layer_count (the second part is the output).
// Each part has only the weights and the cache layers of its own ops. What the second part needs of the ops before the
// first layer, it computes itself, from the tokens. Throws std::logic_error for other layers, where next_cut moves it,
// and where more than one value of a layer crosses the cut. The input of a draft head belongs to the first part, hidden
// rows to the part that computes them.
SplitProgram split_program(const Program& program, int32_t layer);

// Makes an executor for each part and runs them in turn, as one executor of the whole Program made for `config`.
using MakeExecutor = std::function<std::unique_ptr<Executor>(const Program&, const ExecutorConfig&)>;
std::unique_ptr<Executor> make_split_executor(SplitProgram parts, const ExecutorConfig& config,
                                              const MakeExecutor& make_front, const MakeExecutor& make_back);

// How a part of a Program is configured: what it hands on has a row per token, unless the cut lies behind the gathering
// of the last layer.
ExecutorConfig config_of_part(const Program& part, ExecutorConfig config);

// The parts that make_pipeline_executor runs. Throws as that does.
std::vector<Program> pipeline_parts(const Program& program, int stages);

// Cuts a Program into `stages` parts that read about as many bytes of weights each, and runs them in turn as one
// executor. make(part, configuration, stage). Throws a usage Error for more stages than layers and the output.
using MakeStage = std::function<std::unique_ptr<Executor>(const Program&, const ExecutorConfig&, int stage)>;
std::unique_ptr<Executor> make_pipeline_executor(const Program& program, const ExecutorConfig& config, int stages,
                                                 const MakeStage& make);

} // namespace ridge::core
