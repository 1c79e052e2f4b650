// Reads GGUF files, versions 2 and 3, little endian: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
//
// Metadata and tensors are views into the mapped file and valid as long as the File. Nothing in a file is trusted:
// every count, offset, length and shape product is checked, and a failure throws Error with file, byte offset and
// field. Guaranteed: unique, non-empty UTF-8 keys and tensor names; complete values; tensors with at least one weight
// and whole blocks per row, whose bytes lie in the file, do not overlap and are aligned to at least 8. String values
// may be invalid UTF-8; core::printable makes them safe to show.
//
// A File is immutable and thread-safe. If another program truncates it, missing bytes read as zeros and check() throws
// (core/files/mapped_file.h). gguf::Writer replaces files instead of overwriting them.
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
inline constexpr size_t kMaxNameBytes = 0xffff; // keys: by the specification; also for tensor names

// The type and checked bytes of a metadata value.
class Value {
 public:
  Value(ValueType type, std::span<const std::byte> payload) : type_(type), payload_(payload) {}

  ValueType type() const { return type_; }
  std::span<const std::byte> payload() const { return payload_; } // without the type field

  // nullopt for another kind. Integers and booleans convert to i64 if they fit, all numbers to f64.
  std::optional<int64_t> as_int() const;
  std::optional<double> as_float() const;
  std::optional<bool> as_bool() const;
  std::optional<std::string_view> as_string() const;

  // Arrays. All but element_type and size walk the array (strings have no fixed stride).
  bool is_array() const { return type_ == ValueType::array; }
  ValueType element_type() const; // std::logic_error if not an array; also the next two
  uint64_t size() const;
  std::vector<Value> elements() const;                 // 24 bytes each; prefer the typed ones for long arrays
  std::optional<std::vector<int64_t>> as_ints() const; // integers or booleans that fit i64
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
  TensorType type; // format() is nullptr for I8, I16, I32, I64, F64
  int n_dims;
  std::array<int64_t, kMaxDims> dims; // dims[0] is contiguous; unused ones are 1
  std::span<const std::byte> data;
  uint64_t file_offset; // of the data, in its shard
  int shard;

  int64_t weights() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
};

class File {
 public:
  // Opens a file, or all shards of a split model given any one. They must be in one folder and named
  // NAME-00001-of-00003.gguf, ….
  static File open(const std::string& path);
  // Reads a single-file image, aligned to 8 bytes; `label` replaces the path in messages.
  static File from_bytes(std::shared_ptr<const std::vector<std::byte>> image, std::string label);
  static File from_span(std::span<const std::byte> image, std::string label); // image must outlive the File

  // The same model with some tensors in other types. The bytes must outlive the result; this File need not. Throws
  // std::logic_error for an unknown tensor or a byte count that does not fit the shape.
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

  std::span<const KeyValue> metadata() const; // first shard, in file order
  std::span<const Tensor> tensors() const;    // in file order, shard by shard

  // Releases the memory of a part of a tensor, which is read again on access: for passes over files larger than memory.
  void release(const Tensor& tensor, std::span<const std::byte> part) const;

  // Throws Error if a shard was truncated or unreadable since it was opened: data read may be wrong.
  void check() const;
  bool deleted() const; // a shard was deleted; reading still works

  const Value* find(std::string_view key) const;          // nullptr: absent
  const Tensor* find_tensor(std::string_view name) const; // nullptr: absent

  // Required values: Error with file, key, expected and found.
  int64_t get_int(std::string_view key) const;
  double get_float(std::string_view key) const;
  std::string_view get_string(std::string_view key) const;
  // Optional values: Error only if present with another type.
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
