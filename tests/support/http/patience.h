// Limits of an HTTP server that never gives up on a client: what a busy machine does slowly, no test calls too late.
#pragma once

#include "server/http/http_server.h"

namespace ridge::tests {

// Times that a test leaves as they usually are never end anything.
inline server::HttpLimits patient(server::HttpLimits limits = {}) {
  using server::HttpLimits;
  constexpr HttpLimits::Seconds kNever{1e6};
  for (const auto time :
       {&HttpLimits::head_time, &HttpLimits::body_time, &HttpLimits::write_time, &HttpLimits::idle_time})
    if (limits.*time == HttpLimits().*time) limits.*time = kNever;
  return limits;
}

} // namespace ridge::tests
