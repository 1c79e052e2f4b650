#include "core/executor.h"

#include "core/clock.h"
#include "core/error.h"

#include <numeric>

namespace ridge::core {

void check_cache_types(const Program& program, const ExecutorConfig& config) {
  const auto check = [](KvType type, int64_t dim, const char* what, const char* flag) {
    if (type == KvType::q8_0 && dim % kQ8Block != 0)
      throw_error("a q8_0 cache of {} takes heads of a multiple of {} elements, this model's have {}; use {} f16", what,
                  kQ8Block, dim, flag);
  };
  for (const KvLayer& kv : program.kv_layers) {
    check(config.k_type, kv.k_dim, "keys", "-ctk");
    check(config.v_type, kv.v_dim, "values", "-ctv");
  }
}

double Executor::time_decode(int64_t position, int64_t streams, int repetitions) {
  const std::vector<int32_t> tokens(streams), positions(streams, static_cast<int32_t>(position));
  std::vector<int32_t> every_stream(streams);
  std::iota(every_stream.begin(), every_stream.end(), 0);
  const Batch batch{tokens, positions, every_stream, every_stream};
  forward(batch);
  return median_seconds(repetitions, [&] { forward(batch); });
}

} // namespace ridge::core
