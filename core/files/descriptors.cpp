#include "core/files/descriptors.h"

#include <sys/resource.h>

#include <limits>

namespace ridge::core {

int64_t raise_descriptor_limit() {
  rlimit limit = {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit raised = {limit.rlim_max, limit.rlim_max};
  if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  return limit.rlim_cur == RLIM_INFINITY ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(limit.rlim_cur);
}

} // namespace ridge::core
