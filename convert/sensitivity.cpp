#include "convert/sensitivity.h"

#include "convert/type_search.h"

#include <algorithm>
#include <numeric>

namespace ridge::convert {
namespace {

struct Encoded {
  gguf::TensorType type;
  std::vector<std::byte> bytes;
};

Encoded encode_whole(const WeightSource& source, quant::Type type, const gguf::Imatrix* imatrix,
                     const EncodeRows& encode) {
  Encoded encoded{type, {}};
  encode_tensor(source, type, importance_of(imatrix, source), encode, [&](std::span<const std::byte> bytes) {
    encoded.bytes.insert(encoded.bytes.end(), bytes.begin(), bytes.end());
  });
  return encoded;
}

} // namespace

std::vector<quant::Type> probe_types(double bits_per_weight, bool two) {
  constexpr quant::Type kTypes[] = {quant::Type::Q2_K, quant::Type::Q3_K, quant::Type::Q4_K, quant::Type::Q5_K,
                                    quant::Type::Q6_K};
  size_t best = 0;
  while (best + 2 < std::size(kTypes) && quant::format(kTypes[best + 1]).bits_per_weight() < bits_per_weight) ++best;
  return {kTypes + best, kTypes + best + (two ? 2 : 1)};
}

DivergenceMeter::DivergenceMeter(const gguf::File& file, MeasuredText text, core::MakeExecutor make_executor,
                                 int threads)
    : file_(file), text_(std::move(text)), groups_(file, text_, std::move(make_executor), threads) {
  std::vector<float> rows;
  for (int group = 0; group < groups_.count(); ++group) {
    const std::unique_ptr<LayerRun> run = groups_.run(file, group, group, true);
    rows = run->rows(rows);
    inputs_.entries.merge(run->inputs().entries);
  }
  logits_ = std::move(rows);
}

std::vector<double> DivergenceMeter::compare(LayerRun& last_layers, std::span<const float> input) const {
  std::vector<double> divergences(static_cast<size_t>(text_.scores()));
  const auto width = static_cast<size_t>(groups_.vocab());
  last_layers(input, [&](int64_t first, std::span<const float> rows) {
    const auto count = static_cast<int64_t>(rows.size() / width);
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < count; ++i) {
      const auto row = static_cast<size_t>(first + i);
      divergences[row] = measure::compare(rows.subspan(static_cast<size_t>(i) * width, width),
                                          std::span(logits_).subspan(row * width, width), 0)
                             .divergence;
    }
  });
  return divergences;
}

std::vector<std::optional<double>>
DivergenceMeter::sensitivities(const Requantization& plan, const std::vector<bool>& wanted, quant::Type probe_type,
                               const gguf::Imatrix* imatrix, const EncodeRows& encode, const GivePrepared& prepared,
                               const OnProgress& progress) const {
  std::vector<std::optional<double>> found(plan.sources.size());
  int64_t done = 0;
  const int64_t total = std::ranges::count(wanted, true);
  const auto measure = [&](size_t i, const auto& compare_with) {
    const WeightSource& source = plan.sources[i];
    const quant::Type type = models::fitting_type(probe_type, source.cols());
    const Prepared* made = prepared ? prepared(source.name()) : nullptr;
    const Encoded probe = made ? Encoded{type, made->bytes} : encode_whole(source, type, imatrix, encode);
    const gguf::File::OtherForm form{source.name(), probe.type, probe.bytes};
    const std::vector<double> divergences = compare_with(file_.with({&form, 1}));
    const double mean = std::reduce(divergences.begin(), divergences.end()) / static_cast<double>(divergences.size());
    if (const double loss = TensorLoss(source, imatrix, &inputs_).in(type, encode_on_cpu); loss > 0)
      found[i] = mean / loss;
    if (progress) progress(++done, total);
  };

  std::vector<float> input;
  const int last = groups_.count() - 1;
  for (int group = 0; group <= last; ++group) {
    const std::unique_ptr<LayerRun> behind = group < last ? groups_.run(group + 1, last) : nullptr;
    for (size_t i = 0; i < plan.sources.size(); ++i) {
      if (!wanted[i] || groups_.only_reader(plan.sources[i].name()) != group) continue;
      measure(i, [&](const gguf::File& file) {
        const std::unique_ptr<LayerRun> changed = groups_.run(file, group, group);
        return behind ? compare(*behind, changed->rows(input)) : compare(*changed, input);
      });
    }
    if (behind) input = groups_.run(group, group)->rows(input);
  }
  for (size_t i = 0; i < plan.sources.size(); ++i) {
    const std::string_view name = plan.sources[i].name();
    if (!wanted[i] || groups_.only_reader(name) || !groups_.is_read(name)) continue;
    measure(i, [&](const gguf::File& file) { return compare(*groups_.run(file, 0, last), {}); });
  }
  return found;
}

measure::Estimate DivergenceMeter::of(const Requantization& plan, const gguf::Imatrix* imatrix,
                                      const EncodeRows& encode, const GivePrepared& prepared,
                                      const OnProgress& progress) const {
  std::vector<std::optional<Encoded>> encoded(plan.sources.size());
  const auto make = [&](size_t i) {
    const WeightSource& source = plan.sources[i];
    if (const Prepared* made = prepared ? prepared(source.name()) : nullptr)
      encoded[i] = Encoded{plan.types[i], made->bytes};
    else if (source.type() != plan.types[i])
      encoded[i] = encode_whole(source, plan.types[i].format()->type, imatrix, encode);
  };
  std::vector<float> rows;
  std::vector<double> divergences;
  for (int group = 0; group < groups_.count(); ++group) {
    std::vector<gguf::File::OtherForm> forms;
    for (size_t i = 0; i < plan.sources.size(); ++i) {
      const std::string_view name = plan.sources[i].name();
      const std::optional<int> reader = groups_.only_reader(name);
      if (reader ? reader != group : !groups_.is_read(name)) continue;
      if (!encoded[i]) make(i);
      if (encoded[i]) forms.push_back({name, encoded[i]->type, encoded[i]->bytes});
    }
    const std::unique_ptr<LayerRun> run = groups_.run(file_.with(forms), group, group);
    if (run->gives_logits())
      divergences = compare(*run, rows);
    else
      rows = run->rows(rows);
    for (size_t i = 0; i < plan.sources.size(); ++i)
      if (groups_.only_reader(plan.sources[i].name()) == group) encoded[i].reset();
    if (progress) progress(group + 1, groups_.count());
  }
  return measure::mean_of(divergences);
}

} // namespace ridge::convert
