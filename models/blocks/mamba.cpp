// Scans of Mamba 1 and PLaMo 2, and lightning attention. Mamba 2 is in recurrent.cpp.
#include "core/error.h"
#include "models/blocks/blocks.h"

#include <algorithm>
#include <cmath>

namespace ridge::models::blocks {

using core::Activation;
using core::OpKind;
using core::ValueId;

namespace {

constexpr int64_t kMaxStates = 4096;

} // namespace

static ValueId scanned(Builder& builder, ValueId x, ValueId b, ValueId c, ValueId dt, ValueId gate,
                       const std::string& blk) {
  const int64_t inner = builder.width_of(x), heads = builder.width_of(dt), states = builder.width_of(b);
  const gguf::Tensor* rates = builder.file().find_tensor(blk + "ssm_a");
  const bool rate_per_state = rates && rates->weights() != heads;
  const core::WeightId a = builder.flat_vector(blk + "ssm_a", rate_per_state ? heads * states : heads),
                       d = builder.flat_vector(blk + "ssm_d", heads), bias = builder.vector(blk + "ssm_dt.bias", heads);
  const int32_t state = new_state(builder, blk + "scan", inner * states);
  const ValueId y = builder.emit(OpKind::scan, blk + "scan", {x, b, c, dt}, inner, {a, d, bias},
                                 core::ScanParams{state, heads, inner / heads, 1, states, 0, 0, 0});
  return builder.linear(glu(builder, Activation::silu, gate, y, blk + "ssm_gate"), blk + "ssm_out",
                        builder.hparams().width());
}

ValueId mamba(Builder& builder, ValueId x, int64_t il) {
  const std::string blk = builder.layer_name(il), in = blk + "ssm_in", from_x = blk + "ssm_x";
  const int64_t inner = builder.hparams().ssm("inner_size"), states = builder.hparams().ssm("state_size"),
                rank = builder.hparams().ssm("time_step_rank"), all = rank + 2 * states;
  if (states > kMaxStates) throw_error("{}: a scan with {} states", builder.file().path(), states);
  const ValueId gate = builder.linear_of(x, in, {"z", 2 * inner, inner, inner});
  const ValueId mixed = conv1d(builder, builder.linear_of(x, in, {"x", 2 * inner, 0, inner}), blk + "ssm_conv1d",
                               builder.hparams().ssm("conv_kernel"), Activation::silu);
  const bool bare = builder.hparams().get_bool("ssm.dt_b_c_rms", false);
  const auto part = [&](std::string_view which, int64_t first, int64_t rows) {
    const ValueId y = builder.linear_of(mixed, from_x, {which, all, first, rows});
    const std::string norm = fmt::format("{}ssm_{}_norm", blk, which);
    if (builder.has(norm + ".weight")) return builder.rms_norm(y, norm);
    return bare ? builder.unit_norm(y, norm, rows) : y;
  };
  const ValueId dt = builder.linear(part("dt", 0, rank), blk + "ssm_dt", inner, false);
  const ValueId b = part("b", rank, states), c = part("c", rank + states, states);
  return scanned(builder, mixed, b, c, dt, gate, blk);
}

ValueId plamo_mamba(Builder& builder, ValueId x, int64_t il) {
  constexpr int64_t kMinRank = 64, kWidthOfRank = 16;
  const std::string blk = builder.layer_name(il), in = blk + "ssm_in", from_x = blk + "ssm_x";
  const int64_t inner = builder.hparams().ssm("inner_size"), states = builder.hparams().ssm("state_size"),
                heads = builder.hparams().ssm("time_step_rank"),
                rank = std::max(kMinRank, builder.hparams().width() / kWidthOfRank);
  const int64_t head = inner / heads, all = 2 * states + rank;
  if (heads > kMaxHeads || inner % heads != 0 || states > kMaxStates)
    throw_error("{}: a scan of {} channels in {} heads with {} states: the file is damaged or not a {} model",
                builder.file().path(), inner, heads, states, builder.program().architecture);
  const ValueId gate =
      builder.linear_of(x, in, {"z", 2 * inner, 0, inner, head, 2 * head}); // each head's gate precedes its x
  const ValueId mixed = conv1d(builder, builder.linear_of(x, in, {"x", 2 * inner, head, inner, head, 2 * head}),
                               blk + "ssm_conv1d", builder.hparams().ssm("conv_kernel"), Activation::silu);
  const auto part = [&](std::string_view which, int64_t first, int64_t rows) {
    return builder.rms_norm(builder.linear_of(mixed, from_x, {which, all, first, rows}),
                            fmt::format("{}ssm_{}_norm", blk, which));
  };
  const ValueId b = part("b", 0, states), c = part("c", states, states);
  const ValueId dt = builder.linear(part("dt", 2 * states, rank), blk + "ssm_dt", heads, false);
  return scanned(builder, mixed, b, c, dt, gate, blk);
}

// S = exp(-pace of the head) S + v kᵀ, then S q: a scan whose steps are all softplus(0 + bias) = 1.
ValueId lightning_attention(Builder& b, ValueId x, int64_t il, double pace) {
  const std::string blk = b.layer_name(il), qkv = blk + "attn_qkv";
  const int64_t heads = b.hparams().heads(il), dim = b.hparams().k_dim(il), inner = heads * dim;
  const auto part = [&](std::string_view which, int64_t place) { // q, k and v are interleaved per head
    const ValueId y = b.linear_of(x, qkv, {which, 3 * inner, place * dim, inner, dim, 3 * dim});
    return activate(b, y, fmt::format("{}_{}", qkv, which), {{Activation::silu}});
  };
  const ValueId q = part("q", 0), k = part("k", 1), v = part("v", 2);
  const ValueId zeros = b.emit(OpKind::clamp, blk + "steps", {columns(b, x, blk + "step_columns", 0, heads)}, heads, {},
                               core::ClampParams{0, 0});
  const double first = std::exp2(-std::exp2(3 - std::log2(static_cast<double>(heads))));
  std::vector<float> rates(heads);
  for (int64_t i = 0; i < heads; ++i)
    rates[i] = static_cast<float>(-pace * std::pow(first, static_cast<double>(i + 1)));
  const auto one = static_cast<float>(std::log(std::exp(1.0) - 1));
  const int32_t state = new_state(b, blk + "scan", inner * dim);
  const ValueId y = b.emit(OpKind::scan, blk + "scan", {v, k, q, zeros}, inner,
                           {b.constant(blk + "rates", rates), b.constant(blk + "skips", heads, 0),
                            b.constant(blk + "step_biases", heads, one)},
                           core::ScanParams{state, heads, dim, heads, dim, 0, 0, 0});
  const ValueId gate = b.linear(x, blk + "attn_gate", inner);
  return b.linear(glu(b, Activation::sigmoid, gate, b.rms_norm(y, blk + "attn_norm_2"), blk + "attn_gated"),
                  blk + "attn_output", b.hparams().width());
}

} // namespace ridge::models::blocks
