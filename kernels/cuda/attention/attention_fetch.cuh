// Loads of keys, values, queries and new tokens' vectors.
#pragma once

#include "kernels/cuda/attention/attention_tile.cuh"

namespace ridge::kernels::cuda {

// Keys base + 8 i + g. Past the end, the last key again; its score is masked.
template <typename Shape>
class AttentionKeys {
  using KeyRows = Rows<Shape::kDim, Shape::kKeyCodes, Shape::kRagged>;

 public:
  // Loaded as soon as the previous round's keys have been used.
  struct Fragment {
    typename KeyRows::Piece piece[2][Shape::kChunks];
    typename KeyRows::Scales scales[2];
  };

  __device__ __forceinline__ explicit AttentionKeys(const AttentionBlock<Shape>& block)
      : block_(block), rows_(side(block.args.cache), block.head_at, block.width), stored_(block.last_stored()) {}

  // Kernels that fuse rope read no other codes.
  static __device__ __forceinline__ CachedSide side(const Cache& cache) {
    return {cache.k, Shape::kRope ? core::KvType::q8_0 : cache.k_type,
            Shape::kRope ? CachedBlocks{cache.k_blocks.scales} : cache.k_blocks};
  }
  __device__ __forceinline__ int row(int base, int i) const { return base + 8 * i + block_.g; }
  __device__ __forceinline__ void fetch(Fragment& held, int base) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) fetch_row(held, i, rows_, block_.row_of(min(row(base, i), stored_)));
  }
  // Replaces new tokens' rows, which were not in the cache yet.
  __device__ __forceinline__ void take_newest(Fragment& held, int base, const NewestOf<Shape>& newest) const {
    if constexpr (Shape::kRun) {
      if (const int first = block_.first_new(); base + kKeysPerWarp > first)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          if (row(base, i) >= first) {
            const __half* key = newest.keys[min(row(base, i) - first, kAttentionRows - 1)];
#pragma unroll
            for (int c = 0; c < Shape::kChunks; ++c)
              held.piece[i][c] = *reinterpret_cast<const uint4*>(key + 8 * block_.t + 32 * c);
          }
    } else if constexpr (Shape::kRope) {
      if (base + kKeysPerWarp >= block_.length) {
        const KeyRows new_key(CachedSide{newest.key, core::KvType::q8_0, {const_cast<uint16_t*>(newest.key_scales)}}, 0,
                              block_.width);
#pragma unroll
        for (int i = 0; i < 2; ++i)
          if (row(base, i) >= block_.length - 1) fetch_row(held, i, new_key, 0);
      }
    }
  }
  __device__ __forceinline__ uint4 halves(const Fragment& held, int i, int chunk) const {
    return rows_.halves(held.piece[i][chunk], held.scales[i][chunk]);
  }

 private:
  __device__ __forceinline__ void fetch_row(Fragment& held, int i, const KeyRows& from, int row) const {
    held.scales[i] = from.scales(row);
#pragma unroll
    for (int c = 0; c < Shape::kChunks; ++c) held.piece[i][c] = from.load(row, 8 * block_.t + 32 * c);
  }

  const AttentionBlock<Shape>& block_;
  KeyRows rows_;
  int stored_; // last row in the cache before this kernel
};

// A round's values, zeros past the end: all threads copy eight columns at a time.
template <typename Shape>
class AttentionValues {
  static constexpr int kDim = Shape::kDim;
  static constexpr bool kCodes = Shape::kValueCodes;
  static constexpr int kPieces = kDim / 8, kRowStep = kAttentionThreads / kPieces,
                       kThreadPieces = kKeysPerRound / kRowStep;

 public:
  struct Fragment {
    uint2 piece[kCodes ? kThreadPieces : 1];
    uint32_t scale[kCodes ? kThreadPieces : 1];
  };

  __device__ __forceinline__ explicit AttentionValues(const AttentionBlock<Shape>& block)
      : row_of_(block.row_of), rows_(side(block.args.cache), block.head_at, block.width),
        row_(static_cast<int>(threadIdx.x / kPieces)), column_(static_cast<int>(threadIdx.x % kPieces * 8)),
        stored_(block.last_stored()), stored_end_(Shape::kRope ? min(block.end, block.first_new()) : block.end),
        newest_row_(block.has_newest() ? block.length - 1 : -1), end_(block.end) {}

  static __device__ __forceinline__ CachedSide side(const Cache& cache) {
    return {cache.v, Shape::kRope ? core::KvType::q8_0 : cache.v_type,
            Shape::kRope ? CachedBlocks{cache.v_blocks.scales} : cache.v_blocks};
  }
  __device__ __forceinline__ void fetch(Fragment& held, int base, RoundOf<Shape>& to) const {
    if (!rows_.width.has(column_)) return;
#pragma unroll
    for (int i = 0; i < kThreadPieces; ++i) {
      const int in_round = row_ + i * kRowStep, row = base + in_round;
      if constexpr (kCodes) {
        held.piece[i] = rows_.load(row_of_(min(row, stored_)), column_);
        held.scale[i] = rows_.scale(row_of_(min(row, stored_)), column_);
      } else {
        copy_async_16_or_zeros(&to.values[in_round][column_], rows_.at(row_of_(row), column_), row < stored_end_);
      }
    }
    copy_async_commit();
  }
  __device__ __forceinline__ void finish_fetch(const Fragment& held, int base, RoundOf<Shape>& to,
                                               const NewestOf<Shape>& newest) const {
    if (!rows_.width.has(column_)) return;
    if constexpr (kCodes) {
#pragma unroll
      for (int i = 0; i < kThreadPieces; ++i) {
        const int in_round = row_ + i * kRowStep, row = base + in_round;
        const uint4 halves = rows_.halves(held.piece[i], held.scale[i]);
        *reinterpret_cast<uint4*>(&to.values[in_round][column_]) = row < stored_end_ ? halves : uint4{};
      }
    }
    copy_async_wait<0>();
    // The thread that stored the zeros replaces them.
    if constexpr (Shape::kRun) {
      const int first = max(stored_end_, base) - base, end = min(end_ - base, kKeysPerRound);
#pragma unroll 1
      for (int in_round = first + ((row_ - first) & (kRowStep - 1)); in_round < end; in_round += kRowStep)
        *reinterpret_cast<uint4*>(&to.values[in_round][column_]) =
            *reinterpret_cast<const uint4*>(&newest.values[base + in_round - stored_end_][column_]);
    } else if constexpr (Shape::kRope) {
      if (const int in_round = newest_row_ - base;
          in_round >= 0 && in_round < kKeysPerRound && in_round % kRowStep == row_)
        *reinterpret_cast<uint4*>(&to.values[in_round][column_]) =
            *reinterpret_cast<const uint4*>(&newest.value[column_]);
    }
  }

 private:
  RowsFrom row_of_;
  Rows<kDim, kCodes, Shape::kRagged> rows_;
  int row_, column_;
  int stored_, stored_end_, newest_row_, end_;
};

// The rotation of one pair per thread; positions are consecutive.
struct RopePair {
  bool rotates;
  int axis = 0;
  float frequency;
  __device__ __forceinline__ RopePair(const RopeStoreArgs& heads, bool rope, unsigned pair) {
    rotates = rope && static_cast<int>(pair) < heads.rope.pairs;
    frequency = rotates ? heads.rope.inverse_frequency[pair] : 0;
    if (rotates && heads.rope.axes) axis = heads.rope.axes[pair];
  }
  __device__ __forceinline__ float2 cos_sin(const RopeStoreArgs& heads, int token, int position) const {
    if (heads.rope.axes) position += heads.rope.places[token].shift[axis];
    return rotates ? rope_cos_sin(frequency, position, heads.rope.magnitude) : float2{1, 0};
  }
};

// A tile's vectors: queries, new keys of its split, their values. kLanes lanes share one. Every tile that sees a run's
// earlier tokens makes their keys; only their own tile stores them.
template <typename Shape>
class AttentionVectors {
  static constexpr int kDim = Shape::kDim, kPerWarp = kWarp / Shape::kLanes, kQuads = Shape::kQuads;
  static constexpr bool kRope = Shape::kRope, kRun = Shape::kRun;
  static constexpr int kVectorsPerPass = kAttentionWarps * kPerWarp;
  static constexpr int kLoadsInFlight = kRun ? 3 : 1; // per warp
  using Share = float4[kQuads];

 public:
  __device__ __forceinline__ AttentionVectors(const AttentionBlock<Shape>& block, const RopeStoreArgs& heads)
      : block_(block), heads_(heads), first_made_(kRun ? max(block.begin - block.first_new(), 0) : 0),
        made_(!kRun                ? 1
              : block.has_newest() ? block.end - block.first_new() - first_made_
                                   : 0),
        count_(block.has_newest() ? block.rows + 2 * made_ : block.rows) {}

  // Waits, norms and ropes; stores new rows to the cache, all vectors to shared memory.
  __device__ __forceinline__ void store(Queries<Shape>& query, NewestOf<Shape>& newest, const RopePair& rope) const {
    const AttentionArgs& args = block_.args;
    const int lane = block_.lane, warp = block_.warp, rows = block_.rows;
    float2 angles[kQuads][2] = {};
    Share q_norm = {}, k_norm = {};
    if constexpr (kRope) {
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        if (heads_.q_norm) q_norm[i] = quad(i).load(heads_.q_norm);
        if (heads_.k_norm) k_norm[i] = quad(i).load(heads_.k_norm);
      }
      if constexpr (kRun) {
        make_angles(newest, rope);
      } else if (static_cast<int>(threadIdx.x) < kDim / 2) {
        newest.angles[threadIdx.x] = rope.cos_sin(heads_, block_.first_token, block_.length - 1);
      }
      __syncthreads();
      if constexpr (!kRun)
#pragma unroll
        for (int i = 0; i < kQuads; ++i)
          angles[i][0] = newest.angles[2 * quad(i).number], angles[i][1] = newest.angles[2 * quad(i).number + 1];
    }
    const float* first_vectors[kLoadsInFlight];
#pragma unroll
    for (int a = 0; a < kLoadsInFlight; ++a)
      first_vectors[a] = vector(warp * kPerWarp + lane / Shape::kLanes + a * kVectorsPerPass);
    if constexpr (kRope) {
      for (const float* first : first_vectors) asm volatile("" ::"l"(first)); // computes the addresses before the wait
      if (!heads_.dataflow_input) wait_for_predecessor();
      stamp(args.stamps, kPredecessorDone);
    }
    Share ahead[kLoadsInFlight];
#pragma unroll
    for (int a = 0; a < kLoadsInFlight; ++a) load(ahead[a], first_vectors[a]);
#pragma unroll 1
    for (int first = warp * kPerWarp; first < count_; first += kVectorsPerPass) {
      const int v = first + lane / Shape::kLanes;
      Share x;
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        x[i] = ahead[0][i];
#pragma unroll
        for (int a = 1; a < kLoadsInFlight; ++a) ahead[a - 1][i] = ahead[a][i];
      }
      if (first + kLoadsInFlight * kVectorsPerPass < count_)
        load(ahead[kLoadsInFlight - 1], vector(v + kLoadsInFlight * kVectorsPerPass));
      if constexpr (kRope) {
        while (heads_.dataflow_input && __any_sync(~0u, is_missing(x))) load(x, vector(v));
        norm(x, v, q_norm, k_norm);
        if (v < rows + made_) {
          if constexpr (kRun) take_angles(angles, newest, v);
#pragma unroll
          for (int i = 0; i < kQuads; ++i) quad(i).rotate(x[i], angles[i][0], angles[i][1]);
        }
        if (count_ > rows && first + kPerWarp > rows)
#pragma unroll
          for (int i = 0; i < kQuads; ++i) store_newest(quad(i), x[i], v, newest);
      }
      if constexpr (Shape::kKeyCodes && !kRope && !Shape::kVectorsInF32)
        if (args.cache.rotates_k())
#pragma unroll
          for (float4& quad : x) quad = rotated_quad(quad);
      const float scale = args.scale * kLog2e;
      if (v < rows)
#pragma unroll
        for (int i = 0; i < kQuads; ++i)
          quad(i).store(query[v], {x[i].x * scale, x[i].y * scale, x[i].z * scale, x[i].w * scale});
    }
  }

 private:
  __device__ __forceinline__ Quad<kDim> quad(int of_lane) const {
    return Quad<kDim>(kRope && heads_.rope.split, heads_.rope.pairs, of_lane);
  }
  __device__ __forceinline__ int token(int v) const {
    const int rows = block_.rows;
    return v < rows ? block_.first_token + block_.token_of(v) : first_made_ + v - rows - (v < rows + made_ ? 0 : made_);
  }
  // Makes the angles of all tokens with vectors in the tile.
  __device__ __forceinline__ void make_angles(NewestOf<Shape>& newest, const RopePair& rope) const {
    constexpr int kPairs = kDim / 2;
    const int first = made_ > 0 ? min(first_made_, block_.first_token) : block_.first_token;
    const int end = block_.first_token + block_.tokens;
#pragma unroll 1
    for (int token = first + static_cast<int>(threadIdx.x / kPairs); token < end; token += kAttentionThreads / kPairs)
      newest.angles[token][threadIdx.x % kPairs] = rope.cos_sin(heads_, token, block_.first_new() + token);
  }
  __device__ __forceinline__ void take_angles(float2 (&angles)[kQuads][2], const NewestOf<Shape>& newest, int v) const {
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      const float4 both = *reinterpret_cast<const float4*>(&newest.angles[token(v)][2 * quad(i).number]);
      angles[i][0] = {both.x, both.y}, angles[i][1] = {both.z, both.w};
    }
  }
  __device__ __forceinline__ const float* vector(int v) const {
    const AttentionBlock<Shape>& b = block_;
    v = min(v, count_ - 1);
    if constexpr (kRun) {
      const int64_t head = int64_t{token(v)} * b.args.cache.heads + b.kv_head;
      return v < b.rows           ? heads_.q_in + (head * b.group + b.head_of(v)) * kDim
             : v < b.rows + made_ ? heads_.k_in + head * kDim
                                  : heads_.v_in + head * kDim;
    } else if constexpr (kRope) {
      const int64_t head = int64_t{b.first_token} * b.args.cache.heads + b.kv_head;
      return v < b.rows    ? heads_.q_in + (head * b.group + v) * kDim
             : v == b.rows ? heads_.k_in + head * kDim
                           : heads_.v_in + head * kDim;
    } else {
      return b.args.q + (int64_t{b.first_token + b.token_of(v)} * b.args.heads + b.kv_head * b.group + b.head_of(v)) *
                            b.width.get();
    }
  }
  __device__ __forceinline__ void load(Share& x, const float* from) const {
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      if constexpr (kRope)
        x[i] = quad(i).load_latest(from);
      else
        x[i] = block_.width.has(quad(i).low) ? quad(i).load(from) : float4{};
    }
  }
  __device__ __forceinline__ static bool is_missing(const Share& x) {
    bool missing = false;
#pragma unroll
    for (const float4& quad : x) missing |= is_sentinel(quad);
    return missing;
  }
  __device__ __forceinline__ void norm(Share& x, int v, const Share& q_norm, const Share& k_norm) const {
    if (!heads_.q_norm && !heads_.k_norm && !heads_.normalizes_v) return;
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      const float of_quad = x[i].x * x[i].x + x[i].y * x[i].y + x[i].z * x[i].z + x[i].w * x[i].w;
      squares = i == 0 ? of_quad : squares + of_quad;
    }
    squares = warp_reduce(
        squares, [](float a, float b) { return a + b; }, Shape::kLanes);
    const float inverse = rsqrtf(squares / kDim + heads_.epsilon);
    const int rows = block_.rows, first_value = rows + made_;
    if (v >= first_value && heads_.normalizes_v)
#pragma unroll
      for (float4& quad : x) quad = {quad.x * inverse, quad.y * inverse, quad.z * inverse, quad.w * inverse};
    if (v < rows ? heads_.q_norm : v < first_value ? heads_.k_norm : nullptr)
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        const float4 w = v < rows ? q_norm[i] : k_norm[i];
        x[i] = {x[i].x * inverse * w.x, x[i].y * inverse * w.y, x[i].z * inverse * w.z, x[i].w * inverse * w.w};
      }
  }
  __device__ __forceinline__ void store_newest(const Quad<kDim>& quad, const float4& x, int v,
                                               NewestOf<Shape>& newest) const {
    if constexpr (kRun) {
      const Cache& cache = block_.args.cache;
      const int rows = block_.rows;
      if (v < rows || v >= count_) return;
      const int token = this->token(v);
      const int64_t at = block_.head_at + block_.row_of(block_.first_new() + token);
      const bool is_key = v < rows + made_;
      quad.store(is_key ? newest.keys[token] : newest.values[token], x);
      if (token >= block_.first_token) quad.store(static_cast<__half*>(is_key ? cache.k : cache.v) + at * kDim, x);
    } else if constexpr (Shape::kVectorsInF32) {
      const int rows = block_.rows;
      if (v == rows || v == rows + 1) quad.store(v == rows ? newest.key : newest.value, x);
    } else {
      store_one(quad, x, v, newest);
    }
  }
  // v == rows: the key; v == rows + 1: the value.
  __device__ __forceinline__ void store_one(const Quad<kDim>& quad, const float4& x, int v,
                                            NewestOf<Shape>& newest) const {
    const Cache& cache = block_.args.cache;
    const int rows = block_.rows;
    const int64_t at = block_.head_at + block_.row_of(block_.length - 1);
    if constexpr (Shape::kKeyCodes) {
      const QuadCodes codes(x, quad);
      if (v == rows) {
        codes.store(quad, reinterpret_cast<int8_t*>(newest.key), newest.key_scales);
        codes.store(quad, static_cast<int8_t*>(cache.k) + at * kDim, cache.k_blocks.scales + at * (kDim / 32));
      }
    } else if (v == rows) {
      quad.store(reinterpret_cast<__half*>(newest.key), x);
      quad.store(static_cast<__half*>(cache.k) + at * kDim, x);
    }
    if constexpr (Shape::kValueCodes) {
      const QuadCodes codes(x, quad);
      if (v == rows + 1) {
        quad.store(newest.value, codes.values());
        codes.store(quad, static_cast<int8_t*>(cache.v) + at * kDim, cache.v_blocks.scales + at * (kDim / 32));
      }
    } else if (v == rows + 1) {
      quad.store(newest.value, x);
      quad.store(static_cast<__half*>(cache.v) + at * kDim, x);
    }
  }

  const AttentionBlock<Shape>& block_;
  const RopeStoreArgs& heads_;
  int first_made_, made_; // tokens with keys and values among the vectors
  int count_;
};

} // namespace ridge::kernels::cuda
