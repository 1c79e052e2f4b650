#include "core/rings.h"

#include "core/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace ridge::core {
namespace {

// The window common to all readers of a cache.
std::optional<AttentionParams> window_of(const Program& program, int32_t layer) {
  std::optional<AttentionParams> found;
  for (const Op& op : program.ops) {
    OpParams params = op.params;
    const int32_t *cache = cache_layer(params), *second = second_cache_layer(params);
    if (second && *second == layer) return std::nullopt;
    if (!cache || *cache != layer || std::holds_alternative<KvParams>(params)) continue;
    AttentionParams seen = {};
    if (const auto* attention = std::get_if<AttentionParams>(&params)) seen = *attention;
    if (const auto* mixed = std::get_if<MixedParams>(&params)) seen.window = mixed->window;
    if (seen.window == 0) return std::nullopt;
    if (found && (found->window != seen.window || found->chunked != seen.chunked)) return std::nullopt;
    found = seen;
  }
  return found;
}

} // namespace

std::vector<CacheRows> cache_rows(const Program& program, const ExecutorConfig& config) {
  std::vector<CacheRows> layers;
  const bool whole = sees_ahead(program);
  for (size_t i = 0; i < program.kv_layers.size(); ++i) {
    layers.push_back({program.kv_layers[i].entries(config.context)});
    const auto window = whole ? std::nullopt : window_of(program, static_cast<int32_t>(i));
    if (!window) continue;
    const int64_t wanted = window->window - 1 + config.max_batch + config.rewind_tokens;
    const int64_t rows = (wanted + kRingTile - 1) / kRingTile * kRingTile;
    if (rows < layers.back().rows) layers.back() = {rows, window->window, window->chunked};
  }
  return layers;
}

std::string left_out_of_blocks(const Program& program, const ExecutorConfig& config) {
  std::string layers;
  const std::vector<CacheRows> rows = cache_rows(program, config);
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].is_ring()) layers += fmt::format("{}{}", layers.empty() ? " without " : ",", i);
  return layers;
}

StreamPositions::StreamPositions(const Program& program, const ExecutorConfig& config)
    : recurrent_(!program.states.empty()), streams_(static_cast<size_t>(config.streams)) {
  for (const CacheRows& layer : cache_rows(program, config))
    if (layer.is_ring()) rings_.push_back(layer);
}

bool StreamPositions::can_resume_at(int32_t stream, int64_t position) const {
  return can_resume_at(streams_[stream], position);
}

bool StreamPositions::can_resume_at(const Stream& stream, int64_t position) const {
  if (position == 0) return true;
  if (recurrent_ && position != stream.next) return false;
  return std::ranges::all_of(rings_, [&](const CacheRows& ring) {
    return ring.first_seen(position) >= std::max(ring.first_seen(stream.restored_at), stream.end - ring.rows);
  });
}

void StreamPositions::advance(const Batch& batch) {
  if (!recurrent_ && rings_.empty()) return;
  std::vector<Stream> streams = streams_;
  std::vector<bool> begun(streams_.size(), false);
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    const int32_t stream = batch.streams.empty() ? 0 : batch.streams[i];
    const int64_t position = batch.positions[i];
    Stream& to = streams[stream];
    if (recurrent_ && position != to.next && (position != 0 || begun[stream]))
      throw_error("stream {} continues at position {}, but its recurrent state is at position {}", stream, position,
                  to.next);
    if (!begun[stream] && !can_resume_at(to, position))
      throw_error(
          "stream {} continues at position {}, but its sliding windows no longer hold the positions visible from there",
          stream, position);
    if (!begun[stream] && position == 0) to = {};
    begun[stream] = true;
    to.next = position + 1;
    to.end = std::max(to.end, position + 1);
  }
  streams_ = std::move(streams);
}

void StreamPositions::advance(int32_t stream, int64_t end) {
  Stream& to = streams_[stream];
  to.next = end;
  to.end = std::max(to.end, end);
}

void StreamPositions::set(int32_t stream, int64_t position) {
  if (stream < 0 || stream >= std::ssize(streams_))
    throw_error("stream {} is out of range, expected 0 to {}", stream, streams_.size() - 1);
  streams_[stream] = {position, position, position};
}

void StreamPositions::copy(int32_t from, int32_t to) {
  streams_[to] = streams_[from];
  if (recurrent_) streams_[to].next = -1;
}

void StreamPositions::set_unchecked(int32_t stream, int64_t position) {
  if (stream < 0 || stream >= std::ssize(streams_) || !can_resume_at(stream, position)) set(stream, position);
}

} // namespace ridge::core
