#include "app/window/model_facts.h"

#include "app/models/model_names.h"
#include "core/strings/printable.h"
#include "models/model.h"
#include "models/recipes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <span>

namespace ridge::app {
namespace {

constexpr size_t kArrayElements = 6; // elements of an array
constexpr size_t kShownBytes = 4096; // bytes of a string; enough for chat templates

std::string value_text(const gguf::Value& value) {
  if (value.is_array()) {
    std::string text;
    if (value.size() <= kArrayElements)
      for (const gguf::Value& element : value.elements()) text += (text.empty() ? "" : ", ") + value_text(element);
    else if (const auto strings = value.as_strings())
      for (size_t i = 0; i < kArrayElements; ++i) text += core::printable((*strings)[i]) + "  ";
    else if (const auto numbers = value.as_floats())
      for (size_t i = 0; i < kArrayElements; ++i) text += fmt::format("{:g}, ", (*numbers)[i]);
    return value.size() <= kArrayElements ? fmt::format("[{}]", text)
                                          : fmt::format("{} values: {}…", value.size(), text);
  }
  if (value.type() == gguf::ValueType::boolean) return *value.as_bool() ? "true" : "false";
  if (const auto integer = value.as_int()) return fmt::format("{}", *integer);
  if (const auto number = value.as_float()) return fmt::format("{:g}", *number);
  if (const auto text = value.as_string()) return core::printable(*text, kShownBytes);
  return "(beyond 64-bit integers)";
}

int layer_of(std::string_view name) {
  int layer = -1;
  if (!name.starts_with("blk.")) return layer;
  std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  return layer;
}

api::ModelFacts::OpRow op_row(const core::Program& program, const core::Op& op) {
  const auto widths = [&](const std::vector<core::ValueId>& values) {
    std::vector<std::string> texts;
    for (const core::ValueId id : values)
      texts.push_back(fmt::format("{} [{}]", program.values[id].name, program.values[id].width));
    return fmt::format("{}", fmt::join(texts, ", "));
  };
  api::ModelFacts::OpRow row{std::string(core::name_of(op.kind)), op.name, widths(op.inputs), widths(op.outputs), {}};
  for (const core::WeightId id : op.weights) {
    const core::Weight& weight = program.weights[id];
    const quant::FormatInfo* format = quant::find_format(weight.type);
    row.weights += fmt::format("{}{} [{} × {}{}]", row.weights.empty() ? "" : ", ", format ? format->name : "I32",
                               weight.rows, weight.cols, weight.count > 1 ? fmt::format(" × {}", weight.count) : "");
  }
  const core::Cost cost = core::op_cost(program, op, {});
  row.bytes = cost.bytes();
  row.flops = cost.flops;
  return row;
}

// Negative tokens: placeholders of pictures.
std::string decode_with_pictures(const text::Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  std::string text;
  while (!tokens.empty()) {
    const bool picture = tokens[0] < 0;
    const auto end = std::ranges::find_if(tokens, [&](int32_t token) { return (token < 0) != picture; });
    const std::span<const int32_t> part(tokens.begin(), end);
    text += picture ? "[picture]" : tokenizer.decode(part);
    tokens = tokens.subspan(part.size());
  }
  return text;
}

} // namespace

api::ModelFacts model_facts(const engine::LoadedModel& model) {
  const gguf::File& file = model.file;
  api::ModelFacts facts;
  facts.path = file.path();
  facts.label = model_title(file);
  facts.architecture = model.program.architecture;
  facts.engine = model.executor->description();
  facts.parameters = models::parameter_count(file);
  facts.bytes = static_cast<int64_t>(file.size_bytes());
  facts.vocab = model.program.vocab;
  facts.trained_context = model.program.trained_context;
  facts.has_tokenizer = model.tokenizer != nullptr;
  for (const auto& [key, value] : file.metadata()) {
    std::string type(gguf::name_of(value.type()));
    if (value.is_array()) type = fmt::format("{}[{}]", gguf::name_of(value.element_type()), value.size());
    facts.metadata.push_back({core::printable(key), type, value_text(value)});
  }
  for (const gguf::Tensor& t : file.tensors()) {
    const std::span dims(t.dims.data(), static_cast<size_t>(t.n_dims));
    facts.tensors.push_back(
        {std::string(t.name), std::string(t.type.name()), fmt::format("{}", fmt::join(dims, " × ")), layer_of(t.name),
         t.weights(), std::ssize(t.data), t.weights() / t.dims[0], t.dims[0], t.type.format() != nullptr,
         t.type.format() && models::is_quantizable({std::string(t.name), t.type, {dims.begin(), dims.end()}})});
  }
  for (const core::Op& op : model.program.ops) facts.ops.push_back(op_row(model.program, op));
  return facts;
}

api::Tokenized tokenize_for_display(const engine::LoadedModel& model, const std::string& text) {
  const text::Tokenizer& tokenizer = model.need_tokenizer();
  api::Tokenized result{text, {}};
  for (const int32_t id : tokenizer.encode(text, {.parse_special = true}))
    result.pieces.push_back({id, core::printable(tokenizer.piece(id)), tokenizer.is_special(id)});
  return result;
}

std::vector<std::string> display_vocabulary(const engine::LoadedModel& model) {
  const text::Tokenizer& tokenizer = model.need_tokenizer();
  std::vector<std::string> texts(tokenizer.vocab_size());
  for (size_t id = 0; id < texts.size(); ++id) {
    const auto token = static_cast<int32_t>(id);
    texts[id] = core::printable(tokenizer.is_special(token) ? std::string(tokenizer.token_text(token))
                                                            : tokenizer.piece(token));
  }
  return texts;
}

api::Sequences with_texts(const engine::LoadedModel& model, api::Sequences sequences) {
  const text::Tokenizer& tokenizer = model.need_tokenizer();
  for (api::Sequences::Prefix& part : sequences.prefixes)
    part.text = core::printable(decode_with_pictures(tokenizer, part.first_tokens));
  return sequences;
}

std::vector<api::StepShare> step_shares(const engine::LoadedModel& model, int64_t past) {
  const core::ExecutorConfig& config = model.executor->config();
  const core::Step step{1, past, 1, 1, core::bytes_per_element(config.k_type), core::bytes_per_element(config.v_type)};
  std::map<core::OpKind, core::Cost> costs;
  for (const core::Op& op : model.program.ops) costs[op.kind] += core::op_cost(model.program, op, step);
  std::vector<api::StepShare> shares;
  for (const auto& [kind, cost] : costs)
    shares.push_back({std::string(core::name_of(kind)), cost.weight_bytes, cost.kv_bytes, cost.activation_bytes});
  return shares;
}

} // namespace ridge::app
