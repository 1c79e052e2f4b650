// An op that is launched as it is, by launch_NAME in NAME.{cu,cpp} of ops/ or recurrent/: all of core/ops.def but
// products and attention, which have calls in a plan (plan/batch_plan.h).
#pragma once

#include "core/program.h"
#include "kernels/cuda/ops/ops.h"

namespace ridge::kernels::cuda {

struct OpCall {
  const core::Program& program;
  const core::Op& op;
  int64_t rows;                    // of the output; without one, tokens
  float *in[6] = {}, *out[2] = {}; // [rows, width]; i32 is cast

  bool exact; // only f32 arithmetic, in the op's order

  // [tokens] and [outputs].
  int tokens;
  const int32_t *token_ids, *positions, *streams, *outputs;

  const uint8_t* weight_data[3] = {}; // matrices in device layout, vectors as in the file
  RopeArgs rope = {};
  const float* given_rows = nullptr;          // core::Batch::rows
  const core::AdapterUse* adapters = nullptr; // [streams][adapters]
  Cache cache = {};
  float* state = nullptr; // [streams][width]
  Sequences sequences = {};

  int64_t in_width(size_t i) const { return program.values[op.inputs[i]].width; }
  int64_t out_width(size_t i) const { return program.values[op.outputs[i]].width; }
  const core::Weight& weight(size_t i) const { return program.weights[op.weights[i]]; }
  const float* vector(size_t i) const { return reinterpret_cast<const float*>(weight_data[i]); }
};

using LaunchOp = void (*)(const Launch&, const OpCall&);

// Null for ops with other calls in a plan.
LaunchOp launcher_of(core::OpKind kind);

} // namespace ridge::kernels::cuda
