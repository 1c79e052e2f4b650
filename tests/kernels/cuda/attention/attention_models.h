// Small models dominated by attention.
#pragma once

#include "support/random_program.h"

#include <cstdint>

namespace ridge::tests {

struct Heads {
  int64_t heads, kv_heads, dim, rotated;
  core::RopeStyle style = core::RopeStyle::split;
  core::AttentionParams sees = {};
  bool sinks = false;
};

inline core::AttentionParams window(int64_t size, bool chunked = false, float soft_cap = 0) {
  return {.window = size, .chunked = chunked, .soft_cap = soft_cap};
}

inline RandomProgram attention_model(uint64_t seed, const Heads& h, bool norms = false) {
  RandomProgram model(seed);
  RandomProgram::Shape shape;
  shape.layers = 1;
  shape.width = shape.hidden = 32;
  shape.heads = h.heads;
  shape.kv_heads = h.kv_heads;
  shape.k_dim = shape.v_dim = h.dim;
  shape.rotated = h.rotated;
  shape.style = h.style;
  shape.head_norms = norms;
  shape.attention = h.sees;
  shape.sinks = h.sinks;
  model.transformer(shape, quant::Type::F32, quant::Type::F32);
  return model;
}

} // namespace ridge::tests
