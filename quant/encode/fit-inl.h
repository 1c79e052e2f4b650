// Finds codes and scale (and offset) of a group with the least weighted squared error.
//
// For given codes the best scale is a least-squares solution; for a given scale the best code is the nearest. A fit
// tries initial scales and alternates both steps from the best. Gains (sum of squares minus error) need no further
// pass.
#if defined(RIDGE_FIT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_FIT_INL_H
#undef RIDGE_FIT_INL_H
#else
#define RIDGE_FIT_INL_H
#endif

#include "quant/encode/lanes-inl.h"
#include "quant/formats/iq4_nl.h"

RIDGE_LANES_BEGIN

template <int kLow, int kHigh>
struct Integers {
  static constexpr int kLowest = kLow, kHighest = kHigh;
  static RIDGE_LANES_FN Lanes nearest(Lanes v) {
    return round(clamp(v, Lanes(static_cast<float>(kLow)), Lanes(static_cast<float>(kHigh))));
  }
};

template <typename Codes>
constexpr bool kIntegers = requires {
  Codes::kLowest;
};

struct SignCodes {
  static RIDGE_LANES_FN Lanes nearest(Lanes v) { return select(v < Lanes(0.0f), Lanes(-1.0f), Lanes(1.0f)); }
};

struct FloatCodes {
  static RIDGE_LANES_FN Lanes nearest(Lanes v) {
    const Lanes a = min(abs(v), Lanes(12.0f));
    const Lanes fine = round(a), coarse = round(a * Lanes(0.5f)) * Lanes(2.0f);
    const Lanes top = select(a < Lanes(10.0f), Lanes(8.0f), Lanes(12.0f));
    const Lanes q = select(a < Lanes(4.0f), fine, select(a < Lanes(8.0f), coarse, top));
    return select(v < Lanes(0.0f), -q, q);
  }
};

// The lowest level plus a step per midpoint passed.
struct LevelCodes {
  static RIDGE_LANES_FN Lanes nearest(Lanes v) {
    Lanes q(static_cast<float>(kIq4Levels[0]));
    for (int i = 0; i < 15; ++i) {
      const auto low = static_cast<float>(kIq4Levels[i]), high = static_cast<float>(kIq4Levels[i + 1]);
      q = select(v > Lanes(0.5f * (low + high)), Lanes(high), q);
    }
    return q;
  }
};

// Σ w x q, Σ w q²; q: codes nearest to x * inverse_scale.
struct Sums {
  Lanes xq, qq;
};

// kWeighted: else all w are 1.
template <typename Codes, int kCount, bool kWeighted = true>
RIDGE_LANES_FN Sums sums(const Lanes* x, const Lanes* w, Lanes inverse_scale) {
  Sums s{Lanes(0.0f), Lanes(0.0f)};
  RIDGE_LANES_UNROLL
  for (int i = 0; i < kCount; ++i) {
    const Lanes q = Codes::nearest(x[i] * inverse_scale), wq = kWeighted ? w[i] * q : q;
    s.xq += wq * x[i];
    s.qq += wq * q;
  }
  return s;
}

// gained: Σ w x² - Σ w (x - scale * q)².
struct Fit {
  Lanes scale, gained;
};

RIDGE_LANES_FN Lanes gain(const Sums& s, Lanes scale) { return scale * (s.xq + s.xq - scale * s.qq); }

// Initial scales for equal weights, in 16-bit integers: codes of the largest weight in units of 1 / kUnits, their
// negatives, too.
struct IntegerStarts {
  int count, first, step;
};

// The best initial scale, with nearest codes.
template <int kLow, int kHigh, int kCount>
RIDGE_LANES_FN Lanes coarse_scale(const Lanes* x, const IntegerStarts& starts) {
  constexpr int kFine = kHigh > 31 ? 1 << 13 : kHigh > 15 ? 1 << 12 : 1 << 10, kUnits = (1 << 15) / kFine;
  constexpr float kExact = 32767.0f;
  Lanes largest(0.0f);
  RIDGE_LANES_UNROLL
  for (int i = 0; i < kCount; ++i) largest = select(abs(x[i]) > abs(largest), x[i], largest);
  const Lanes per_largest = inverse(largest);
  Pairs fine[kCount / 2], exact[kCount / 2];
  RIDGE_LANES_UNROLL
  for (int i = 0; i < kCount / 2; ++i) {
    const Lanes a = x[2 * i] * per_largest, b = x[2 * i + 1] * per_largest;
    fine[i] = pairs(a * Lanes(kFine), b * Lanes(kFine));
    exact[i] = pairs(a * Lanes(kExact), b * Lanes(kExact));
  }
  Lanes best_xq(0.0f), best_qq(1.0f);
  const auto try_sums = [&](LanesInt sum_xq, LanesInt sum_qq) {
    const Lanes xq = to_float(sum_xq), qq = to_float(sum_qq);
    const auto better = xq * xq * best_qq > best_xq * best_xq * qq;
    best_xq = select(better, xq, best_xq);
    best_qq = select(better, qq, best_qq);
  };
  const Pairs low = both_of(kLow), high = both_of(kHigh);
  for (int start = 0; start < starts.count; ++start) {
    const int code = starts.first + start * starts.step;
    const Pairs plus = both_of(code), minus = both_of(-code);
    LanesInt xq(0), qq(0), minus_xq(0), minus_qq(0);
    if (2 * code < (2 * kHigh + 1) * kUnits) { // no code is clamped, so signs do not matter
      RIDGE_LANES_UNROLL
      for (int i = 0; i < kCount / 2; ++i) {
        const Pairs q = scaled(fine[i], plus);
        xq = add_products(xq, exact[i], q);
        qq = add_products(qq, q, q);
      }
      try_sums(xq, qq);
    } else {
      RIDGE_LANES_UNROLL
      for (int i = 0; i < kCount / 2; ++i) {
        const Pairs q = max(min(scaled(fine[i], plus), high), low), r = max(min(scaled(fine[i], minus), high), low);
        xq = add_products(xq, exact[i], q);
        qq = add_products(qq, q, q);
        minus_xq = add_products(minus_xq, exact[i], r);
        minus_qq = add_products(minus_qq, r, r);
      }
      try_sums(xq, qq);
      if (kLow != -kHigh) try_sums(minus_xq, minus_qq);
    }
  }
  return best_xq * inverse(best_qq) * largest * Lanes(1.0f / kExact);
}

// Initial scales map the largest weight to codes first, first * step, …; both_signs: also to their negatives.
struct Starts {
  int count;
  float first, step;
  bool both_signs;
  int descents = 2;
  IntegerStarts of_equal = {}; // in their place where weights are equal
};

// Unrounded; 0 if all weights are 0. equal: the weights are.
template <typename Codes, int kCount>
RIDGE_LANES_FN Fit fit_scale(const Lanes* x, const Lanes* w, const Starts& starts, LanesMask equal) {
  Lanes best_gain(0.0f), best(0.0f);
  const bool all_equal = all(equal), searches_integers = kIntegers<Codes> && starts.of_equal.count > 0;
  const auto descend = [&](Lanes inverse_scale) {
    const Sums s =
        all_equal ? sums<Codes, kCount, false>(x, w, inverse_scale) : sums<Codes, kCount>(x, w, inverse_scale);
    const Lanes scale = s.xq * inverse(s.qq), gained = s.xq * scale;
    const auto better = gained > best_gain;
    best_gain = select(better, gained, best_gain);
    best = select(better, scale, best);
  };
  if (!searches_integers || !all_equal) {
    Lanes largest(0.0f);
    for (int i = 0; i < kCount; ++i) largest = select(abs(x[i]) > abs(largest), x[i], largest);
    const Lanes per_largest = inverse(largest);
    float code = starts.first;
    for (int pass = 0; pass < starts.count * (starts.both_signs ? 2 : 1); ++pass) {
      descend(per_largest * Lanes(code));
      if (starts.both_signs) code = -code;
      if (!starts.both_signs || (pass & 1)) code *= starts.step;
    }
  }
  if constexpr (kIntegers<Codes>) {
    if (searches_integers && any(equal)) {
      best = select(equal, coarse_scale<Codes::kLowest, Codes::kHighest, kCount>(x, starts.of_equal), best);
      best_gain = select(equal, Lanes(0.0f), best_gain);
    }
  }
  Lanes first_gain = best_gain, first = best;
  for (int i = 0; i < (searches_integers && all_equal ? 1 : starts.descents); ++i) {
    descend(inverse(best));
    if (i == 0) first_gain = best_gain, first = best;
  }
  if (searches_integers) { // lanes of equal weights descend once, whatever the others do
    best_gain = select(equal, first_gain, best_gain);
    best = select(equal, first, best);
  }
  return {best, best_gain};
}

// For x = scale * q - min.
struct OffsetSums {
  Lanes q, qq, xq;
};

template <int kTop, int kCount, bool kWeighted = true>
RIDGE_LANES_FN OffsetSums offset_sums(const Lanes* x, const Lanes* w, Lanes inverse_scale, Lanes min) {
  OffsetSums s{Lanes(0.0f), Lanes(0.0f), Lanes(0.0f)};
  RIDGE_LANES_UNROLL
  for (int i = 0; i < kCount; ++i) {
    const Lanes q = Integers<0, kTop>::nearest((x[i] + min) * inverse_scale), wq = kWeighted ? w[i] * q : q;
    s.q += wq;
    s.qq += wq * q;
    s.xq += wq * x[i];
  }
  return s;
}

struct ScaleMin {
  Lanes scale, min;
};
struct FitMin {
  ScaleMin best;
  Lanes gained;
};

struct Constants {
  Lanes w, x;
};

RIDGE_LANES_FN Lanes gain(const OffsetSums& s, const Constants& c, Lanes scale, Lanes min) {
  return scale * (s.xq + s.xq - scale * s.qq + Lanes(2.0f) * min * s.q) - min * (c.x + c.x + min * c.w);
}

// kMinOnly: min >= 0.
template <bool kMinOnly>
RIDGE_LANES_FN ScaleMin solve(const OffsetSums& s, const Constants& c) {
  const Lanes determinant = c.w * s.qq - s.q * s.q;
  const Lanes scale = (c.w * s.xq - c.x * s.q) * inverse(max(determinant, Lanes(0.0f)));
  const Lanes min = (scale * s.q - c.x) / c.w;
  if (!kMinOnly) return {scale, min};
  const auto negative = min < Lanes(0.0f);
  return {select(negative, s.xq * inverse(s.qq), scale), select(negative, Lanes(0.0f), min)};
}

// Initial ends for equal weights, in 16-bit integers: the first code lies first, first + step, … of the range inside
// each end; then their neighbours at half a step.
struct IntegerClips {
  int count;
  float first, step;
};

// The best initial scale and minimum, with nearest codes.
template <int kTop, int kCount>
RIDGE_LANES_FN ScaleMin coarse_scale_min(const Lanes* x, const IntegerClips& clips) {
  constexpr int kFine = kTop > 15 ? 1 << 11 : 1 << 10, kUnits = (1 << 15) / kFine;
  constexpr float kExact = 32767.0f;
  Lanes lowest = x[0], highest = x[0];
  RIDGE_LANES_UNROLL
  for (int i = 1; i < kCount; ++i) {
    lowest = min(lowest, x[i]);
    highest = max(highest, x[i]);
  }
  const Lanes range = highest - lowest, per_range = inverse(range);
  Pairs fine[kCount / 2], exact[kCount / 2];
  LanesInt total(0);
  const Pairs one = both_of(1);
  RIDGE_LANES_UNROLL
  for (int i = 0; i < kCount / 2; ++i) {
    const Lanes a = (x[2 * i] - lowest) * per_range, b = (x[2 * i + 1] - lowest) * per_range;
    fine[i] = pairs(a * Lanes(kFine), b * Lanes(kFine));
    exact[i] = pairs(a * Lanes(kExact), b * Lanes(kExact));
    total = add_products(total, exact[i], one);
  }
  const Lanes count(static_cast<float>(kCount)), sum_x = to_float(total);
  Lanes best_covariance(0.0f), best_variance(1.0f), best_q(0.0f), best_below(0.0f), best_above(0.0f);
  const auto try_clip = [&](Lanes below, Lanes above, bool clamps_low, bool clamps_high) {
    const Lanes factor = Lanes(static_cast<float>(kTop * kUnits)) / (Lanes(1.0f) - below - above);
    const Lanes offset = below * Lanes(kFine);
    const Pairs shift = pairs(offset, offset), scale = pairs(factor, factor);
    const Pairs low = both_of(0), high = both_of(kTop);
    Pairs sum = low;
    LanesInt xq(0), qq(0);
    const auto add = [&](int i, Pairs q) {
      sum = sum + q;
      xq = add_products(xq, exact[i], q);
      qq = add_products(qq, q, q);
    };
    if (clamps_low || clamps_high) {
      RIDGE_LANES_UNROLL
      for (int i = 0; i < kCount / 2; ++i) add(i, min(max(scaled(fine[i] - shift, scale), low), high));
    } else {
      RIDGE_LANES_UNROLL
      for (int i = 0; i < kCount / 2; ++i) add(i, scaled(fine[i] - shift, scale));
    }
    const Lanes q = to_float(add_products(LanesInt(0), sum, one));
    const Lanes covariance = count * to_float(xq) - sum_x * q, variance = count * to_float(qq) - q * q;
    const auto better = covariance * covariance * best_variance > best_covariance * best_covariance * variance;
    best_covariance = select(better, covariance, best_covariance);
    best_variance = select(better, variance, best_variance);
    best_q = select(better, q, best_q);
    best_below = select(better, below, best_below);
    best_above = select(better, above, best_above);
  };
  for (int i = 0; i < clips.count * clips.count; ++i) {
    const float below = clips.first + clips.step * static_cast<float>(i / clips.count);
    const float above = clips.first + clips.step * static_cast<float>(i % clips.count);
    try_clip(Lanes(below), Lanes(above), below > 0, above > 0);
  }
  const Lanes near_below = best_below, near_above = best_above;
  for (int i = 0; i < 9; ++i) {
    const float half = 0.5f * clips.step;
    if (i != 4)
      try_clip(near_below + Lanes(half * static_cast<float>(i / 3 - 1)),
               near_above + Lanes(half * static_cast<float>(i % 3 - 1)), true, true);
  }
  const Lanes scale = best_covariance * inverse(best_variance), low = (scale * best_q - sum_x) / count;
  return {scale * range * Lanes(1.0f / kExact), low * range * Lanes(1.0f / kExact) - lowest};
}

// Initial minimum and maximum: the first code lies first, first + step, … of the range inside each end.
struct Clips {
  int count;
  float first, step;
  int descents = 3;
  IntegerClips of_equal = {}; // in their place where weights are equal
};

// Unrounded, scale >= 0. equal: the weights are.
template <int kTop, int kCount, bool kMinOnly>
RIDGE_LANES_FN FitMin fit_scale_min(const Lanes* x, const Lanes* w, const Constants& constants, const Clips& clips,
                                    LanesMask equal) {
  ScaleMin best{Lanes(0.0f), -(constants.x / constants.w)};
  if (kMinOnly) best.min = max(best.min, Lanes(0.0f));
  Lanes best_gain = -(best.min * constants.x);
  const bool all_equal = all(equal), searches_integers = !kMinOnly && clips.of_equal.count > 0;
  const auto descend = [&](Lanes scale, Lanes shift) {
    const OffsetSums s = all_equal ? offset_sums<kTop, kCount, false>(x, w, inverse(scale), shift)
                                   : offset_sums<kTop, kCount>(x, w, inverse(scale), shift);
    const ScaleMin fit = solve<kMinOnly>(s, constants);
    const Lanes gained = fit.scale * s.xq - fit.min * constants.x;
    const auto better = gained > best_gain;
    best_gain = select(better, gained, best_gain);
    best = {select(better, fit.scale, best.scale), select(better, fit.min, best.min)};
  };
  if (!searches_integers || !all_equal) {
    Lanes low = x[0], high = x[0];
    for (int i = 1; i < kCount; ++i) {
      low = min(low, x[i]);
      high = max(high, x[i]);
    }
    if (kMinOnly) low = min(low, Lanes(0.0f));
    const Lanes range = high - low;
    for (int pass = 0; pass < clips.count * clips.count; ++pass) {
      const float below = clips.first + clips.step * static_cast<float>(pass / clips.count);
      const float above = clips.first + clips.step * static_cast<float>(pass % clips.count);
      descend(range * Lanes((1.0f - below - above) * (1.0f / kTop)), -(low + range * Lanes(below)));
    }
  }
  if constexpr (!kMinOnly) {
    if (searches_integers && any(equal)) {
      const ScaleMin coarse = coarse_scale_min<kTop, kCount>(x, clips.of_equal);
      const auto real = both(equal, coarse.scale > Lanes(0.0f)); // else all weights are the same
      best = {select(real, coarse.scale, best.scale), select(real, coarse.min, best.min)};
      best_gain = select(real, Lanes(-1e30f), best_gain);
    }
  }
  ScaleMin first = best;
  Lanes first_gain = best_gain;
  for (int i = 0; i < (searches_integers && all_equal ? 1 : clips.descents); ++i) {
    descend(best.scale, best.min);
    if (i == 0) first_gain = best_gain, first = best;
  }
  if (searches_integers) { // lanes of equal weights descend once, whatever the others do
    best_gain = select(equal, first_gain, best_gain);
    best = {select(equal, first.scale, best.scale), select(equal, first.min, best.min)};
  }
  return {best, best_gain};
}

RIDGE_LANES_END

#endif
