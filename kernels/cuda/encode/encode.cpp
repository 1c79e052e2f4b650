// The GPU converts a chunk while its neighbours are copied.
#include "kernels/cuda/encode/encode.h"

#include "core/error.h"
#include "kernels/cuda/encode/encode_kernels.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/device_info.h"
#include "quant/encode/encode.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace ridge::kernels::cuda {
namespace {

constexpr int64_t kChunkWeights = 16 << 20; // whole blocks of every type
constexpr size_t kLargestBytes = 4 * kChunkWeights;
constexpr unsigned long long kNoneBad = ~0ull;

struct Slot {
  PinnedMemory packed_in{kLargestBytes}, packed_out{kLargestBytes}, first_bad{8};
  DeviceMemory device_in{kLargestBytes, "the encoder"}, weights{kLargestBytes, "the encoder"},
      device_out{kLargestBytes, "the encoder"}, device_first_bad{8, "the encoder"};
  cudaStream_t stream = nullptr;
  std::byte* to = nullptr;
  size_t bytes = 0;

  Slot() { RIDGE_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
  ~Slot() { cudaStreamDestroy(stream); }
  Slot(const Slot&) = delete;
};

void copy_with_all_threads(void* to, const void* from, size_t bytes) {
  constexpr size_t kShare = 1 << 20;
#pragma omp parallel for schedule(dynamic)
  for (size_t at = 0; at < bytes; at += kShare)
    std::memcpy(static_cast<char*>(to) + at, static_cast<const char*>(from) + at, std::min(kShare, bytes - at));
}

class CudaEncoder : public Encoder {
 public:
  bool can_encode(quant::Type type) const override { return has_encode_kernel(type); }

  void encode_rows(quant::Type from, const std::byte* source, quant::Type to, int64_t rows, int64_t cols,
                   std::span<const float> importance, std::byte* out) override {
    quant::check_encoding(to, cols, importance);
    const quant::FormatInfo &in = quant::format(from), &result = quant::format(to);
    const float* factors = nullptr;
    if (!importance.empty()) {
      importance_ = DeviceMemory(4 * importance.size(), "importance");
      RIDGE_CUDA(cudaMemcpy(importance_.as(), importance.data(), 4 * importance.size(), cudaMemcpyHostToDevice));
      factors = importance_.as<float>();
    }
    try {
      for (int64_t first = 0, chunk = 0; first < rows * cols; first += kChunkWeights, ++chunk) {
        Slot& slot = slots_[chunk % slots_.size()];
        finish(slot, cols);
        const int64_t weights = std::min(kChunkWeights, rows * cols - first);
        const size_t bytes = in.row_bytes(weights);
        copy_with_all_threads(slot.packed_in.as(), source + in.row_bytes(first), bytes);
        *slot.first_bad.as<unsigned long long>() = kNoneBad;
        auto* device_first_bad = slot.device_first_bad.as<unsigned long long>();
        RIDGE_CUDA(cudaMemcpyAsync(device_first_bad, slot.first_bad.as(), 8, cudaMemcpyHostToDevice, slot.stream));
        RIDGE_CUDA(
            cudaMemcpyAsync(slot.device_in.as(), slot.packed_in.as(), bytes, cudaMemcpyHostToDevice, slot.stream));
        decode_weights(from, slot.device_in.as(), weights, slot.weights.as<float>(), slot.stream);
        find_not_finite(slot.weights.as<float>(), weights, first, device_first_bad, slot.stream);
        encode_weights(to, slot.weights.as<float>(), factors, first / result.block_weights, cols / result.block_weights,
                       weights / result.block_weights, slot.device_out.as(), slot.stream);
        RIDGE_CUDA(cudaGetLastError());
        slot.to = out + result.row_bytes(first);
        slot.bytes = result.row_bytes(weights);
        RIDGE_CUDA(cudaMemcpyAsync(slot.packed_out.as(), slot.device_out.as(), slot.bytes, cudaMemcpyDeviceToHost,
                                   slot.stream));
        RIDGE_CUDA(cudaMemcpyAsync(slot.first_bad.as(), device_first_bad, 8, cudaMemcpyDeviceToHost, slot.stream));
      }
      for (int64_t chunk = 0; chunk < static_cast<int64_t>(slots_.size()); ++chunk) finish(slots_[chunk], cols);
    } catch (...) {
      cudaDeviceSynchronize(); // copies may still write
      for (Slot& slot : slots_) slot.to = nullptr;
      throw;
    }
  }

 private:
  void finish(Slot& slot, int64_t cols) {
    if (!slot.to) return;
    RIDGE_CUDA(cudaStreamSynchronize(slot.stream));
    const unsigned long long bad = *slot.first_bad.as<unsigned long long>();
    if (bad != kNoneBad) quant::throw_not_finite(static_cast<int64_t>(bad) / cols, static_cast<int64_t>(bad) % cols);
    copy_with_all_threads(slot.to, slot.packed_out.as(), slot.bytes);
    slot.to = nullptr;
  }

  std::array<Slot, 2> slots_;
  DeviceMemory importance_;
};

} // namespace

std::unique_ptr<Encoder> make_encoder() {
  if (!device_info().usable) return nullptr;
  return std::make_unique<CudaEncoder>();
}

} // namespace ridge::kernels::cuda
