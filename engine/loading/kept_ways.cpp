#include "engine/loading/kept_ways.h"

#include "core/json/state_file.h"
#include "kernels/cuda/executor/executor.h"

#include <cmath>

namespace ridge::engine {
namespace {

constexpr const char* kFile = "ways.json";
constexpr size_t kGpus = 64;

} // namespace

WayFactors kept_way_factors(const std::string& gpu) {
  WayFactors factors;
  const nlohmann::ordered_json kept = core::read_state(kFile);
  const auto found = kept.find(gpu);
  if (found == kept.end() || !found->is_object()) return factors;
  if (!found->contains("version") || (*found)["version"] != kernels::cuda::version_of_expected_times()) return factors;
  if (!found->contains("factors") || !(*found)["factors"].is_object()) return factors;
  for (const auto& [name, value] : (*found)["factors"].items())
    if (value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() > 0)
      factors[name] = value.get<double>();
  return factors;
}

void keep_way_factors(const std::string& gpu, const WayFactors& factors) {
  nlohmann::ordered_json kept = core::read_state(kFile);
  kept.erase(gpu);
  while (kept.size() >= kGpus) kept.erase(kept.begin());
  if (!factors.empty()) kept[gpu] = {{"version", kernels::cuda::version_of_expected_times()}, {"factors", factors}};
  core::write_state(kFile, kept);
}

} // namespace ridge::engine
