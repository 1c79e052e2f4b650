#include "convert/import/matrices/rows.h"

#include "convert/import/matrices/views.h"
#include "core/error.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace ridge::convert::import {
namespace {

using models::Rows;

std::vector<int64_t> range(int64_t first, int64_t count, int64_t step = 1) {
  std::vector<int64_t> numbers(count);
  for (int64_t i = 0; i < count; ++i) numbers[i] = first + i * step;
  return numbers;
}

void append(std::vector<int64_t>& to, const std::vector<int64_t>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

struct DeltaHeads {
  int64_t k = 0, v = 0, k_dim = 0, v_dim = 0;
};
DeltaHeads delta_heads(const Config& config) {
  DeltaHeads heads = {config.count("ssm.group_count"), config.count("ssm.time_step_rank"),
                      config.count("ssm.state_size"), 0};
  if (heads.k < 1 || heads.v < 1 || heads.v % heads.k != 0)
    throw_error("{}: {} value heads are not a multiple of {} key heads", config.path, heads.v, heads.k);
  heads.v_dim = config.count("ssm.inner_size") / heads.v;
  return heads;
}

// After `kept` rows: value head j of each key head, j = 0, 1, ….
std::vector<int64_t> interleave_value_heads(int64_t kept, int64_t rows, const DeltaHeads& heads) {
  std::vector<int64_t> order = range(0, kept);
  const int64_t dim = (rows - kept) / heads.v, shared = heads.v / heads.k;
  for (int64_t j = 0; j < shared; ++j)
    for (int64_t k = 0; k < heads.k; ++k) append(order, range(kept + (k * shared + j) * dim, dim));
  return order;
}

// For a matrix with q, k, v, z per key head.
std::vector<int64_t> ungrouped_rows(const DeltaHeads& heads, bool z) {
  const int64_t values = heads.v / heads.k * heads.v_dim, group = 2 * (heads.k_dim + values);
  std::vector<int64_t> order;
  const auto take = [&](int64_t first, int64_t count) {
    for (int64_t k = 0; k < heads.k; ++k) append(order, range(k * group + first, count));
  };
  if (z) {
    take(2 * heads.k_dim + values, values);
    return order;
  }
  take(0, heads.k_dim);
  take(heads.k_dim, heads.k_dim);
  take(2 * heads.k_dim, values);
  return order;
}

// Selected heads of a matrix of groups: several q, one k, one v. `pairs`: see Rows::rope_pairs.
std::vector<int64_t> of_key_heads(const Config& config, bool q, bool k, bool v, bool pairs) {
  const int64_t dim = config.head_dim, shared = config.heads / config.kv_heads, group = (shared + 2) * dim;
  std::vector<int64_t> order;
  const auto take = [&](int64_t first) {
    for (int64_t r = 0; r < dim; ++r) order.push_back(first + (pairs ? r % 2 * (dim / 2) + r / 2 : r));
  };
  const auto take_heads = [&](int64_t first, int64_t count) {
    for (int64_t g = 0; g < config.kv_heads; ++g)
      for (int64_t h = 0; h < count; ++h) take(g * group + (first + h) * dim);
  };
  if (q) take_heads(0, shared);
  if (k) take_heads(shared, 1);
  if (v) take_heads(shared + 1, 1);
  return order;
}

// Rows of a head, and how many at its end are rotated: all, but of latent attention and its indexer only
// qk_rope_head_dim.
std::pair<int64_t, int64_t> rotated_heads(const Config& config, int64_t rows, const std::string& name) {
  if (!config.evaluate("kv_lora_rank")) return {config.head_dim, config.head_dim};
  const auto field = [&](const char* key) { return static_cast<int64_t>(config.evaluate(key).value_or(0)); };
  const int64_t rotated = field("qk_rope_head_dim");
  if (name.find(".indexer.") != std::string::npos) return {field("index_head_dim"), rotated};
  if (name.find("attn_kv_a_mqa") != std::string::npos) return {rows, rotated};
  return {field("qk_nope_head_dim") + rotated, rotated};
}

} // namespace

std::vector<int64_t> row_order(Rows wanted, int64_t rows, const Config& config, const std::string& name) {
  const auto require = [&](bool fits) {
    if (!fits) throw_error("{}: its {} rows do not match the heads in config.json", name, rows);
  };
  switch (wanted) {
  case Rows::rope_pairs: {
    const auto [dim, rotated] = rotated_heads(config, rows, name);
    require(dim > 0 && rows % dim == 0 && rotated <= dim && rotated % 2 == 0);
    std::vector<int64_t> order = range(0, rows);
    for (int64_t head = 0; head < rows; head += dim)
      for (int64_t i = 0; i < rotated; ++i)
        order[head + dim - rotated + i] = head + dim - rotated + i % 2 * (rotated / 2) + i / 2;
    return order;
  }
  case Rows::first_half: require(rows % 2 == 0); return range(0, rows / 2);
  case Rows::second_half: require(rows % 2 == 0); return range(rows / 2, rows / 2);
  case Rows::even: require(rows % 2 == 0); return range(0, rows / 2, 2);
  case Rows::odd: require(rows % 2 == 0); return range(1, rows / 2, 2);
  case Rows::value_heads: {
    const DeltaHeads heads = delta_heads(config);
    require(rows % heads.v == 0);
    return heads.v == heads.k ? std::vector<int64_t>() : interleave_value_heads(0, rows, heads);
  }
  case Rows::mixed_heads: {
    const DeltaHeads heads = delta_heads(config);
    const int64_t kept = 2 * heads.k * heads.k_dim;
    require(rows > kept && (rows - kept) % heads.v == 0);
    return heads.v == heads.k ? std::vector<int64_t>() : interleave_value_heads(kept, rows, heads);
  }
  case Rows::grouped_mixed:
  case Rows::grouped_z: {
    const DeltaHeads heads = delta_heads(config);
    require(rows == 2 * (heads.k * heads.k_dim + heads.v * heads.v_dim));
    return ungrouped_rows(heads, wanted == Rows::grouped_z);
  }
  case Rows::grouped_qkv:
  case Rows::grouped_q:
  case Rows::grouped_k:
  case Rows::grouped_v: {
    require(config.heads > 0 && rows == (config.heads + 2 * config.kv_heads) * config.head_dim);
    const bool all = wanted == Rows::grouped_qkv, v = wanted == Rows::grouped_v;
    return of_key_heads(config, all || wanted == Rows::grouped_q, all || wanted == Rows::grouped_k, all || v,
                        !all && !v);
  }
  case Rows::index_queries:
  case Rows::index_key: {
    const int64_t dim = config.count("attention.indexer.key_length"),
                  queries = config.count("attention.indexer.head_count") * dim;
    require(rows == queries + dim);
    return wanted == Rows::index_queries ? range(0, queries) : range(queries, dim);
  }
  case Rows::positions: {
    const bool behind = config.evaluate("model_type = roberta / xlm-roberta / camembert").value_or(0) != 0;
    const int64_t first = behind ? 1 + static_cast<int64_t>(config.evaluate("pad_token_id").value_or(1)) : 0;
    require(first >= 0 && first < rows);
    return range(first, rows - first);
  }
  default: return {};
  }
}

std::vector<Matrix> mla_heads(const Matrix& matrix, Rows part, const Config& config, const std::string& name) {
  const auto keys = static_cast<int64_t>(config.evaluate("qk_nope_head_dim").value_or(0));
  const auto values = static_cast<int64_t>(config.evaluate("v_head_dim").value_or(0));
  const int64_t heads = config.heads;
  if (heads < 1 || keys < 1 || values < 1 || matrix.rows != heads * (keys + values))
    throw_error("{}: has {} rows, expected {} heads of qk_nope_head_dim + v_head_dim", name, matrix.rows, heads);
  const Matrix plain = unpacked(matrix);
  std::vector<Matrix> parts;
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t first = h * (keys + values);
    parts.push_back(part == Rows::mla_keys ? transposed(pick_rows(plain, range(first, keys)))
                                           : pick_rows(plain, range(first + keys, values)));
  }
  return parts;
}

std::vector<Matrix> output_groups(const Matrix& matrix, const Config& config, const std::string& name) {
  const auto groups = static_cast<int64_t>(config.evaluate("o_groups").value_or(0));
  if (groups < 1 || matrix.rows % groups != 0)
    throw_error("{}: o_groups ({}) does not divide its {} rows", name, groups, matrix.rows);
  std::vector<Matrix> parts;
  for (int64_t g = 0; g < groups; ++g)
    parts.push_back(pick_rows(matrix, range(g * (matrix.rows / groups), matrix.rows / groups)));
  return parts;
}

std::function<float(int64_t)> ssm_multipliers(const Config& config) {
  const int64_t inner = config.count("ssm.inner_size"),
                shared = config.count("ssm.group_count") * config.count("ssm.state_size");
  const std::array<int64_t, 4> ends = {inner, 2 * inner, 2 * inner + shared, 2 * inner + 2 * shared};
  std::array<float, 5> factors;
  for (size_t i = 0; i < factors.size(); ++i)
    factors[i] = static_cast<float>(config.evaluate(fmt::format("ssm_multipliers.{}", i)).value_or(1));
  return [ends, factors](int64_t row) { return factors[std::ranges::upper_bound(ends, row) - ends.begin()]; };
}

} // namespace ridge::convert::import
