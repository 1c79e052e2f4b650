#include "core/error.h"
#include "core/files/mapped_file.h"
#include "gguf/parse.h"
#include "gguf/shard_name.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

namespace ridge::gguf {
namespace {

struct Shard {
  std::string path;
  std::shared_ptr<core::MappedFile> mapping; // null: image in memory
  std::span<const std::byte> bytes;

  uint64_t offset_of(const void* at) const { return static_cast<const std::byte*>(at) - bytes.data(); }
};

} // namespace

struct File::Impl {
  std::string path; // from the caller; messages name the faulty shard
  std::vector<Shard> shards;
  std::shared_ptr<const std::vector<std::byte>> image;
  Parsed model; // first shard's metadata, all tensors
  NameIndex tensor_names;

  Parsed parse_shard(Shard shard) {
    shards.push_back(std::move(shard));
    return parse(shards.back().bytes, shards.back().path);
  }

  void open_rest(Parsed named, const std::string& named_path, int64_t count);
  void index_tensors();
  static int64_t split_int(const Parsed& parsed, const Shard& shard, std::string_view key, int64_t absent);

  [[noreturn]] static void wrong_type(const Shard& shard, const KeyValue& entry, std::string_view expected) {
    throw_error("{}: offset {}: key {}: expected {}, found {}", shard.path,
                shard.offset_of(entry.value.payload().data()), quoted_name(entry.key), expected,
                name_of(entry.value.type()));
  }

  template <typename Convert>
  auto get(std::string_view key, std::string_view expected, Convert convert) const
      -> decltype(convert(std::declval<const Value&>())) {
    const auto place = model.keys.find(key);
    if (!place) return std::nullopt;
    const auto value = convert(model.metadata[*place].value);
    if (!value) wrong_type(shards.front(), model.metadata[*place], expected);
    return value;
  }
  auto int_value(std::string_view key) const {
    return get(key, "an integer", [](const Value& v) { return v.as_int(); });
  }
  auto float_value(std::string_view key) const {
    return get(key, "a number", [](const Value& v) { return v.as_float(); });
  }
  auto bool_value(std::string_view key) const {
    return get(key, "a boolean", [](const Value& v) { return v.as_bool(); });
  }
  auto string_value(std::string_view key) const {
    return get(key, "a string", [](const Value& v) { return v.as_string(); });
  }

  template <typename T>
  T required(std::optional<T> value, std::string_view key, std::string_view expected) const {
    if (!value) throw_error("{}: key {} is missing, expected {}", shards.front().path, quoted_name(key), expected);
    return *value;
  }
};

namespace {

Shard map_shard(const std::string& path) {
  Shard shard{path, std::make_shared<core::MappedFile>(path), {}};
  shard.bytes = shard.mapping->bytes();
  return shard;
}

} // namespace

int64_t File::Impl::split_int(const Parsed& parsed, const Shard& shard, std::string_view key, int64_t absent) {
  const auto place = parsed.keys.find(key);
  if (!place) return absent;
  const KeyValue& entry = parsed.metadata[*place];
  const auto value = entry.value.as_int();
  if (!value) wrong_type(shard, entry, "an integer");
  return *value;
}

void File::Impl::open_rest(Parsed named, const std::string& named_path, int64_t count) {
  const auto name = shard_name(named_path);
  if (!name || name->count != count)
    throw_error("{}: this is one of {} shards (split.count), but its name does not end in -NNNNN-of-{:05}.gguf; "
                "restore the original file names",
                named_path, count, count);
  Shard named_shard = std::move(shards.back());
  shards.clear();
  int64_t tensor_count = -1;
  for (int64_t i = 0; i < count; ++i) {
    const std::string shard_path = name->path(i);
    const bool is_named = i + 1 == name->number;
    if (!is_named && !std::filesystem::exists(shard_path))
      throw_error("{}: missing; it is one of the {} shards of {}, which must be in the same folder", shard_path, count,
                  named_path);
    Parsed parsed = is_named ? std::move(named) : parse_shard(map_shard(shard_path));
    if (is_named) shards.push_back(std::move(named_shard));
    const int64_t stored_count = split_int(parsed, shards.back(), "split.count", 0);
    const int64_t stored_number = split_int(parsed, shards.back(), "split.no", -1);
    if (stored_count != count || stored_number != i)
      throw_error("{}: expected split.no {} and split.count {}, found {} and {}; the shards belong to different models "
                  "or were renamed",
                  shard_path, i, count, stored_number, stored_count);
    const int64_t stored_tensors = split_int(parsed, shards.back(), "split.tensors.count", -1);
    if (i == 0) tensor_count = stored_tensors;
    if (stored_tensors != tensor_count)
      throw_error(
          "{}: expected split.tensors.count {} as in the first shard, found {}; the shards belong to different models",
          shard_path, tensor_count, stored_tensors);
    for (Tensor& tensor : parsed.tensors) tensor.shard = static_cast<int>(i);
    if (i == 0) {
      model = std::move(parsed);
    } else {
      model.tensors.insert(model.tensors.end(), parsed.tensors.begin(), parsed.tensors.end());
    }
  }
  if (tensor_count != -1 && static_cast<uint64_t>(tensor_count) != model.tensors.size())
    throw_error("{}: split.tensors.count is {}, but the {} shards contain {} tensors", shards.front().path,
                tensor_count, count, model.tensors.size());
}

void File::Impl::index_tensors() {
  for (const Tensor& tensor : model.tensors) tensor_names.add(tensor.name);
  if (const auto repeated = tensor_names.sort()) {
    const Tensor& tensor = model.tensors[*repeated];
    const Shard& shard = shards[tensor.shard];
    throw_error("{}: offset {}: tensor name: {} occurs twice in the {}", shard.path,
                shard.offset_of(tensor.name.data()), quoted_name(tensor.name), shards.size() == 1 ? "file" : "model");
  }
}

File File::open(const std::string& path) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  Parsed parsed = impl->parse_shard(map_shard(path));
  const int64_t count = impl->split_int(parsed, impl->shards.back(), "split.count", 1);
  if (count > 1) {
    impl->open_rest(std::move(parsed), path, count);
  } else {
    impl->model = std::move(parsed);
  }
  impl->index_tensors();
  return File(std::move(impl));
}

File File::from_span(std::span<const std::byte> image, std::string label) {
  if (reinterpret_cast<uintptr_t>(image.data()) % 8 != 0)
    throw std::logic_error("gguf::File: an image in memory must be aligned to 8 bytes");
  auto impl = std::make_unique<Impl>();
  impl->path = label;
  Parsed parsed = impl->parse_shard({label, nullptr, image});
  if (const int64_t count = impl->split_int(parsed, impl->shards.back(), "split.count", 1); count > 1)
    throw_error("{}: is one of {} shards, expected a model in a single file", label, count);
  impl->model = std::move(parsed);
  impl->index_tensors();
  return File(std::move(impl));
}

File File::from_bytes(std::shared_ptr<const std::vector<std::byte>> image, std::string label) {
  File file = from_span(*image, std::move(label));
  file.impl_->image = std::move(image);
  return file;
}

File File::with(std::span<const OtherForm> forms) const {
  auto impl = std::make_unique<Impl>(*impl_);
  for (const OtherForm& form : forms) {
    const auto place = impl->tensor_names.find(form.tensor);
    if (!place) throw std::logic_error("gguf::File: no such tensor");
    Tensor& tensor = impl->model.tensors[*place];
    const int64_t rows = tensor.weights() / tensor.dims[0];
    if (std::ssize(form.data) != rows * form.type.row_bytes(tensor.dims[0]))
      throw std::logic_error("gguf::File: bytes that do not fit the tensor's shape");
    tensor.type = form.type;
    tensor.data = form.data;
  }
  return File(std::move(impl));
}

File::File(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
File::File(File&&) noexcept = default;
File& File::operator=(File&&) noexcept = default;
File::~File() = default;

const std::string& File::path() const { return impl_->path; }
const std::string& File::shard_path(int shard) const { return impl_->shards.at(shard).path; }
uint32_t File::version() const { return impl_->model.version; }
uint32_t File::alignment() const { return impl_->model.alignment; }
int File::shard_count() const { return static_cast<int>(impl_->shards.size()); }
std::span<const KeyValue> File::metadata() const { return impl_->model.metadata; }
std::span<const Tensor> File::tensors() const { return impl_->model.tensors; }

uint64_t File::size_bytes() const {
  uint64_t bytes = 0;
  for (const Shard& shard : impl_->shards) bytes += shard.bytes.size();
  return bytes;
}

void File::check() const {
  for (const Shard& shard : impl_->shards)
    if (shard.mapping) shard.mapping->check();
}

bool File::deleted() const {
  return std::ranges::any_of(impl_->shards, [](const Shard& s) { return s.mapping && s.mapping->deleted(); });
}

void File::release(const Tensor& tensor, std::span<const std::byte> part) const {
  if (const auto& mapping = impl_->shards.at(tensor.shard).mapping) mapping->release(part);
}

const Value* File::find(std::string_view key) const {
  const auto place = impl_->model.keys.find(key);
  return place ? &impl_->model.metadata[*place].value : nullptr;
}

const Tensor* File::find_tensor(std::string_view name) const {
  const auto place = impl_->tensor_names.find(name);
  return place ? &impl_->model.tensors[*place] : nullptr;
}

int64_t File::get_int(std::string_view key) const { return impl_->required(impl_->int_value(key), key, "an integer"); }
double File::get_float(std::string_view key) const { return impl_->required(impl_->float_value(key), key, "a number"); }
std::string_view File::get_string(std::string_view key) const {
  return impl_->required(impl_->string_value(key), key, "a string");
}
int64_t File::get_int(std::string_view key, int64_t absent) const { return impl_->int_value(key).value_or(absent); }
double File::get_float(std::string_view key, double absent) const { return impl_->float_value(key).value_or(absent); }
bool File::get_bool(std::string_view key, bool absent) const { return impl_->bool_value(key).value_or(absent); }
std::string_view File::get_string(std::string_view key, std::string_view absent) const {
  return impl_->string_value(key).value_or(absent);
}

} // namespace ridge::gguf
