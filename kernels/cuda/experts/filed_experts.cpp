#include "kernels/cuda/experts/filed_experts.h"

#include "core/error.h"

#include <algorithm>

namespace ridge::kernels::cuda {

FiledExperts::FiledExperts(const core::Program& program, const std::vector<ExpertGroup>& groups, int64_t host_bytes)
    : program_(program), groups_(groups), sizes_(expert_sizes(groups)),
      host_places_(std::min(sizes_.host_places(static_cast<double>(host_bytes)), sizes_.experts - 1)) {
  const auto bytes_of = [&](const ExpertGroup& group) { // at least one unit: its address is the products' base
    return std::max<int64_t>(std::min(host_places_, group.experts) * group.block_bytes, kExpertAligned);
  };
  while (true) try {
      for (const ExpertGroup& group : groups) host_.emplace_back(bytes_of(group));
      break;
    } catch (const Error&) {
      host_.clear();
      cudaGetLastError(); // clears the error
      if (host_places_ == 0) throw;
      host_places_ = host_places_ * 3 / 4;
    }
}

void FiledExperts::take_slots(int64_t slots, uint8_t* tables, const Launch& launch) {
  slots_ = DeviceMemory(slot_bytes(groups_, slots), "experts");
  const int64_t spill_places = sizes_.spill_places(slots, host_places_);
  spill_ = DeviceMemory((kMovedAtOnce + spill_places) * sizes_.largest_block, "experts");
  reader_.emplace(program_, sizes_.largest_file);
  uint8_t* slot = slots_.as();
  for (size_t g = 0; g < groups_.size(); ++g) {
    const ExpertGroup& group = groups_[g];
    const int experts = static_cast<int>(group.experts), own_slots = static_cast<int>(std::min(slots, group.experts)),
              own_host = static_cast<int>(std::min(host_places_, group.experts));
    Layer& layer = layers_.emplace_back(ExpertTiers(experts, own_slots, own_host, static_cast<int>(spill_places)), slot,
                                        host_[g].as(), PinnedMemory(experts * sizeof(int64_t)),
                                        reinterpret_cast<int64_t*>(tables));
    slot += own_slots * group.block_bytes;
    tables += expert_aligned(group.experts * static_cast<int64_t>(sizeof(int64_t)));
    std::fill_n(layer.places.as<int64_t>(), experts, 0);
    RIDGE_CUDA(cudaMemcpyAsync(layer.device_places, layer.places.as(), experts * sizeof(int64_t),
                               cudaMemcpyHostToDevice, launch.stream));
  }
  use_.experts = sizes_.experts;
  use_.copies = std::min(slots, sizes_.experts);
  use_.on_host = host_places_;
}

uint8_t* FiledExperts::address(const Layer& layer, const ExpertGroup& group, ExpertPlace place) const {
  switch (place.tier) {
  case Tier::gpu: return layer.slots + place.number * group.block_bytes;
  case Tier::host: return layer.host + place.number * group.block_bytes;
  case Tier::spill: return spill_.as() + (kMovedAtOnce + place.number) * sizes_.largest_block;
  case Tier::file: break;
  }
  return layer.host;
}

// An evicted expert is set aside on the GPU and copied to host memory in a second stream while the next arrives (the
// bus is full duplex). All else runs in the launch's stream.
void FiledExperts::move(Layer& layer, const ExpertGroup& group, const ExpertMove& move, const Launch& launch) {
  uint8_t* to = address(layer, group, move.to);
  const auto copy = [&](uint8_t* to, const uint8_t* from, cudaMemcpyKind kind, cudaStream_t stream) {
    RIDGE_CUDA(cudaMemcpyAsync(to, from, group.block_bytes, kind, stream));
  };
  const bool sets_aside = move.saved_to >= 0 || move.to.tier == Tier::host;
  const int64_t n = next_move_buffer_;
  uint8_t* block = spill_.as() + n * sizes_.largest_block;
  if (sets_aside) {
    next_move_buffer_ = (n + 1) % kMovedAtOnce;
    RIDGE_CUDA(cudaStreamWaitEvent(launch.stream, move_buffers_[n].emptied.handle));
  }
  if (move.saved_to >= 0) copy(block, to, cudaMemcpyDeviceToDevice, launch.stream);
  if (move.from_host >= 0)
    copy(to, address(layer, group, {Tier::host, move.from_host}), cudaMemcpyHostToDevice, launch.stream);
  else
    reader_->read(group, move.expert, move.to.tier == Tier::host ? block : to, launch);
  if (!sets_aside) return;
  // Also after the copy from the host place now overwritten.
  RIDGE_CUDA(cudaEventRecord(move_buffers_[n].filled.handle, launch.stream));
  RIDGE_CUDA(cudaStreamWaitEvent(saves_.handle, move_buffers_[n].filled.handle));
  copy(move.saved_to >= 0 ? address(layer, group, {Tier::host, move.saved_to}) : to, block, cudaMemcpyDeviceToHost,
       saves_.handle);
  RIDGE_CUDA(cudaEventRecord(move_buffers_[n].emptied.handle, saves_.handle));
  RIDGE_CUDA(cudaEventRecord(layer.saved.handle, saves_.handle));
  if (move.to.tier == Tier::host) RIDGE_CUDA(cudaStreamWaitEvent(launch.stream, layer.saved.handle)); // read there
}

void FiledExperts::serve(size_t g, const int32_t* ids, int64_t count, const Launch& launch) {
  const ExpertGroup& group = groups_[g];
  Layer& layer = layers_[g];
  const size_t bytes = count * sizeof(int32_t);
  if (ids_.bytes() < bytes) ids_ = PinnedMemory(bytes);
  RIDGE_CUDA(cudaMemcpyAsync(ids_.as(), ids, bytes, cudaMemcpyDeviceToHost, launch.stream));
  RIDGE_CUDA(cudaStreamSynchronize(launch.stream));
  const std::span<const ExpertMove> moves = layer.tiers.place_experts({ids_.as<int32_t>(), static_cast<size_t>(count)});
  use_.hits += layer.tiers.found();
  use_.misses += layer.tiers.wanted() - layer.tiers.found();
  use_.file_reads += layer.tiers.read();
  RIDGE_CUDA(cudaStreamWaitEvent(launch.stream, layer.saved.handle)); // read by moves and products
  if (moves.empty()) return;
  for (const ExpertMove& each : moves)
    if (each.from_host < 0) reader_->expect(group, each.expert);
  for (const ExpertMove& each : moves) move(layer, group, each, launch);
  auto* places = layer.places.as<int64_t>();
  for (int64_t e = 0; e < group.experts; ++e)
    places[e] = address(layer, group, layer.tiers.place_of(static_cast<int>(e))) - layer.host;
  RIDGE_CUDA(cudaMemcpyAsync(layer.device_places, places, group.experts * sizeof(int64_t), cudaMemcpyHostToDevice,
                             launch.stream));
}

} // namespace ridge::kernels::cuda
