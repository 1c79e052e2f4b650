// GGUF files, read: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3, little-endian.
//
// A file is mapped, never loaded: metadata values and tensors are views into the mapping and live as long as the File.
// Nothing in a file is trusted. Every count, offset, length and shape product is checked before it is used, and a file
// that fails a check is refused with an Error that names the file, the byte offset and the field. An open
// file guarantees: keys and tensor names are unique, not empty, UTF-8; every value is whole; every tensor has at least
// one weight, whole blocks per row, and its bytes in the file, apart from every other tensor's, aligned to 8 bytes or
// more. String values are not checked: they are usually UTF-8. core::printable makes them safe to show.
//
// A File is immutable: threads may share it. Where another program shortens it while it is mapped, the missing bytes
// read as zeros and check() throws (core/files/mapped_file.h); gguf::Writer replaces files, and never writes into one
// that exists.
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

// Values as stored in files.
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
std::string_view name_of(ValueType type); // "u8", …, "bool", "string", "array"
size_t scalar_bytes(ValueType type);      // 0 for strings and arrays

inline constexpr uint32_t kVersion = 3; // of files that Writer makes
inline constexpr uint32_t kDefaultAlignment = 32;
inline constexpr int kMaxDims = 4;
inline constexpr int kMaxArrayDepth = 4;        // arrays of arrays nest no deeper
inline constexpr size_t kMaxNameBytes = 0xffff; // of a key, by the specification, and of a tensor name

// One metadata value: its type and the bytes it occupies in the file, checked by the File or made by Metadata.
class Value {
 public:
  Value(ValueType type, std::span<const std::byte> payload) : type_(type), payload_(payload) {}

  ValueType type() const { return type_; }
  std::span<const std::byte> payload() const { return payload_; } // as stored, after the type field

  // Each returns nothing where the value is of another kind. Integers of every width, and booleans as 0 and 1, convert
  // to i64 where the value fits; every number converts to f64.
  std::optional<int64_t> as_int() const;
  std::optional<double> as_float() const;
  std::optional<bool> as_bool() const;
  std::optional<std::string_view> as_string() const;

  // Arrays. element_type and size cost nothing; the others walk the array once (strings have no fixed stride).
  bool is_array() const { return type_ == ValueType::array; }
  ValueType element_type() const;                      // std::logic_error where this is no array; so for the next two
  uint64_t size() const;                               // elements
  std::vector<Value> elements() const;                 // 24 bytes each: use the typed ones for long arrays
  std::optional<std::vector<int64_t>> as_ints() const; // array of integers or booleans that fit i64
  std::optional<std::vector<float>> as_floats() const; // array of numbers
  std::optional<std::vector<std::string_view>> as_strings() const; // array of strings

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
  TensorType type; // compares with quant::Type; type.format() decodes, and is nullptr for I8, I16, I32, I64, F64
  int n_dims;
  std::array<int64_t, kMaxDims> dims; // dims[0] is the contiguous one (weights per row); unused ones are 1
  std::span<const std::byte> data;    // view into the mapping
  uint64_t file_offset;               // of the data, in its own shard
  int shard;                          // 0 in a file of one piece

  int64_t weights() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
};

class File {
 public:
  // Opens a file. For any shard of a split model, opens all of its shards. They must lie in one folder, named
  // NAME-00001-of-00003.gguf and so on.
  static File open(const std::string& path);
  // Reads an image in memory, of one piece, aligned to 8 bytes; `label` stands for the path in messages.
  static File from_bytes(std::shared_ptr<const std::vector<std::byte>> image, std::string label);
  static File from_span(std::span<const std::byte> image, std::string label); // image must outlive the File

  // The same model with some tensors in other types. The bytes must outlive the File that is returned; this one need
  // not. Throws std::logic_error for a tensor that is not there, and for another number of bytes than its shape has in
  // that type.
  struct OtherForm {
    std::string_view tensor;
    TensorType type;
    std::span<const std::byte> data;
  };
  File with(std::span<const OtherForm> forms) const;

  File(File&&) noexcept;
  File& operator=(File&&) noexcept;
  ~File();

  const std::string& path() const;                // as given to open
  const std::string& shard_path(int shard) const; // where Tensor::shard lies
  uint32_t version() const;
  uint32_t alignment() const;
  uint64_t size_bytes() const; // all shards together
  int shard_count() const;

  std::span<const KeyValue> metadata() const; // in file order, of the first shard
  std::span<const Tensor> tensors() const;    // in file order, shard after shard

  // Gives the memory of a piece of a tensor's data back to the system. The piece is read again when touched. For passes
  // over files larger than memory.
  void release(const Tensor& tensor, std::span<const std::byte> part) const;

  // Throws Error where a shard was shortened, or could not be read, since it was opened: what was read may be wrong.
  void check() const;
  bool deleted() const; // a shard was deleted from its folder; reading still works

  const Value* find(std::string_view key) const;          // nullptr: absent
  const Tensor* find_tensor(std::string_view name) const; // nullptr: absent

  // Required values: an Error names the file, the key, and what was expected or found instead.
  int64_t get_int(std::string_view key) const;
  double get_float(std::string_view key) const;
  std::string_view get_string(std::string_view key) const;
  // Optional values: the default when absent; an Error when present with another type.
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
