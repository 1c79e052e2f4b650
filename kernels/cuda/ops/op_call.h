// An op of a Program that is launched as it is, with its operands in device memory. launch_NAME in NAME.{cu,cpp} of
// ops/ or recurrent/ launches it, for each row of core/ops.def that is neither a product with matrices nor attention:
// these have calls of their own in a plan (plan/batch_plan.h). Most of these ops run only where no fusion took them up
// (plan/plan.h), or over the many rows of a prompt: each is a fraction of a microsecond of memory traffic, and what it
// costs in decoding is its launch.
#pragma once

#include "core/program.h"
#include "kernels/cuda/ops/ops.h"

namespace ridge::kernels::cuda {

struct OpCall {
  const core::Program& program;
  const core::Op& op;
  int64_t rows;                    // of the output, or tokens where there is none
  float *in[6] = {}, *out[2] = {}; // [rows, width]; i32 values are cast

  bool exact; // only f32 arithmetic, in the order of the op's definition

  // The batch, [tokens] and [outputs].
  int tokens;
  const int32_t *token_ids, *positions, *streams, *outputs;

  const uint8_t* weight_data[3] = {}; // matrices in the device layout of their format, vectors as they are in the file
  RopeArgs rope = {};                 // of ops that rotate
  const float* given_rows = nullptr;  // core::Batch::rows, where the batch has some
  const core::AdapterUse* adapters = nullptr; // [streams][Program::adapters]
  Cache cache = {};                           // the layer's, of ops that write one
  float* state = nullptr;                     // the layer's, of recurrent ops: [streams][width]
  Sequences sequences = {};                   // of recurrent ops: how the batch's tokens follow one another

  int64_t in_width(size_t i) const { return program.values[op.inputs[i]].width; }
  int64_t out_width(size_t i) const { return program.values[op.outputs[i]].width; }
  const core::Weight& weight(size_t i) const { return program.weights[op.weights[i]]; }
  const float* vector(size_t i) const { return reinterpret_cast<const float*>(weight_data[i]); }
};

using LaunchOp = void (*)(const Launch&, const OpCall&);

// Null for ops that have calls of their own.
LaunchOp launcher_of(core::OpKind kind);

} // namespace ridge::kernels::cuda
