#include "gguf/tensor_type.h"

#include "gguf/gguf.h"

#include <fmt/format.h>

#include <iterator>

namespace ridge::gguf {
namespace {

struct PlainInfo {
  PlainType type;
  std::string_view name;
  int64_t bytes;
};
constexpr PlainInfo kPlainTypes[] = {{PlainType::I8, "I8", 1},
                                     {PlainType::I16, "I16", 2},
                                     {PlainType::I32, "I32", 4},
                                     {PlainType::I64, "I64", 8},
                                     {PlainType::F64, "F64", 8}};

// Ids removed from GGUF, or used by other tools only.
struct RefusedType {
  uint32_t id;
  std::string_view name, why;
};
constexpr std::string_view kRemoved = "was removed from GGUF; create the file again from the original model";
constexpr std::string_view kInMemory = "is an in-memory type of other engines that files must not contain";
constexpr RefusedType kRefusedTypes[] = {
    {4, "Q4_2", kRemoved},        {5, "Q4_3", kRemoved},        {31, "Q4_0_4_4", kRemoved},
    {32, "Q4_0_4_8", kRemoved},   {33, "Q4_0_8_8", kRemoved},   {36, "IQ4_NL_4_4", kRemoved},
    {37, "IQ4_NL_4_8", kRemoved}, {38, "IQ4_NL_8_8", kRemoved}, {9, "Q8_1", kInMemory},
    {15, "Q8_K", kInMemory},
};

} // namespace

TensorType::TensorType(const quant::FormatInfo& format)
    : id_(static_cast<uint32_t>(format.type)), name_(format.name), block_weights_(format.block_weights),
      block_bytes_(format.block_bytes), format_(&format) {}

TensorType::TensorType(quant::Type type) : TensorType(quant::format(type)) {}

TensorType::TensorType(PlainType type) : id_(static_cast<uint32_t>(type)), block_weights_(1) {
  const PlainInfo& info = kPlainTypes[id_ - static_cast<uint32_t>(PlainType::I8)];
  name_ = info.name;
  block_bytes_ = info.bytes;
}

std::optional<TensorType> TensorType::from_id(uint32_t id) {
  if (const quant::FormatInfo* format = quant::find_format(id); format && format->stored()) return TensorType(*format);
  for (const PlainInfo& info : kPlainTypes)
    if (static_cast<uint32_t>(info.type) == id) return TensorType(info.type);
  return std::nullopt;
}

std::string type_problem(uint32_t id) {
  for (const RefusedType& refused : kRefusedTypes)
    if (refused.id == id) return fmt::format("{} ({}) {}", id, refused.name, refused.why);
  std::string problem = fmt::format("unknown type {}; known types are", id);
  for (const quant::FormatInfo& format : quant::stored_formats())
    fmt::format_to(std::back_inserter(problem), " {}={}", format.name, static_cast<uint32_t>(format.type));
  for (const PlainInfo& info : kPlainTypes)
    fmt::format_to(std::back_inserter(problem), " {}={}", info.name, static_cast<uint32_t>(info.type));
  return problem;
}

std::string shape_problem(TensorType type, std::span<const int64_t> dims) {
  if (type.format() && !type.format()->stored()) return fmt::format("{} is not a GGUF tensor type", type.name());
  if (dims.size() > kMaxDims) return fmt::format("found {} dimensions, expected at most {}", dims.size(), kMaxDims);
  int64_t weights = 1, bytes = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 1) return fmt::format("dimension {} is {}, expected 1 or more", i, dims[i]);
    if (__builtin_mul_overflow(weights, dims[i], &weights))
      return fmt::format("dimension {} is {}, which exceeds 2^63 weights", i, dims[i]);
  }
  const int64_t row = dims.empty() ? 1 : dims[0];
  if (row % type.block_weights() != 0)
    return fmt::format("dimension 0 is {}, expected a multiple of the {} weights of a {} block", row,
                       type.block_weights(), type.name());
  if (__builtin_mul_overflow(weights / type.block_weights(), type.block_bytes(), &bytes))
    return fmt::format("{} weights of type {} exceed 2^63 bytes", weights, type.name());
  return {};
}

} // namespace ridge::gguf
