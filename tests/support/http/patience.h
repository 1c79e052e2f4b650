// HTTP limits without timeouts.
#pragma once

#include "server/http/http_server.h"

namespace ridge::tests {

inline server::HttpLimits patient(server::HttpLimits limits = {}) {
  using server::HttpLimits;
  constexpr HttpLimits::Seconds kNever{1e6};
  for (const auto time :
       {&HttpLimits::head_time, &HttpLimits::body_time, &HttpLimits::write_time, &HttpLimits::idle_time})
    if (limits.*time == HttpLimits().*time) limits.*time = kNever;
  return limits;
}

} // namespace ridge::tests
