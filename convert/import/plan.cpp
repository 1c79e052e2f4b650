#include "convert/import/plan.h"

#include "convert/import/config/expressions.h"
#include "convert/import/eagle.h"
#include "convert/import/matrices/rows.h"
#include "convert/import/matrices/views.h"
#include "core/error.h"
#include "models/recipes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace ridge::convert::import {

using gguf::SafeTensor;
using models::As, models::Change, models::Rows, models::TensorRule;

namespace {

bool is_zero(const SafeTensor& tensor) {
  return std::ranges::all_of(tensor.data, [](std::byte b) { return b == std::byte{}; });
}

std::string without(std::string name, std::string_view suffix) {
  if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  return name;
}

std::vector<const SafeTensor*> find_parts(const gguf::Safetensors& tensors, const std::string& name) {
  std::vector<const SafeTensor*> found;
  const size_t open = name.find('{'), close = name.find('}', open);
  for_parts(std::string_view(name).substr(open + 1, close - open - 1), ',', [&](std::string_view part) {
    if (const SafeTensor* tensor =
            tensors.find(fmt::format("{}{}{}", name.substr(0, open), part, name.substr(close + 1))))
      found.push_back(tensor);
  });
  return found;
}

std::string of_expert(std::string name, int64_t expert) {
  const size_t at = name.find("{}");
  return at == std::string::npos ? name : name.replace(at, 2, std::to_string(expert));
}

} // namespace

Plan::Plan(const gguf::Safetensors& tensors, const Config& config, std::optional<quant::Type> type)
    : tensors_(tensors), config_(config), type_(type), names_(find_names(tensors)), reader_(tensors, config) {}

void Plan::run() {
  add_constants();
  add_rules(names_.prefix, "", model_rules());
  for (int64_t il = 0; il < config_.layers; ++il)
    add_rules(names_.layer(il), fmt::format("{}blk.{}.", config_.checkpoint().stack, il), layer_rules());
  for (int64_t il = 0; il < config_.count("decoder_block_count"); ++il)
    add_levels(fmt::format("{}decoder.block.{}.", names_.prefix, il), fmt::format("dec.blk.{}.", il),
               {config_.checkpoint().decoder});
  for (int64_t head = 0; head < config_.drafts; ++head) add_draft(head);
  read_numbers();
  add_output_matrix();
  if (config_.is_draft_head()) add_draft_vocabulary();
  check_all_used();
}

void Plan::add_draft(int64_t head) {
  const int64_t il = config_.layers + head;
  const std::string own = draft_prefix(tensors_, names_, config_.layers, head), to = fmt::format("blk.{}.", il);
  const bool aside = own.empty();
  add_rules(aside ? fmt::format("{}layers.{}.", kDraftsAside, head) : own, to, layer_rules());
  const std::string from = aside ? std::string(kDraftsAside) : own;
  std::vector<TensorRule> rules(config_.checkpoint().drafts.begin(), config_.checkpoint().drafts.end());
  // A copy of the model's table or output matrix is not needed.
  std::erase_if(rules, [&](const TensorRule& rule) {
    const bool table = rule.to == "nextn.embed_tokens", output = rule.to == "nextn.shared_head_head";
    const SafeTensor* own = tensors_.find(fmt::format("{}{}.weight", from, rule.from));
    const SafeTensor* other = tensors_.find((table ? names_.table : names_.head) + ".weight");
    if (!(table || output) || !own || !other || own->dtype != other->dtype || own->shape != other->shape ||
        !std::ranges::equal(own->data, other->data))
      return false;
    use(own);
    return true;
  });
  add_levels(from, to, {rules});
}

void Plan::add_draft_vocabulary() {
  const SafeTensor* tokens = tensors_.find("d2t");
  if (!tokens) return;
  use(tokens);
  outputs.push_back(draft_vocabulary(*tokens, tensors_.path_of(*tokens), config_.vocab));
  shapes.push_back(outputs.back().info);
}

// Priority: the architecture's rules, its base's, shared ones.
void Plan::add_rules(const std::string& from, const std::string& to, std::span<const TensorRule> shared) {
  std::vector<std::span<const TensorRule>> levels;
  for (const models::Checkpoint* rules = &config_.checkpoint(); rules; rules = rules->base)
    levels.push_back(rules->tensors);
  levels.push_back(shared);
  add_levels(from, to, levels);
}

// The first rule with an existing source wins; earlier levels override rules with equal sources.
void Plan::add_levels(const std::string& from, const std::string& to,
                      const std::vector<std::span<const TensorRule>>& levels) {
  std::set<std::string_view> made;
  std::vector<std::string_view> sources;
  for (const std::span<const TensorRule> level : levels) {
    for (const TensorRule& rule : level) {
      if (!config_.applies(rule.how.only) || made.contains(rule.to)) continue;
      if (std::ranges::find(sources, rule.from) != sources.end() || from + std::string(rule.from) == names_.head)
        continue;
      const std::string name = rule.to.starts_with('/') ? std::string(rule.to.substr(1)) : to + std::string(rule.to);
      if (add_rule(from + std::string(rule.from), name, rule)) made.insert(rule.to);
    }
    for (const TensorRule& rule : level)
      if (config_.applies(rule.how.only) && !rule.from.empty()) sources.push_back(rule.from);
  }
}

bool Plan::add_rule(const std::string& from, const std::string& to, const TensorRule& rule) {
  if (rule.from.empty()) return add_ones(to, rule);
  if (rule.how.as == As::parts) {
    Made made = {{}, true};
    for (const SafeTensor* tensor : find_parts(tensors_, from)) {
      use(tensor);
      made.matrices.push_back(plain_matrix(*tensor, 0, tensor->elements(), 1));
      if (made.matrices.back().rows != made.matrices.front().rows)
        throw_error("{}: has a different number of elements than the parts before it", tensor->name);
    }
    if (made.matrices.empty()) return false;
    add(std::move(made), to, rule);
    return true;
  }
  if (rule.how.as == As::integers) return add_integers(from, to);
  if (rule.how.as == As::stacked) return add_stacked(from, to, rule);
  if (reader_.has(of_expert(from, 0))) {
    add_module(from, to, rule);
    return true;
  }
  if (const SafeTensor* tensor = tensors_.find(from)) {
    use(tensor);
    add(of_tensor(*tensor, rule), to, rule);
    return true;
  }
  const SafeTensor* blocks = tensors_.find(from + "_blocks");
  const SafeTensor* scales = tensors_.find(from + "_scales");
  if (!blocks || !scales) return false;
  use(blocks);
  use(scales);
  add({reader_.mxfp4_experts(*blocks, *scales), false}, to, rule);
  return true;
}

bool Plan::add_integers(const std::string& from, const std::string& to) {
  const SafeTensor* tensor = tensors_.find(from);
  if (!tensor) return false;
  use(tensor);
  outputs.push_back(integer_output(*tensor, tensors_.path_of(*tensor), to));
  shapes.push_back(outputs.back().info);
  return true;
}

bool Plan::add_stacked(const std::string& from, const std::string& to, const TensorRule& rule) {
  std::vector<Matrix> parts;
  while (const SafeTensor* tensor = tensors_.find(of_expert(from, std::ssize(parts)) + ".weight")) {
    use(tensor);
    if (tensor->shape.size() != 2 || (!parts.empty() && tensor->shape[1] != parts.front().cols))
      throw_error("{}: tensor {} has shape [{}], expected [rows, {}]", tensors_.path_of(*tensor), tensor->name,
                  fmt::join(tensor->shape, ", "), parts.empty() ? "columns" : std::to_string(parts.front().cols));
    parts.push_back(plain_matrix(*tensor, 0, tensor->shape[0], tensor->shape[1]));
  }
  if (parts.empty()) return false;
  Made made = {{}, false};
  made.matrices.push_back(stacked(std::move(parts)));
  add(std::move(made), to + ".weight", rule);
  return true;
}

// Only for tensors of a layer.
bool Plan::add_ones(const std::string& to, const TensorRule& rule) {
  if (!to.starts_with("blk.")) return false;
  const auto value = static_cast<float>(rule.how.scale.empty() ? 1 : config_.evaluate(rule.how.scale).value_or(1));
  add_constant(to, std::vector<float>(config_.head_dim, value));
  return true;
}

void Plan::add_constant(const std::string& name, const std::vector<float>& values) {
  outputs.push_back({{name, quant::Type::F32, {std::ssize(values)}},
                     [values](const Sink& sink) { sink(std::as_bytes(std::span(values))); },
                     {}});
  shapes.push_back(outputs.back().info);
}

void Plan::add_module(const std::string& from, const std::string& to, const TensorRule& rule) {
  int64_t count = from.find("{}") == std::string::npos ? 1 : config_.experts;
  if (count == 0)
    while (reader_.has(of_expert(from, count))) ++count;
  Made weights = {{}, false}, biases = {{}, true};
  for (int64_t e = 0; e < count; ++e) {
    const std::string name = of_expert(from, e);
    const SafeTensor* bias = tensors_.find(name + ".bias");
    const SafeTensor* weight = tensors_.find(name + ".weight");
    if (weight && weight->shape.size() != 2 && weight->dtype != gguf::Dtype::U8) {
      use(weight);
      weights = of_tensor(*weight, rule);
    } else {
      Matrix matrix = reader_.read(name);
      for (const SafeTensor* part : matrix.parts) use(part);
      weights.matrices.push_back(rule.how.transposed ? transposed(std::move(matrix)) : std::move(matrix));
    }
    if (!bias) continue;
    use(bias);
    // GPTQ writers add zero biases.
    if (weights.matrices.back().scheme != Scheme::plain && is_zero(*bias)) continue;
    biases.matrices.push_back(of_tensor(*bias, rule).matrices.front());
  }
  if (std::ranges::any_of(weights.matrices, [&](const Matrix& matrix) {
        return matrix.rows != weights.matrices.front().rows || matrix.cols != weights.matrices.front().cols;
      }))
    throw_error("{}: the experts have different shapes, which cannot be converted", from);
  if (!biases.matrices.empty() && std::ssize(biases.matrices) != count)
    throw_error("{}.bias: missing for some of {} experts", from, count);
  add(std::move(weights), to + ".weight", rule);
  TensorRule of_bias = rule;
  of_bias.how.as = As::vector;
  if (rule.how.change == Change::value_head_columns || rule.how.change == Change::plus_one)
    of_bias.how.change = Change::none;
  if (!biases.matrices.empty()) add(std::move(biases), to + ".bias", of_bias);
}

// A vector, a convolution [channels, 1, taps], or one of these or a matrix per expert.
Plan::Made Plan::of_tensor(const SafeTensor& tensor, const TensorRule& rule) const {
  std::vector<int64_t> shape = tensor.shape;
  if (shape.size() > 3) std::erase(shape, 1);
  const size_t rank = shape.size();
  if (tensor.elements() == 0 || rank > 3 || rank == 0)
    throw_error("{}: tensor {} has shape [{}], expected one to three dimensions", tensors_.path_of(tensor), tensor.name,
                fmt::join(tensor.shape, ", "));
  if (rule.how.as == As::flat) return {{plain_matrix(tensor, 0, tensor.elements(), 1)}, true};
  if (rank == 1) return {{plain_matrix(tensor, 0, shape[0], 1)}, true};
  if (rank == 3 && shape[1] == 1 && config_.experts != shape[0])
    return {{plain_matrix(tensor, 0, shape[0], shape[2])}, false};
  Made made = {{}, rank == 2};
  if (rank == 2 && !rule.to.ends_with(".bias")) return {{plain_matrix(tensor, 0, shape[0], shape[1])}, false};
  for (int64_t e = 0; e < shape[0]; ++e) {
    const int64_t a = shape[1], b = rank == 2 ? 1 : shape[2];
    // Newer writers may have exchanged the sides already; visible if only one equals the model's width.
    const bool from_hidden = rule.to.starts_with("ffn_down");
    const bool fits_as_is = (from_hidden ? a : b) == config_.width, fits = (from_hidden ? b : a) == config_.width;
    const bool exchanged = rule.how.transposed && rank == 3 && (fits || !fits_as_is);
    made.matrices.push_back(plain_matrix(tensor, e * a * b, exchanged ? b : a, exchanged ? a : b, exchanged));
  }
  return made;
}

// For MLA, one matrix per head.
std::vector<Matrix> Plan::changed(Matrix matrix, const TensorRule& rule, const std::string& name) const {
  switch (rule.how.change) {
  case Change::none: break;
  case Change::plus_one:
    matrix = map_numbers(
        std::move(matrix), [](float x) { return x + 1; }, name);
    break;
  case Change::negative_exp:
    matrix = map_numbers(
        std::move(matrix), [](float x) { return -std::exp(x); }, name);
    break;
  case Change::value_head_columns: {
    std::vector<int64_t> order = row_order(Rows::value_heads, matrix.cols, config_, name);
    if (!order.empty()) matrix = pick_cols(std::move(matrix), std::move(order), name);
    break;
  }
  case Change::ternary:
    if (config_.is_ternary()) matrix = ternary(std::move(matrix));
    break;
  case Change::ssm_multipliers: matrix = scale_rows(std::move(matrix), ssm_multipliers(config_), name); break;
  }
  if (!rule.how.scale.empty()) {
    const auto scale = static_cast<float>(config_.evaluate(rule.how.scale).value_or(1));
    matrix = scale_rows(
        std::move(matrix), [scale](int64_t) { return scale; }, name);
  }
  if (rule.how.rows == Rows::mla_keys || rule.how.rows == Rows::mla_values)
    return mla_heads(matrix, rule.how.rows, config_, name);
  if (rule.how.rows == Rows::output_groups) return output_groups(matrix, config_, name);
  std::vector<int64_t> order = row_order(rule.how.rows, matrix.rows, config_, name);
  if (!order.empty()) matrix = pick_rows(std::move(matrix), std::move(order));
  std::vector<Matrix> one;
  one.push_back(std::move(matrix));
  return one;
}

void Plan::add(Made made, const std::string& name, const TensorRule& rule) {
  std::vector<Matrix> all;
  for (Matrix& matrix : made.matrices)
    for (Matrix& each : changed(std::move(matrix), rule, name)) all.push_back(std::move(each));
  const int64_t rows = all.front().rows, cols = all.front().cols, count = std::ssize(all);
  if (made.vectors) {
    std::vector<int64_t> dims = {rows};
    const int64_t groups = config_.count("ssm.group_count");
    if (rule.how.as == As::column) dims = {1, rows};
    if (rule.how.as == As::by_group && groups > 0 && rows % groups == 0) dims = {rows / groups, groups};
    if (rule.how.as == As::parts) dims = {rows, 1, 1};
    if (count > 1) dims.push_back(count);
    shapes.push_back({name, quant::Type::F32, dims});
    outputs.push_back(vector_output(std::move(all), name, std::move(dims)));
    return;
  }
  if (name == "token_embd.weight" && rows != config_.vocab)
    throw_error("{}: is {}, but the embedding table has {} rows", config_.fields().where("vocab_size"), config_.vocab,
                rows);
  std::vector<int64_t> dims = {cols, rows};
  if (count > 1) dims.push_back(count);
  const bool bare = !name.ends_with(".weight"); // not a matrix of a product
  const bool wide = bare || !models::is_quantizable({name, quant::Type::F32, dims});
  shapes.push_back({name, wide ? quant::Type::F32 : quant::Type::F16, dims});
  for (Output& output :
       outputs_of(std::move(all), without(name, ".weight"), wide ? quant::Type::F32 : type_, planar_scheme))
    outputs.push_back(std::move(output));
  if (bare) outputs.back().info.name = name;
}

void Plan::add_constants() {
  const auto add_factors = [&](const char* name, const std::vector<float>& factors) {
    if (!factors.empty()) add_constant(name, factors);
  };
  add_factors("rope_freqs.weight", config_.rope_factors);
  add_factors("rope_factors_long.weight", config_.long_factors);
  add_factors("rope_factors_short.weight", config_.short_factors);
}

void Plan::read_numbers() {
  for (const models::NumberRule& rule : config_.checkpoint().numbers) {
    if (rule.list) {
      read_list(rule);
      continue;
    }
    for (int64_t il = 0; il < config_.layers; ++il) {
      const std::string name = names_.layer(il) + std::string(rule.from);
      const SafeTensor* tensor = tensors_.find(name);
      if (!tensor || tensor->elements() != 1)
        throw_error("tensor {} is missing or not a single number: the checkpoint is incomplete or damaged", name);
      use(tensor);
      float number = 0;
      plain_matrix(*tensor, 0, 1, 1).floats(0, 1, &number);
      numbers[std::string(rule.key)].push_back(number);
    }
  }
}

void Plan::read_list(const models::NumberRule& rule) {
  for (int64_t il = 0; il < config_.layers; ++il) {
    const SafeTensor* tensor = tensors_.find(names_.layer(il) + std::string(rule.from));
    if (!tensor) continue;
    use(tensor);
    std::vector<uint64_t>& list = lists[std::string(rule.key)];
    if (!list.empty()) throw_error("tensor {}: another layer has one, too", tensor->name);
    list = integers(*tensor, tensors_.path_of(*tensor));
  }
}

// Skips a tied matrix unless its scale differs from the embedding table's.
void Plan::add_output_matrix() {
  if (!config_.checkpoint().head) return;
  std::string head = names_.head;
  const auto own = std::ranges::find(config_.checkpoint().tensors, "lm_head", &TensorRule::from);
  const TensorRule rule = own != config_.checkpoint().tensors.end() ? *own : TensorRule{"lm_head", "output"};
  const std::optional<bool> says_tied = config_.checkpoint().own_head ? std::nullopt : config_.tied;
  const bool tied = says_tied.value_or(!reader_.has(head));
  if (tied && rule.how.scale.empty()) return;
  if (tied) head = names_.table;
  if (!reader_.has(head))
    throw_error("tensor {}.weight is missing: the checkpoint is incomplete or config.json belongs to another one",
                head);
  add_module(head, "output", rule);
}

// Without this check, tensors could get lost silently.
void Plan::check_all_used() {
  const std::string& layers = names_.layers;
  for (const SafeTensor& tensor : tensors_.tensors()) {
    if (used_.contains(tensor.name)) continue;
    int64_t layer = -1;
    if (tensor.name.starts_with(layers))
      std::from_chars(tensor.name.data() + layers.size(), tensor.name.data() + tensor.name.size(), layer);
    has_drafts |= layer >= config_.layers || is_draft(tensor.name);
    if (layer >= config_.layers || is_unused_tensor(tensor.name)) continue;
    if (config_.tied.value_or(false) && tensor.name == names_.head + ".weight") continue;
    throw_error("{}: tensor {} is not used by a {} model: the checkpoint does not match config.json",
                tensors_.path_of(tensor), tensor.name, config_.architecture->name);
  }
}

} // namespace ridge::convert::import
