// A block of weights: input and result of an encoder.
#if defined(RIDGE_BLOCK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_BLOCK_INL_H
#undef RIDGE_BLOCK_INL_H
#else
#define RIDGE_BLOCK_INL_H
#endif

#include "quant/encode/fit-inl.h"

RIDGE_LANES_BEGIN

// Weights and importance are scaled by powers of two against overflow and underflow; `unit`: divisor of the weights.
template <int kWeights>
struct Block {
  Lanes x[kWeights], w[kWeights];
  LanesMask equal; // importance of all weights, which is 1 then
  Lanes unit;
  Lanes code[kWeights];
  Lanes scale[16], min[16];
  Lanes d, m; // in the weights' units; see Parts

  RIDGE_LANES_FN void normalize() {
    Lanes largest(0.0f), heaviest = w[0], lightest = w[0];
    for (int i = 0; i < kWeights; ++i) {
      largest = max(largest, abs(x[i]));
      heaviest = max(heaviest, w[i]);
      lightest = select(w[i] < lightest, w[i], lightest);
    }
    unit = power(largest);
    const Lanes per_unit = Lanes(1.0f) / unit, per_weight = Lanes(1.0f) / power(heaviest);
    equal = heaviest == lightest;
    for (int i = 0; i < kWeights; ++i) {
      x[i] = x[i] * per_unit;
      // At least a millionth, so that no group's total is 0.
      w[i] = select(equal, Lanes(1.0f), max(w[i] * per_weight, Lanes(0x1p-20f)));
    }
  }

  // Least squares shrinks decoded weights by a relative squared error ε. This error adds up over a row while others
  // average out, and trained rows point along their inputs. The search minimizes Σ w e² + (Σ w x e)² / Σ w x² over a
  // group (e: error), which is least squares for weights longer by 2 / (2 - ε). Returns this factor; `gained`: from the
  // original weights.
  RIDGE_LANES_FN Lanes lengthen(int first, int count, Lanes gained) {
    Lanes squares(0.0f);
    for (int i = first; i < first + count; ++i) squares += w[i] * x[i] * x[i];
    const Lanes error = clamp(Lanes(1.0f) - gained * inverse(squares), Lanes(0.0f), Lanes(1.0f));
    const Lanes factor = Lanes(2.0f) / (Lanes(2.0f) - error);
    for (int i = first; i < first + count; ++i) x[i] = x[i] * factor;
    return factor;
  }

  RIDGE_LANES_FN Constants constants(int first, int count) const {
    Constants sum{Lanes(0.0f), Lanes(0.0f)};
    for (int i = first; i < first + count; ++i) {
      sum.w += w[i];
      sum.x += w[i] * x[i];
    }
    return sum;
  }

  // In normalized units.
  RIDGE_LANES_FN Lanes to_f16(Lanes a) const { return round_to_f16(a * unit) * (Lanes(1.0f) / unit); }

  template <typename Codes>
  RIDGE_LANES_FN void set_codes(int first, int count, Lanes scale) {
    const Lanes inverse_scale = inverse(scale);
    for (int i = first; i < first + count; ++i) code[i] = Codes::nearest(x[i] * inverse_scale);
  }
  template <int kTop>
  RIDGE_LANES_FN void set_codes(int first, int count, Lanes scale, Lanes low) {
    const Lanes inverse_scale = inverse(scale);
    for (int i = first; i < first + count; ++i) code[i] = Integers<0, kTop>::nearest((x[i] + low) * inverse_scale);
  }

 private:
  RIDGE_LANES_FN static Lanes power(Lanes a) { return max(floor_power_of_two(a), Lanes(0x1p-126f)); }
};

template <typename Format>
struct Scheme {};

template <typename Format>
constexpr bool kHasScheme = requires(Block<Format::kWeights>& b) {
  Scheme<Format>::search(b);
};

RIDGE_LANES_END

#endif
