#include "engine/loading/cache_offers.h"

#include "core/error.h"
#include "core/kv_divergence.h"
#include "core/units.h"

#include <fmt/format.h>

namespace ridge::engine {
namespace {

double element_bytes(core::KvType keys, core::KvType values) {
  return core::bytes_per_element(keys) + core::bytes_per_element(values);
}

int64_t cache_bytes(const Fit& fit) { return (fit.cpu ? fit.cpu->cache : 0) + (fit.gpu ? fit.gpu->cache : 0); }

} // namespace

std::vector<CacheOffer> cache_offers(const core::Program& program, const Fit& fit) {
  std::vector<CacheOffer> offers;
  if (fit.fits || fit.largest_context == 0) return offers;
  core::ExecutorConfig config = fit.config;
  double smallest = element_bytes(config.k_type, config.v_type);
  for (const core::KvDivergence& types : core::highest_divergences(config.context)) {
    const double bytes = element_bytes(types.keys, types.values);
    if (bytes >= smallest) continue; // not smaller than now, or than a better one
    config.k_type = types.keys, config.v_type = types.values;
    try {
      core::check_cache_types(program, config);
    } catch (const Error&) {
      continue; // heads of other sizes
    }
    const Fit smaller = engine::fit(program, config, fit.heads.left, fit.placement);
    if (!smaller.fits) continue;
    offers.push_back({types.keys, types.values, cache_bytes(smaller), cache_bytes(fit), types.nats, types.same_top});
    smallest = bytes;
  }
  return offers;
}

std::string flags_of(const CacheOffer& offer) {
  return fmt::format("-ctk {} -ctv {}", core::format_of(offer.keys).name, core::format_of(offer.values).name);
}

std::string text_of(const CacheOffer& offer, int64_t context) {
  const auto usual = core::highest_divergence(core::KvType::f16, core::KvType::f16, context);
  return fmt::format(
      "{} has room for -c {}: a KV cache of {} instead of {}; in small models in fast mode {:.2g} of 100 "
      "tokens have another likeliest one than with f32 (with f16 {:.2g}), {:.2g} nats",
      flags_of(offer), context, core::human_bytes(static_cast<double>(offer.bytes)),
      core::human_bytes(static_cast<double>(offer.bytes_now)), 100 * (1 - offer.same_top), 100 * (1 - usual->same_top),
      offer.nats);
}

} // namespace ridge::engine
