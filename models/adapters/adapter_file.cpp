#include "models/adapters/adapter_file.h"

#include "core/error.h"
#include "core/files/hash.h"
#include "core/strings/printable.h"
#include "quant/registry.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

namespace ridge::models {
namespace {

constexpr int64_t kMaxRank = 8192;
constexpr std::string_view kA = ".lora_a", kB = ".lora_b";

void check_numbers(const gguf::File& file, const gguf::Tensor& tensor) {
  const quant::FormatInfo* format = tensor.type.format();
  if (!format)
    throw_error("{}: tensor {} has a type that is not a weight type", file.path(), core::printable(tensor.name));
  const int64_t cols = tensor.dims[0], row_bytes = format->row_bytes(cols);
  std::vector<float> row(cols);
  for (int64_t i = 0; i < tensor.weights() / cols; ++i) {
    format->decode(tensor.data.data() + i * row_bytes, cols, row.data());
    if (!std::ranges::all_of(row, [](float w) { return std::isfinite(w); }))
      throw_error("{}: tensor {} has NaN or infinite values in row {}", file.path(), core::printable(tensor.name), i);
  }
}

std::string shape_text(int64_t cols, int64_t rows, int64_t count) {
  return count == 1 ? fmt::format("[{}, {}]", cols, rows) : fmt::format("[{}, {}, {}]", cols, rows, count);
}

} // namespace

bool is_adapter(const gguf::File& file) {
  const gguf::Value* type = file.find("general.type");
  return type && type->as_string() == "adapter";
}

AdapterFile AdapterFile::open(const std::string& path) { return AdapterFile(gguf::File::open(path)); }

AdapterFile::AdapterFile(gguf::File file) : file_(std::move(file)) {
  if (!is_adapter(file_))
    throw_error("{}: not an adapter: general.type is '{}', expected 'adapter'", file_.path(),
                core::printable(file_.get_string("general.type", "")));
  if (const std::string_view type = file_.get_string("adapter.type"); type != "lora")
    throw_error("{}: unsupported adapter type '{}', expected 'lora'", file_.path(), core::printable(type));
  (void)architecture();
  constexpr std::string_view kInvocation = "adapter.alora.invocation_tokens";
  if (const gguf::Value* tokens = file_.find(kInvocation)) {
    const auto ids = tokens->is_array() ? tokens->as_ints() : std::nullopt;
    constexpr auto kMax = std::numeric_limits<int32_t>::max();
    if (!ids || ids->empty() || std::ranges::any_of(*ids, [](int64_t id) { return id < 0 || id > kMax; }))
      throw_error("{}: {} is not a list of tokens", file_.path(), kInvocation);
    invocation_.assign(ids->begin(), ids->end());
  }
  read_pairs();
}

std::string AdapterFile::name() const {
  const std::string_view name = file_.get_string("general.name", "");
  return core::printable(name.empty() ? std::filesystem::path(file_.path()).stem().string() : name);
}

void AdapterFile::read_pairs() {
  core::Hash hash;
  for (const gguf::KeyValue& field : file_.metadata()) hash.add(field.key).add(field.value.payload());
  for (const gguf::Tensor& tensor : file_.tensors()) {
    hash.add(tensor.name).add(std::as_bytes(std::span(tensor.dims))).add(tensor.data);
    const bool is_a = tensor.name.ends_with(kA);
    if (!is_a && !tensor.name.ends_with(kB))
      throw_error("{}: tensor {} ends with neither {} nor {}", file_.path(), core::printable(tensor.name), kA, kB);
    Pair& pair = pairs_[std::string(tensor.name.substr(0, tensor.name.size() - kA.size()))];
    (is_a ? pair.a : pair.b) = &tensor;
  }
  fingerprint_ = hash.value();
  if (pairs_.empty()) throw_error("{}: the adapter has no tensors", file_.path());
  const double alpha = file_.get_float("adapter.lora.alpha", 0);
  if (!(alpha >= 0 && alpha <= std::numeric_limits<float>::max()))
    throw_error("{}: adapter.lora.alpha is {}", file_.path(), alpha);
  for (auto& [tensor, pair] : pairs_) check_pair(tensor, pair, static_cast<float>(alpha));
}

void AdapterFile::check_pair(const std::string& tensor, Pair& pair, float alpha) const {
  const auto shown = core::printable(tensor);
  if (!pair.a || !pair.b)
    throw_error("{}: tensor {}{} has no matching {}{}", file_.path(), shown, pair.a ? kA : kB, shown, pair.a ? kB : kA);
  const auto &a = pair.a->dims, &b = pair.b->dims;
  pair.rank = b[0];
  const int64_t rank_of_a = tensor == kEmbeddingTable ? a[0] : a[1];
  if (rank_of_a != pair.rank || a[2] != b[2] || a[3] != 1 || b[3] != 1)
    throw_error("{}: {}: {} {} and {} {} do not match", file_.path(), shown, kA, shape_text(a[0], a[1], a[2]), kB,
                shape_text(b[0], b[1], b[2]));
  if (pair.rank > kMaxRank)
    throw_error("{}: {}: the rank is {}, expected at most {}", file_.path(), shown, pair.rank, kMaxRank);
  check_numbers(file_, *pair.a);
  check_numbers(file_, *pair.b);
  if (alpha > 0) pair.factor = alpha / static_cast<float>(pair.rank);
}

void AdapterFile::check_architecture(const gguf::File& model) const {
  if (const std::string_view own = model.get_string("general.architecture"); own != architecture())
    throw_error("{}: adapter for a {} model, but {} is a {} model", file_.path(), core::printable(architecture()),
                model.path(), core::printable(own));
}

void AdapterFile::check_shape(const std::string& tensor, const gguf::File& model, int64_t cols, int64_t rows,
                              int64_t count) const {
  const Pair& pair = *find(tensor);
  const auto &a = pair.a->dims, &b = pair.b->dims;
  const bool is_table = tensor == kEmbeddingTable;
  if ((is_table ? a[1] == rows && b[1] == cols : a[0] == cols && b[1] == rows) && a[2] == count) return;
  const std::string of_pair = is_table ? shape_text(b[1], a[1], a[2]) : shape_text(a[0], b[1], a[2]);
  throw_error("{}: {}: made for another model: it expects a matrix {}, but that of {} is {}", file_.path(),
              core::printable(tensor), of_pair, model.path(), shape_text(cols, rows, count));
}

} // namespace ridge::models
