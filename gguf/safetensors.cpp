// Layout: header length (8 bytes), JSON header, data. The header is parsed as events, which limits the memory of
// hostile ones.
#include "gguf/safetensors.h"

#include "core/error.h"
#include "core/strings/printable.h"
#include "gguf/parse.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

namespace ridge::gguf {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000; // by the specification
constexpr size_t kMaxIndexBytes = 64 << 20, kMaxShards = 10'000, kMaxShapeDims = 8;
constexpr size_t kHeaderLengthBytes = 8;

struct DtypeInfo {
  std::string_view name;
  int64_t bytes;
};
constexpr DtypeInfo kDtypes[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"F8_E8M0", 1},
                                 {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},     {"U32", 4},
                                 {"F32", 4},  {"I64", 8}, {"U64", 8}, {"F64", 8}};

std::optional<Dtype> find_dtype(std::string_view name) {
  for (size_t i = 0; i < std::size(kDtypes); ++i)
    if (kDtypes[i].name == name) return static_cast<Dtype>(i);
  return std::nullopt;
}

using Json = nlohmann::json;
class Events : public nlohmann::json_sax<Json> {
 public:
  std::string problem;

  bool null() override { return refuse("null"); }
  bool boolean(bool) override { return refuse("a boolean"); }
  bool number_integer(number_integer_t) override { return refuse("a negative number"); }
  bool number_unsigned(number_unsigned_t) override { return refuse("a number"); }
  bool number_float(number_float_t, const string_t&) override { return refuse("a number with a fraction"); }
  bool string(string_t&) override { return refuse("a string"); }
  bool binary(binary_t&) override { return refuse("binary data"); }
  bool start_array(size_t) override { return refuse("an array"); }
  bool end_array() override { return true; }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    if (problem.empty()) problem = fmt::format("not valid JSON: error at byte {}", position);
    return false;
  }

 protected:
  bool fail(std::string text) {
    problem = std::move(text);
    return false;
  }
  virtual std::string place() const = 0;

 private:
  bool refuse(std::string_view found) { return fail(fmt::format("{}: did not expect {} here", place(), found)); }
};

struct HeaderEntry {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<uint64_t>> shape, offsets;
};

// {"__metadata__": {"format": "pt"}, "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
class HeaderEvents : public Events {
 public:
  std::vector<HeaderEntry> entries;

  bool start_object(size_t) override {
    if (depth_ == 2 || (depth_ == 1 && key_.empty())) return fail(place() + ": did not expect an object here");
    if (depth_++ == 1) {
      metadata_ = key_ == "__metadata__";
      if (!metadata_) entries.push_back({key_});
    }
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool key(string_t& key) override {
    if (depth_ == 1 && key.empty()) return fail("a tensor has an empty name");
    if (depth_ == 1) key_ = key;
    field_ = key;
    return true;
  }
  bool string(string_t& text) override {
    if (depth_ == 2 && metadata_) return true;
    if (depth_ != 2 || field_ != "dtype" || list_) return Events::string(text);
    entries.back().dtype = text;
    return true;
  }
  bool start_array(size_t size) override {
    if (depth_ != 2 || metadata_ || list_ || (field_ != "shape" && field_ != "data_offsets"))
      return Events::start_array(size);
    auto& numbers = field_ == "shape" ? entries.back().shape : entries.back().offsets;
    list_ = &numbers.emplace();
    return true;
  }
  bool end_array() override {
    list_ = nullptr;
    return true;
  }
  bool number_unsigned(number_unsigned_t number) override {
    if (!list_) return Events::number_unsigned(number);
    if (list_->size() == kMaxShapeDims) return fail(fmt::format("{}: more than {} numbers", place(), kMaxShapeDims));
    list_->push_back(number);
    return true;
  }

 private:
  std::string place() const override {
    if (depth_ == 0) return "the header";
    return depth_ == 1 ? gguf::quoted_name(key_)
                       : fmt::format("{} of {}", gguf::quoted_name(field_), gguf::quoted_name(key_));
  }

  int depth_ = 0;
  bool metadata_ = false;
  std::string key_, field_;
  std::vector<uint64_t>* list_ = nullptr;
};

// {"metadata": {…}, "weight_map": {"NAME": "model-00001-of-00002.safetensors", …}}
class IndexEvents : public Events {
 public:
  std::map<std::string, std::string> file_of_tensor;

  bool start_object(size_t) override {
    if (++depth_ > 8) return fail("objects nest deeper than 8 levels");
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool key(string_t& key) override {
    (depth_ == 1 ? section_ : key_) = key;
    return true;
  }
  bool string(string_t& text) override {
    if (in_map() && !file_of_tensor.emplace(key_, text).second)
      return fail(fmt::format("weight_map: {} occurs twice", gguf::quoted_name(key_)));
    return true;
  }
  bool null() override { return !in_map() || Events::null(); }
  bool boolean(bool value) override { return !in_map() || Events::boolean(value); }
  bool number_integer(number_integer_t value) override { return !in_map() || Events::number_integer(value); }
  bool number_unsigned(number_unsigned_t value) override { return !in_map() || Events::number_unsigned(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    return !in_map() || Events::number_float(value, text);
  }
  bool start_array(size_t size) override { return !in_map() || Events::start_array(size); }

 private:
  bool in_map() const { return depth_ >= 2 && section_ == "weight_map"; }
  std::string place() const override { return gguf::quoted_name(key_); }

  int depth_ = 0;
  std::string section_, key_;
};

void read_json(std::span<const std::byte> text, const std::string& path, Events& events) {
  const auto* begin = reinterpret_cast<const char*>(text.data());
  if (!Json::sax_parse(begin, begin + text.size(), &events)) throw_error("{}: {}", path, events.problem);
}

// Rejects paths such as "../../etc/passwd".
void check_shard_name(const std::string& name, const std::string& index_path) {
  const bool plain = name.ends_with(".safetensors") && name.find_first_of("/\\") == std::string::npos &&
                     name.find('\0') == std::string::npos && !name.starts_with('.');
  if (!plain)
    throw_error("{}: weight_map names the file {}; expected the name of a .safetensors file in the same folder",
                index_path, gguf::quoted_name(name));
}

std::string only_safetensors_file(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code problem;
  std::vector<std::string> found;
  bool pickles = false;
  for (fs::directory_iterator it(folder, problem), end; !problem && it != end; it.increment(problem)) {
    const std::string name = it->path().filename().string();
    if (name.ends_with(".safetensors") && !name.starts_with("adapter_")) found.push_back(it->path().string());
    pickles |= name.starts_with("pytorch_model") && name.ends_with(".bin");
  }
  if (problem) throw_error("{}: cannot be read: {}; expected the folder of a checkpoint", folder, problem.message());
  if (found.size() == 1) return found[0];
  if (found.empty() && pickles)
    throw_error("{}: contains PyTorch pickles (pytorch_model*.bin), which can run code and are not read: save the "
                "model as safetensors",
                folder);
  if (found.empty()) throw_error("{}: contains no .safetensors file; expected the folder of a checkpoint", folder);
  throw_error("{}: contains {} .safetensors files but no model.safetensors.index.json, which lists their tensors: "
              "download that file, too",
              folder, found.size());
}

} // namespace

std::string_view name_of(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)].name; }
int64_t bytes_of(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)].bytes; }

int64_t SafeTensor::elements() const {
  int64_t count = 1;
  for (const int64_t dim : shape) count *= dim;
  return count;
}

Safetensors Safetensors::open(const std::string& folder) {
  namespace fs = std::filesystem;
  Safetensors result;
  const auto add = [&](const std::string& path) {
    result.files_.push_back(std::make_unique<core::MappedFile>(path));
    result.add_file(result.files_.back()->bytes(), path);
  };
  const std::string index_path = (fs::path(folder) / "model.safetensors.index.json").string();
  std::error_code ignored;
  if (!fs::exists(index_path, ignored)) {
    const std::string whole = (fs::path(folder) / "model.safetensors").string();
    add(fs::exists(whole, ignored) ? whole : only_safetensors_file(folder));
    result.finish();
    return result;
  }

  const core::MappedFile index(index_path);
  if (index.bytes().size() > kMaxIndexBytes)
    throw_error("{}: has {} bytes, expected at most {}", index_path, index.bytes().size(), kMaxIndexBytes);
  IndexEvents events;
  read_json(index.bytes(), index_path, events);
  if (events.file_of_tensor.empty()) throw_error("{}: has no weight_map", index_path);
  std::map<std::string, int> shards;
  for (const auto& [tensor, name] : events.file_of_tensor) {
    check_shard_name(name, index_path);
    shards.emplace(name, 0);
    if (shards.size() > kMaxShards) throw_error("{}: names more than {} files", index_path, kMaxShards);
  }
  for (auto& [name, shard] : shards) {
    const std::string path = (fs::path(folder) / name).string();
    if (!fs::exists(path, ignored))
      throw_error("{}: missing; according to {} it holds a part of the model: download it", path, index_path);
    shard = static_cast<int>(result.files_.size());
    add(path);
  }
  result.finish();
  for (const auto& [tensor, name] : events.file_of_tensor) {
    const SafeTensor* found = result.find(tensor);
    if (!found || found->shard != shards[name])
      throw_error("{}: lists {} in {}, which does not contain it", index_path, gguf::quoted_name(tensor), name);
  }
  return result;
}

Safetensors Safetensors::from_span(std::span<const std::byte> image, const std::string& label) {
  Safetensors result;
  result.add_file(image, label);
  result.finish();
  return result;
}

void Safetensors::add_file(std::span<const std::byte> image, const std::string& path) {
  if (image.size() < kHeaderLengthBytes)
    throw_error("{}: has only {} bytes, too few for a safetensors file; the download is incomplete", path,
                image.size());
  uint64_t header_bytes;
  std::memcpy(&header_bytes, image.data(), sizeof header_bytes);
  if (image.size() > kHeaderLengthBytes && image[kHeaderLengthBytes] != std::byte{'{'})
    throw_error("{}: not a safetensors file: the header does not begin with '{{'{}", path,
                std::memcmp(image.data(), "version ", 8) == 0 ? " (a Git LFS pointer: fetch the file itself)" : "");
  if (header_bytes > kMaxHeaderBytes)
    throw_error("{}: offset 0: the header has {} bytes, expected at most {}", path, header_bytes, kMaxHeaderBytes);
  if (header_bytes > image.size() - kHeaderLengthBytes)
    throw_error("{}: offset 0: the header has {} bytes, but the file only {}; the download is incomplete", path,
                header_bytes, image.size());
  HeaderEvents header;
  read_json(image.subspan(kHeaderLengthBytes, header_bytes), path + ": header", header);

  const auto data = image.subspan(kHeaderLengthBytes + header_bytes);
  const int shard = static_cast<int>(paths_.size());
  const size_t first = tensors_.size();
  paths_.push_back(path);
  for (HeaderEntry& entry : header.entries) {
    const auto fail = [&](const std::string& what) {
      throw_error("{}: tensor {}: {}", path, gguf::quoted_name(entry.name), what);
    };
    if (const std::string problem = name_problem(entry.name); !problem.empty())
      throw_error("{}: tensor name {}", path, problem);
    if (!entry.dtype || !entry.shape || !entry.offsets) fail("dtype, shape or data_offsets is missing");
    const auto dtype = find_dtype(*entry.dtype);
    if (!dtype) fail(fmt::format("unknown dtype {}", gguf::quoted_name(*entry.dtype)));
    int64_t bytes = bytes_of(*dtype);
    SafeTensor tensor{std::move(entry.name), *dtype, {}, {}, shard};
    for (const uint64_t dim : *entry.shape) {
      if (dim > INT64_MAX || __builtin_mul_overflow(bytes, static_cast<int64_t>(dim), &bytes))
        throw_error("{}: tensor {}: its shape exceeds 2^63 bytes", path, gguf::quoted_name(tensor.name));
      tensor.shape.push_back(static_cast<int64_t>(dim));
    }
    const auto& offsets = *entry.offsets;
    const std::string place = fmt::format("{}: tensor {}: data_offsets", path, gguf::quoted_name(tensor.name));
    if (offsets.size() != 2 || offsets[0] > offsets[1]) throw_error("{}: expected [begin, end]", place);
    if (offsets[1] > data.size())
      throw_error("{}: its data ends at {}, but the file ends at {}: {} bytes are missing; the download is incomplete",
                  place, offsets[1], data.size(), offsets[1] - data.size());
    if (offsets[1] - offsets[0] != static_cast<uint64_t>(bytes))
      throw_error("{}: {} bytes, but its type and shape require {}", place, offsets[1] - offsets[0], bytes);
    tensor.data = data.subspan(offsets[0], offsets[1] - offsets[0]);
    tensors_.push_back(std::move(tensor));
  }

  std::vector<const SafeTensor*> by_offset;
  for (size_t i = first; i < tensors_.size(); ++i)
    if (!tensors_[i].data.empty()) by_offset.push_back(&tensors_[i]);
  std::ranges::sort(by_offset, {}, [](const SafeTensor* t) { return t->data.data(); });
  for (size_t i = 1; i < by_offset.size(); ++i)
    if (by_offset[i]->data.data() < by_offset[i - 1]->data.data() + by_offset[i - 1]->data.size())
      throw_error("{}: the data of tensors {} and {} overlap", path, gguf::quoted_name(by_offset[i - 1]->name),
                  gguf::quoted_name(by_offset[i]->name));
}

void Safetensors::finish() {
  std::ranges::stable_sort(tensors_, {}, &SafeTensor::name);
  const auto twice = std::ranges::adjacent_find(tensors_, {}, &SafeTensor::name);
  if (twice != tensors_.end())
    throw_error("{}: tensor {} occurs twice{}", path_of(*twice), gguf::quoted_name(twice->name),
                twice->shard != (twice + 1)->shard ? fmt::format(", here and in {}", path_of(*(twice + 1))) : "");
}

const SafeTensor* Safetensors::find(std::string_view name) const {
  const auto at =
      std::ranges::lower_bound(tensors_, name, {}, [](const SafeTensor& t) -> std::string_view { return t.name; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

void Safetensors::check() const {
  for (const auto& file : files_) file->check();
}

void Safetensors::release(const SafeTensor& tensor) const {
  if (!files_.empty()) files_[tensor.shard]->release(tensor.data);
}

} // namespace ridge::gguf
