// The codes of the codebook formats (IQ1, IQ2, IQ3) under error feedback. A few bits choose eight weights at once
// there, so weights cannot be rounded one by one. Eight weights are chosen together instead, from all points of the
// codebook: for each point the errors of its first weights move the targets of its later ones, as they will move the
// columns after the eight.
//
// Rows of a matrix run side by side in a vector's lanes: they share the columns' factor.
#pragma once

#include "quant/group.h"
#include "quant/registry.h"

#include <cstdint>
#include <vector>

namespace ridge::quant {

class PointSearch {
 public:
  static constexpr int kRows = 16; // at a time

  // nullptr: the format has no codebook.
  static const PointSearch* of(Type type);

  // Eight columns of kRows rows. M and D are the factor's (quant/hessian.h) for these columns.
  struct Octet {
    float weight[8][kRows]; // as they should be
    float target[8][kRows]; // with the feedback of all columns before the eight
    float scale[kRows];     // of the codes
    float shift[kRows];     // what IQ1 adds to a point's codes; else 0
    float m[8][8], d[8];
    float code[8][kRows]; // the result
  };
  void choose(Octet& octet) const;

  // The least error by scale of whole blocks, codes included; the scale of each 16 weights; the block of such numbers.
  void search(const float* weights, const float* importance, int64_t count, Parts* out) const {
    search_(weights, importance, count, out);
  }
  void scales(const Parts& parts, float* out) const { scales_(parts, out); }
  void pack(const Parts& parts, std::byte* block) const { pack_(parts, block); }
  bool shifted() const { return !signed_; }

 private:
  // The points as a tree, depth first: points with the same first codes share the work for those.
  struct Node {
    float level;
    int16_t depth, point; // point: -1 but in leaves
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
