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
  static RIDGE_LANES_FN Lanes nearest(Lanes v) {
    return round(clamp(v, Lanes(static_cast<float>(kLow)), Lanes(static_cast<float>(kHigh))));
  }
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

template <typename Codes, int kCount>
RIDGE_LANES_FN Sums sums(const Lanes* x, const Lanes* w, Lanes inverse_scale) {
  Sums s{Lanes(0.0f), Lanes(0.0f)};
  for (int i = 0; i < kCount; ++i) {
    const Lanes q = Codes::nearest(x[i] * inverse_scale), wq = w[i] * q;
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

// Initial scales map the largest weight to codes first, first * step, …; both_signs: also to their negatives.
struct Starts {
  int count;
  float first, step;
  bool both_signs;
  int descents = 2;
};

// Unrounded; 0 if all weights are 0.
template <typename Codes, int kCount>
RIDGE_LANES_FN Fit fit_scale(const Lanes* x, const Lanes* w, const Starts& starts) {
  Lanes largest(0.0f);
  for (int i = 0; i < kCount; ++i) largest = select(abs(x[i]) > abs(largest), x[i], largest);
  const Lanes per_largest = inverse(largest);
  Lanes best_gain(0.0f), best(0.0f);
  float code = starts.first;
  const int passes = starts.count * (starts.both_signs ? 2 : 1) + starts.descents;
  for (int pass = 0; pass < passes; ++pass) {
    const Lanes inverse_scale = pass < passes - starts.descents ? per_largest * Lanes(code) : inverse(best);
    const Sums s = sums<Codes, kCount>(x, w, inverse_scale);
    const Lanes scale = s.xq * inverse(s.qq), gained = s.xq * scale;
    const auto better = gained > best_gain;
    best_gain = select(better, gained, best_gain);
    best = select(better, scale, best);
    if (starts.both_signs) code = -code;
    if (!starts.both_signs || (pass & 1)) code *= starts.step;
  }
  return {best, best_gain};
}

// For x = scale * q - min.
struct OffsetSums {
  Lanes q, qq, xq;
};

template <int kTop, int kCount>
RIDGE_LANES_FN OffsetSums offset_sums(const Lanes* x, const Lanes* w, Lanes inverse_scale, Lanes min) {
  OffsetSums s{Lanes(0.0f), Lanes(0.0f), Lanes(0.0f)};
  for (int i = 0; i < kCount; ++i) {
    const Lanes q = Integers<0, kTop>::nearest((x[i] + min) * inverse_scale), wq = w[i] * q;
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

// Initial minimum and maximum: the first code lies first, first + step, … of the range inside each end.
struct Clips {
  int count;
  float first, step;
  int descents = 3;
};

// Unrounded, scale >= 0.
template <int kTop, int kCount, bool kMinOnly>
RIDGE_LANES_FN FitMin fit_scale_min(const Lanes* x, const Lanes* w, const Constants& constants, const Clips& clips) {
  Lanes low = x[0], high = x[0];
  for (int i = 1; i < kCount; ++i) {
    low = min(low, x[i]);
    high = max(high, x[i]);
  }
  if (kMinOnly) low = min(low, Lanes(0.0f));
  const Lanes range = high - low;
  ScaleMin best{Lanes(0.0f), -(constants.x / constants.w)};
  if (kMinOnly) best.min = max(best.min, Lanes(0.0f));
  Lanes best_gain = -(best.min * constants.x);
  const int starts = clips.count * clips.count;
  for (int pass = 0; pass < starts + clips.descents; ++pass) {
    const float below = clips.first + clips.step * static_cast<float>(pass / clips.count);
    const float above = clips.first + clips.step * static_cast<float>(pass % clips.count);
    const bool start = pass < starts;
    const Lanes scale = start ? range * Lanes((1.0f - below - above) * (1.0f / kTop)) : best.scale;
    const Lanes shift = start ? -(low + range * Lanes(below)) : best.min;
    const OffsetSums s = offset_sums<kTop, kCount>(x, w, inverse(scale), shift);
    const ScaleMin fit = solve<kMinOnly>(s, constants);
    const Lanes gained = fit.scale * s.xq - fit.min * constants.x;
    const auto better = gained > best_gain;
    best_gain = select(better, gained, best_gain);
    best = {select(better, fit.scale, best.scale), select(better, fit.min, best.min)};
  }
  return {best, best_gain};
}

RIDGE_LANES_END

#endif
