// The kinds of ops that Programs are made of, and what core/ops.def says of each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

namespace ridge::core {

enum class OpKind : uint8_t {
#define RIDGE_OP(name, ...) name,
#include "core/ops.def"
#undef RIDGE_OP
};

enum class OpClass : uint8_t {
  matrix,    // products with weights
  attention, // reads a cache
  cache,     // writes a cache
  vector,    // arithmetic on activations
  routing,   // chooses experts and joins what they give
  memory,    // moves rows and columns
};

enum class WeightRole : uint8_t {
  matrix,  // one matrix [rows, cols]
  experts, // a matrix per expert
  vector,  // one row
  order,   // one row of i32
};

using NoParams = std::monostate;

struct NormParams {
  float epsilon;
  int64_t group; // elements normalized together: the whole row, or one head (q/k norms)
};

struct RopeParams {
  int32_t table; // index into Program::rope_tables
  int64_t heads, head_dim;
};

struct PermuteParams {
  int64_t group; // elements of x that the order picks from: the whole row, or one slot of an expert's input
};

struct KvParams {
  int32_t layer; // index into Program::kv_layers
};

struct AttentionParams {
  int32_t layer; // index into Program::kv_layers
  int64_t heads;
  float scale;
};

struct RouteParams {
  int64_t experts, used;
  bool normalize; // the chosen shares sum to 1
};

struct ExpertParams {
  int64_t used; // slots per token
};

using OpParams =
    std::variant<NoParams, NormParams, RopeParams, PermuteParams, KvParams, AttentionParams, RouteParams, ExpertParams>;

// The index into Program::kv_layers in an op's params, null for ops without a cache. The only place that knows which
// params name one.
inline int32_t* cache_layer(OpParams& params) {
  if (auto* store = std::get_if<KvParams>(&params)) return &store->layer;
  if (auto* attention = std::get_if<AttentionParams>(&params)) return &attention->layer;
  return nullptr;
}

// A row of ops.def.
struct OpInfo {
  struct Weights {
    std::array<WeightRole, 2> roles;
    size_t count; // of roles
  };
  std::string_view name;
  size_t inputs, outputs, required_weights;
  Weights weights;
  size_t params; // index of the alternative of OpParams
  OpClass op_class;
  double flops; // per element of the first input
};
const OpInfo& info_of(OpKind kind);

inline std::string_view name_of(OpKind kind) { return info_of(kind).name; }
inline OpClass class_of(OpKind kind) { return info_of(kind).op_class; }

} // namespace ridge::core
