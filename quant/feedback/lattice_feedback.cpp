#include "quant/feedback/lattice_feedback.h"

#include "core/target_clones.h"
#include "quant/all_formats.h"
#include "quant/encode/tiles.h"
#include "quant/formats/codebooks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

namespace ridge::quant {
namespace {

constexpr int kSide = PointSearch::kRows;

// Per depth of the tree.
struct Path {
  float error[8][kSide];
  float cost[9][kSide]; // Σ d (target - decoded)²
  float flip[9][kSide]; // cheapest wrong sign
  float odd[9][kSide];  // 1: odd number of minus signs
};

// Includes errors of columns `first` … k - 1.
inline void add_errors(const PointSearch::Octet& octet, const Path& path, int k, float* u) {
#pragma omp simd
  for (int r = 0; r < kSide; ++r) u[r] = octet.target[k][r];
  for (int i = 0; i < k; ++i) {
    const float m = octet.m[i][k];
#pragma omp simd
    for (int r = 0; r < kSide; ++r) u[r] += path.error[i][r] * m;
  }
}

RIDGE_CLONES void step_signed(const PointSearch::Octet& octet, Path& path, int k, const float* level) {
  float u[kSide];
  add_errors(octet, path, k, u);
  const float d = octet.d[k];
#pragma omp simd
  for (int r = 0; r < kSide; ++r) {
    const float decoded = octet.scale[r] * level[r], magnitude = std::fabs(u[r]), left = magnitude - decoded;
    const bool negative = u[r] < 0.0f;
    path.error[k][r] = octet.weight[k][r] - (negative ? -decoded : decoded);
    path.cost[k + 1][r] = path.cost[k][r] + d * (left * left);
    path.flip[k + 1][r] = std::min(path.flip[k][r], 4.0f * d * (magnitude * decoded));
    path.odd[k + 1][r] = negative ? 1.0f - path.odd[k][r] : path.odd[k][r];
  }
}

RIDGE_CLONES void step_shifted(const PointSearch::Octet& octet, Path& path, int k, const float* level) {
  float u[kSide];
  add_errors(octet, path, k, u);
  const float d = octet.d[k];
#pragma omp simd
  for (int r = 0; r < kSide; ++r) {
    const float decoded = octet.scale[r] * (level[r] + octet.shift[r]), left = u[r] - decoded;
    path.error[k][r] = octet.weight[k][r] - decoded;
    path.cost[k + 1][r] = path.cost[k][r] + d * (left * left);
  }
}

template <typename Format>
void scales_of(const Parts& parts, float* out) {
  Format block;
  block.pack(parts);
  for (int g = 0; g < Format::kWeights / kGroupWeights; ++g) {
    Group group;
    block.unpack(g, group);
    out[2 * g] = group.scale[0];
    out[2 * g + 1] = group.scale[1];
  }
}

template <typename Format>
void pack_block(const Parts& parts, std::byte* out) {
  Format block;
  block.pack(parts);
  std::memcpy(out, &block, sizeof block);
}

} // namespace

template <typename Format, typename Book>
PointSearch PointSearch::make(Type type, const Book& book, bool is_signed, bool even_signs) {
  PointSearch search;
  search.signed_ = is_signed;
  search.even_signs_ = even_signs;
  const int size = sizeof book.point / sizeof book.point[0], weights = sizeof book.point[0];
  search.point_weights_ = weights;
  for (int point = 0; point < size; ++point)
    for (int j = 0; j < weights; ++j) search.codes_.push_back(static_cast<int8_t>(book.point[point] >> (8 * j)));
  const auto codes = [&](int point) { return std::span(search.codes_).subspan(point * weights, weights); };
  std::vector<int> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](int a, int b) { return std::ranges::lexicographical_compare(codes(a), codes(b)); });
  std::span<const int8_t> last;
  for (const int point : order) {
    const auto code = codes(point);
    const auto same = last.empty() ? 0 : std::ranges::mismatch(code, last).in1 - code.begin();
    for (auto depth = static_cast<int>(same); depth < weights; ++depth)
      search.nodes_.push_back({static_cast<float>(code[depth]), static_cast<int16_t>(depth),
                               static_cast<int16_t>(depth + 1 < weights ? -1 : point)});
    last = code;
  }
  search.search_ = find_codebook_search(type);
  search.scales_ = &scales_of<Format>;
  search.pack_ = &pack_block<Format>;
  return search;
}

const PointSearch* PointSearch::of(Type type) {
  static const std::map<Type, PointSearch> searches = [] {
    std::map<Type, PointSearch> all;
    all[Type::IQ1_S] = make<IQ1_S>(Type::IQ1_S, kIq1Codebook, false, false);
    all[Type::IQ1_M] = make<IQ1_M>(Type::IQ1_M, kIq1Codebook, false, false);
    all[Type::IQ2_XXS] = make<IQ2_XXS>(Type::IQ2_XXS, kIq2XxsCodebook, true, true);
    all[Type::IQ2_XS] = make<IQ2_XS>(Type::IQ2_XS, kIq2XsCodebook, true, true);
    all[Type::IQ2_S] = make<IQ2_S>(Type::IQ2_S, kIq2SCodebook, true, false);
    all[Type::IQ3_XXS] = make<IQ3_XXS>(Type::IQ3_XXS, kIq3XxsCodebook, true, true);
    all[Type::IQ3_S] = make<IQ3_S>(Type::IQ3_S, kIq3SCodebook, true, false);
    return all;
  }();
  const auto found = searches.find(type);
  return found == searches.end() ? nullptr : &found->second;
}

void PointSearch::choose(Octet& octet) const {
  Path path;
  for (int r = 0; r < kSide; ++r) path.cost[0][r] = path.odd[0][r] = 0.0f, path.flip[0][r] = 1e30f;
  const auto step = signed_ ? &step_signed : &step_shifted;
  for (int first = 0; first < 8; first += point_weights_) {
    const int end = first + point_weights_;
    float best[kSide], level[kSide];
    int point[kSide];
    for (int r = 0; r < kSide; ++r) best[r] = 1e30f, point[r] = 0;
    for (const Node& node : nodes_) {
      std::fill_n(level, kSide, node.level);
      step(octet, path, first + node.depth, level);
      if (node.point < 0) continue;
      for (int r = 0; r < kSide; ++r) {
        // Signs are complete after the eighth.
        const float cost = path.cost[end][r] + (even_signs_ && end == 8 ? path.odd[end][r] * path.flip[end][r] : 0.0f);
        if (cost < best[r]) best[r] = cost, point[r] = node.point;
      }
    }
    for (int j = 0; j < point_weights_; ++j) {
      for (int r = 0; r < kSide; ++r) {
        level[r] = codes_[point[r] * point_weights_ + j];
        octet.code[first + j][r] = level[r] + (signed_ ? 0.0f : octet.shift[r]);
      }
      step(octet, path, first + j, level);
    }
  }
  if (signed_)
    for (int r = 0; r < kSide; ++r) set_signs(octet, r);
}

// If the number of minus signs must be even but is odd, flips the cheapest one, including feedback to later weights.
void PointSearch::set_signs(Octet& octet, int row) const {
  float code[8], error[8];
  const auto cost = [&](bool choose_signs) {
    float sum = 0.0f;
    for (int k = 0; k < 8; ++k) {
      float u = octet.target[k][row];
      for (int i = 0; i < k; ++i) u += error[i] * octet.m[i][k];
      if (choose_signs) code[k] = u < 0.0f ? -octet.code[k][row] : octet.code[k][row];
      const float decoded = octet.scale[row] * code[k];
      error[k] = octet.weight[k][row] - decoded;
      sum += octet.d[k] * ((u - decoded) * (u - decoded));
    }
    return sum;
  };
  cost(true);
  const auto minus = std::ranges::count_if(code, [](float c) { return c < 0.0f; });
  if (even_signs_ && minus % 2 != 0) {
    int cheapest = 0;
    float least = INFINITY;
    for (int k = 0; k < 8; ++k) {
      code[k] = -code[k];
      if (const float tried = cost(false); tried < least) least = tried, cheapest = k;
      code[k] = -code[k];
    }
    code[cheapest] = -code[cheapest];
  }
  for (int k = 0; k < 8; ++k) octet.code[k][row] = code[k];
}

} // namespace ridge::quant
