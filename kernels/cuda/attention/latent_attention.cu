// Latent attention (DeepSeek's MLA, absorbed). Other widths and caches: plain_latent_attention.cu.
//
// All heads share keys, and a value is the first part of its key: a block reads each key once for up to 64 rows. In a
// round of 32 keys each warp scores 8 keys, then turns some rows' scores into weights, then updates its output columns,
// in registers (128 of each thread for 64 rows of 512 columns). With few tiles, blocks share a context
// (column_merge.cuh) and, while it's short, a tile's rows. Keys of earlier steps are fetched before the wait. Where
// tokens see keys of their own (LatentKeys), a tile has one token's rows.
#include "kernels/cuda/attention/cached_rows.cuh"
#include "kernels/cuda/attention/column_merge.cuh"
#include "kernels/cuda/attention/latent_tile.cuh"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

constexpr int kMaxStages = 4;

template <typename Shape, bool kCodes, LatentKeys kKeys>
class LatentBlock {
  static constexpr int kDim = Shape::kDim, kTiles = Shape::kTiles, kRows = Shape::kRows;
  static constexpr int kColumnTiles = Shape::kColumns / 8;
  static constexpr int kRowsPerWarp = kRows / kLatentWarps;
  static constexpr bool kOwn = kKeys != LatentKeys::all;

 public:
  __device__ __forceinline__ LatentBlock(const LatentArgs& args, const LatentTile& tile, const LatentWork& own,
                                         LatentShared<Shape>& shared)
      : args_(args), tile_(tile), own_(own), shared_(shared), key_dim_(args.cache.k_dim),
        first_row_(tile.first_row + own.first_row) {
    lane_ = threadIdx.x % kWarp, warp_ = threadIdx.x / kWarp;
    begin_ = own.split * tile.per_split;
    end_ = min(tile.length, begin_ + tile.per_split);
    const int token = args.heads.quotient(first_row_);
    first_key_ = args.streams[token] * args.cache.rows;
    if (args.chosen) chosen_ = args.chosen + int64_t{token} * args.most;
    if constexpr (kKeys == LatentKeys::mixed) {
      const int first = max(0, args.positions[token] + 1 - args.window);
      near_ = args.positions[token] + 1 - first;
      near_first_ = first, near_row_ = RowsFrom(args.cache, first);
      first_entry_ = args.streams[token] * args.entries.rows;
    }
#pragma unroll
    for (int i = 0; i < kRowsPerWarp; ++i) {
      const int row = first_row_ + min(warp_ * kRowsPerWarp + i, own.rows - 1);
      visible_[i] = kOwn ? end_ : min(end_, args.positions[args.heads.quotient(row)] + 1);
      largest_[i] = -INFINITY, sum_[i] = 0;
      if (kKeys == LatentKeys::mixed && args.sinks && own.split == 0) // a score without a value
        largest_[i] = args.sinks[row - token * args.heads.by] * kLog2e, sum_[i] = 1;
    }
#pragma unroll
    for (int m = 0; m < kTiles; ++m)
#pragma unroll
      for (int c = 0; c < kColumnTiles; ++c)
#pragma unroll
        for (float& o : out_[m][c]) o = 0;
  }

  __device__ __forceinline__ void run(const OverlappingWork& work) {
    const int rounds = (end_ - begin_ + kLatentKeys - 1) / kLatentKeys;
    int fetched = 0;
    for (; fetched < args_.stages - 1 && begin_ + (fetched + 1) * kLatentKeys <= tile_.old_keys; ++fetched)
      fetch(fetched);
    work.wait();
    for (; fetched < args_.stages - 1; ++fetched) fetch(fetched);
    load_queries();
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
      wait_for_round();
      __syncthreads(); // also: no warp still reads the round that the next fetch overwrites
      fetch(round + args_.stages - 1);
      const typename Shape::Key* keys = stage(round);
      score(keys);
      __syncthreads();
      weigh(begin_ + round * kLatentKeys);
      __syncthreads();
      add_values(keys);
    }
    write();
  }

 private:
  __device__ __forceinline__ typename Shape::Key* stage(int round) const {
    return shared_.keys[0] + round % args_.stages * kLatentKeys;
  }

  struct KeyRow {
    const Cache& of;
    int64_t row; // -1: none
  };
  __device__ __forceinline__ KeyRow key_row(int number) const {
    if (number >= end_) return {args_.cache, -1};
    if constexpr (kKeys == LatentKeys::chosen) {
      const int position = chosen_[number];
      return {args_.cache, position < 0 ? -1 : first_key_ + position};
    }
    if constexpr (kKeys == LatentKeys::mixed) {
      if (number < near_) return {args_.cache, first_key_ + near_row_(near_first_ + number)};
      const int entry = chosen_ ? chosen_[(number - near_) * args_.span] : (number - near_) * args_.span;
      return {args_.entries, entry < 0 ? -1 : first_entry_ + entry / args_.span};
    }
    return {args_.cache, first_key_ + number};
  }

  // Zeros past the end. Commits a group even if empty, because wait_for_round counts groups.
  __device__ __forceinline__ void fetch(int round) const {
    const int base = begin_ + round * kLatentKeys;
    const CodeReader read(core::KvType::q8_0);
    typename Shape::Key* to = stage(round);
    if (base < end_)
      for (int key = warp_; key < kLatentKeys; key += kLatentWarps) {
        const KeyRow from = key_row(base + key);
        const bool there = from.row >= 0;
        const int64_t row = there ? from.row * key_dim_ : 0;
        for (int column = 8 * lane_; column < key_dim_; column += 8 * kWarp) {
          if constexpr (kCodes) {
            const uint2 codes = *reinterpret_cast<const uint2*>(static_cast<const int8_t*>(from.of.k) + row + column);
            const uint4 halves = read(codes, from.of.k_blocks.scales[(row + column) / 32], 0);
            *reinterpret_cast<uint4*>(&to[key][column]) = there ? halves : uint4{};
          } else {
            copy_async_16_or_zeros(&to[key][column], static_cast<const __half*>(from.of.k) + row + column, there);
          }
        }
      }
    copy_async_commit();
  }
  __device__ __forceinline__ void wait_for_round() const {
    if (args_.stages == 4)
      copy_async_wait<2>();
    else if (args_.stages == 3)
      copy_async_wait<1>();
    else
      copy_async_wait<0>();
  }

  // In log2 units; zeros in rows that the block lacks.
  __device__ __forceinline__ void load_queries() const {
    constexpr int kRounds = (kDim + kMaxRopeDim) / (2 * kWarp);
    const int rest = key_dim_ - kDim;
    const float scale = args_.scale * kLog2e;
#pragma unroll 4
    for (int row = warp_; row < kRows; row += kLatentWarps) {
      const int64_t at = first_row_ + row;
      float2 q[kRounds];
#pragma unroll
      for (int i = 0; i < kRounds; ++i) {
        const int column = 2 * (lane_ + i * kWarp);
        q[i] = {0, 0};
        if (row < own_.rows && column < key_dim_)
          q[i] = *reinterpret_cast<const float2*>(column < kDim ? args_.q + at * kDim + column
                                                                : args_.q_rest + at * rest + column - kDim);
      }
#pragma unroll
      for (int i = 0; i < kRounds; ++i)
        if (const int column = 2 * (lane_ + i * kWarp); column < key_dim_)
          *reinterpret_cast<uint32_t*>(&shared_.query[row][column]) = pack_half2(q[i].x * scale, q[i].y * scale);
    }
  }

  // Keys 8 n … 8 n + 7. With a single tile, warps n and n + 4 take half of the columns each.
  __device__ __forceinline__ void score(const typename Shape::Key* keys) const {
    constexpr int kKeyTiles = kLatentKeys / 8, kOfWarp = Shape::kScoreTiles;
    const int n = warp_ % kKeyTiles, part = Shape::kParts == 2 ? warp_ / kKeyTiles : 0;
    const int first_tile = Shape::kParts == 2 ? 0 : warp_ / kKeyTiles * kOfWarp;
    const int spans = key_dim_ / 32, first = part * (spans / 2),
              last = Shape::kParts == 2 && part == 0 ? spans / 2 : spans;
    float sums[kOfWarp][2][4] = {}; // shorter chains
    const __half* key = &keys[8 * n + lane_ % 8][lane_ / 8 * 8];
    const __half* query = &shared_.query[16 * first_tile + lane_ % 16][lane_ / 16 * 8];
#pragma unroll 3
    for (int span = first; span < last; ++span) {
      uint32_t b[4];
      load_matrix_x4(b, key + 32 * span);
#pragma unroll
      for (int m = 0; m < kOfWarp; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          uint32_t a[4];
          load_matrix_x4(a, query + 16 * m * Shape::kPitch + 32 * span + 16 * half);
          mma_16x8x16(sums[m][half], a, b[2 * half], b[2 * half + 1]);
        }
    }
    const int g = lane_ / 4, t = lane_ % 4;
#pragma unroll
    for (int m = 0; m < kOfWarp; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        shared_.scores[part][16 * (first_tile + m) + g + i / 2 * 8][8 * n + 2 * t + i % 2] =
            sums[m][0][i] + sums[m][1][i];
  }

  // Lane l has key l of the round.
  __device__ __forceinline__ void weigh(int base) {
    static_assert(kLatentKeys == kWarp);
    const bool missing = kOwn && key_row(base + lane_).row < 0;
#pragma unroll
    for (int i = 0; i < kRowsPerWarp; ++i) {
      const int row = warp_ * kRowsPerWarp + i;
      float s = shared_.scores[0][row][lane_];
      if constexpr (Shape::kParts == 2) s += shared_.scores[1][row][lane_];
      if (missing || base + lane_ >= visible_[i]) s = -INFINITY;
      const float most = fmaxf(largest_[i], warp_reduce(s, [](float a, float b) { return fmaxf(a, b); }));
      const float reference = most == -INFINITY ? 0 : most; // the row has seen no key yet
      const float weight = exp2_approx(s - reference), rescale_factor = exp2_approx(largest_[i] - reference);
      largest_[i] = most;
      sum_[i] = sum_[i] * rescale_factor + warp_sum(weight);
      shared_.weights[row][lane_] = __float2half_rn(weight);
      if (lane_ == 0) shared_.rescale_factor[row] = rescale_factor;
    }
  }

  __device__ __forceinline__ void add_values(const typename Shape::Key* keys) {
    const int g = lane_ / 4;
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
      const float low = shared_.rescale_factor[16 * m + g], high = shared_.rescale_factor[16 * m + g + 8];
#pragma unroll
      for (int c = 0; c < kColumnTiles; ++c)
        out_[m][c][0] *= low, out_[m][c][1] *= low, out_[m][c][2] *= high, out_[m][c][3] *= high;
    }
    const __half* value = &keys[lane_ % 16][Shape::kColumns * warp_ + lane_ / 16 * 8];
    const __half* weights = &shared_.weights[lane_ % 16][lane_ / 16 * 8];
#pragma unroll
    for (int k = 0; k < kLatentKeys; k += 16) {
      uint32_t a[kTiles][4];
#pragma unroll
      for (int m = 0; m < kTiles; ++m) load_matrix_x4(a[m], weights + 16 * m * (kLatentKeys + 8) + k);
#pragma unroll
      for (int c = 0; c < kColumnTiles; c += 2) {
        uint32_t b[4];
        load_matrix_transposed_x4(b, value + k * Shape::kPitch + 8 * c);
#pragma unroll
        for (int m = 0; m < kTiles; ++m) {
          mma_16x8x16(out_[m][c], a[m], b[0], b[1]);
          mma_16x8x16(out_[m][c + 1], a[m], b[2], b[3]);
        }
      }
    }
  }

  // Writes results; if the tile is split, to the scratch.
  __device__ __forceinline__ void write() {
    __syncthreads(); // before `rescale_factor` is overwritten
    const bool alone = tile_.used_splits == 1;
    float* part = args_.partial +
                  (int64_t{blockIdx.x} * args_.splits.by + own_.split) * latent_part_floats(tile_.most_rows, kDim) +
                  own_.first_row;
#pragma unroll
    for (int i = 0; i < kRowsPerWarp; ++i) {
      const int row = warp_ * kRowsPerWarp + i;
      if (lane_ != 0) continue;
      shared_.rescale_factor[row] = !alone ? 1 : kOwn && sum_[i] == 0 ? 0 : reciprocal(sum_[i]);
      if (!alone && row < own_.rows) part[row] = largest_[i], part[tile_.most_rows + row] = sum_[i];
    }
    __syncthreads();
    float* to = alone ? args_.out + int64_t{first_row_} * kDim
                      : part + 2 * tile_.most_rows + int64_t{own_.first_row} * (kDim - 1);
    const int g = lane_ / 4, t = lane_ % 4;
#pragma unroll
    for (int m = 0; m < kTiles; ++m)
#pragma unroll
      for (int high = 0; high < 2; ++high) {
        const int row = 16 * m + g + 8 * high;
        if (row >= own_.rows) continue;
        const float by = shared_.rescale_factor[row];
#pragma unroll
        for (int c = 0; c < kColumnTiles; ++c)
          *reinterpret_cast<float2*>(to + int64_t{row} * kDim + Shape::kColumns * warp_ + 8 * c +
                                     2 * t) = {out_[m][c][2 * high] * by, out_[m][c][2 * high + 1] * by};
      }
  }

  const LatentArgs& args_;
  const LatentTile& tile_;
  const LatentWork& own_;
  LatentShared<Shape>& shared_;
  const int key_dim_, first_row_;
  int lane_, warp_, begin_, end_;
  int64_t first_key_;
  const int32_t* chosen_ = nullptr;
  int near_, near_first_; // keys of the window come first
  RowsFrom near_row_;
  int64_t first_entry_;
  int visible_[kRowsPerWarp];
  float largest_[kRowsPerWarp], sum_[kRowsPerWarp];
  float out_[kTiles][kColumnTiles][4];
};

// Grid: tiles, blocks per tile: splits, and parts of the rows if there are fewer splits.
template <int kDim, int kTiles, bool kCodes, LatentKeys kKeys>
__global__ void __launch_bounds__(kLatentThreads, 1) latent_attention_kernel(const __grid_constant__ LatentArgs args) {
  using Shape = LatentShape<kDim, kTiles>;
  extern __shared__ uint4 dynamic[];
  const OverlappingWork work(args.stamps);
  // The last tiles see the most positions: start them first.
  const LatentTile tile(args, static_cast<int>(gridDim.x - 1 - blockIdx.x), Shape::kRows);
  const LatentWork own(tile, static_cast<int>(blockIdx.y), args.splits.by);
  if (own.rows <= 0) return work.wait();
  if constexpr (kTiles > 1)
    if (own.rows <= kFewLatentRows) {
      using Few = LatentShape<kDim, 1>;
      return LatentBlock<Few, kCodes, kKeys>(args, tile, own, *reinterpret_cast<LatentShared<Few>*>(dynamic)).run(work);
    }
  LatentBlock<Shape, kCodes, kKeys>(args, tile, own, *reinterpret_cast<LatentShared<Shape>*>(dynamic)).run(work);
}

// Grid: tiles, rows, columns.
template <int kDim>
__global__ void __launch_bounds__(kMergeThreads)
    latent_merge_kernel(const __grid_constant__ LatentArgs args, int most_rows) {
  const OverlappingWork work(args.stamps);
  const LatentTile tile(args, static_cast<int>(gridDim.x - 1 - blockIdx.x), most_rows);
  work.wait();
  const int row = blockIdx.y;
  if (tile.used_splits == 1 || row >= tile.rows) return;
  const float* parts = args.partial + int64_t{blockIdx.x} * args.splits.by * latent_part_floats(most_rows, kDim);
  merge_columns({parts, tile.used_splits, most_rows, kDim}, row, kMergedColumns * blockIdx.z,
                args.out + (int64_t{tile.first_row} + row) * kDim);
}

int tiles_of(const LatentArgs& args, int rows) {
  if (args.tokens_share_tiles) return (args.tokens * args.heads.by + rows - 1) / rows;
  return args.tokens * args.tiles_per_token.by;
}

template <int kDim, int kTiles, LatentKeys kKeys>
auto kernel_of(const LatentArgs& args) {
  return args.cache.k_codes() ? latent_attention_kernel<kDim, kTiles, true, kKeys>
                              : latent_attention_kernel<kDim, kTiles, false, kKeys>;
}

template <int kDim, int kTiles>
void launch_tiles(const Launch& launch, LatentArgs args) {
  using Shape = LatentShape<kDim, kTiles>;
  args.stages = kMaxStages;
  while (latent_shared_bytes<Shape>(args.stages) > launch.shared_per_block) --args.stages;
  args.tiles_per_token = Divisor((args.heads.by + Shape::kRows - 1) / Shape::kRows);
  const int tiles = tiles_of(args, Shape::kRows);
  args.splits = Divisor(std::clamp(launch.sm_count / tiles, 1, std::min(args.most_splits, kMaxMergedSplits)));
  const auto kernel = args.span > 0 ? kernel_of<kDim, kTiles, LatentKeys::mixed>(args)
                      : args.chosen ? kernel_of<kDim, kTiles, LatentKeys::chosen>(args)
                                    : kernel_of<kDim, kTiles, LatentKeys::all>(args);
  const int shared = latent_shared_bytes<Shape>(args.stages);
  allow_dynamic_shared_memory(kernel, shared);
  launch(kernel, dim3(tiles, args.splits.by), kLatentThreads, shared, args);
  if (args.splits.by == 1) return;
  args.stamps = launch.stamps();
  launch(latent_merge_kernel<kDim>, dim3(tiles, Shape::kRows, kDim / kMergedColumns), kMergeThreads, 0, args,
         Shape::kRows);
}

template <int kDim>
void launch_dim(const Launch& launch, const LatentArgs& args) {
  const int64_t rows = args.tokens_share_tiles ? int64_t{args.tokens} * args.heads.by : args.heads.by;
  if (rows > 32 && latent_shared_bytes<LatentShape<kDim, 4>>(2) <= launch.shared_per_block)
    return launch_tiles<kDim, 4>(launch, args);
  if (rows > 16 && latent_shared_bytes<LatentShape<kDim, 2>>(2) <= launch.shared_per_block)
    return launch_tiles<kDim, 2>(launch, args);
  launch_tiles<kDim, 1>(launch, args);
}

} // namespace

bool fast_latent_attention(const Cache& cache, const ChipLimits& chip) {
  const int rest = cache.k_dim - cache.v_dim;
  if (!(cache.k_half || cache.k_type == core::KvType::q8_0) || rest > kMaxRopeDim || rest % 32 != 0) return false;
  switch (cache.v_dim) {
  case 256: return latent_shared_bytes<LatentShape<256, 1>>(2) <= chip.shared_per_block;
  case 512: return latent_shared_bytes<LatentShape<512, 1>>(2) <= chip.shared_per_block;
  default: return false;
  }
}

void launch_latent_attention(const Launch& launch, const LatentArgs& args) {
  args.cache.v_dim == 256 ? launch_dim<256>(launch, args) : launch_dim<512>(launch, args);
}

} // namespace ridge::kernels::cuda
