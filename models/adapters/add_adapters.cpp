#include "models/adapters/add_adapters.h"

#include "core/error.h"
#include "core/stages/split.h"
#include "core/strings/printable.h"
#include "models/file/planar.h"
#include "quant/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

namespace ridge::models {
namespace {

using core::OpKind;
using core::ValueId;
using core::WeightId;

constexpr std::string_view kOutput = "output.weight";

class Rows {
 public:
  // Decodes to F32 if types differ or rows are split within a block.
  Rows(std::span<const gguf::Tensor* const> tensors, bool divides_rows) {
    const quant::FormatInfo* first = tensors[0]->type.format();
    const bool alike = std::ranges::all_of(tensors, [&](const auto* t) { return t->type.format() == first; });
    format_ = alike && (!divides_rows || first->block_weights == 1) ? first : &quant::format(quant::Type::F32);
  }

  void append(const gguf::Tensor& tensor, int64_t row) {
    const quant::FormatInfo* own = tensor.type.format();
    const int64_t cols = tensor.dims[0], row_bytes = own->row_bytes(cols);
    const std::byte* from = tensor.data.data() + row * row_bytes;
    const size_t at = bytes_->size();
    bytes_->resize(at + format_->row_bytes(cols));
    if (own == format_)
      std::memcpy(bytes_->data() + at, from, row_bytes);
    else
      own->decode(from, cols, reinterpret_cast<float*>(bytes_->data() + at));
  }
  core::Weight weight(std::string name, int64_t cols, int64_t rows, int64_t count) && {
    return {std::move(name),
            static_cast<uint32_t>(format_->type),
            cols,
            rows,
            count,
            format_->row_bytes(cols),
            bytes_->data(),
            std::move(bytes_)};
  }

 private:
  const quant::FormatInfo* format_;
  std::shared_ptr<std::vector<std::byte>> bytes_ = std::make_shared<std::vector<std::byte>>();
};

core::Weight mapped(const gguf::Tensor& tensor) {
  const quant::FormatInfo& format = *tensor.type.format();
  return {std::string(tensor.name), static_cast<uint32_t>(format.type), tensor.dims[0],    tensor.dims[1],
          tensor.dims[2],           format.row_bytes(tensor.dims[0]),   tensor.data.data()};
}

class Adding {
 public:
  Adding(core::Program& program, const gguf::File& model, std::span<const ScaledAdapter> adapters)
      : program_(program), model_(model), adapters_(adapters) {}

  void run() {
    for (const ScaledAdapter& adapter : adapters_) {
      adapter.file->check_architecture(model_);
      for (const int32_t token : adapter.file->invocation())
        if (token >= program_.vocab)
          throw_error("{}: its invocation token {} is outside the model's vocabulary of {}",
                      adapter.file->file().path(), token, program_.vocab);
      program_.adapters.push_back({adapter.file->name(), adapter.file->file().path(), adapter.file->fingerprint(),
                                   adapter.scale, adapter.file->invocation()});
    }
    const std::vector<core::Op> ops = std::exchange(program_.ops, {});
    for (const core::Op& op : ops) {
      const std::string tensor = tensor_of(op);
      if (const std::vector<Own> own = tensor.empty() ? std::vector<Own>() : pairs_of(tensor); !own.empty())
        add(op, tensor, own);
      else
        program_.ops.push_back(op);
    }
    refuse_unused();
    core::validate(program_);
  }

 private:
  struct Own {
    int32_t adapter;
    const AdapterFile::Pair* pair;
  };

  // Empty: no adapter can change the op. A tied output matrix counts separately.
  std::string tensor_of(const core::Op& op) const {
    if (op.kind == OpKind::embed)
      return std::get<core::EmbedParams>(op.params).of_positions ? "" : std::string(kEmbeddingTable);
    if (op.kind != OpKind::linear && op.kind != OpKind::expert_linear) return "";
    const std::string& name = program_.weights[op.weights[0]].name;
    if (name == kEmbeddingTable) return std::string(kOutput);
    return model_.find_tensor(name) || PlanarWeight::find(model_, name) ? name : "";
  }

  std::vector<Own> pairs_of(const std::string& tensor) {
    std::vector<Own> found;
    for (size_t i = 0; i < adapters_.size(); ++i)
      if (const AdapterFile::Pair* pair = adapters_[i].file->find(tensor)) {
        found.push_back({static_cast<int32_t>(i), pair});
        used_.emplace(i, tensor);
      }
    return found;
  }

  ValueId value(const std::string& name, int64_t width, bool gathered) {
    program_.values.push_back({name, width, core::ValueKind::f32, gathered});
    return static_cast<ValueId>(program_.values.size() - 1);
  }
  WeightId add_weight(core::Weight weight) {
    program_.weights.push_back(std::move(weight));
    return static_cast<WeightId>(program_.weights.size() - 1);
  }
  template <typename T>
  WeightId numbers(const std::string& name, uint32_t type, const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    auto owned = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
    return add_weight({name, type, std::ssize(values), 1, 1, std::ssize(*owned), owned->data(), owned});
  }

  void add(core::Op op, const std::string& tensor, const std::vector<Own>& own) {
    const bool is_table = op.kind == OpKind::embed;
    const core::Weight base = program_.weights[op.weights[0]];
    check_shapes(base, tensor, own);
    int64_t columns = 0;
    std::vector<float> factors;
    std::vector<int32_t> numbers_of;
    for (const auto& [adapter, pair] : own) {
      columns += pair->rank;
      factors.insert(factors.end(), pair->rank, pair->factor);
      numbers_of.insert(numbers_of.end(), pair->rank, adapter);
    }
    const int64_t repeats = op.kind == OpKind::expert_linear ? std::get<core::ExpertParams>(op.params).used : 1;
    const ValueId out = op.outputs[0];
    const core::ValueInfo info = program_.values[out];
    const auto made = [&](const char* what, int64_t width) {
      return value(fmt::format("{} {}", op.name, what), width, info.gathered);
    };
    const ValueId small = made("lora_a", repeats * columns), scaled = made("lora scale", repeats * columns),
                  change = made("lora_b", info.width), plain = made("without lora", info.width);
    const auto emit = [&](OpKind kind, std::vector<ValueId> inputs, ValueId to, std::vector<WeightId> weights,
                          core::OpParams params) {
      program_.ops.push_back(
          {kind, op.layer, program_.values[to].name, std::move(inputs), {to}, std::move(weights), std::move(params)});
    };
    const auto product = [&](ValueId x, ValueId to, WeightId matrix) {
      if (op.kind == OpKind::expert_linear)
        return emit(OpKind::expert_linear, {x, op.inputs[1]}, to, {matrix}, op.params);
      emit(OpKind::linear, {x}, to, {matrix}, {});
    };
    const float scale = is_table ? std::get<core::EmbedParams>(op.params).scale : 1;
    op.outputs[0] = plain;
    program_.ops.push_back(op);
    const WeightId a = add_weight(first_matrix(tensor, own)), b = add_weight(second_matrix(base, tensor, own));
    if (is_table)
      emit(OpKind::embed, {}, small, {a}, core::EmbedParams{});
    else
      product(input_of(op, base), small, a);
    emit(OpKind::adapter_scale, {small}, scaled,
         {numbers(tensor + " factors", core::kFloatType, factors),
          numbers(tensor + " adapters", core::kOrderType, numbers_of)},
         {});
    product(scaled, change, b);
    program_.ops.push_back(
        {OpKind::add, op.layer, op.name + " lora", {plain, change}, {out}, {}, core::AddParams{scale}});
  }

  void check_shapes(const core::Weight& base, const std::string& tensor, const std::vector<Own>& own) const {
    const std::string& in_file = base.name;
    const gguf::Tensor* whole = model_.find_tensor(in_file);
    const auto planar = whole ? std::nullopt : PlanarWeight::find(model_, in_file);
    const std::string& path = adapters_[own[0].adapter].file->file().path();
    if (tensor == kEmbeddingTable && program_.row_width > 0)
      throw_error("{}: changes {}, which image tokens bypass; such an adapter cannot be combined with images or audio",
                  path, tensor);
    if (whole && base.owned)
      throw_error("{}: changes {}, whose rows have another order in a {} model; use `ridge quantize --lora` to merge "
                  "it into the model",
                  path, tensor, program_.architecture);
    if (whole && base.count != whole->dims[2])
      throw_error("{}: changes {}, whose {} matrices a {} model multiplies one by one; use `ridge quantize --lora` to "
                  "merge it into the model",
                  path, tensor, whole->dims[2], program_.architecture);
    for (const Own& each : own)
      adapters_[each.adapter].file->check_shape(tensor, model_, whole ? whole->dims[0] : planar->cols(),
                                                whole ? whole->dims[1] : planar->rows(),
                                                whole ? whole->dims[2] : planar->count());
  }

  // The input in the file's column order.
  ValueId input_of(const core::Op& op, const core::Weight& base) const {
    if (!base.owned) return op.inputs[0];
    for (const core::Op& other : program_.ops)
      if (other.kind == OpKind::permute && other.outputs[0] == op.inputs[0]) return other.inputs[0];
    return op.inputs[0];
  }

  // A of all adapters: concatenated rows [rank], or columns for a table.
  static core::Weight first_matrix(const std::string& tensor, const std::vector<Own>& own) {
    if (own.size() == 1) return mapped(*own[0].pair->a);
    if (tensor == kEmbeddingTable) return side_by_side(tensor + " lora_a", own, &AdapterFile::Pair::a, {});
    std::vector<const gguf::Tensor*> tensors;
    for (const Own& each : own) tensors.push_back(each.pair->a);
    Rows rows(tensors, false);
    int64_t count = 0;
    for (int64_t matrix = 0; matrix < tensors[0]->dims[2]; ++matrix)
      for (const gguf::Tensor* each : tensors)
        for (int64_t i = 0; i < each->dims[1]; ++i, ++count) rows.append(*each, matrix * each->dims[1] + i);
    const int64_t matrices = tensors[0]->dims[2];
    return std::move(rows).weight(tensor + " lora_a", tensors[0]->dims[0], count / matrices, matrices);
  }

  // B of all adapters: concatenated columns, restricted to the rows of `base`.
  core::Weight second_matrix(const core::Weight& base, const std::string& tensor, const std::vector<Own>& own) const {
    const bool all = base.part.empty() || tensor == kEmbeddingTable;
    if (own.size() == 1 && all) return mapped(*own[0].pair->b);
    std::vector<int64_t> rows;
    if (!all)
      for (int64_t i = 0; i < base.rows * base.count; ++i)
        rows.push_back((base.row(i) - model_.find_tensor(base.name)->data.data()) / base.row_bytes);
    core::Weight weight = side_by_side(tensor + " lora_b", own, &AdapterFile::Pair::b, rows);
    weight.part = base.part;
    return weight;
  }

  static core::Weight side_by_side(std::string name, const std::vector<Own>& own,
                                   const gguf::Tensor* AdapterFile::Pair::*which, std::vector<int64_t> rows) {
    std::vector<const gguf::Tensor*> tensors;
    int64_t cols = 0;
    for (const Own& each : own) {
      tensors.push_back(each.pair->*which);
      cols += tensors.back()->dims[0];
    }
    const int64_t count = tensors[0]->dims[2];
    if (rows.empty()) {
      rows.resize(tensors[0]->dims[1] * count);
      std::iota(rows.begin(), rows.end(), 0);
    }
    Rows made(tensors, tensors.size() > 1);
    for (const int64_t row : rows)
      for (const gguf::Tensor* each : tensors) made.append(*each, row);
    return std::move(made).weight(std::move(name), cols, std::ssize(rows) / count, count);
  }

  // Tensors of a draft head may be unused: its guesses are verified.
  void refuse_unused() const {
    const int32_t layers = core::layer_count(program_);
    for (size_t i = 0; i < adapters_.size(); ++i)
      for (const auto& [tensor, pair] : adapters_[i].file->pairs()) {
        int32_t layer = -1;
        if (tensor.starts_with("blk.")) std::from_chars(tensor.data() + 4, tensor.data() + tensor.size(), layer);
        if (used_.contains({i, tensor}) || (layer >= layers && model_.find_tensor(tensor))) continue;
        throw_error("{}: changes {}, which {} {}", adapters_[i].file->file().path(), core::printable(tensor),
                    model_.path(),
                    model_.find_tensor(tensor) ? "does not multiply separately; use `ridge quantize --lora` to merge it"
                                               : "does not contain: is it an adapter for another model?");
      }
  }

  core::Program& program_;
  const gguf::File& model_;
  const std::span<const ScaledAdapter> adapters_;
  std::set<std::pair<size_t, std::string>> used_;
};

} // namespace

void add_adapters(core::Program& program, const gguf::File& model, std::span<const ScaledAdapter> adapters) {
  if (adapters.empty()) return;
  if (std::ssize(adapters) > core::kMaxAdapters)
    throw_error("{} adapters, expected at most {}", adapters.size(), core::kMaxAdapters);
  Adding(program, model, adapters).run();
}

} // namespace ridge::models
