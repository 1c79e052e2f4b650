#include "engine/prefixes/model_key.h"

#include "core/random.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace ridge::engine {
namespace {

constexpr size_t kSamples = 256, kSampleBytes = 64; // of all tensors together, evenly spread

uint64_t add(uint64_t sum, std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) sum = (sum ^ static_cast<uint64_t>(byte)) * 0x100000001b3ull;
  return core::mix_bits(sum + bytes.size());
}

} // namespace

std::string model_key(const gguf::File& file) {
  uint64_t metadata = 1, tensors = 2, weights = 3;
  for (const gguf::KeyValue& field : file.metadata()) {
    metadata = add(metadata, std::as_bytes(std::span(field.key)));
    metadata = add(metadata, field.value.payload());
  }
  const size_t step = std::max<size_t>(1, file.size_bytes() / kSamples);
  size_t next = 0, before = 0; // offsets in all tensors' bytes, one tensor behind the other
  for (const gguf::Tensor& tensor : file.tensors()) {
    tensors = add(tensors, std::as_bytes(std::span(tensor.name)));
    tensors = add(tensors, std::as_bytes(std::span(tensor.dims)));
    tensors = core::mix_bits(tensors + tensor.data.size());
    for (; next < before + tensor.data.size(); next += step) {
      const auto rest = tensor.data.subspan(next - before);
      weights = add(weights, rest.first(std::min(kSampleBytes, rest.size())));
    }
    before += tensor.data.size();
  }
  return fmt::format("{} {:016x} {:016x} {:016x}", file.size_bytes(), metadata, tensors, weights);
}

} // namespace ridge::engine
