// How the matvec kernel brings its activations into shared memory: as integers with scales (matvec_groups.cuh,
// matvec_bits.cuh), or as floats.
//
// The RMS norm in front of a matrix costs nothing. Its weight is multiplied in here; the scalar 1/rms, known only after
// that, scales the results (matvec_epilogue.cuh).
//
// With dataflow input the activations come from a kernel that still runs: they are sentinels until they are there, and
// the loads are repeated until no sentinel is left (ptx.cuh).
#pragma once

#include "kernels/cuda/matvec/matvec_bits.cuh"
#include "kernels/cuda/matvec/weight_ring.cuh"

namespace ridge::kernels::cuda {

template <typename Format, typename Shape>
class ActivationStage {
  using L = Layout<Format>;
  static constexpr int kTokens = Shape::kTokens;
  static constexpr bool kFloat = Shape::kFloat, kWhole = Shape::kWhole;

 public:
  // A thread's eight values of the norm's weights and of the activations, and the activations of the next strides. They
  // are apart from the stage, which the compiler then keeps in registers before it has unrolled the loops over them.
  static constexpr int kAhead = kTokens == 1 ? 3 : 1;
  struct Values {
    float norm[8], now[8], next[kAhead][8];
  };

  // Starts the loads that need not wait. The norm's weights are constant and come first, or they would wait behind the
  // matrix's weights. Then come the activations: those of a kernel that is done, and those of dataflow input, which may
  // be there already.
  __device__ __forceinline__ ActivationStage(const MatvecArgs& args, const Shape& shape, bool dataflow, Values& values)
      : args_(args), shape_(shape), dataflow_(dataflow), my_first_(8 * static_cast<int>(threadIdx.x)), values_(values) {
    if constexpr (!kWhole) // what multiplies the zeros of lanes without columns
#pragma unroll
      for (float& v : values_.norm) v = 0;
    if constexpr (!kFloat) load_norm(my_first_);
    if (args.norm_weight)
      for (int i = my_first_ + (kFloat ? 0 : 8 * shape.threads); i < args.cols; i += 8 * shape.threads)
        prefetch_l2(args.norm_weight + i);
    stride_ = 8 * shape.threads;
    if constexpr (!kWhole) { // else whole warps have values or none
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        values_.now[j] = 0;
#pragma unroll
        for (int k = 0; k < kAhead; ++k) values_.next[k][j] = 0;
      }
    }
    const bool per_slot = args.x_per_slot || args.slots == 1;
    from_ = args.x + (per_slot ? shape.first_token : shape.row) * args.x_stride + my_first_;
    if (args.is_shared(shape.slot)) from_ = args.shared.x + shape.row * args.x_stride + my_first_;
    asm volatile("" : "+l"(from_)); // or it is made again for every load
    column_ = my_first_;
    loads_early_ = dataflow || (args.after_predecessor && !args.ids);
    if (!kFloat && loads_early_) load_all();
  }

  // With experts: waits until one is chosen and returns its offset in the matrices. The activations are asked for
  // before its number: with dataflow input when the stage was made, else they are there when the predecessor is done.
  __device__ __forceinline__ int64_t expert_offset() {
    if (args_.is_shared(shape_.slot)) return 0;
    if (!args_.ids) return args_.slots == 1 ? 0 : args_.experts.of(shape_.slot);
    if (!dataflow_) wait_for_predecessor();
    if (!kFloat && !loads_early_) {
      load_all();
      loads_early_ = true;
    }
    float id; // of the same bits, as values that pass between running kernels are
    do id = load_latest(reinterpret_cast<const float*>(args_.ids) + shape_.first_token);
    while (dataflow_ && is_sentinel(id));
    return args_.experts.of(__float_as_int(id));
  }

  // Stages token t's activations at `to`, and starts the ring's remaining copies behind the first loads. Returns this
  // thread's sum of squares where there is a norm.
  template <typename Ring>
  __device__ __forceinline__ float stage(int t, uint8_t* to, Ring& ring) {
    if (t > 0) from_ += args_.x_stride - (column_ - my_first_), column_ = my_first_;
    if constexpr (kFloat && kWhole)
      return stage_whole_floats(to);
    else if constexpr (kFloat)
      return stage_floats(to);
    else
      return stage_integers(t, to, ring);
  }

 private:
  __device__ __forceinline__ void load_norm(int i) {
    if (!args_.norm_weight || i >= args_.cols) return;
    put(values_.norm, *reinterpret_cast<const float4*>(args_.norm_weight + i));
    put(values_.norm + 4, *reinterpret_cast<const float4*>(args_.norm_weight + i + 4));
  }
  __device__ __forceinline__ void load(float (&v)[8], int strides) const {
    if (column_ + strides * stride_ >= args_.cols) return;
    put(v, load_latest_4(from_ + strides * stride_));
    put(v + 4, load_latest_4(from_ + strides * stride_ + 4));
  }
  __device__ __forceinline__ void load_all() {
    load(values_.now, 0);
#pragma unroll
    for (int k = 0; k < kAhead; ++k) load(values_.next[k], k + 1);
  }
  // With dataflow input: spins until `now` holds no sentinel.
  __device__ __forceinline__ void wait_for_values() {
    if (dataflow_ && column_ - 8 * shape_.lane < args_.cols)
      for (bool missing; __any_sync(~0u, missing = is_sentinel(values_.now));)
        if (missing) load(values_.now, 0); // only these: all blocks load from the same memory
  }

  // cols is a multiple of 32.
  template <typename Ring>
  __device__ __forceinline__ float stage_integers(int t, uint8_t* to, Ring& ring) {
    float squares = 0;
    if (t > 0 || !loads_early_) load_all();
    wait_for_values();
    if (t == 0 && dataflow_) stamp(args_.stamps, kMayGoOn);
    __syncwarp(); // or the assembler moves these loads behind the weights, 1 µs later
    if (t == 0) ring.fetch_slots(Chunks<Format>::kEarly, Ring::kSlots - 1);
    std::conditional_t<Shape::kBits, BitStore, IntegerStore<L, kLowParts<Format>>> store(to, shape_.groups, my_first_);
#pragma unroll 1
    while (column_ - 8 * shape_.lane < args_.cols) { // by whole warps
      if (args_.norm_weight)
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          squares += values_.now[j] * values_.now[j];
          values_.now[j] *= values_.norm[j];
        }
      store(values_.now, kWhole || column_ < args_.cols);
      column_ += stride_, from_ += stride_;
      if (column_ - 8 * shape_.lane >= args_.cols) break;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        values_.now[j] = values_.next[0][j];
#pragma unroll
        for (int k = 1; k < kAhead; ++k) values_.next[k - 1][j] = values_.next[k][j];
      }
      if (!kWhole && column_ >= args_.cols)
#pragma unroll
        for (float& v : values_.now) v = 0;
      load_norm(column_);
      load(values_.next[kAhead - 1], kAhead);
      store.advance(shape_.threads / 4);
      wait_for_values();
    }
    if (kTokens > 1) load_norm(my_first_); // for the next token
    return squares;
  }

  __device__ __forceinline__ float stage_whole_floats(uint8_t* to) const {
    constexpr int kQuads = L::kGroupWeights / 4, kBatch = 8; // loads in flight together
    const float* x = from_ - my_first_;
    auto* out = reinterpret_cast<float4*>(to);
    const int quads = args_.cols / 4;
    float squares = 0;
    for (int first = threadIdx.x; first < quads; first += kBatch * shape_.threads) {
      float4 v[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; ++k)
        if (first + k * shape_.threads < quads) v[k] = reinterpret_cast<const float4*>(x)[first + k * shape_.threads];
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        const int i = first + k * shape_.threads;
        if (i >= quads) break;
        if (args_.norm_weight) {
          squares += v[k].x * v[k].x + v[k].y * v[k].y + v[k].z * v[k].z + v[k].w * v[k].w;
          const float4 w = reinterpret_cast<const float4*>(args_.norm_weight)[i];
          v[k] = {v[k].x * w.x, v[k].y * w.y, v[k].z * w.z, v[k].w * w.w};
        }
        out[i % kQuads * shape_.groups + i / kQuads] = v[k];
      }
    }
    return squares;
  }
  __device__ __forceinline__ float stage_floats(uint8_t* to) const {
    constexpr int kGroup = L::kGroupWeights;
    const float* x = from_ - my_first_;
    auto* out = reinterpret_cast<float*>(to);
    float squares = 0;
    for (int i = threadIdx.x; i < shape_.groups * kGroup; i += shape_.threads) {
      float v = i < args_.cols ? x[i] : 0;
      squares += v * v;
      if (args_.norm_weight && i < args_.cols) v *= args_.norm_weight[i];
      out[(i % kGroup / 4 * shape_.groups + i / kGroup) * 4 + i % 4] = v;
    }
    return squares;
  }

  const MatvecArgs& args_;
  const Shape shape_; // by value: a reference costs instructions in the loop
  bool dataflow_, loads_early_;
  int my_first_, column_, stride_; // in columns
  const float* from_;              // column_ of the current token
  Values& values_;
};

} // namespace ridge::kernels::cuda
