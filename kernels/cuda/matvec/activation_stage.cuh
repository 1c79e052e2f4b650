// Brings the matvec kernel's activations into shared memory, as integers (matvec_groups.cuh, matvec_bits.cuh) or
// floats. A preceding RMS norm's weight is multiplied in; 1/rms scales the results later.
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
  // Two tokens are requested together, or the second would wait behind the weights. Separate from the stage so that the
  // compiler keeps the stage in registers before it unrolls loops.
  static constexpr int kAhead = kTokens <= 2 ? 3 : 1;
  static constexpr bool kBoth = kTokens == 2;
  struct Row {
    float now[8], next[kAhead][8];
  };
  struct Values {
    float norm[8];
    Row row, second;
  };

  // Starts the loads that need not wait: the norm's weights first, or they would queue behind the matrix's; then
  // available activations.
  __device__ __forceinline__ ActivationStage(const MatvecArgs& args, const Shape& shape, bool dataflow, Values& values)
      : args_(args), shape_(shape), dataflow_(dataflow), my_first_(8 * static_cast<int>(threadIdx.x)), values_(values) {
    if constexpr (!kWhole) // lanes without columns multiply zeros by these
#pragma unroll
      for (float& v : values_.norm) v = 0;
    if constexpr (!kFloat) load_norm(my_first_);
    if (args.norm_weight)
      for (int i = my_first_ + (kFloat ? 0 : 8 * shape.threads); i < args.cols; i += 8 * shape.threads)
        prefetch_l2(args.norm_weight + i);
    stride_ = 8 * shape.threads;
    if constexpr (!kWhole) {
      clear(values_.row);
      if constexpr (kBoth) clear(values_.second);
    }
    const bool per_slot = args.x_per_slot || args.slots == 1;
    from_ = args.x + (per_slot ? shape.first_token : shape.row) * args.x_stride + my_first_;
    if (args.is_shared(shape.slot)) from_ = args.shared.x + shape.row * args.x_stride + my_first_;
    asm volatile("" : "+l"(from_)); // not recomputed for every load
    column_ = my_first_;
    if (dataflow && args.ids && !args.is_shared(shape.slot)) id_ = load_id();
    loads_early_ = dataflow || (args.after_predecessor && !args.ids);
    if (!kFloat && loads_early_) load_all();
  }

  // Waits for the slot's expert and returns its offset. Activations are requested first: dataflow input in the
  // constructor, other input once the predecessor is done.
  __device__ __forceinline__ int64_t expert_offset() {
    if (args_.is_shared(shape_.slot)) return 0;
    if (!args_.ids) return args_.slots == 1 ? 0 : args_.experts.of(shape_.slot);
    if (dataflow_) {
      while (is_sentinel(id_)) id_ = load_id();
      if (!args_.x_per_slot) reload_missing();
    } else {
      wait_for_predecessor();
      if (!kFloat && !loads_early_) {
        load_all();
        loads_early_ = true;
      }
      id_ = load_id();
    }
    return args_.experts.of(__float_as_int(id_));
  }

  // Stages token t at `to`, starts the ring's remaining copies after the first loads, and passes values to `beside`.
  // Returns this thread's sum of squares if there is a norm.
  template <typename Ring, typename Beside>
  __device__ __forceinline__ float stage(int t, uint8_t* to, Ring& ring, Beside& beside) {
    if (t > 0) from_ += args_.x_stride - (column_ - my_first_), column_ = my_first_;
    if constexpr (kFloat)
      return kWhole || args_.cols % 4 == 0 ? stage_quads(t, to, beside) : stage_elements(to);
    else
      return kBoth && t == 1 ? stage_integers(t, values_.second, to, ring, beside)
                             : stage_integers(t, values_.row, to, ring, beside);
  }

 private:
  __device__ __forceinline__ float load_id() const {
    return load_latest(reinterpret_cast<const float*>(args_.ids) + shape_.first_token);
  }
  __device__ __forceinline__ void load_norm(int i) {
    if (!args_.norm_weight || i >= args_.cols) return;
    put(values_.norm, *reinterpret_cast<const float4*>(args_.norm_weight + i));
    put(values_.norm + 4, *reinterpret_cast<const float4*>(args_.norm_weight + i + 4));
  }
  __device__ __forceinline__ void load(float (&v)[8], const float* from, int strides) const {
    if (column_ + strides * stride_ >= args_.cols) return;
    put(v, load_latest_4(from + strides * stride_));
    put(v + 4, load_latest_4(from + strides * stride_ + 4));
  }
  static __device__ __forceinline__ void clear(Row& row) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      row.now[j] = 0;
#pragma unroll
      for (int k = 0; k < kAhead; ++k) row.next[k][j] = 0;
    }
  }
  __device__ __forceinline__ void load_row(Row& row, const float* from) const {
    load(row.now, from, 0);
#pragma unroll
    for (int k = 0; k < kAhead; ++k) load(row.next[k], from, k + 1);
  }
  __device__ __forceinline__ void load_all() {
    load_row(values_.row, from_);
    if constexpr (kBoth)
      if (shape_.tokens == 2) load_row(values_.second, from_ + args_.x_stride);
  }
  // Runs before the weights are requested, behind which a load takes 2 µs instead of 0.7 (H200).
  __device__ __forceinline__ void reload_missing() {
    Row& row = values_.row;
    if (column_ < args_.cols && is_sentinel(row.now)) load(row.now, from_, 0);
  }
  // Spins until `now` holds no sentinel. All blocks load the same memory, so each requests only missing values and
  // pauses in between.
  __device__ __forceinline__ void wait_for_values(Row& row) {
    if (dataflow_ && column_ - 8 * shape_.lane < args_.cols)
      for (bool missing; __any_sync(~0u, missing = is_sentinel(row.now));) {
        __nanosleep(60);
        if (missing) load(row.now, from_, 0);
      }
  }

  // cols is a multiple of 32.
  template <typename Ring, typename Beside>
  __device__ __forceinline__ float stage_integers(int t, Row& row, uint8_t* to, Ring& ring, Beside& beside) {
    float squares = 0;
    if (t == 0 ? !loads_early_ : !kBoth) load_all();
    wait_for_values(row);
    if (t == 0 && dataflow_) stamp(args_.stamps, kPredecessorDone);
    __syncwarp(); // or the assembler moves these loads behind the weights: 1 µs
    if (t == 0) ring.fetch_slots(Chunks<Format>::kEarly, Ring::kSlots - 1);
    std::conditional_t<Shape::kBits, BitStore, IntegerStore<L, kLowParts<Format>>> store(to, shape_.groups, my_first_);
#pragma unroll 1
    while (column_ - 8 * shape_.lane < args_.cols) { // by whole warps
      beside.add(t, row.now, column_);
      if (args_.norm_weight)
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          squares += row.now[j] * row.now[j];
          row.now[j] *= values_.norm[j];
        }
      store(row.now, kWhole || column_ < args_.cols);
      column_ += stride_, from_ += stride_;
      if (column_ - 8 * shape_.lane >= args_.cols) break;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        row.now[j] = row.next[0][j];
#pragma unroll
        for (int k = 1; k < kAhead; ++k) row.next[k - 1][j] = row.next[k][j];
      }
      if (!kWhole && column_ >= args_.cols)
#pragma unroll
        for (float& v : row.now) v = 0;
      load_norm(column_);
      load(row.next[kAhead - 1], from_, kAhead);
      store.advance(shape_.threads / 4);
      wait_for_values(row);
    }
    if (kTokens > 1 && my_first_ + stride_ - 8 * shape_.lane < args_.cols) load_norm(my_first_);
    return squares;
  }

  // Rows begin at multiples of 16 bytes.
  template <typename Beside>
  __device__ __forceinline__ float stage_quads(int t, uint8_t* to, Beside& beside) const {
    constexpr int kQuads = L::kGroupWeights / 4, kBatch = 8;
    const float* x = from_ - my_first_;
    auto* out = reinterpret_cast<float4*>(to);
    const int quads = args_.cols / 4, all = kWhole ? quads : shape_.groups * kQuads;
    float squares = 0;
    for (int first = threadIdx.x; first < all; first += kBatch * shape_.threads) {
      float4 v[kBatch], weight[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        const int i = first + k * shape_.threads;
        v[k] = i < quads ? reinterpret_cast<const float4*>(x)[i] : float4{};
        if (args_.norm_weight && i < quads) weight[k] = reinterpret_cast<const float4*>(args_.norm_weight)[i];
      }
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        const int i = first + k * shape_.threads;
        if (i >= all) break;
        if (kWhole || i < quads) beside.add(t, v[k], 4 * i);
        if (args_.norm_weight && (kWhole || i < quads)) {
          const float4 w = weight[k];
          squares += v[k].x * v[k].x + v[k].y * v[k].y + v[k].z * v[k].z + v[k].w * v[k].w;
          v[k] = {v[k].x * w.x, v[k].y * w.y, v[k].z * w.z, v[k].w * w.w};
        }
        out[i % kQuads * shape_.groups + i / kQuads] = v[k];
      }
    }
    return squares;
  }
  __device__ __forceinline__ float stage_elements(uint8_t* to) const {
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
  float id_;
  int my_first_, column_, stride_;
  const float* from_;
  Values& values_;
};

} // namespace ridge::kernels::cuda
