#include "convert/type_search.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <queue>

namespace ridge::convert {

using quant::Type;

std::vector<Type> default_candidates() {
  std::vector<Type> types;
  for (const Type type : {Type::IQ2_XXS, Type::IQ2_XS, Type::IQ2_S, Type::Q2_K, Type::IQ3_XXS, Type::Q3_K, Type::IQ3_S,
                          Type::IQ4_XS, Type::IQ4_NL, Type::Q4_0, Type::Q4_K, Type::Q4_1, Type::Q5_0, Type::Q5_K,
                          Type::Q5_1, Type::Q6_K, Type::Q8_0, Type::F16})
    if (quant::can_encode(type)) types.push_back(type);
  return types;
}

double sensitivity(std::string_view tensor, bool is_output, int64_t layers) {
  // KL divergence per relative error, docs/performance/log-quantizing.md (5 layers, Q3_K in one role at a time). The
  // output matrix acts on logits directly; a layer's matrix is one of many contributions to the residual stream, hence
  // `layers`.
  constexpr double kOutputPerLayer = 5;
  if (is_output) return kOutputPerLayer * static_cast<double>(std::max<int64_t>(1, layers));
  switch (models::role_of(tensor)) {
  case models::Role::attn_q:
  case models::Role::attn_k: return 0.45;
  case models::Role::attn_output: return 0.7;
  case models::Role::ffn_up: return 0.75;
  case models::Role::ffn_down:
  case models::Role::token_embd: return 3; // token_embd by analogy: both write to the residual stream
  default: return 1;
  }
}

namespace {

// Lower convex hull of (bytes, loss): cost per byte increases with each step.
void keep_hull(std::vector<TypeChoice>& choices) {
  std::ranges::sort(choices, [](const TypeChoice& a, const TypeChoice& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.loss < b.loss;
  });
  std::vector<TypeChoice> hull;
  const auto gain = [](const TypeChoice& a, const TypeChoice& b) {
    return (a.loss - b.loss) / static_cast<double>(b.bytes - a.bytes);
  };
  for (const TypeChoice& choice : choices) {
    if (!hull.empty() && (choice.bytes == hull.back().bytes || choice.loss >= hull.back().loss)) continue;
    while (hull.size() > 1 && gain(hull[hull.size() - 2], hull.back()) <= gain(hull.back(), choice)) hull.pop_back();
    hull.push_back(choice);
  }
  choices = std::move(hull);
}

// Scales assumed values to the measured ones.
std::vector<double> sensitivities_of(const Requantization& plan,
                                     const std::vector<std::optional<double>>& sensitivities) {
  const int64_t layers = models::model_traits(*plan.file).layers;
  std::vector<double> all;
  double measured = 0, assumed = 0;
  for (size_t i = 0; i < plan.sources.size(); ++i) {
    all.push_back(sensitivity(plan.sources[i].name(), plan.is_output(plan.sources[i]), layers));
    if (sensitivities.empty() || !sensitivities[i]) continue;
    measured += *sensitivities[i];
    assumed += all[i];
  }
  if (measured > 0)
    for (size_t i = 0; i < all.size(); ++i) all[i] = sensitivities[i].value_or(all[i] * measured / assumed);
  return all;
}

// A tensor has one per probe; losses in between interpolate.
struct Sensitivity {
  std::vector<std::pair<double, double>> points; // loss, sensitivity

  double at(double loss) const {
    const auto above = std::ranges::find_if(points, [=](const auto& point) { return point.first >= loss; });
    if (above == points.end()) return points.back().second;
    if (above == points.begin()) return above->second;
    const auto [low, of_low] = *(above - 1);
    const auto [high, of_high] = *above;
    const double share = low > 0 ? std::log(loss / low) / std::log(high / low) : (loss - low) / (high - low);
    return of_low + share * (of_high - of_low);
  }
};

} // namespace

TensorLoss::TensorLoss(const WeightSource& source, const gguf::Imatrix* imatrix, const gguf::Imatrix* inputs)
    : source_(source), importance_(importance_of(imatrix, source)),
      measured_(importance_of(inputs ? inputs : imatrix, source)) {
  constexpr int64_t kSampleWeights = 1 << 16;
  // Evenly spaced over all matrices.
  const int64_t count = std::clamp<int64_t>(kSampleWeights / source.cols(), 1, source.rows());
  weights_.resize(static_cast<size_t>(count * source.cols()));
  for (int64_t i = 0; i < count; ++i) {
    rows_.push_back((2 * i + 1) * source.rows() / (2 * count));
    source.decode(rows_.back(), 1, weights_.data() + i * source.cols());
  }
}

double TensorLoss::in(Type type, const EncodeRows& encode) const {
  const int64_t cols = source_.cols(), matrix_rows = source_.rows() / source_.matrices();
  const quant::FormatInfo& format = quant::format(type);
  std::vector<std::byte> packed(static_cast<size_t>(format.row_bytes(cols)) * rows_.size());
  std::vector<float> decoded(static_cast<size_t>(cols));
  quant::ErrorStats stats;
  for (size_t i = 0; i < rows_.size();) {
    const auto matrix = static_cast<size_t>(rows_[i] / matrix_rows);
    size_t end = i + 1;
    while (end < rows_.size() && static_cast<size_t>(rows_[end] / matrix_rows) == matrix) ++end;
    const std::vector<float>& factors = measured_[matrix];
    const float* weights = weights_.data() + static_cast<int64_t>(i) * cols;
    encode({weights, static_cast<int64_t>(end - i), cols}, type, importance_[matrix], packed.data());
    for (size_t r = i; r < end; ++r) {
      format.decode(packed.data() + static_cast<int64_t>(r - i) * format.row_bytes(cols), cols, decoded.data());
      stats.add_row(weights + static_cast<int64_t>(r - i) * cols, decoded.data(), cols,
                    factors.empty() ? nullptr : factors.data());
    }
    i = end;
  }
  return stats.weighted_relative();
}

bool is_searched(const WeightSource& source, const models::RecipeOptions& options) {
  const models::Role role = models::role_of(source.name());
  if (role == models::Role::output && (options.output || options.leave_output)) return false;
  if (role == models::Role::token_embd && options.token_embedding) return false;
  return models::is_quantizable(source.info()) && std::ranges::none_of(options.tensor_types, [&](const auto& entry) {
           return std::regex_search(std::string(source.name()), entry.first);
         });
}

std::vector<std::vector<TypeChoice>> measure_choices(const Requantization& plan, const TypeSearch& search,
                                                     const models::RecipeOptions& options, const gguf::Imatrix* imatrix,
                                                     const EncodeRows& encode,
                                                     const std::function<void(int64_t done, int64_t total)>& progress) {
  const std::vector<Type> candidates = search.candidates.empty() ? default_candidates() : search.candidates;
  std::vector<std::vector<TypeChoice>> all(plan.sources.size());
  std::vector<std::vector<double>> sensitivities; // by probe
  for (const TypeSearch::Probe& probe : search.probes)
    sensitivities.push_back(sensitivities_of(plan, probe.sensitivities));
  if (sensitivities.empty()) sensitivities.push_back(sensitivities_of(plan, {}));
  for (size_t i = 0; i < plan.sources.size(); ++i) {
    const WeightSource& source = plan.sources[i];
    if (!is_searched(source, options)) continue;
    const TensorLoss loss(source, imatrix, search.inputs);
    std::vector<TypeChoice>& choices = all[i];
    if (!source.is_planar()) choices.push_back({source.type().format()->type, source.bytes(), 0});
    const size_t given = choices.size();
    for (const Type type : candidates) {
      if (source.cols() % quant::format(type).block_weights != 0 || source.type() == type) continue;
      const gguf::TensorInfo info{std::string(source.name()), type, source.dims()};
      if (source.is_planar() || info.bytes() < source.bytes()) choices.push_back({type, info.bytes(), 0});
    }
    Sensitivity of_tensor;
    for (size_t p = 0; p < sensitivities.size(); ++p) {
      // One is the same at all losses.
      const double at =
          sensitivities.size() == 1 ? 0 : loss.in(models::fitting_type(search.probes[p].type, source.cols()), encode);
      of_tensor.points.emplace_back(at, sensitivities[p][i]);
    }
    std::ranges::sort(of_tensor.points);
    // A sample has few rows, so threads share types, not rows.
    std::exception_ptr problem;
#pragma omp parallel for schedule(dynamic)
    for (size_t c = given; c < choices.size(); ++c) {
      try {
        const double of_type = loss.in(choices[c].type, encode);
        choices[c].loss = of_tensor.at(of_type) * of_type;
      } catch (...) {
#pragma omp critical
        problem = std::current_exception();
      }
    }
    if (problem) std::rethrow_exception(problem);
    keep_hull(choices);
    source.release(0, source.rows());
    if (progress) progress(static_cast<int64_t>(i) + 1, std::ssize(plan.sources));
  }
  return all;
}

std::vector<int> choose_types(const std::vector<std::vector<TypeChoice>>& choices, uint64_t budget, double enough) {
  std::vector<int> chosen;
  uint64_t bytes = 0;
  double loss = 0;
  struct Step {
    double gain;
    size_t tensor;
    bool operator<(const Step& other) const { return gain < other.gain; }
  };
  std::priority_queue<Step> steps;
  const auto offer = [&](size_t i) {
    const auto next = static_cast<size_t>(chosen[i]) + 1;
    if (next >= choices[i].size()) return;
    const TypeChoice &from = choices[i][next - 1], &to = choices[i][next];
    steps.push({(from.loss - to.loss) / static_cast<double>(to.bytes - from.bytes), i});
  };
  for (const auto& of_tensor : choices) {
    chosen.push_back(of_tensor.empty() ? -1 : 0);
    if (of_tensor.empty()) continue;
    bytes += of_tensor[0].bytes;
    loss += of_tensor[0].loss;
  }
  if (bytes > budget)
    throw_error("the target is too small: even in the smallest types considered, the matrices need {:.3f} GB of the "
                "{:.3f} GB available",
                static_cast<double>(bytes) / 1e9, static_cast<double>(budget) / 1e9);
  for (size_t i = 0; i < choices.size(); ++i)
    if (chosen[i] == 0) offer(i);
  while (!steps.empty() && loss > enough) {
    const size_t i = steps.top().tensor;
    steps.pop();
    const auto now = static_cast<size_t>(chosen[i]);
    const uint64_t more = choices[i][now + 1].bytes - choices[i][now].bytes;
    if (bytes + more > budget) continue; // too large; a smaller step of another tensor may fit
    bytes += more;
    loss -= choices[i][now].loss - choices[i][now + 1].loss;
    ++chosen[i];
    offer(i);
  }
  return chosen;
}

} // namespace ridge::convert
