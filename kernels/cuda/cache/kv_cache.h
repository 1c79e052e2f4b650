// What a stream's tokens leave behind: keys and values by position, and recurrent state.
#pragma once

#include "core/cache/rings.h"
#include "kernels/cuda/cache/block_copy.h"
#include "kernels/cuda/ops/ops.h"

#include <span>
#include <vector>

namespace ridge::kernels::cuda {

// The keys and values of all layers, streams and positions, in one allocation.
class KvCache {
 public:
  // Zeroed in the stream. Throws OutOfMemory.
  KvCache(const core::Program& program, const core::ExecutorConfig& config, cudaStream_t stream);

  const Cache& layer(int32_t index) const { return layers_[index]; } // of Program::kv_layers
  size_t bytes() const { return memory_.bytes(); }

  // The first `positions` of each head, and all of rings, from one stream to another.
  void copy(int32_t from, int32_t to, int64_t positions, cudaStream_t stream) const;

  // Blocks of a stream from number `first` on, to and from the host (core::Executor): layer after layer its keys, their
  // scales, values and theirs, head after head. Rings are left out. Asynchronous in the launch's stream. Rows are put
  // together in device memory, which is taken with the first copy, so that a block crosses the bus at once.
  int64_t block_bytes() const { return block_bytes_; }
  void save(int32_t of, int64_t first, std::span<std::byte* const> blocks, const Launch& launch);
  void load(int32_t to, int64_t first, std::span<const std::byte* const> blocks, const Launch& launch);

  // What the windows of rings see from `position` on: to the host and back. Asynchronous in the CUDA stream.
  int64_t window_floats() const;
  void save_windows(int32_t of, int64_t position, std::span<float> saved, cudaStream_t stream) const;
  void load_windows(int32_t to, int64_t position, std::span<const float> saved, cudaStream_t stream) const;

 private:
  // What heads have one behind the other: keys, values or their scales of a layer, [stream][head][row].
  struct Part {
    uint8_t* data;
    int64_t heads, row_bytes;
    int64_t span; // positions of a row
    core::CacheRows rows;

    int64_t head_bytes() const { return rows.rows * row_bytes; }
  };
  void add_part(void* data, int64_t row_bytes, const core::KvLayer& kv, const core::CacheRows& rows);
  int64_t take_staging(int64_t blocks, cudaStream_t stream);
  void stage(int32_t of, int64_t first, int64_t count, bool save, const Launch& launch) const;
  template <typename Byte, typename Copy>
  void for_windows(int32_t of, int64_t position, Byte* saved, Copy copy) const;

  DeviceMemory memory_;
  std::vector<Cache> layers_; // views into memory_
  std::vector<Part> parts_;   // the same memory
  std::vector<CachedHead> heads_;
  int64_t block_positions_ = 0, block_bytes_ = 0;
  DeviceMemory staging_, device_heads_; // some blocks; heads_
};

// The recurrent state of all layers and streams, in one allocation.
class StateMemory {
 public:
  // Zeroed in the stream. Throws OutOfMemory. The Program must outlive it.
  StateMemory(const core::Program& program, const core::ExecutorConfig& config, cudaStream_t stream);

  float* layer(int32_t index) const { return layers_[index]; } // of Program::states: [streams][width]
  size_t bytes() const { return memory_.bytes(); }

  // One stream's state, the layers one after the other, to and from the host. Asynchronous in the CUDA stream.
  void save(int32_t stream, std::span<float> to, cudaStream_t cuda_stream) const;
  void load(int32_t stream, std::span<const float> from, cudaStream_t cuda_stream) const;

  // Copies one stream's state to memory beside it, and back. The memory is taken with the first copy.
  void mark(int32_t stream, cudaStream_t cuda_stream);
  void return_to_mark(cudaStream_t cuda_stream) const;
  int32_t marked() const { return marked_; } // the stream

 private:
  template <typename Other, typename Copy>
  void for_layers(int32_t stream, Other* other, Copy copy) const;

  const core::Program& program_;
  DeviceMemory memory_, mark_;
  int32_t marked_ = 0;
  std::vector<float*> layers_;
};

} // namespace ridge::kernels::cuda
