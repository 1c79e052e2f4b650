#include "media/pictures/resize.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace ridge::media {
namespace {

double bilinear(double x) { return std::max(0.0, 1 - std::abs(x)); }

double bicubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0;
}

double sinc(double x) { return x == 0 ? 1 : std::sin(x * std::numbers::pi) / (x * std::numbers::pi); }
double lanczos(double x) { return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

struct Kernel {
  double (*weight)(double);
  double support;
};

Kernel kernel_of(Filter filter) {
  switch (filter) {
  case Filter::bilinear: return {bilinear, 1};
  case Filter::bicubic: return {bicubic, 2};
  case Filter::lanczos: return {lanczos, 3};
  }
  return {};
}

constexpr int kWeightBits = 22;

// Weights of source pixels from `first`.
struct Sum {
  int64_t first;
  std::vector<int32_t> weights;
};

std::vector<Sum> sums_of(int64_t from, int64_t to, Filter filter) {
  const auto [weight, own_support] = kernel_of(filter);
  const double scale = static_cast<double>(from) / static_cast<double>(to), widening = std::max(scale, 1.0);
  const double support = own_support * widening, step = 1 / widening;
  std::vector<Sum> sums(to);
  std::vector<double> weights;
  for (int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const int64_t first = std::max<int64_t>(0, static_cast<int64_t>(center - support + 0.5)),
                  end = std::min(from, static_cast<int64_t>(center + support + 0.5));
    double total = 0;
    weights.clear();
    for (int64_t x = first; x < end; ++x) {
      weights.push_back(weight((static_cast<double>(x) - center + 0.5) * step));
      total += weights.back();
    }
    sums[i].first = first;
    for (double w : weights) {
      if (total != 0) w /= total;
      w *= 1 << kWeightBits;
      sums[i].weights.push_back(static_cast<int32_t>(w < 0 ? w - 0.5 : w + 0.5));
    }
  }
  return sums;
}

// stride: bytes between pixels.
void add_up(const Sum& sum, const uint8_t* from, int64_t stride, uint8_t* to) {
  int32_t channels[3];
  std::fill_n(channels, 3, 1 << (kWeightBits - 1));
  const uint8_t* pixel = from + sum.first * stride;
  for (const int32_t weight : sum.weights) {
    for (int c = 0; c < 3; ++c) channels[c] += pixel[c] * weight;
    pixel += stride;
  }
  for (int c = 0; c < 3; ++c) to[c] = static_cast<uint8_t>(std::clamp(channels[c] >> kWeightBits, 0, 255));
}

Picture resize_columns(const Picture& from, int64_t width, Filter filter) {
  const std::vector<Sum> sums = sums_of(from.width, width, filter);
  Picture to(width, from.height);
  for (int64_t y = 0; y < to.height; ++y)
    for (int64_t x = 0; x < width; ++x) add_up(sums[x], from.row(y), 3, to.row(y) + x * 3);
  return to;
}

Picture resize_rows(const Picture& from, int64_t height, Filter filter) {
  const std::vector<Sum> sums = sums_of(from.height, height, filter);
  Picture to(from.width, height);
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < to.width; ++x) add_up(sums[y], from.row(0) + x * 3, from.width * 3, to.row(y) + x * 3);
  return to;
}

} // namespace

Picture resize(const Picture& picture, int64_t width, int64_t height, Filter filter) {
  if (picture.width < 1 || picture.height < 1 || width < 1 || height < 1)
    throw std::logic_error("resize: an image without pixels");
  Picture made = picture.width == width ? picture : resize_columns(picture, width, filter);
  return made.height == height ? made : resize_rows(made, height, filter);
}

Picture resize_padded(const Picture& picture, int64_t width, int64_t height, Filter filter, Color color,
                      Rounding rounding) {
  if (picture.width == width && picture.height == height) return picture;
  const float scale = std::min(static_cast<float>(width) / static_cast<float>(picture.width),
                               static_cast<float>(height) / static_cast<float>(picture.height));
  const auto side = [&](int64_t own, int64_t most) {
    const float exact = static_cast<float>(own) * scale;
    const float whole = rounding == Rounding::up ? std::ceil(exact) : std::round(exact);
    return std::clamp<int64_t>(static_cast<int64_t>(whole), 1, most);
  };
  const Picture small = resize(picture, side(picture.width, width), side(picture.height, height), filter);
  const auto offset = [&](int64_t room) {
    return rounding == Rounding::up ? room / 2 : static_cast<int64_t>(std::round(static_cast<float>(room) * 0.5f));
  };
  const int64_t left = offset(width - small.width), top = offset(height - small.height);
  Picture padded(width, height);
  for (int64_t i = 0; i < width * height; ++i) std::ranges::copy(color, padded.rgb.begin() + 3 * i);
  for (int64_t y = 0; y < small.height; ++y) std::copy_n(small.row(y), small.width * 3, padded.row(top + y) + left * 3);
  return padded;
}

Picture crop(const Picture& picture, int64_t x, int64_t y, int64_t width, int64_t height) {
  Picture part(width, height);
  for (int64_t row = 0; row < height; ++row) std::copy_n(picture.row(y + row) + x * 3, width * 3, part.row(row));
  return part;
}

Picture placed(const Picture& picture, int64_t width, int64_t height) {
  Picture large(width, height);
  for (int64_t y = 0; y < picture.height; ++y) std::copy_n(picture.row(y), picture.width * 3, large.row(y));
  return large;
}

std::vector<float> interpolated(const Picture& picture, int64_t width, int64_t height) {
  struct Pair {
    int64_t first, second;
    float share; // of the second
  };
  const auto pairs_of = [](int64_t from, int64_t to) {
    std::vector<Pair> pairs;
    const float scale = static_cast<float>(from) / static_cast<float>(to);
    for (int64_t i = 0; i < to; ++i) {
      const float at = (static_cast<float>(i) + 0.5f) * scale - 0.5f, below = std::floor(at);
      const auto pixel = [&](int64_t step) {
        return std::clamp<int64_t>(static_cast<int64_t>(below) + step, 0, from - 1);
      };
      pairs.push_back({pixel(0), pixel(1), at - below});
    }
    return pairs;
  };
  const std::vector<Pair> columns = pairs_of(picture.width, width);
  std::vector<float> levels;
  levels.reserve(width * height * 3);
  for (const Pair& line : pairs_of(picture.height, height))
    for (const Pair& column : columns)
      for (int64_t c = 0; c < 3; ++c) {
        const auto between = [&](int64_t y) {
          const auto at = [&](int64_t x) { return static_cast<float>(picture.row(y)[3 * x + c]); };
          return at(column.first) + (at(column.second) - at(column.first)) * column.share;
        };
        const float top = between(line.first);
        levels.push_back(top + (between(line.second) - top) * line.share);
      }
  return levels;
}

Size smart_size(Size picture, int64_t factor, int64_t least, int64_t most) {
  const auto f = static_cast<float>(factor);
  const auto multiple = [&](float exact, float (*whole)(float)) {
    return std::max(factor, static_cast<int64_t>(whole(exact / f)) * factor);
  };
  const auto round = [](float x) { return std::round(x); };
  const auto w = static_cast<float>(picture.width), h = static_cast<float>(picture.height);
  const Size size = {multiple(w, round), multiple(h, round)};
  const int64_t pixels = size.width * size.height;
  if (pixels > most) {
    const float shrink = std::sqrt(h * w / static_cast<float>(most));
    const auto down = [](float x) { return std::floor(x); };
    return {multiple(w / shrink, down), multiple(h / shrink, down)};
  }
  if (pixels < least) {
    const float grow = std::sqrt(static_cast<float>(least) / (h * w));
    const auto up = [](float x) { return std::ceil(x); };
    return {multiple(w * grow, up), multiple(h * grow, up)};
  }
  return size;
}

} // namespace ridge::media
