// The element types of GGUF tensors: a weight format (quant/formats.def), or a plain number type for other
// data: AWQ, GPTQ and NF4 codes are stored as I8, permutations as I32.
#pragma once

#include "quant/registry.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ridge::gguf {

// Values are GGUF type ids.
enum class PlainType : uint32_t { I8 = 24, I16 = 25, I32 = 26, I64 = 27, F64 = 28 };

class TensorType {
 public:
  TensorType(quant::Type type);
  TensorType(PlainType type);
  static std::optional<TensorType> from_id(uint32_t id); // nothing: no tensor in a file may be of this type

  uint32_t id() const { return id_; }
  explicit operator uint32_t() const { return id_; }
  std::string_view name() const { return name_; } // "Q4_K", "I8"
  int64_t block_weights() const { return block_weights_; }
  int64_t block_bytes() const { return block_bytes_; }
  // The weight format, which knows how to decode; nullptr for the plain number types.
  const quant::FormatInfo* format() const { return format_; }

  // Bytes of `weights` consecutive weights, a multiple of block_weights().
  int64_t row_bytes(int64_t weights) const { return weights / block_weights_ * block_bytes_; }

  bool operator==(const TensorType& other) const { return id_ == other.id_; }

 private:
  explicit TensorType(const quant::FormatInfo& format);

  uint32_t id_;
  std::string_view name_;
  int64_t block_weights_, block_bytes_;
  const quant::FormatInfo* format_ = nullptr;
};

// Why no tensor can have type `id`, for ids that from_id refuses: "37 (IQ4_NL_4_8) was removed from GGUF; …".
std::string type_problem(uint32_t id);
// Why a tensor of `type` cannot have the shape `dims` (weights; dims[0] contiguous); empty where it can.
std::string shape_problem(TensorType type, std::span<const int64_t> dims);

} // namespace ridge::gguf
