// Element types: weight formats (quant/formats.def) or plain numbers (AWQ, GPTQ and NF4 codes are I8, permutations
// I32).
#pragma once

#include "quant/registry.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ridge::gguf {

// GGUF type ids.
enum class PlainType : uint32_t { I8 = 24, I16 = 25, I32 = 26, I64 = 27, F64 = 28 };

class TensorType {
 public:
  TensorType(quant::Type type);
  TensorType(PlainType type);
  static std::optional<TensorType> from_id(uint32_t id); // nullopt: not allowed

  uint32_t id() const { return id_; }
  explicit operator uint32_t() const { return id_; }
  std::string_view name() const { return name_; }
  int64_t block_weights() const { return block_weights_; }
  int64_t block_bytes() const { return block_bytes_; }
  // nullptr for plain numbers.
  const quant::FormatInfo* format() const { return format_; }

  // weights: a multiple of block_weights().
  int64_t row_bytes(int64_t weights) const { return weights / block_weights_ * block_bytes_; }

  bool operator==(const TensorType& other) const { return id_ == other.id_; }

 private:
  explicit TensorType(const quant::FormatInfo& format);

  uint32_t id_;
  std::string_view name_;
  int64_t block_weights_, block_bytes_;
  const quant::FormatInfo* format_ = nullptr;
};

// "37 (IQ4_NL_4_8) was removed from GGUF; …".
std::string type_problem(uint32_t id);
// Why `type` cannot have `dims` (dims[0] contiguous); empty if it can.
std::string shape_problem(TensorType type, std::span<const int64_t> dims);

} // namespace ridge::gguf
