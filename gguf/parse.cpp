// Time is linear in the bytes before the tensor data (n log n in names), memory a small multiple of them: counts are
// untrusted, so nothing is reserved by them.
#include "gguf/parse.h"

#include "core/error.h"
#include "core/strings/printable.h"
#include "core/strings/utf8.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace ridge::gguf {
namespace {

// Formatted only for errors: "value of 'tokenizer.ggml.tokens'[17]".
struct Field {
  std::string_view what;
  std::string_view owner = {}; // key or tensor name
  int64_t index = -1;
};

std::string describe(const Field& field) {
  const std::string owner = field.owner.empty() ? "" : fmt::format(" of {}", quoted_name(field.owner));
  return fmt::format("{}{}{}", field.what, owner, field.index < 0 ? "" : fmt::format("[{}]", field.index));
}

// Reject counts too large for the file.
constexpr uint64_t kMinKeyValueBytes = 8 + 1 + 4 + 1;       // key length, key, type, value
constexpr uint64_t kMinTensorInfoBytes = 8 + 1 + 4 + 4 + 8; // name length, name, dimension count, type, offset
constexpr uint64_t kMinStringBytes = 8;
constexpr uint64_t kMinArrayBytes = 4 + 8;

class Walk {
 public:
  Walk(std::span<const std::byte> image, std::string_view label) : image_(image), label_(label) {}

  Parsed run();

 private:
  template <typename... Args>
  [[noreturn]] void fail(uint64_t offset, const Field& field, fmt::format_string<Args...> format, Args&&... args) {
    throw_error("{}: offset {}: {}: {}", label_, offset, describe(field),
                fmt::format(format, std::forward<Args>(args)...));
  }

  uint64_t left() const { return image_.size() - position_; }

  std::span<const std::byte> take(uint64_t bytes, const Field& field) {
    if (bytes > left())
      fail(position_, field,
           "expected {} bytes, found {}: {} bytes are missing; the download is incomplete or the file damaged", bytes,
           left(), bytes - left());
    const auto taken = image_.subspan(position_, bytes);
    position_ += bytes;
    return taken;
  }

  template <typename T>
  T number(const Field& field) {
    T value;
    std::memcpy(&value, take(sizeof value, field).data(), sizeof value);
    return value;
  }

  uint64_t count(uint64_t min_item_bytes, const Field& field) {
    const auto found = number<uint64_t>(field);
    if (found > left() / min_item_bytes)
      fail(position_ - 8, field,
           "expected at most {}, as only {} bytes are left, found {}; the download is incomplete or the file damaged",
           left() / min_item_bytes, left(), found);
    return found;
  }

  std::string_view name(const Field& field) {
    const uint64_t start = position_;
    const auto length = number<uint64_t>(field);
    if (length > kMaxNameBytes) fail(start, field, "is {} bytes long, expected at most {}", length, kMaxNameBytes);
    const auto bytes = take(length, field);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (const std::string problem = name_problem(text); !problem.empty()) fail(start, field, "{}", problem);
    return text;
  }

  ValueType value_type(const Field& field) {
    const auto id = number<uint32_t>(field);
    if (id > static_cast<uint32_t>(ValueType::f64))
      fail(position_ - 4, field, "expected a value type from 0 to {}, found {}", static_cast<uint32_t>(ValueType::f64),
           id);
    return static_cast<ValueType>(id);
  }

  void header(Parsed& out);
  KeyValue key_value(uint64_t index);
  void skip_value(ValueType type, Field field, int depth);
  void skip_booleans(uint64_t count, const Field& field);
  void skip_array(Field field, int depth);
  Tensor tensor_info(uint64_t index);
  void place_tensors(std::vector<Tensor>& tensors, uint64_t data_start);
  Field offset_field(const Tensor& tensor) const { return {"tensor offset", tensor.name}; }

  // The offset is the last field of a tensor info.
  uint64_t offset_position(const Tensor& tensor) const {
    const uint64_t name_end =
        reinterpret_cast<const std::byte*>(tensor.name.data()) - image_.data() + tensor.name.size();
    return name_end + 4 + 8 * static_cast<uint64_t>(tensor.n_dims) + 4;
  }

  std::span<const std::byte> image_;
  std::string_view label_;
  uint64_t position_ = 0;
  uint64_t alignment_ = kDefaultAlignment;
};

void Walk::header(Parsed& out) {
  if (std::memcmp(image_.data(), "GGUF", std::min<size_t>(4, image_.size())) != 0)
    fail(0, {"magic"}, "expected \"GGUF\", found {}", likely_kind(image_));
  take(4, {"magic"});
  out.version = number<uint32_t>({"version"});
  if (out.version == 1) fail(4, {"version"}, "found 1, expected 2 or 3; get the model in a current GGUF version");
  if ((out.version & 0xffff) == 0 && out.version != 0)
    fail(4, {"version"}, "found {:#010x}: a big-endian file; get the model as a little-endian file", out.version);
  if (out.version != 2 && out.version != 3) fail(4, {"version"}, "found {}, expected 2 or 3", out.version);
}

Parsed Walk::run() {
  if (image_.empty()) throw_error("{}: the file is empty, expected a GGUF file", label_);
  Parsed out;
  header(out);
  // Read both before comparing with the bytes left.
  const auto tensor_count = number<uint64_t>({"tensor count"});
  const auto key_count = count(kMinKeyValueBytes, {"metadata count"});
  if (tensor_count > left() / kMinTensorInfoBytes)
    fail(8, {"tensor count"},
         "expected at most {}, as only {} bytes are left, found {}; the download is incomplete or the file damaged",
         left() / kMinTensorInfoBytes, left(), tensor_count);

  for (uint64_t i = 0; i < key_count; ++i) {
    out.metadata.push_back(key_value(i));
    out.keys.add(out.metadata.back().key);
  }
  if (const auto repeated = out.keys.sort()) {
    const std::string_view key = out.metadata[*repeated].key;
    fail(reinterpret_cast<const std::byte*>(key.data()) - image_.data(), {"key"}, "{} occurs twice in the file",
         quoted_name(key));
  }
  if (const auto place = out.keys.find("general.alignment")) {
    const KeyValue& entry = out.metadata[*place];
    if (const std::string problem = alignment_problem(entry.value); !problem.empty())
      fail(entry.value.payload().data() - image_.data(), {"value", entry.key}, "{}", problem);
    out.alignment = static_cast<uint32_t>(*entry.value.as_int());
  }
  alignment_ = out.alignment;

  for (uint64_t i = 0; i < tensor_count; ++i) out.tensors.push_back(tensor_info(i));
  place_tensors(out.tensors, align_up(position_, alignment_));
  return out;
}

KeyValue Walk::key_value(uint64_t index) {
  const std::string_view key = name({"key", {}, static_cast<int64_t>(index)});
  const ValueType type = value_type({"value type", key});
  const uint64_t start = position_;
  skip_value(type, {"value", key}, 0);
  return {key, Value(type, image_.subspan(start, position_ - start))};
}

void Walk::skip_value(ValueType type, Field field, int depth) {
  switch (type) {
  case ValueType::boolean: return skip_booleans(1, field);
  case ValueType::string: take(number<uint64_t>(field), field); return;
  case ValueType::array: return skip_array(field, depth + 1);
  default: take(scalar_bytes(type), field);
  }
}

void Walk::skip_booleans(uint64_t count, const Field& field) {
  const uint64_t start = position_;
  const auto bytes = take(count, field);
  const auto bad = std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
  if (bad != bytes.end())
    fail(start + (bad - bytes.begin()), field, "expected a boolean, 0 or 1, found {}", static_cast<int>(*bad));
}

void Walk::skip_array(Field field, int depth) {
  if (depth > kMaxArrayDepth) fail(position_, field, "arrays nest deeper than {} levels", kMaxArrayDepth);
  const ValueType element = value_type(field);
  const size_t stride = scalar_bytes(element);
  const uint64_t min_bytes = stride != 0 ? stride : element == ValueType::string ? kMinStringBytes : kMinArrayBytes;
  const uint64_t size = count(min_bytes, field);
  if (element == ValueType::boolean) return skip_booleans(size, field);
  if (stride != 0) {
    take(stride * size, field);
    return;
  }
  for (uint64_t i = 0; i < size; ++i) {
    if (depth == 1) field.index = static_cast<int64_t>(i);
    skip_value(element, field, depth);
  }
}

Tensor Walk::tensor_info(uint64_t index) {
  const std::string_view tensor_name = name({"tensor name", {}, static_cast<int64_t>(index)});
  const uint64_t n_dims_at = position_;
  const auto n_dims = number<uint32_t>({"dimension count", tensor_name});
  if (n_dims > kMaxDims)
    fail(n_dims_at, {"dimension count", tensor_name}, "expected at most {}, found {}", kMaxDims, n_dims);
  std::array<int64_t, kMaxDims> dims = {1, 1, 1, 1};
  for (uint32_t d = 0; d < n_dims; ++d) dims[d] = number<int64_t>({"dimensions", tensor_name});

  const auto type_id = number<uint32_t>({"type", tensor_name});
  const auto type = TensorType::from_id(type_id);
  if (!type) fail(position_ - 4, {"type", tensor_name}, "{}", type_problem(type_id));
  if (const std::string problem = shape_problem(*type, {dims.data(), n_dims}); !problem.empty())
    fail(n_dims_at + 4, {"dimensions", tensor_name}, "{}", problem);

  const auto offset = number<uint64_t>({"tensor offset", tensor_name});
  if (offset % alignment_ != 0)
    fail(position_ - 8, {"tensor offset", tensor_name}, "expected a multiple of the alignment {}, found {}", alignment_,
         offset);
  return {tensor_name, *type, static_cast<int>(n_dims), dims, {}, offset, 0};
}

// Tensors must be disjoint and inside the file. Sets views and file offsets.
void Walk::place_tensors(std::vector<Tensor>& tensors, uint64_t data_start) {
  const auto bytes_of = [](const Tensor& t) {
    return static_cast<uint64_t>(t.type.row_bytes(t.dims[0]) * t.dims[1] * t.dims[2] * t.dims[3]);
  };
  for (Tensor& tensor : tensors) {
    // Below 2^62, so that sums are exact.
    if (tensor.file_offset >> 62 != 0)
      fail(offset_position(tensor), offset_field(tensor),
           "is {}, far past the end of the file at {}; the file is damaged", tensor.file_offset, image_.size());
    tensor.file_offset += data_start;
  }

  std::vector<const Tensor*> by_offset;
  for (const Tensor& tensor : tensors) by_offset.push_back(&tensor);
  std::stable_sort(by_offset.begin(), by_offset.end(),
                   [](const Tensor* a, const Tensor* b) { return a->file_offset < b->file_offset; });
  uint64_t end = data_start;
  const Tensor* last = nullptr;
  for (const Tensor* tensor : by_offset) {
    if (tensor->file_offset < end)
      fail(offset_position(*tensor), offset_field(*tensor), "its data starts at {}, inside {}, which ends at {}",
           tensor->file_offset, quoted_name(last->name), end);
    end = tensor->file_offset + bytes_of(*tensor);
    last = tensor;
  }
  if (last && end > image_.size())
    fail(offset_position(*last), offset_field(*last),
         "its data ends at {}, but the file ends at {}: {} bytes are missing; the download is incomplete", end,
         image_.size(), end - image_.size());

  for (Tensor& tensor : tensors) tensor.data = image_.subspan(tensor.file_offset, bytes_of(tensor));
}

} // namespace

std::optional<uint32_t> NameIndex::sort() {
  std::sort(sorted_.begin(), sorted_.end());
  std::optional<uint32_t> repeated;
  for (size_t i = 1; i < sorted_.size(); ++i)
    if (sorted_[i].first == sorted_[i - 1].first) repeated = std::min(repeated.value_or(UINT32_MAX), sorted_[i].second);
  return repeated;
}

std::optional<uint32_t> NameIndex::find(std::string_view name) const {
  const auto at = std::lower_bound(sorted_.begin(), sorted_.end(), name,
                                   [](const auto& item, std::string_view wanted) { return item.first < wanted; });
  if (at == sorted_.end() || at->first != name) return std::nullopt;
  return at->second;
}

std::string quoted_name(std::string_view name) { return fmt::format("'{}'", core::printable(name)); }

std::string name_problem(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name.size() > kMaxNameBytes)
    return fmt::format("is {} bytes long, expected at most {}", name.size(), kMaxNameBytes);
  if (!core::is_utf8(name)) return fmt::format("{} is not UTF-8", quoted_name(name));
  return {};
}

std::string alignment_problem(const Value& alignment) {
  const auto value = alignment.as_int();
  if (!value) return fmt::format("expected an integer, found {}", name_of(alignment.type()));
  const bool fits = *value >= 8 && *value <= UINT32_MAX && std::has_single_bit(static_cast<uint64_t>(*value));
  return fits ? "" : fmt::format("expected a power of two of at least 8, found {}", *value);
}

Parsed parse(std::span<const std::byte> image, std::string_view label) { return Walk(image, label).run(); }

} // namespace ridge::gguf
