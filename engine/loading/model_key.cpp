#include "engine/loading/model_key.h"

#include "core/files/hash.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace ridge::engine {
namespace {

constexpr size_t kSamples = 256, kSampleBytes = 64; // of all tensors, evenly spaced

} // namespace

std::string model_key(const gguf::File& file) {
  core::Hash metadata, tensors, weights;
  for (const gguf::KeyValue& field : file.metadata()) metadata.add(field.key).add(field.value.payload());
  const size_t step = std::max<size_t>(1, file.size_bytes() / kSamples);
  size_t next = 0, before = 0;
  for (const gguf::Tensor& tensor : file.tensors()) {
    tensors.add(tensor.name).add(std::as_bytes(std::span(tensor.dims))).add(tensor.data.size());
    for (; next < before + tensor.data.size(); next += step) {
      const auto rest = tensor.data.subspan(next - before);
      weights.add(rest.first(std::min(kSampleBytes, rest.size())));
    }
    before += tensor.data.size();
  }
  return fmt::format("{} {:016x} {:016x} {:016x}", file.size_bytes(), metadata.value(), tensors.value(),
                     weights.value());
}

} // namespace ridge::engine
