#include "gguf/imatrix.h"

#include "core/error.h"
#include "core/files/mapped_file.h"
#include "core/strings/printable.h"
#include "gguf/writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ridge::gguf {
namespace {

constexpr std::string_view kSums = ".in_sum2", kCounts = ".counts";

void check_values(const std::string& path, std::string_view entry, std::span<const float> values) {
  for (const float value : values)
    if (!(value >= 0 && std::isfinite(value)))
      throw_error(
          "{}: entry '{}': the value {} is invalid, expected finite numbers of at least 0; create the file again", path,
          core::printable(entry), value);
}

std::vector<float> floats_of(const File& file, const Tensor& tensor) {
  if (tensor.type != quant::Type::F32)
    throw_error("{}: tensor '{}': has type {}, expected F32", file.path(), core::printable(tensor.name),
                tensor.type.name());
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  check_values(file.path(), tensor.name, values);
  return values;
}

Imatrix read_gguf(const std::string& path) {
  const File file = File::open(path);
  if (const std::string_view type = file.get_string("general.type", "model"); type != "imatrix")
    throw_error("{}: general.type is '{}', expected 'imatrix': this is not an importance matrix", path,
                core::printable(type));
  Imatrix imatrix;
  imatrix.chunks = file.get_int("imatrix.chunk_count", 0);
  imatrix.chunk_tokens = file.get_int("imatrix.chunk_size", 0);
  if (const Value* datasets = file.find("imatrix.datasets"))
    for (const std::string_view name : datasets->as_strings().value_or(std::vector<std::string_view>()))
      imatrix.datasets.emplace_back(name);
  for (const Tensor& sums : file.tensors()) {
    if (!sums.name.ends_with(kSums)) continue;
    const std::string name(sums.name.substr(0, sums.name.size() - kSums.size()));
    const Tensor* counts = file.find_tensor(name + std::string(kCounts));
    if (!counts)
      throw_error("{}: tensor '{}{}' is missing: the file is incomplete", path, core::printable(name), kCounts);
    const int64_t matrices = counts->weights();
    if (sums.weights() % matrices != 0)
      throw_error("{}: entry '{}': {} sums cannot be divided among {} matrices", path, core::printable(name),
                  sums.weights(), matrices);
    imatrix.entries[name] = {floats_of(file, sums), floats_of(file, *counts)};
  }
  return imatrix;
}

// The older layout, 32-bit numbers: entry count; per entry name, calls, mean squares times calls; except from early
// writers, number of chunks, data set name.
class DatReader {
 public:
  DatReader(const std::string& path, std::span<const std::byte> bytes) : path_(path), bytes_(bytes) {}

  Imatrix read() {
    Imatrix imatrix;
    const int32_t entries = number("number of entries");
    if (entries < 1) fail("number of entries", fmt::format("is {}, expected 1 or more", entries));
    for (int32_t i = 0; i < entries; ++i) {
      const std::string name = text("name");
      const int32_t calls = number("calls"), values = number("number of values");
      if (calls < 1 || values < 1)
        fail("entry", fmt::format("'{}' has {} calls and {} values", core::printable(name), calls, values));
      Imatrix::Entry& entry = imatrix.entries[name];
      const auto raw = take(4 * static_cast<uint64_t>(values), "values");
      entry.sum_of_squares.resize(static_cast<size_t>(values));
      std::memcpy(entry.sum_of_squares.data(), raw.data(), raw.size());
      check_values(path_, name, entry.sum_of_squares);
      entry.counts = {static_cast<float>(calls)};
    }
    if (at_ < bytes_.size()) imatrix.chunks = std::max(0, number("chunks"));
    if (at_ < bytes_.size()) imatrix.datasets.push_back(text("data set"));
    return imatrix;
  }

 private:
  [[noreturn]] void fail(const char* field, const std::string& problem) const {
    throw_error("{}: offset {}: {}: {}; expected an importance matrix (GGUF or .dat)", path_, at_, field, problem);
  }
  std::span<const std::byte> take(uint64_t count, const char* field) {
    if (count > bytes_.size() - at_)
      fail(field, fmt::format("needs {} bytes, but only {} are left", count, bytes_.size() - at_));
    const auto part = bytes_.subspan(at_, count);
    at_ += count;
    return part;
  }
  int32_t number(const char* field) {
    int32_t value;
    std::memcpy(&value, take(sizeof value, field).data(), sizeof value);
    return value;
  }
  std::string text(const char* field) {
    const int32_t length = number(field);
    if (length < 0) fail(field, fmt::format("has a length of {}", length));
    const auto raw = take(static_cast<uint64_t>(length), field);
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }

  const std::string& path_;
  std::span<const std::byte> bytes_;
  uint64_t at_ = 0;
};

} // namespace

std::vector<float> Imatrix::Entry::mean_squares(int64_t m, int64_t matrices) const {
  const auto cols = std::ssize(sum_of_squares) / matrices;
  const float count = counts.size() > 1 ? counts.at(m) : counts.at(0);
  if (count <= 0) return {};
  std::vector<float> mean(sum_of_squares.begin() + m * cols, sum_of_squares.begin() + (m + 1) * cols);
  for (float& value : mean) value /= count;
  return mean;
}

Imatrix Imatrix::read(const std::string& path) {
  Imatrix imatrix;
  {
    const core::MappedFile file(path);
    const bool is_gguf = file.bytes().size() >= 4 && std::memcmp(file.bytes().data(), "GGUF", 4) == 0;
    imatrix = is_gguf ? read_gguf(path) : DatReader(path, file.bytes()).read();
  }
  if (imatrix.entries.empty()) throw_error("{}: contains no importance data: no tensor name ends in {}", path, kSums);
  imatrix.path = path;
  return imatrix;
}

void Imatrix::write(const std::string& target) const {
  Metadata metadata;
  metadata.set("general.type", "imatrix");
  metadata.set("imatrix.datasets", datasets);
  metadata.set("imatrix.chunk_count", static_cast<uint32_t>(chunks));
  metadata.set("imatrix.chunk_size", static_cast<uint32_t>(chunk_tokens));
  std::vector<TensorInfo> tensors;
  for (const auto& [name, entry] : entries) {
    const int64_t matrices = std::ssize(entry.counts);
    tensors.push_back(
        {name + std::string(kSums), quant::Type::F32, {std::ssize(entry.sum_of_squares) / matrices, matrices}});
    tensors.push_back({name + std::string(kCounts), quant::Type::F32, {1, matrices}});
  }
  Writer writer(target, metadata, tensors);
  for (const auto& [name, entry] : entries) {
    writer.write(std::as_bytes(std::span(entry.sum_of_squares)));
    writer.write(std::as_bytes(std::span(entry.counts)));
  }
  writer.finish();
}

const Imatrix::Entry* Imatrix::find(std::string_view tensor, int64_t cols, int64_t matrices) const {
  const auto found = entries.find(tensor);
  if (found == entries.end()) return nullptr;
  const Entry& entry = found->second;
  if (std::ssize(entry.sum_of_squares) != cols * matrices ||
      (entry.counts.size() != 1 && std::ssize(entry.counts) != matrices))
    throw_error("{}: entry '{}': has {} values for {} matrices, expected {} for {}: it belongs to another model", path,
                core::printable(tensor), entry.sum_of_squares.size(), entry.counts.size(), cols * matrices, matrices);
  return &entry;
}

} // namespace ridge::gguf
