// Adds a row's sums over warp tiles; applies the norm's scalar, bias, gate and residual.
#pragma once

#include "kernels/cuda/matvec/weight_ring.cuh"

namespace ridge::kernels::cuda {

template <typename Format, typename Shape>
class MatvecEpilogue {
  using C = Chunks<Format>;
  static constexpr int kTokens = Shape::kTokens, kAdders = 4;
  static constexpr float kInverse = 1 / (Shape::kExact ? 1 : Layout<Format>::kConstantScale);

 public:
  __device__ __forceinline__ MatvecEpilogue(const MatvecArgs& args, const Shape& shape, const BlockRows<Format>& rows,
                                            bool dataflow)
      : args_(args), shape_(shape), rows_(rows), dataflow_(dataflow), results_(rows.results * C::kRows),
        first_result_(static_cast<int>(threadIdx.x) / kAdders) {}

  __device__ __forceinline__ void load_residual(float (&residual)[kTokens]) const {
    if (const int row = rows_.first * C::kRows + first_result_; row < args_.segment[0].rows && first_result_ < results_)
#pragma unroll
      for (int t = 0; t < kTokens; ++t)
        if (args_.residual && t < shape_.tokens) residual[t] = load_latest(residual_at(t, row));
  }

  __device__ __forceinline__ void find_scales(float (&scale)[kTokens], const float* squares) const {
#pragma unroll
    for (int t = 0; t < kTokens; ++t)
      scale[t] =
          (Shape::kExact ? 1 : Layout<Format>::kConstantScale) *
          (args_.norm_weight && t < shape_.tokens
               ? rsqrtf(__fdividef(warp_sum(shape_.lane < shape_.warps ? squares[t * shape_.warps + shape_.lane] : 0),
                                   static_cast<float>(args_.cols)) +
                        args_.norm_epsilon)
               : 1);
  }

  // `sums`: [tokens][tiles][row blocks][rows].
  template <typename Beside>
  __device__ __forceinline__ void write(const float* sums, const float (&scale)[kTokens], float (&residual)[kTokens],
                                        const Beside& beside) const {
#pragma unroll 1
    for (int i = first_result_; i - shape_.lane / kAdders < results_; i += shape_.threads / kAdders) {
      const bool real = i < results_;
      int row;
      const MatvecSegment& segment = rows_.locate(real ? i / C::kRows : 0, row);
      row = row * C::kRows + i % C::kRows;
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        float value[2] = {0, 0};
        const auto add_tiles = [&] {
#pragma unroll 1
          for (int u = shape_.lane % kAdders; u < shape_.tiles; u += kAdders) {
            const float* of_tile = sums + (t * shape_.tiles + u) * rows_.count * C::kRows + (real ? i : 0);
            value[0] += of_tile[0];
            if (args_.gated) value[1] += of_tile[results_];
          }
        };
        if constexpr (Beside::kChanges) {
          const int quarter = shape_.lane % kAdders, s = static_cast<int>(&segment - args_.segment);
          typename Beside::Change change(beside, s, real ? i : 0, t, quarter),
              more(beside, args_.gated ? 1 : s, real ? i : 0, t, quarter);
          add_tiles();
          value[0] += kInverse * change.sum();
          if (args_.gated) value[1] += kInverse * more.sum();
        } else {
          add_tiles();
        }
#pragma unroll
        for (float& v : value) {
#pragma unroll
          for (int offset = 1; offset < kAdders; offset *= 2) v += __shfl_xor_sync(~0u, v, offset);
          v *= scale[t];
        }
        if (!real || row >= segment.rows || t >= shape_.tokens || shape_.lane % kAdders != 0) continue;
        const int64_t bias_at = row + first_bias(segment);
        if (segment.bias) value[0] += segment.bias[bias_at];
        if (args_.gated) {
          if (args_.segment[1].bias) value[1] += args_.segment[1].bias[bias_at];
          value[0] = args_.glu(value[0], value[1]);
        }
        if (args_.residual) {
          if (i != first_result_) residual[t] = load_latest(residual_at(t, row));
          while (dataflow_ && is_sentinel(residual[t])) residual[t] = load_latest(residual_at(t, row));
          value[0] += residual[t];
        }
        float* out = args_.is_shared(shape_.slot) ? args_.shared.out + shape_.row * segment.out_stride
                                                  : segment.out + (shape_.first_token + t) * segment.out_stride;
        store_latest(out + row, value[0]);
        if (args_.packets.count > 0)
          args_.packets.send(value[0], (shape_.first_token + t) * segment.out_stride + row, args_.packets.number());
      }
    }
  }

 private:
  __device__ __forceinline__ int64_t first_bias(const MatvecSegment& segment) const {
    if (!segment.bias || (!args_.ids && args_.slots == 1)) return 0;
    const int expert = args_.ids
                           ? __float_as_int(load_latest(reinterpret_cast<const float*>(args_.ids) + shape_.first_token))
                           : shape_.slot;
    return int64_t{expert} * segment.rows;
  }
  __device__ __forceinline__ const float* residual_at(int t, int row) const {
    return args_.residual + (shape_.first_token + t) * args_.residual_stride + row;
  }

  const MatvecArgs& args_;
  const Shape shape_;
  const BlockRows<Format>& rows_;
  bool dataflow_;
  int results_, first_result_;
};

} // namespace ridge::kernels::cuda
