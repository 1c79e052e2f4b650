// Reads GGUF files, versions 2 and 3, little endian: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
//
// Metadata and tensors are views into the mapped file, valid as long as the File. Nothing in a file is trusted: every
// count, offset, length and shape product is checked; a failure throws Error with file, byte offset and field.
// Guaranteed: unique, non-empty UTF-8 keys and tensor names; complete values; non-empty tensors of whole blocks per
// row, inside the file, disjoint, aligned to at least 8. String values may be invalid UTF-8: show them with
// core::printable.
//
// A File is immutable and thread-safe. If another program truncates it, missing bytes read as zeros and check() throws.
// gguf::Writer replaces files.
//
//   gguf::File file = gguf::File::open("model-00001-of-00003.gguf");   // opens all three
//   int64_t layers = file.get_int("llama.block_count");
//   const gguf::Tensor* w = file.find_tensor("blk.0.attn_q.weight");
#pragma once

#include "gguf/tensor_type.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::gguf {

enum class ValueType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12
};
std::string_view name_of(ValueType type);
size_t scalar_bytes(ValueType type); // 0 for strings and arrays

inline constexpr uint32_t kVersion = 3; // written by Writer
inline constexpr uint32_t kDefaultAlignment = 32;
inline constexpr int kMaxDims = 4;
inline constexpr int kMaxArrayDepth = 4;
inline constexpr size_t kMaxNameBytes = 0xffff; // keys by the specification

class Value {
 public:
  Value(ValueType type, std::span<const std::byte> payload) : type_(type), payload_(payload) {}

  ValueType type() const { return type_; }
  std::span<const std::byte> payload() const { return payload_; } // without the type field

  // nullopt for another kind. Integers and booleans convert to i64 if they fit, numbers to f64.
  std::optional<int64_t> as_int() const;
  std::optional<double> as_float() const;
  std::optional<bool> as_bool() const;
  std::optional<std::string_view> as_string() const;

  // All but element_type and size walk the array.
  bool is_array() const { return type_ == ValueType::array; }
  ValueType element_type() const; // std::logic_error for other types; the next two as well
  uint64_t size() const;
  std::vector<Value> elements() const;                 // 24 bytes each
  std::optional<std::vector<int64_t>> as_ints() const; // integers or booleans
  std::optional<std::vector<float>> as_floats() const;
  std::optional<std::vector<std::string_view>> as_strings() const;

 private:
  ValueType type_;
  std::span<const std::byte> payload_;
};

struct KeyValue {
  std::string_view key;
  Value value;
};

struct Tensor {
  std::string_view name;
  TensorType type; // format() is nullptr for I8, I16, I32, I64 and F64
  int n_dims;
  std::array<int64_t, kMaxDims> dims; // dims[0] is contiguous; unused ones are 1
  std::span<const std::byte> data;
  uint64_t file_offset; // in its shard
  int shard;

  int64_t weights() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
};

class File {
 public:
  // Opens all shards of a split model given any one; they must be in one folder.
  static File open(const std::string& path);
  // An image aligned to 8 bytes; `label` replaces the path in messages.
  static File from_bytes(std::shared_ptr<const std::vector<std::byte>> image, std::string label);
  static File from_span(std::span<const std::byte> image, std::string label); // image must outlive the File

  // The same model with some tensors in other types. The bytes must outlive the result. Throws std::logic_error for an
  // unknown tensor or a wrong byte count.
  struct OtherForm {
    std::string_view tensor;
    TensorType type;
    std::span<const std::byte> data;
  };
  File with(std::span<const OtherForm> forms) const;

  File(File&&) noexcept;
  File& operator=(File&&) noexcept;
  ~File();

  const std::string& path() const; // as given to open
  const std::string& shard_path(int shard) const;
  uint32_t version() const;
  uint32_t alignment() const;
  uint64_t size_bytes() const; // all shards
  int shard_count() const;

  std::span<const KeyValue> metadata() const; // of the first shard
  std::span<const Tensor> tensors() const;    // shard by shard

  // Frees memory of a part, which is read again on access: for files larger than memory.
  void release(const Tensor& tensor, std::span<const std::byte> part) const;

  // Throws Error if a shard was truncated or unreadable since it was opened.
  void check() const;
  bool deleted() const; // reading still works

  const Value* find(std::string_view key) const; // nullptr: absent
  const Tensor* find_tensor(std::string_view name) const;

  // Required values: Error with file, key, expected and found.
  int64_t get_int(std::string_view key) const;
  double get_float(std::string_view key) const;
  std::string_view get_string(std::string_view key) const;
  // Optional values: Error if of another type.
  int64_t get_int(std::string_view key, int64_t absent) const;
  double get_float(std::string_view key, double absent) const;
  bool get_bool(std::string_view key, bool absent) const;
  std::string_view get_string(std::string_view key, std::string_view absent) const;

 private:
  struct Impl;
  explicit File(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace ridge::gguf
