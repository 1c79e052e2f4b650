#include "measure/logits_base.h"

#include "core/error.h"

#include <cmath>
#include <cstring>

namespace ridge::measure {

LogitsBaseWriter::LogitsBaseWriter(const std::string& path, const LogitsBaseHeader& header,
                                   std::span<const int32_t> tokens)
    : header_(header), file_(path, header.file_bytes()) {
  file_.write(std::as_bytes(std::span(&header_, 1)));
  file_.write(std::as_bytes(tokens));
}

void LogitsBaseWriter::add(const TopDistribution& distribution) {
  const float numbers[] = {distribution.next_log_probability, distribution.tail_probability};
  file_.write(std::as_bytes(std::span(numbers)));
  file_.write(std::as_bytes(distribution.top));
}

LogitsBase::LogitsBase(const std::string& path) : file_(path) {
  const auto bytes = file_.bytes();
  if (bytes.size() < sizeof header_ || std::memcmp(bytes.data(), header_.magic, sizeof header_.magic) != 0)
    throw_error(
        "{}: not a base file of ridge perplexity; create one with --kl-divergence-base and without --kl-divergence",
        path);
  std::memcpy(&header_, bytes.data(), sizeof header_);
  if (header_.version != 1) throw_error("{}: version {} of the base file, expected 1", path, header_.version);
  constexpr uint32_t kMax = 1 << 24; // prevents overflow in file_bytes()
  const auto in_range = [&](const char* what, uint32_t value, uint32_t least, uint32_t most) {
    if (value < least || value > most) throw_error("{}: {} is {}, expected {} to {}", path, what, value, least, most);
  };
  in_range("vocabulary", header_.vocab, 1, kMax);
  in_range("context", header_.context, 2, kMax);
  in_range("chunks", header_.chunks, 1, kMax);
  in_range("top", header_.top, 1, std::min(header_.vocab, uint32_t{1} << 12));
  if (bytes.size() != header_.file_bytes())
    throw_error("{}: {} bytes, expected {}: the file is truncated or not a base file", path, bytes.size(),
                header_.file_bytes());
  const auto vocab = static_cast<int32_t>(header_.vocab);
  if (header_.bos < -1 || header_.bos >= vocab) throw_error("{}: the first token {} is invalid", path, header_.bos);
  for (size_t i = 0; const int32_t token : tokens()) {
    if (token < 0 || token >= vocab)
      throw_error("{}: token {} at index {}, expected 0 to {}", path, token, i, vocab - 1);
    ++i;
  }
  constexpr float kRounding = 1e-3f; // may round to above 0
  const auto is_log = [](float value) { return value <= kRounding && std::isfinite(value); };
  for (int64_t chunk = 0; chunk < header_.chunks; ++chunk)
    for (int64_t i = 0; i < scored_positions(header_.context); ++i) {
      const TopDistribution d = at(chunk, i);
      bool good = is_log(d.next_log_probability) && d.tail_probability >= 0 && d.tail_probability <= 1 + kRounding;
      for (const auto& entry : d.top) good &= entry.id >= 0 && entry.id < vocab && is_log(entry.log_probability);
      if (!good) throw_error("{}: chunk {}, position {}: not a distribution over {} tokens", path, chunk, i, vocab);
    }
}

std::span<const int32_t> LogitsBase::tokens() const {
  return {reinterpret_cast<const int32_t*>(file_.bytes().data() + sizeof header_),
          size_t{header_.chunks} * header_.context};
}

TopDistribution LogitsBase::at(int64_t chunk, int64_t scored) const {
  const std::byte* record =
      file_.bytes().data() + sizeof header_ + header_.token_bytes() +
      static_cast<uint64_t>(chunk * scored_positions(header_.context) + scored) * header_.record_bytes();
  const auto* numbers = reinterpret_cast<const float*>(record); // multiples of 4 bytes
  return {numbers[0], numbers[1], {reinterpret_cast<const TopDistribution::Entry*>(record + 8), header_.top}};
}

} // namespace ridge::measure
