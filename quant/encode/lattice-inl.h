// Finds the best codebook points (IQ1, IQ2, IQ3) for eight weights and a scale.
//
// Tables hold the errors of all first and second halves of a point (3^4 or 8^2 entries), so a point costs one addition
// and one comparison. If seven of eight signs are stored, an odd number of minus signs makes one sign wrong; tables
// with the cheapest wrong sign cover this.
#if defined(RIDGE_LATTICE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_LATTICE_INL_H
#undef RIDGE_LATTICE_INL_H
#else
#define RIDGE_LATTICE_INL_H
#endif

#include "quant/all_formats.h"
#include "quant/encode/block-inl.h"

RIDGE_LANES_BEGIN

// Points ascend: those with the same second half are adjacent.
template <const auto& kBook, const auto& kLevelCodes>
struct Lattice {
  static constexpr int kSize = sizeof kBook.point / sizeof kBook.point[0];
  static constexpr int kDims = sizeof kBook.point[0]; // weights per point
  static constexpr int kRadix = sizeof kLevelCodes / sizeof kLevelCodes[0];
  static constexpr int kHalves = kDims == 8 ? kRadix * kRadix * kRadix * kRadix : kRadix * kRadix;
  static constexpr int kPoints = 8 / kDims;

  struct Index {
    uint8_t first[kSize], second[kSize];
    int start[kHalves + 1]; // points start[h] … start[h + 1] - 1 have second half h
    float number[kSize];
  };
  static constexpr Index make_index() {
    Index index{};
    for (int n = 0; n < kSize; ++n) {
      int half[2] = {};
      for (int j = kDims - 1; j >= 0; --j) {
        int digit = 0;
        while (static_cast<uint8_t>(kLevelCodes[digit]) != (kBook.point[n] >> (8 * j) & 0xff)) ++digit;
        half[j / (kDims / 2)] = half[j / (kDims / 2)] * kRadix + digit;
      }
      index.first[n] = static_cast<uint8_t>(half[0]);
      index.second[n] = static_cast<uint8_t>(half[1]);
      index.number[n] = static_cast<float>(n);
      for (int h = half[1] + 1; h <= kHalves; ++h) index.start[h] = n + 1;
    }
    return index;
  }

  static RIDGE_LANES_FN int8_t code(int point, int j) { return static_cast<int8_t>(kBook.point[point] >> (8 * j)); }
};

template <typename Lattice>
RIDGE_TABLE typename Lattice::Index kPointIndex = Lattice::make_index();

// Errors, less Σ w x²; `flipped`: with the cheapest wrong sign. levels: codes times scale.
template <typename Lattice, bool kFlips, int kPlace>
struct Halves {
  static constexpr int kEntries = kFlips ? 2 * Lattice::kHalves : Lattice::kHalves + 1;
  LanesTable<Lattice::kHalves, kPlace> plain;
  LanesTable<kEntries - Lattice::kHalves, kPlace + Lattice::kHalves> flipped;

  RIDGE_LANES_FN Halves(const Lanes* x, const Lanes* w, const Lanes* levels) {
    plain[0] = Lanes(0.0f);
    flipped[0] = Lanes(1e30f);
    int size = 1;
    for (int j = 0; j < Lattice::kDims / 2; ++j, size *= Lattice::kRadix) {
      const Lanes twice = x[j] + x[j];
      for (int digit = Lattice::kRadix - 1; digit >= 0; --digit) { // because entries below `size` are read until digit
                                                                   // 0
        const Lanes wl = w[j] * levels[digit];
        const Lanes error = wl * (levels[digit] - twice), wrong = wl * (levels[digit] + twice);
        for (int i = 0; i < size; ++i) {
          if (kFlips) flipped[size * digit + i] = min(flipped[i] + error, plain[i] + wrong);
          plain[size * digit + i] = plain[i] + error;
        }
      }
    }
  }
};

struct Best {
  Lanes error, point;

  RIDGE_LANES_FN void keep_better(Lanes tried, float number) {
    point = select(tried < error, Lanes(number), point);
    error = min(error, tried);
  }
};

// odd: 1 in lanes that need a wrong sign.
template <typename Lattice>
struct Octet {
  Lanes error;
  Lanes point[Lattice::kPoints];
};

template <typename Lattice, bool kFlips>
RIDGE_LANES_FN Octet<Lattice> search_octet(const Lanes* x, const Lanes* w, const Lanes* levels, Lanes odd) {
  constexpr int kHalf = Lattice::kDims / 2;
  const auto& index = kPointIndex<Lattice>;
  Best best[2][2]; // [point][wrong sign]
  for (int p = 0; p < Lattice::kPoints; ++p) {
    const Lanes *px = x + p * Lattice::kDims, *pw = w + p * Lattice::kDims;
    using First = Halves<Lattice, kFlips, 0>;
    First first(px, pw, levels);
    Halves<Lattice, kFlips, First::kEntries> second(px + kHalf, pw + kHalf, levels);
    best[p][0] = best[p][1] = {Lanes(1e30f), Lanes(0.0f)};
    if (kFlips && Lattice::kPoints == 1) { // one scan: lanes that are not odd never flip
      const auto is_odd = odd > Lanes(0.0f);
      for (int i = 0; i < Lattice::kHalves; ++i) {
        second.flipped[i] = select(is_odd, second.flipped[i], second.plain[i]);
        first.flipped[i] = select(is_odd, first.flipped[i], Lanes(1e30f));
      }
    }
#ifdef __CUDACC__ // unrolled to hide latency
#pragma unroll 8
    for (int n = 0; n < Lattice::kSize; ++n) {
      const int h = index.second[n];
#else // keeps the half's values in registers
    for (int h = 0; h < Lattice::kHalves; ++h)
      for (int n = index.start[h]; n < index.start[h + 1]; ++n) {
#endif
      const int f = index.first[n];
      const Lanes plain = first.plain[f] + second.plain[h];
      if constexpr (!kFlips) {
        best[p][0].keep_better(plain, index.number[n]);
      } else {
        const Lanes flipped = min(first.plain[f] + second.flipped[h], first.flipped[f] + second.plain[h]);
        best[p][1].keep_better(flipped, index.number[n]);
        if (Lattice::kPoints == 2) best[p][0].keep_better(plain, index.number[n]);
      }
    }
  }
  Octet<Lattice> octet;
  if constexpr (Lattice::kPoints == 1) {
    octet = {best[0][kFlips].error, {best[0][kFlips].point}};
  } else {
    octet = {best[0][0].error + best[1][0].error, {best[0][0].point, best[1][0].point}};
    if constexpr (kFlips) {
      const Lanes in_first = best[0][1].error + best[1][0].error, in_second = best[0][0].error + best[1][1].error;
      const auto first_is_cheaper = in_first<in_second, is_odd = odd> Lanes(0.0f);
      octet.error = select(is_odd, min(in_first, in_second), octet.error);
      octet.point[0] = select(both(is_odd, first_is_cheaper), best[0][1].point, octet.point[0]);
      octet.point[1] = select(is_odd, select(first_is_cheaper, octet.point[1], best[1][1].point), octet.point[1]);
    }
  }
  return octet;
}

template <typename Lattice, int kCount>
struct Octets {
  Lanes error;
  Octet<Lattice> octet[kCount];

  static RIDGE_LANES_FN Octets none() {
    Octets group;
    group.error = Lanes(1e30f);
    for (auto& octet : group.octet)
      for (Lanes& point : octet.point) point = Lanes(0.0f);
    return group;
  }

  RIDGE_LANES_FN void take(LanesMask better, const Octets& other) {
    error = select(better, other.error, error);
    for (int i = 0; i < kCount; ++i)
      for (int p = 0; p < Lattice::kPoints; ++p)
        octet[i].point[p] = select(better, other.octet[i].point[p], octet[i].point[p]);
  }
};

template <const auto& kBook, const auto& kLevelCodes, bool kEvenSigns>
struct Magnitudes {
  using Grid = Lattice<kBook, kLevelCodes>;
  static constexpr bool kFlips = kEvenSigns;

  template <int kGroup>
  using Group = Octets<Grid, kGroup / 8>;

  // odd: whether the number of minus signs is odd, per eight weights.
  template <int kWeights>
  struct Prepared {
    Lanes x[kWeights], odd[kWeights / 8];
  };
  template <int kWeights>
  static RIDGE_LANES_FN void prepare(const Block<kWeights>& b, Prepared<kWeights>& prepared) {
    for (int octet = 0; octet < kWeights / 8; ++octet) {
      Lanes odd(0.0f);
      for (int i = 8 * octet; i < 8 * octet + 8; ++i) {
        prepared.x[i] = abs(b.x[i]);
        odd = select(b.x[i] < Lanes(0.0f), Lanes(1.0f) - odd, odd);
      }
      prepared.odd[octet] = odd;
    }
  }

  template <int kGroup, int kWeights>
  static RIDGE_LANES_FN Group<kGroup> search(const Block<kWeights>& b, const Prepared<kWeights>& prepared, int first,
                                             Lanes scale) {
    Lanes levels[Grid::kRadix];
    for (int l = 0; l < Grid::kRadix; ++l) levels[l] = scale * Lanes(static_cast<float>(kLevelCodes[l]));
    Group<kGroup> group;
    group.error = Lanes(0.0f);
    for (int octet = 0; octet < kGroup / 8; ++octet) {
      const int at = first + 8 * octet;
      group.octet[octet] = search_octet<Grid, kEvenSigns>(prepared.x + at, b.w + at, levels, prepared.odd[at / 8]);
      group.error += group.octet[octet].error;
    }
    return group;
  }

  static RIDGE_LANES_FN void codes(const float* x, const float* w, const float* points, float* code) {
    bool odd = false;
    int cheapest = 0;
    float least = 1e30f;
    for (int i = 0; i < 8; ++i) {
      const auto magnitude = static_cast<float>(Grid::code(static_cast<int>(points[i / Grid::kDims]), i % Grid::kDims));
      const bool negative = x[i] < 0.0f;
      odd ^= negative;
      code[i] = negative ? -magnitude : magnitude;
      const float cost = w[i] * x[i] * code[i];
      if (cost < least) least = cost, cheapest = i;
    }
    if (kEvenSigns && odd) code[cheapest] = -code[cheapest];
  }
};

// A shift of ±1/8 per kShared weights (IQ1).
template <int kShared>
struct ShiftedDigits {
  using Grid = Lattice<kIq1Codebook, kIq1Levels>;
  static constexpr bool kFlips = false;

  template <int kGroup>
  using Group = Octets<Grid, kGroup / 8>;

  template <int kWeights>
  struct Prepared {};
  template <int kWeights>
  static RIDGE_LANES_FN void prepare(const Block<kWeights>&, Prepared<kWeights>&) {}

  // A negative shift adds kSize to the point's number.
  template <int kGroup, int kWeights>
  static RIDGE_LANES_FN Group<kGroup> search(const Block<kWeights>& b, const Prepared<kWeights>&, int first,
                                             Lanes scale) {
    Group<kGroup> group;
    group.error = Lanes(0.0f);
    for (int octet = 0; octet < kGroup / 8; octet += kShared / 8) {
      Octet<Grid> found[2][kShared / 8];
      Lanes error[2] = {Lanes(0.0f), Lanes(0.0f)};
      for (int negative = 0; negative < 2; ++negative) {
        Lanes levels[3];
        for (int l = 0; l < 3; ++l) levels[l] = scale * Lanes(static_cast<float>(kIq1Levels[l] + (negative ? -1 : 1)));
        for (int i = 0; i < kShared / 8; ++i) {
          const int at = first + 8 * (octet + i);
          found[negative][i] = search_octet<Grid, false>(b.x + at, b.w + at, levels, Lanes(0.0f));
          error[negative] += found[negative][i].error;
        }
      }
      const auto negative = error[1] < error[0];
      group.error += min(error[0], error[1]);
      for (int i = 0; i < kShared / 8; ++i)
        group.octet[octet + i].point[0] =
            select(negative, found[1][i].point[0] + Lanes(Grid::kSize), found[0][i].point[0]);
    }
    return group;
  }

  static RIDGE_LANES_FN void codes(const float*, const float*, const float* points, float* code) {
    const int number = static_cast<int>(points[0]), shift = number < Grid::kSize ? 1 : -1;
    for (int i = 0; i < 8; ++i) code[i] = static_cast<float>(Grid::code(number % Grid::kSize, i) + shift);
  }
};

template <typename Codes, int kGroup, int kWeights, typename Group>
RIDGE_LANES_FN Sums take_codes(Block<kWeights>& b, int first, const Group& group) {
  constexpr int kPoints = Codes::Grid::kPoints;
  for (int octet = 0; octet < kGroup / 8; ++octet) {
    const int at = first + 8 * octet;
    const auto *x = reinterpret_cast<const float*>(b.x + at), *w = reinterpret_cast<const float*>(b.w + at);
    const auto* points = reinterpret_cast<const float*>(group.octet[octet].point);
    auto* codes = reinterpret_cast<float*>(b.code + at);
    for (int lane = 0; lane < kLanes; ++lane) {
      float lane_x[8], lane_w[8], lane_points[kPoints], lane_code[8];
      for (int i = 0; i < 8; ++i) lane_x[i] = x[i * kLanes + lane], lane_w[i] = w[i * kLanes + lane];
      for (int p = 0; p < kPoints; ++p) lane_points[p] = points[p * kLanes + lane];
      Codes::codes(lane_x, lane_w, lane_points, lane_code);
      for (int i = 0; i < 8; ++i) codes[i * kLanes + lane] = lane_code[i];
    }
  }
  Sums s{Lanes(0.0f), Lanes(0.0f)};
  for (int i = first; i < first + kGroup; ++i) {
    s.xq += b.w[i] * b.x[i] * b.code[i];
    s.qq += b.w[i] * b.code[i] * b.code[i];
  }
  return s;
}

// scale = d * unit * (2 * n + 1), n in 0 … kTop.
template <typename Format, typename Codes, int kTop>
RIDGE_LANES_FN void search_codebook(Block<Format::kWeights>& b, float unit, const Starts& starts, int rounds) {
  constexpr int kWeights = Format::kWeights, kGroup = Format::kScaleWeights, kGroups = kWeights / kGroup;
  typename Codes::template Prepared<kWeights> prepared;
  Codes::prepare(b, prepared);
  Lanes free_scale[kGroups], most(0.0f);
  for (int g = 0; g < kGroups; ++g) {
    Lanes largest(0.0f);
    for (int i = g * kGroup; i < (g + 1) * kGroup; ++i) largest = max(largest, abs(b.x[i]));
    auto best = Codes::template Group<kGroup>::none();
    float code = starts.first;
    for (int i = 0; i < starts.count; ++i, code *= starts.step) {
      const Lanes scale = largest * Lanes(1.0f / code);
      const auto group = Codes::template search<kGroup>(b, prepared, g * kGroup, scale);
      best.take(group.error < best.error, group);
    }
    const Sums s = take_codes<Codes, kGroup>(b, g * kGroup, best);
    const Lanes scale = max(s.xq * inverse(s.qq), Lanes(0.0f));
    free_scale[g] = scale * b.lengthen(g * kGroup, kGroup, scale * s.xq);
    most = max(most, free_scale[g]);
  }
  Codes::prepare(b, prepared); // the weights changed
  const Lanes per_unit(1.0f / unit);
  Lanes d = b.to_f16(most * per_unit * Lanes(1.0f / (2 * kTop + 1)));
  Lanes best_d(0.0f), best_error(0.0f), best_code[kWeights];
  for (int i = 0; i < kWeights; ++i) best_code[i] = b.code[i];
  for (int g = 0; g < kGroups; ++g) b.scale[g] = Lanes(0.0f);
  for (int round_number = 0; round_number < rounds; ++round_number) {
    const Lanes step = d * Lanes(unit), per_step = inverse(step);
    Lanes chosen[kGroups], total(0.0f), xq(0.0f), qq(0.0f);
    for (int g = 0; g < kGroups; ++g) {
      chosen[g] = Lanes(0.0f);
      const Lanes centre = round((free_scale[g] * per_step - Lanes(1.0f)) * Lanes(0.5f));
      auto best = Codes::template Group<kGroup>::none();
      for (int reach = -1; reach <= 1; ++reach) {
        const Lanes n = clamp(centre + Lanes(static_cast<float>(reach)), Lanes(0.0f), Lanes(kTop));
        const auto group = Codes::template search<kGroup>(b, prepared, g * kGroup, step * (n + n + Lanes(1.0f)));
        const auto better = group.error < best.error;
        chosen[g] = select(better, n, chosen[g]);
        best.take(better, group);
      }
      const Sums s = take_codes<Codes, kGroup>(b, g * kGroup, best);
      const Lanes odd = chosen[g] + chosen[g] + Lanes(1.0f);
      total += best.error;
      xq += odd * s.xq;
      qq += odd * odd * s.qq;
      free_scale[g] = max(s.xq * inverse(s.qq), Lanes(0.0f));
    }
    const auto better = total < best_error;
    best_error = min(total, best_error);
    best_d = select(better, d, best_d);
    for (int g = 0; g < kGroups; ++g) b.scale[g] = select(better, chosen[g], b.scale[g]);
    for (int i = 0; i < kWeights; ++i) best_code[i] = select(better, b.code[i], best_code[i]);
    d = b.to_f16(max(xq * inverse(qq) * per_unit, Lanes(0.0f)));
  }
  b.d = best_d * b.unit;
  for (int i = 0; i < kWeights; ++i) b.code[i] = best_code[i];
}

using Iq2XxsCodes = Magnitudes<kIq2XxsCodebook, kIq2Levels, true>;
using Iq2XsCodes = Magnitudes<kIq2XsCodebook, kIq2Levels, true>;
using Iq2SCodes = Magnitudes<kIq2SCodebook, kIq2Levels, false>;
using Iq3XxsCodes = Magnitudes<kIq3XxsCodebook, kIq3XxsLevels, true>;
using Iq3SCodes = Magnitudes<kIq3SCodebook, kIq3SLevels, false>;

// kTableEntries: of all tables used together.
#define RIDGE_SCHEME(Format, Codes, kTop, unit, ...)                                                                   \
  template <>                                                                                                          \
  struct Scheme<Format> {                                                                                              \
    static constexpr int kTableEntries = 2 * Halves<Codes::Grid, Codes::kFlips, 0>::kEntries;                          \
    static RIDGE_LANES_FN void search(Block<Format::kWeights>& b) {                                                    \
      search_codebook<Format, Codes, kTop>(b, unit, __VA_ARGS__);                                                      \
    }                                                                                                                  \
  };

RIDGE_SCHEME(IQ1_S, ShiftedDigits<32>, 7, 0.125f, {5, 9.5f, 1.22f, false}, 2)
RIDGE_SCHEME(IQ1_M, ShiftedDigits<8>, 7, 0.125f, {5, 8.5f, 1.22f, false}, 2)
RIDGE_SCHEME(IQ2_XXS, Iq2XxsCodes, 15, 0.125f, {5, 42.0f, 1.2f, false}, 2)
RIDGE_SCHEME(IQ2_XS, Iq2XsCodes, 15, 0.125f, {5, 42.0f, 1.2f, false}, 2)
RIDGE_SCHEME(IQ2_S, Iq2SCodes, 15, 0.125f, {5, 42.0f, 1.2f, false}, 2)
RIDGE_SCHEME(IQ3_XXS, Iq3XxsCodes, 15, 0.25f, {6, 52.0f, 1.1f, false}, 2)
RIDGE_SCHEME(IQ3_S, Iq3SCodes, 15, 1.0f, {6, 12.8f, 1.08f, false}, 2)
#undef RIDGE_SCHEME

RIDGE_LANES_END

#endif
