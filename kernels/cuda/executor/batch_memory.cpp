#include "kernels/cuda/executor/batch_memory.h"

#include "kernels/cuda/cache/sent_rows.h"
#include "kernels/cuda/plan/memory_plan.h"

#include <algorithm>

namespace ridge::kernels::cuda {

static_assert(sizeof(TokenPlace) == kPlaceBytes);

BatchMemory::BatchMemory(const core::Program& program, const core::ExecutorConfig& config)
    : memory_(4 * config.max_batch * sizeof(int32_t), "the batch"), pinned_(4 * config.max_batch * sizeof(int32_t)),
      rows_(given_bytes(program, config), "the batch"), adapters_(adapter_use_bytes(program, config), "adapters"),
      sees_ahead_(core::sees_ahead(program)) {
  const int64_t most = config.max_batch;
  const auto split = [&](int32_t* base) { return Arrays{base, base + most, base + 2 * most, base + 3 * most}; };
  device_ = split(memory_.as<int32_t>());
  host_ = split(pinned_.as<int32_t>());
  stream_ends_.resize(config.streams);
  if (const int64_t bytes = place_bytes(program, config); bytes > 0) {
    places_ = DeviceMemory(bytes, "the batch");
    places_host_ = PinnedMemory(bytes);
    placed_ = most; // new memory has arbitrary contents
  }
}

void BatchMemory::set_adapters(int32_t stream, std::span<const core::AdapterUse> uses, cudaStream_t on) {
  if (uses.empty()) return;
  RIDGE_CUDA(cudaMemcpyAsync(adapters_.as<core::AdapterUse>() + stream * std::ssize(uses), uses.data(),
                             uses.size_bytes(), cudaMemcpyHostToDevice, on));
  RIDGE_CUDA(cudaStreamSynchronize(on)); // the caller may free its memory
}

void BatchMemory::load(const core::Batch& batch, int device, cudaStream_t stream) {
  std::ranges::copy(batch.tokens, host_.tokens);
  std::ranges::copy(batch.positions, host_.positions);
  if (batch.streams.empty())
    std::fill_n(host_.streams, batch.tokens.size(), 0);
  else
    std::ranges::copy(batch.streams, host_.streams);
  std::ranges::copy(batch.outputs, host_.outputs);
  RIDGE_CUDA(cudaMemcpyAsync(memory_.as(), pinned_.as(), memory_.bytes(), cudaMemcpyHostToDevice, stream));
  if (!batch.rows.empty())
    copy_given_rows(batch.rows.data(), batch.rows.size_bytes(), rows_.as<float>(), device, stream);
  if (places_.bytes() > 0) load_places(batch, stream);
}

void BatchMemory::load_places(const core::Batch& batch, cudaStream_t stream) {
  const int64_t tokens = std::ssize(batch.tokens);
  const int64_t last = batch.outputs.empty() ? tokens - 1 : batch.outputs.back();
  const auto shift_of = [&](int64_t token, int64_t axis) {
    return batch.axes.empty() ? 0 : batch.axes[token * core::kPlaceAxes + axis] - batch.positions[token];
  };
  for (int64_t axis = 0; axis < core::kPlaceAxes; ++axis) last_shift_[axis] = shift_of(last, axis);
  const auto is_zero = [](int32_t number) { return number == 0; };
  if (!sees_ahead_ && batch.axes.empty() && std::ranges::all_of(batch.block_ends, is_zero)) {
    if (placed_ > 0) RIDGE_CUDA(cudaMemsetAsync(places_.as(), 0, placed_ * sizeof(TokenPlace), stream));
    placed_ = 0;
    return;
  }
  std::ranges::fill(stream_ends_, 0);
  for (int64_t i = 0; i < tokens; ++i)
    stream_ends_[host_.streams[i]] = std::max(stream_ends_[host_.streams[i]], host_.positions[i] + 1);
  auto* places = places_host_.as<TokenPlace>();
  for (int64_t i = 0; i < tokens; ++i) {
    TokenPlace& place = places[i] = {};
    for (int64_t axis = 0; axis < core::kPlaceAxes; ++axis) place.shift[axis] = shift_of(i, axis);
    place.stream_end = stream_ends_[host_.streams[i]];
    if (batch.block_ends.empty()) continue;
    place.block_end = batch.block_ends[i];
    const bool goes_on = i > 0 && places[i - 1].block_end == place.block_end &&
                         host_.streams[i - 1] == host_.streams[i] && host_.positions[i - 1] + 1 == host_.positions[i];
    place.block_first = goes_on ? places[i - 1].block_first : host_.positions[i];
  }
  RIDGE_CUDA(cudaMemcpyAsync(places_.as(), places, tokens * sizeof(TokenPlace), cudaMemcpyHostToDevice, stream));
  placed_ = std::max(placed_, tokens);
}

void BatchMemory::load_following(core::Batch batch, int device, cudaStream_t stream) {
  if (std::ranges::any_of(last_shift_, [](int32_t shift) { return shift != 0; })) {
    axes_.clear();
    for (const int32_t position : batch.positions)
      for (const int32_t shift : last_shift_) axes_.push_back(position + shift);
    batch.axes = axes_;
  }
  load(batch, device, stream);
}

void BatchMemory::follow(int64_t last, cudaStream_t stream) {
  if (last == 0 || placed_ == 0) return;
  auto* places = places_.as<TokenPlace>();
  RIDGE_CUDA(
      cudaMemcpyAsync(places->shift, places[last].shift, sizeof(places->shift), cudaMemcpyDeviceToDevice, stream));
}

} // namespace ridge::kernels::cuda
