#include "core/executor.h"

#include "core/error.h"

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

} // namespace ridge::core
