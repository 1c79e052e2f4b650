#include "convert/layer_runs.h"

#include "models/model.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace ridge::convert {

void MeasuredText::score_second_halves(int64_t scores) {
  const int64_t first = chunk_tokens() / 2, there = chunk_tokens() - first;
  const int64_t count = std::clamp<int64_t>(scores / std::ssize(chunks), 1, there);
  scored.clear();
  for (int64_t i = 0; i < count; ++i) scored.push_back(static_cast<int32_t>(first + i * there / count));
}

LayerRun::LayerRun(core::Program layers, const MeasuredText& text, const core::MakeExecutor& make_executor, int threads,
                   bool observe, core::InputObserver* observer)
    : program_(std::move(layers)), text_(text) {
  core::ExecutorConfig config;
  config.context = config.max_batch = config.max_outputs = text.chunk_tokens();
  if (gives_logits()) config.max_outputs = std::ssize(text.scored);
  config.threads = threads;
  config.exact = true;
  config.k_type = config.v_type = core::KvType::f32;
  config.observer = observer;
  if (observe) config.observer = &collector_.emplace(program_, true);
  executor_ = make_executor(program_, config);
}

std::span<const float> LayerRun::chunk(size_t chunk, std::span<const float> input) {
  std::vector<int32_t> positions(static_cast<size_t>(text_.chunk_tokens()));
  std::iota(positions.begin(), positions.end(), 0);
  const std::vector<int32_t>& wanted = gives_logits() ? text_.scored : positions;
  const size_t given = input.size() / text_.chunks.size(), count = wanted.size();
  executor_->forward({text_.chunks[chunk], positions, {}, wanted, input.subspan(chunk * given, given)});
  const float* rows = executor_->logits(0).data();
  if (executor_->logits(static_cast<int64_t>(count) - 1).data() != rows + (count - 1) * static_cast<size_t>(width()))
    throw std::logic_error("an executor whose rows of logits are not contiguous");
  return {rows, count * static_cast<size_t>(width())};
}

void LayerRun::operator()(std::span<const float> input,
                          const std::function<void(int64_t first, std::span<const float> rows)>& each) {
  const int64_t count = gives_logits() ? std::ssize(text_.scored) : text_.chunk_tokens();
  for (size_t i = 0; i < text_.chunks.size(); ++i) each(static_cast<int64_t>(i) * count, chunk(i, input));
}

std::vector<float> LayerRun::rows(std::span<const float> input) {
  std::vector<float> all;
  all.reserve(static_cast<size_t>((gives_logits() ? text_.scores() : text_.tokens()) * width()));
  (*this)(input, [&](int64_t, std::span<const float> rows) { all.insert(all.end(), rows.begin(), rows.end()); });
  return all;
}

LayerGroups::LayerGroups(const gguf::File& file, const MeasuredText& text, core::MakeExecutor make_executor,
                         int threads)
    : file_(file), text_(text), make_executor_(std::move(make_executor)), threads_(threads) {
  const core::Program whole = models::build_program(file);
  vocab_ = whole.vocab;
  const int32_t layers = core::layer_count(whole);
  first_layers_.push_back(0);
  for (int32_t at = core::next_cut(whole, 1); at < layers; at = core::next_cut(whole, at + 1))
    first_layers_.push_back(at);
  for (int i = 0; i < count(); ++i) {
    std::vector<std::string>& names = tensors_.emplace_back();
    for (const core::Weight& weight : cut(whole, i, i).weights) names.push_back(weight.name);
    std::ranges::sort(names);
  }
}

core::Program LayerGroups::cut(core::Program whole, int first, int last) const {
  if (last + 1 < count()) whole = core::split_program(whole, first_layers_[last + 1]).front;
  if (first > 0) whole = core::split_program(whole, first_layers_[first]).back;
  return whole;
}

std::unique_ptr<LayerRun> LayerGroups::run(const gguf::File& file, int first, int last, bool observe) const {
  return std::make_unique<LayerRun>(cut(models::build_program(file), first, last), text_, make_executor_, threads_,
                                    observe);
}

std::optional<int> LayerGroups::only_reader(std::string_view tensor) const {
  std::optional<int> found;
  for (int i = 0; i < count(); ++i) {
    if (!std::ranges::binary_search(tensors_[i], tensor)) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

bool LayerGroups::is_read(std::string_view tensor) const {
  return std::ranges::any_of(tensors_, [&](const auto& names) { return std::ranges::binary_search(names, tensor); });
}

} // namespace ridge::convert
