// Decoding one stream with the host one token behind: a step evaluates the token that the step before it chose, chooses
// the next, and writes it to the host's memory. The host enqueues the following step before it waits for that.
#include "kernels/cuda/executor/executor_impl.h"

#include "core/sampler.h"

#include <algorithm>
#include <stdexcept>

namespace ridge::kernels::cuda {
namespace {

constexpr int64_t kStateBytes = 256; // of a SampleState, in device memory and in the pinned copy
static_assert(sizeof(SampleState) <= kStateBytes);

} // namespace

bool Executor::start_decoding(const core::Sampler& sampler, int32_t position, int32_t stream) {
  const core::SamplerParams& p = sampler.params();
  const bool greedy = p.temp == 0.0f;
  if (!whole() || (!greedy && (p.typical_p < 1.0f || p.top_k < 1 || p.top_k > kMaxTopK))) return false;
  if (result_rows_ != 1 || position < 1 || stream < 0 || stream >= config_.streams)
    throw std::logic_error("CUDA: decoding must follow a forward() with one output");
  // A ring that cannot fill up before the context does need not exist.
  const int32_t ring_size = p.repeat_last_n > config_.context ? -1 : p.repeat_last_n;
  allocate_sampling(ring_size);

  const core::Sampler::Recent recent = sampler.recent();
  const bool penalties = p.repeat_penalty != 1.0f || p.presence_penalty != 0.0f || p.frequency_penalty != 0.0f;
  *decoding_.host.as<SampleState>() = {.temp = p.temp,
                                       .top_p = p.top_p,
                                       .min_p = p.min_p,
                                       .repeat_penalty = p.repeat_penalty,
                                       .presence_penalty = p.presence_penalty,
                                       .frequency_penalty = p.frequency_penalty,
                                       .top_k = greedy ? 1 : p.top_k,
                                       .penalties = penalties,
                                       .ring_size = ring_size,
                                       .ring_filled = static_cast<int32_t>(recent.ring.size()),
                                       .ring_oldest = static_cast<int32_t>(recent.oldest),
                                       .seed = sampler.seed(),
                                       .draws = sampler.draws(),
                                       .step = 0,
                                       .position = position};
  const auto copy = [&](void* to, const void* from, size_t bytes) {
    RIDGE_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_.handle));
  };
  copy(decoding_.args.state, decoding_.host.as(), sizeof(SampleState));
  if (penalties) {
    copy(decoding_.args.counts, recent.counts.data(), recent.counts.size_bytes());
    if (ring_size > 0) copy(decoding_.args.ring, recent.ring.data(), recent.ring.size_bytes());
  }
  const int32_t token = 0, before = position - 1, output = 0;
  load_batch({{&token, 1}, {&before, 1}, {&stream, 1}, {&output, 1}});
  decoding_.position = position;
  decoding_.enqueued = decoding_.read = 0;
  launch_sample(launch_, decoding_.args);
  RIDGE_CUDA(cudaEventRecord(decoding_.chosen[decoding_.enqueued++ % 2].handle, stream_.handle));
  return true;
}

int32_t Executor::next_token(bool ahead) {
  Decoding& d = decoding_;
  if (d.read == d.enqueued) throw std::logic_error("CUDA: next_token() without decoding");
  if (ahead) {
    if (d.position >= config_.context) throw std::logic_error("CUDA: decoding past the context");
    run({1, 1, kAttentionRows, false, true, true});
    RIDGE_CUDA(cudaEventRecord(d.chosen[d.enqueued++ % 2].handle, stream_.handle));
    ++d.position;
  }
  const int64_t slot = d.read++ % 2;
  RIDGE_CUDA(cudaEventSynchronize(d.chosen[slot].handle));
  return d.args.chosen[slot];
}

void Executor::allocate_sampling(int32_t ring_size) {
  Decoding& d = decoding_;
  if (!d.memory.bytes()) {
    const auto aligned = [](int64_t bytes) { return (bytes + 255) / 256 * 256; };
    const int64_t list_bytes = aligned(program_.vocab * 8), counts_bytes = aligned(program_.vocab * 4),
                  best_bytes = kSampleChunks * 4;
    d.memory = memory(kStateBytes + list_bytes + counts_bytes + best_bytes, "sampling");
    RIDGE_CUDA(cudaMemsetAsync(d.memory.as(), 0, d.memory.bytes(), stream_.handle));
    d.host = PinnedMemory(kStateBytes + 2 * sizeof(int32_t));
    uint8_t* at = d.memory.as();
    const auto take = [&](int64_t bytes) { return std::exchange(at, at + bytes); };
    d.args.vocab = program_.vocab;
    d.args.logits = value(program_.logits);
    d.args.state = reinterpret_cast<SampleState*>(take(kStateBytes));
    d.args.list = reinterpret_cast<uint64_t*>(take(list_bytes));
    d.args.counts = reinterpret_cast<int32_t*>(take(counts_bytes));
    d.args.chunk_best = reinterpret_cast<float*>(take(best_bytes));
    d.args.chosen = reinterpret_cast<int32_t*>(d.host.as() + kStateBytes); // mapped under one address
    d.args.token = batch_.tokens;
    d.args.position = batch_.positions;
  }
  if (const size_t bytes = std::max<int64_t>(ring_size, 1) * sizeof(int32_t); d.ring.bytes() < bytes) {
    graphs_.clear(); // they hold the address
    d.ring = memory(bytes, "sampling");
    d.args.ring = d.ring.as<int32_t>();
  }
}

} // namespace ridge::kernels::cuda
