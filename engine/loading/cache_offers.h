// Smaller KV caches for a context that has no room.
#pragma once

#include "engine/loading/fit.h"

namespace ridge::engine {

struct CacheOffer {
  core::KvType keys, values;
  int64_t bytes, bytes_now;
  double nats, same_top; // core/kv_divergence.h
};

// Types with room for the whole context, the least divergence first, each smaller than the one before. None if the
// model fits, or no context does.
std::vector<CacheOffer> cache_offers(const core::Program& program, const Fit& fit);

// "-ctk q8_0 -ctv q8_0".
std::string flags_of(const CacheOffer& offer);

// "-ctk q8_0 -ctv q8_0 has room for -c 8192: a KV cache of …"
std::string text_of(const CacheOffer& offer, int64_t context);

} // namespace ridge::engine
