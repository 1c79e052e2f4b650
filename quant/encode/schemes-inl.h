// The search per format; lattice-inl.h has codebooks.
#if defined(RIDGE_SCHEMES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_SCHEMES_INL_H
#undef RIDGE_SCHEMES_INL_H
#else
#define RIDGE_SCHEMES_INL_H
#endif

#include "quant/all_formats.h"
#include "quant/encode/block-inl.h"

RIDGE_LANES_BEGIN

// Eight-bit codes need no lengthening.
template <typename Format, typename Codes, bool kLengthen = true>
RIDGE_LANES_FN void search_scale(Block<Format::kWeights>& b, const Starts& starts) {
  const Fit fit = fit_scale<Codes, Format::kWeights>(b.x, b.w, starts, b.equal);
  Lanes scale = fit.scale;
  if constexpr (kLengthen) scale = scale * b.lengthen(0, Format::kWeights, fit.gained);
  scale = b.to_f16(scale);
  b.d = scale * b.unit;
  b.template set_codes<Codes>(0, Format::kWeights, scale);
}

template <typename Format, int kTop>
RIDGE_LANES_FN void search_scale_offset(Block<Format::kWeights>& b, const Clips& clips) {
  constexpr int kWeights = Format::kWeights;
  const Constants constants = b.constants(0, kWeights);
  const FitMin fit = fit_scale_min<kTop, kWeights, false>(b.x, b.w, constants, clips, b.equal);
  const Lanes factor = b.lengthen(0, kWeights, fit.gained);
  const Lanes scale = b.to_f16(fit.best.scale * factor), low = b.to_f16(fit.best.min * factor);
  b.d = scale * b.unit;
  b.m = Lanes(0.0f) - low * b.unit;
  b.template set_codes<kTop>(0, kWeights, scale, low);
}

// `factor`s of the free scale reach its neighbours in the set.
struct PowerOfTwoScales {
  static constexpr int kTries = 3;
  static RIDGE_LANES_FN Lanes factor(int i) { return Lanes(i == 0 ? 1.0f : i == 1 ? 0.5f : 2.0f); }
  static RIDGE_LANES_FN Lanes round(Lanes a) {
    return clamp(floor_power_of_two(a * Lanes(4.0f / 3)), Lanes(0x1p-126f), Lanes(0x1p124f)); // 12 * 2^124 is finite
  }
};
struct E4M3Scales { // halved, see NVFP4
  static constexpr int kTries = 7;
  static RIDGE_LANES_FN Lanes factor(int i) { return Lanes(1.0f + 0.07f * static_cast<float>(i - 3)); }
  static RIDGE_LANES_FN Lanes round(Lanes a) {
    const Lanes subnormal = (a + Lanes(0x1.8p13f)) - Lanes(0x1.8p13f); // multiples of 2^-10
    return min(select(a < Lanes(0x1p-7f), subnormal, round_significand<4>(min(a, Lanes(224.0f)))), Lanes(224.0f));
  }
};

template <typename Format, typename Codes, typename Scales>
RIDGE_LANES_FN void search_float_scales(Block<Format::kWeights>& b, const Starts& starts) {
  constexpr int kGroup = Format::kScaleWeights;
  const Lanes per_unit = Lanes(1.0f) / b.unit;
  for (int g = 0; g < Format::kWeights / kGroup; ++g) {
    const Lanes *x = b.x + g * kGroup, *w = b.w + g * kGroup;
    const Fit fit = fit_scale<Codes, kGroup>(x, w, starts, b.equal);
    const Lanes free_scale = abs(fit.scale) * b.lengthen(g * kGroup, kGroup, fit.gained);
    Lanes best(0.0f), best_gain(-1e30f);
    for (int i = 0; i < Scales::kTries; ++i) {
      const Lanes scale = Scales::round(free_scale * Scales::factor(i) * b.unit) * per_unit;
      const Lanes gained = gain(sums<Codes, kGroup>(x, w, inverse(scale)), scale);
      best = select(gained > best_gain, scale, best);
      best_gain = max(best_gain, gained);
    }
    b.scale[g] = best * b.unit;
    b.template set_codes<Codes>(g * kGroup, kGroup, best);
  }
}

// Trials of d, starting at the value for the largest group scale and slightly above and below, which changes other
// groups' rounding.
struct Rounds {
  int starts, refinements;

  RIDGE_LANES_FN int count() const { return starts * (1 + refinements); }
  RIDGE_LANES_FN bool is_start(int round) const { return round % (1 + refinements) == 0; }
  RIDGE_LANES_FN float factor(int round) const {
    const int start = round / (1 + refinements);
    return 1.0f + 0.03f * static_cast<float>(start & 1 ? (start + 1) / 2 : -start / 2);
  }
};

// Integer group scales kLow … kHigh times d.
//
// Free group scales give d. Alternately, each group takes the better neighbouring integer and d the least-squares
// solution; the best round is kept.
template <typename Format, typename Codes, int kLow, int kHigh>
RIDGE_LANES_FN void search_group_scales(Block<Format::kWeights>& b, const Starts& starts, int reach,
                                        const Rounds& rounds) {
  constexpr int kGroup = Format::kScaleWeights, kGroups = Format::kWeights / kGroup;
  Lanes free_scale[kGroups], largest(0.0f);
  for (int g = 0; g < kGroups; ++g) {
    const Fit fit = fit_scale<Codes, kGroup>(b.x + g * kGroup, b.w + g * kGroup, starts, b.equal);
    free_scale[g] = fit.scale * b.lengthen(g * kGroup, kGroup, fit.gained);
    largest = select(abs(free_scale[g]) > abs(largest), free_scale[g], largest);
  }
  Lanes d(0.0f), best_d(0.0f), best_gain(0.0f);
  for (int g = 0; g < kGroups; ++g) b.scale[g] = Lanes(0.0f);
  for (int i = 0; i < rounds.count(); ++i) {
    if (rounds.is_start(i)) d = b.to_f16(largest * Lanes(rounds.factor(i) / kLow));
    const Lanes per_d = inverse(d);
    Lanes chosen[kGroups], total(0.0f), xq(0.0f), qq(0.0f);
    for (int g = 0; g < kGroups; ++g) {
      const Lanes centre = round(free_scale[g] * per_d);
      Lanes group_gain(-1e30f), group_xq(0.0f), group_qq(0.0f);
      chosen[g] = Lanes(0.0f);
      for (int step = -reach; step <= reach; ++step) {
        const Lanes n = clamp(centre + Lanes(static_cast<float>(step)), Lanes(kLow), Lanes(kHigh)), scale = d * n;
        const Sums s = sums<Codes, kGroup>(b.x + g * kGroup, b.w + g * kGroup, inverse(scale));
        const Lanes gained = gain(s, scale);
        const auto better = gained > group_gain;
        group_gain = select(better, gained, group_gain);
        chosen[g] = select(better, n, chosen[g]);
        group_xq = select(better, n * s.xq, group_xq);
        group_qq = select(better, n * n * s.qq, group_qq);
      }
      total += group_gain;
      xq += group_xq;
      qq += group_qq;
    }
    const auto better = total > best_gain;
    best_gain = select(better, total, best_gain);
    best_d = select(better, d, best_d);
    for (int g = 0; g < kGroups; ++g) b.scale[g] = select(better, chosen[g], b.scale[g]);
    d = b.to_f16(xq * inverse(qq));
  }
  b.d = best_d * b.unit;
  for (int g = 0; g < kGroups; ++g) b.template set_codes<Codes>(g * kGroup, kGroup, best_d * b.scale[g]);
}

// Integers 0 … kHigh times d and dmin. The best min follows from each scale.
template <typename Format, int kTop, int kHigh>
RIDGE_LANES_FN void search_group_scale_mins(Block<Format::kWeights>& b, const Clips& clips, const Rounds& rounds) {
  constexpr int kGroup = Format::kScaleWeights, kGroups = Format::kWeights / kGroup;
  Lanes free_scale[kGroups], free_min[kGroups], scale[kGroups], low[kGroups], most_scale(0.0f), most_min(0.0f);
  Constants constants[kGroups];
  for (int g = 0; g < kGroups; ++g) {
    constants[g] = b.constants(g * kGroup, kGroup);
    const FitMin fit =
        fit_scale_min<kTop, kGroup, true>(b.x + g * kGroup, b.w + g * kGroup, constants[g], clips, b.equal);
    const Lanes factor = b.lengthen(g * kGroup, kGroup, fit.gained);
    constants[g].x = constants[g].x * factor;
    free_scale[g] = fit.best.scale * factor;
    free_min[g] = fit.best.min * factor;
    most_scale = max(most_scale, free_scale[g]);
    most_min = max(most_min, free_min[g]);
  }
  Lanes d(0.0f), dmin(0.0f), best_d(0.0f), best_dmin(0.0f), best_gain(0.0f);
  for (int g = 0; g < kGroups; ++g) b.scale[g] = b.min[g] = Lanes(0.0f);
  for (int i = 0; i < rounds.count(); ++i) {
    if (rounds.is_start(i)) {
      d = b.to_f16(most_scale * Lanes(rounds.factor(i) / kHigh));
      dmin = b.to_f16(most_min * Lanes(rounds.factor(i) / kHigh));
      for (int g = 0; g < kGroups; ++g) {
        scale[g] = free_scale[g];
        low[g] = free_min[g];
      }
    }
    const Lanes per_d = inverse(d), per_dmin = inverse(dmin);
    Lanes scales[kGroups], mins[kGroups], total(0.0f);
    Lanes a11(0.0f), a12(0.0f), a22(0.0f), b1(0.0f), b2(0.0f);
    for (int g = 0; g < kGroups; ++g) {
      const Lanes centre = round(scale[g] * per_d), given_min = dmin * round(low[g] * per_dmin);
      Lanes group_gain(-1e30f);
      OffsetSums group{Lanes(0.0f), Lanes(0.0f), Lanes(0.0f)};
      scales[g] = mins[g] = Lanes(0.0f);
      for (int step = -1; step <= 1; ++step) {
        const Lanes n = clamp(centre + Lanes(static_cast<float>(step)), Lanes(0.0f), Lanes(kHigh)), tried = d * n;
        const OffsetSums s = offset_sums<kTop, kGroup>(b.x + g * kGroup, b.w + g * kGroup, inverse(tried), given_min);
        const Lanes fitting = (tried * s.q - constants[g].x) * inverse(constants[g].w);
        const Lanes m = clamp(round(fitting * per_dmin), Lanes(0.0f), Lanes(kHigh));
        const Lanes gained = gain(s, constants[g], tried, dmin * m);
        const auto better = gained > group_gain;
        group_gain = select(better, gained, group_gain);
        scales[g] = select(better, n, scales[g]);
        mins[g] = select(better, m, mins[g]);
        group = {select(better, s.q, group.q), select(better, s.qq, group.qq), select(better, s.xq, group.xq)};
      }
      total += group_gain;
      a11 += scales[g] * scales[g] * group.qq;
      a12 += scales[g] * mins[g] * group.q;
      a22 += mins[g] * mins[g] * constants[g].w;
      b1 += scales[g] * group.xq;
      b2 += mins[g] * constants[g].x;
      scale[g] = d * scales[g];
      low[g] = dmin * mins[g];
    }
    const auto better = total > best_gain;
    best_gain = select(better, total, best_gain);
    best_d = select(better, d, best_d);
    best_dmin = select(better, dmin, best_dmin);
    for (int g = 0; g < kGroups; ++g) {
      b.scale[g] = select(better, scales[g], b.scale[g]);
      b.min[g] = select(better, mins[g], b.min[g]);
    }
    const Lanes determinant = a11 * a22 - a12 * a12;
    const auto solvable = determinant > Lanes(0.0f);
    d = b.to_f16(max(select(solvable, (b1 * a22 - b2 * a12) * inverse(determinant), b1 * inverse(a11)), Lanes(0.0f)));
    dmin = b.to_f16(max((d * a12 - b2) * inverse(a22), Lanes(0.0f)));
  }
  b.d = best_d * b.unit;
  b.m = best_dmin * b.unit;
  for (int g = 0; g < kGroups; ++g)
    b.template set_codes<kTop>(g * kGroup, kGroup, best_d * b.scale[g], best_dmin * b.min[g]);
}

#define RIDGE_SCHEME(Format, ...)                                                                                      \
  template <>                                                                                                          \
  struct Scheme<Format> {                                                                                              \
    static RIDGE_LANES_FN void search(Block<Format::kWeights>& b) { __VA_ARGS__; }                                     \
  };

RIDGE_SCHEME(Q4_0, search_scale<Q4_0, Integers<-8, 7>>(b, {16, 5.8f, 1.04f, true, 2, {13, 200, 9}}))
RIDGE_SCHEME(Q5_0, search_scale<Q5_0, Integers<-16, 15>>(b, {16, 12.5f, 1.025f, true, 2, {20, 400, 10}}))
RIDGE_SCHEME(Q8_0, search_scale<Q8_0, Integers<-127, 127>, false>(b, {30, 119.0f, 1.003f, false, 1, {20, 472, 2}}))
RIDGE_SCHEME(IQ4_NL, search_scale<IQ4_NL, LevelCodes>(b, {12, -95.0f, 1.05f, true}))
RIDGE_SCHEME(TQ1_0, search_scale<TQ1_0, Integers<-1, 1>>(b, {40, 0.7f, 1.11f, false, 3}))
RIDGE_SCHEME(TQ2_0, search_scale<TQ2_0, Integers<-1, 1>>(b, {40, 0.7f, 1.11f, false, 3}))
RIDGE_SCHEME(Q2_0, search_scale<Q2_0, Integers<-1, 2>>(b, {40, 0.7f, 1.11f, true, 3}))
RIDGE_SCHEME(Q1_0, search_scale<Q1_0, SignCodes>(b, {1, 1.0f, 1.0f, false, 0}))
RIDGE_SCHEME(Q4_1, search_scale_offset<Q4_1, 15>(b, {9, -0.045f, 0.015f, 3, {6, -0.056f, 0.026f}}))
RIDGE_SCHEME(Q5_1, search_scale_offset<Q5_1, 31>(b, {9, -0.032f, 0.008f, 3, {6, -0.036f, 0.0135f}}))
RIDGE_SCHEME(MXFP4, search_float_scales<MXFP4, FloatCodes, PowerOfTwoScales>(b, {6, 10.0f, 1.1f, false}))
RIDGE_SCHEME(NVFP4, search_float_scales<NVFP4, FloatCodes, E4M3Scales>(b, {12, 7.5f, 1.08f, false}))
RIDGE_SCHEME(Q3_K,
             search_group_scales<Q3_K, Integers<-4, 3>, -32, 31>(b, {10, 2.8f, 1.1f, true, 2, {13, 88, 10}}, 1, {3, 1}))
RIDGE_SCHEME(Q6_K,
             search_group_scales<Q6_K, Integers<-32, 31>, -128, 127>(b, {24, 26.5f, 1.012f, true, 2, {19, 208, 3}}, 1,
                                                                     {3, 1}))
RIDGE_SCHEME(IQ4_XS, search_group_scales<IQ4_XS, LevelCodes, -32, 31>(b, {10, -95.0f, 1.05f, true}, 1, {3, 1}))
RIDGE_SCHEME(Q2_K, search_group_scale_mins<Q2_K, 3, 15>(b, {5, -0.08f, 0.08f}, {3, 2}))
RIDGE_SCHEME(Q4_K, search_group_scale_mins<Q4_K, 15, 63>(b, {8, -0.035f, 0.016f}, {3, 2}))
RIDGE_SCHEME(Q5_K, search_group_scale_mins<Q5_K, 31, 63>(b, {8, -0.025f, 0.0085f}, {3, 2}))
#undef RIDGE_SCHEME

RIDGE_LANES_END

#endif
