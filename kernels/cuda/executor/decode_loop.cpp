#include "kernels/cuda/executor/decode_loop.h"

#include <algorithm>
#include <utility>

namespace ridge::kernels::cuda {
namespace {

constexpr int64_t kStateBytes = 256;
static_assert(sizeof(SampleState) <= kStateBytes);

} // namespace

bool DecodeLoop::start(const core::Sampler& sampler, int64_t context, int32_t position, const float* logits,
                       int64_t vocab, const BatchMemory::Arrays& batch, cudaStream_t stream) {
  const core::SamplerParams& p = sampler.params();
  // The context cannot fill such a ring buffer.
  const int32_t ring_size = p.repeat_last_n > context ? -1 : p.repeat_last_n;
  const bool moved = allocate(ring_size, logits, vocab, batch, stream);

  SampleState& state = *host_.as<SampleState>() = state_of(sampler);
  state.ring_size = ring_size;
  const auto copy = [&](void* to, const void* from, size_t bytes) {
    RIDGE_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
  };
  copy(args_.state, host_.as(), sizeof(SampleState));
  if (state.penalties) {
    const core::Sampler::Recent recent = sampler.recent();
    copy(args_.counts, recent.counts.data(), recent.counts.size_bytes());
    if (ring_size > 0) copy(args_.ring, recent.ring.data(), recent.ring.size_bytes());
  }
  position_ = position;
  enqueued_ = read_ = 0;
  return moved;
}

SampleArgs DecodeLoop::args(int64_t row, int64_t outputs, int64_t tokens) const {
  SampleArgs args = args_;
  const int64_t at = tokens - outputs + row;
  args.logits += row * args.vocab;
  args.row_position = args.position + at;
  args.draft_token = row + 1 < outputs ? args.token + at + 1 : nullptr;
  args.follows_draft = row > 0;
  return args;
}

void DecodeLoop::record_choice(int64_t next_position, cudaStream_t stream) {
  RIDGE_CUDA(cudaEventRecord(chosen_[enqueued_++ % 2].handle, stream));
  position_ = static_cast<int32_t>(next_position);
}

int32_t DecodeLoop::read_token() {
  RIDGE_CUDA(cudaEventSynchronize(chosen_[read_ % 2].handle));
  return args_.chosen[read_++ % kChosenSlots];
}

std::span<const int32_t> DecodeLoop::read_tokens() {
  RIDGE_CUDA(cudaEventSynchronize(chosen_[(enqueued_ - 1) % 2].handle));
  tokens_.clear();
  for (const int64_t steps = *args_.steps; read_ < steps; ++read_)
    tokens_.push_back(args_.chosen[read_ % kChosenSlots]);
  enqueued_ = read_;
  return tokens_;
}

bool DecodeLoop::allocate(int32_t ring_size, const float* logits, int64_t vocab, const BatchMemory::Arrays& batch,
                          cudaStream_t stream) {
  if (!memory_.bytes()) {
    const auto aligned = [](int64_t bytes) { return (bytes + 255) / 256 * 256; };
    const int64_t list_bytes = aligned(vocab * 8), counts_bytes = aligned(vocab * 4), best_bytes = kSampleChunks * 4;
    memory_ = DeviceMemory(kStateBytes + list_bytes + counts_bytes + best_bytes, "sampling");
    RIDGE_CUDA(cudaMemsetAsync(memory_.as(), 0, memory_.bytes(), stream));
    host_ = PinnedMemory(kStateBytes + (kChosenSlots + 1) * sizeof(int32_t));
    uint8_t* at = memory_.as();
    const auto take = [&](int64_t bytes) { return std::exchange(at, at + bytes); };
    args_.vocab = vocab;
    args_.logits = logits;
    args_.state = reinterpret_cast<SampleState*>(take(kStateBytes));
    args_.list = reinterpret_cast<uint64_t*>(take(list_bytes));
    args_.counts = reinterpret_cast<int32_t*>(take(counts_bytes));
    args_.chunk_best = reinterpret_cast<float*>(take(best_bytes));
    args_.chosen = reinterpret_cast<int32_t*>(host_.as() + kStateBytes); // mapped: the same address on the device
    args_.steps = args_.chosen + kChosenSlots;
    args_.token = batch.tokens;
    args_.position = batch.positions;
    args_.output = batch.outputs;
  }
  const size_t bytes = std::max<int64_t>(ring_size, 1) * sizeof(int32_t);
  if (ring_.bytes() >= bytes) return false;
  ring_ = DeviceMemory(bytes, "sampling");
  args_.ring = ring_.as<int32_t>();
  return true;
}

} // namespace ridge::kernels::cuda
