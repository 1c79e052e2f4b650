// Error feedback for codebooks (IQ1, IQ2, IQ3): eight weights are chosen together from all points. Errors of a point's
// first weights move the targets of its later ones.
//
// Rows share the columns' factor and are processed in lanes.
#pragma once

#include "quant/formats/group.h"
#include "quant/registry.h"

#include <cstdint>
#include <vector>

namespace ridge::quant {

class PointSearch {
 public:
  static constexpr int kRows = 32;

  // nullptr: the format has no codebook.
  static const PointSearch* of(Type type);

  // m and d: see quant/feedback/hessian.h.
  struct Octet {
    float weight[8][kRows];
    float target[8][kRows]; // weights with feedback
    float scale[kRows];
    float shift[kRows]; // IQ1's shift of the codes; else 0
    float m[8][8], d[8];
    float code[8][kRows];
  };
  void choose(Octet& octet) const;

  // The search without feedback.
  void search(const float* weights, const float* importance, int64_t count, Parts* out) const {
    search_(weights, importance, count, out);
  }
  void scales(const Parts& parts, float* out) const { scales_(parts, out); }
  void pack(const Parts& parts, std::byte* block) const { pack_(parts, block); }
  bool shifted() const { return !signed_; }

 private:
  // A tree, depth first: points with equal first codes share work.
  struct Node {
    float level;
    int16_t depth, point; // point: -1 except in leaves
  };
  template <typename Format, typename Book>
  static PointSearch make(Type type, const Book& book, bool is_signed, bool even_signs);
  void set_signs(Octet& octet, int row) const;

  std::vector<Node> nodes_;
  std::vector<int8_t> codes_; // [point][point_weights_]
  int point_weights_ = 8;
  bool signed_ = true, even_signs_ = false;
  void (*search_)(const float*, const float*, int64_t, Parts*) = nullptr;
  void (*scales_)(const Parts&, float*) = nullptr;
  void (*pack_)(const Parts&, std::byte*) = nullptr;
};

} // namespace ridge::quant
