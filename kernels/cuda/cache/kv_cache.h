// Keys, values and recurrent state of streams.
#pragma once

#include "core/rings.h"
#include "kernels/cuda/cache/block_copy.h"
#include "kernels/cuda/ops/ops.h"

#include <span>
#include <vector>

namespace ridge::kernels::cuda {

class KvCache {
 public:
  // Zeroed on the stream; throws OutOfMemory.
  KvCache(const core::Program& program, const core::ExecutorConfig& config, cudaStream_t stream);

  const Cache& layer(int32_t index) const { return layers_[index]; }
  size_t bytes() const { return memory_.bytes(); }

  // The first `positions` of each head, and whole ring buffers.
  void copy(int32_t from, int32_t to, int64_t positions, cudaStream_t stream) const;

  // Blocks from `first` on, to and from the host (core::Executor), without ring buffers: per layer the parts of keys,
  // then of values. Asynchronous. Staged in device memory: one transfer per block.
  int64_t block_bytes() const { return block_bytes_; }
  void save(int32_t of, int64_t first, std::span<std::byte* const> blocks, const Launch& launch);
  void load(int32_t to, int64_t first, std::span<const std::byte* const> blocks, const Launch& launch);

  // Visible rows of ring buffers. Asynchronous.
  int64_t window_floats() const;
  void save_windows(int32_t of, int64_t position, std::span<float> saved, cudaStream_t stream) const;
  void load_windows(int32_t to, int64_t position, std::span<const float> saved, cudaStream_t stream) const;

 private:
  // [stream][head][row]
  struct Part {
    uint8_t* data;
    int64_t heads, row_bytes;
    int64_t span; // positions per row
    core::CacheRows rows;

    int64_t head_bytes() const { return rows.rows * row_bytes; }
  };
  // Keys or values of `dim` at `at`.
  CachedBlocks add_rows(uint8_t* at, int64_t all_rows, core::KvType type, int64_t dim, const core::KvLayer& kv,
                        const core::CacheRows& rows);
  void add_part(void* data, int64_t row_bytes, const core::KvLayer& kv, const core::CacheRows& rows);
  int64_t take_staging(int64_t blocks, cudaStream_t stream);
  void stage(int32_t of, int64_t first, int64_t count, bool save, const Launch& launch) const;
  template <typename Byte, typename Copy>
  void for_windows(int32_t of, int64_t position, Byte* saved, Copy copy) const;

  DeviceMemory memory_;
  std::vector<Cache> layers_;
  std::vector<Part> parts_;
  std::vector<CachedHead> heads_;
  int64_t block_positions_ = 0, block_bytes_ = 0;
  DeviceMemory staging_, device_heads_;
};

class StateMemory {
 public:
  // Zeroed on the stream; throws OutOfMemory. `program` must outlive this.
  StateMemory(const core::Program& program, const core::ExecutorConfig& config, cudaStream_t stream);

  float* layer(int32_t index) const { return layers_[index]; } // [streams][width]
  size_t bytes() const { return memory_.bytes(); }

  // A stream's state, layer after layer. Asynchronous.
  void save(int32_t stream, std::span<float> to, cudaStream_t cuda_stream) const;
  void load(int32_t stream, std::span<const float> from, cudaStream_t cuda_stream) const;

  // Copies a stream's state aside, and back.
  void mark(int32_t stream, cudaStream_t cuda_stream);
  void restore_mark(cudaStream_t cuda_stream) const;
  int32_t marked() const { return marked_; }

 private:
  template <typename Other, typename Copy>
  void for_layers(int32_t stream, Other* other, Copy copy) const;

  const core::Program& program_;
  DeviceMemory memory_, mark_;
  int32_t marked_ = 0;
  std::vector<float*> layers_;
};

} // namespace ridge::kernels::cuda
