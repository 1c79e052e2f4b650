// A thread per block, with float for Lanes. Its weights, in local memory, interleave over threads, hence coalesce.
// Without fused multiply-add, like the CPU's encoders (cmake/cuda.cmake).
#include "kernels/cuda/encode/encode_kernels.h"
#include "quant/encode/lattice-inl.h"
#include "quant/encode/schemes-inl.h"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 128;

dim3 grid(int64_t threads) { return dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads)); }

template <typename Format>
__global__ void decode_kernel(const uint8_t* blocks, int64_t groups, float* out) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= groups) return;
  if constexpr (quant::FloatFormat<Format>) {
    out[index] = reinterpret_cast<const Format*>(blocks)[index / Format::kWeights].value(
        static_cast<int>(index % Format::kWeights));
  } else {
    constexpr int kGroups = Format::kWeights / quant::kGroupWeights;
    const Format& block = reinterpret_cast<const Format*>(blocks)[index / kGroups];
    quant::Group group;
    block.unpack(static_cast<int>(index % kGroups), group);
    for (int i = 0; i < quant::kGroupWeights; ++i) {
      const float scaled = group.scale[i / 16] * static_cast<float>(group.code[i]);
      out[index * quant::kGroupWeights + i] = Format::kHasOffset ? scaled + group.offset[i / 16] : scaled;
    }
  }
}

__global__ void not_finite_kernel(const float* weights, int64_t count, uint64_t first_index,
                                  unsigned long long* first_bad) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride)
    if (!(fabsf(weights[i]) < INFINITY)) atomicMin(first_bad, first_index + static_cast<uint64_t>(i));
}

template <typename Format>
__global__ void encode_kernel(const float* weights, const float* importance, int64_t first_block,
                              int64_t blocks_per_row, int64_t blocks, Format* out) {
  constexpr int kWeights = Format::kWeights, kScales = kWeights / Format::kScaleWeights;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= blocks) return;
  quant::device::Block<kWeights> b;
  const float* factors = importance ? importance + (first_block + index) % blocks_per_row * kWeights : nullptr;
  for (int i = 0; i < kWeights; ++i) {
    b.x[i] = weights[index * kWeights + i];
    b.w[i] = factors ? factors[i] : 1.0f;
  }
  b.normalize();
  quant::device::Scheme<Format>::search(b);
  quant::Parts parts;
  for (int i = 0; i < kWeights; ++i) parts.code[i] = static_cast<int8_t>(b.code[i]);
  for (int i = 0; i < kScales; ++i) {
    parts.scale[i] = b.scale[i];
    parts.min[i] = b.min[i];
  }
  parts.d = b.d;
  parts.m = b.m;
  Format block;
  block.pack(parts);
  out[index] = block;
}

template <typename Format>
__global__ void round_kernel(const float* weights, int64_t count, Format* out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) out[i] = Format::from(weights[i]);
}

template <typename Format>
void launch_encode(const float* weights, const float* importance, int64_t first_block, int64_t blocks_per_row,
                   int64_t blocks, uint8_t* out, cudaStream_t stream) {
  if constexpr (quant::ScalarFormat<Format>)
    round_kernel<Format><<<grid(blocks), kThreads, 0, stream>>>(weights, blocks, reinterpret_cast<Format*>(out));
  else if constexpr (requires { quant::device::Scheme<Format>::kTableEntries; }) {
    constexpr int kTableThreads = quant::device::kTableThreads;
    constexpr size_t kTableBytes = size_t{quant::device::Scheme<Format>::kTableEntries} * kTableThreads * sizeof(float);
    static_assert(kTableBytes <= 48 << 10, "more must be asked for");
    const auto grid_size = static_cast<unsigned>((blocks + kTableThreads - 1) / kTableThreads);
    encode_kernel<Format><<<grid_size, kTableThreads, kTableBytes, stream>>>(
        weights, importance, first_block, blocks_per_row, blocks, reinterpret_cast<Format*>(out));
  } else if constexpr (quant::device::kHasScheme<Format>)
    encode_kernel<Format><<<grid(blocks), kThreads, 0, stream>>>(weights, importance, first_block, blocks_per_row,
                                                                 blocks, reinterpret_cast<Format*>(out));
}

} // namespace

void decode_weights(quant::Type type, const uint8_t* blocks, int64_t weights, float* out, cudaStream_t stream) {
  using namespace quant;
  switch (type) {
#define RIDGE_FORMAT(name, id, block_weights, bytes)                                                                   \
  case Type::name: {                                                                                                   \
    const int64_t threads = PackedFormat<name> ? weights / kGroupWeights : weights;                                    \
    decode_kernel<name><<<grid(threads), kThreads, 0, stream>>>(blocks, threads, out);                                 \
    break;                                                                                                             \
  }
#include "quant/formats.def"
#undef RIDGE_FORMAT
  }
}

void find_not_finite(const float* weights, int64_t count, uint64_t first_index, unsigned long long* first_bad,
                     cudaStream_t stream) {
  not_finite_kernel<<<std::min(grid(count).x, 4096u), kThreads, 0, stream>>>(weights, count, first_index, first_bad);
}

bool has_encode_kernel(quant::Type type) {
  using namespace quant;
  switch (type) {
#define RIDGE_FORMAT(name, id, block_weights, bytes)                                                                   \
  case Type::name:                                                                                                     \
    return ScalarFormat<name> || quant::device::kHasScheme<name>;
#include "quant/formats.def"
#undef RIDGE_FORMAT
  }
  return false;
}

void encode_weights(quant::Type type, const float* weights, const float* importance, int64_t first_block,
                    int64_t blocks_per_row, int64_t blocks, uint8_t* out, cudaStream_t stream) {
  using namespace quant;
  switch (type) {
#define RIDGE_FORMAT(name, id, block_weights, bytes)                                                                   \
  case Type::name:                                                                                                     \
    return launch_encode<name>(weights, importance, first_block, blocks_per_row, blocks, out, stream);
#include "quant/formats.def"
#undef RIDGE_FORMAT
  }
}

} // namespace ridge::kernels::cuda
