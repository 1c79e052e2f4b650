#include "kernels/cpu/executor/helpers.h"

#include <hwy/cache_control.h>

#include <system_error>

namespace ridge::kernels::cpu {
namespace {

HWY_INLINE void pause() {
#ifdef __aarch64__ // some ten ns, as x86's; `yield` takes none
  asm volatile("isb");
#else
  hwy::Pause();
#endif
}

} // namespace

bool changes_soon(const std::atomic<uint32_t>& value, uint32_t from) {
  constexpr int kSpins = 2000; // 20 to 50 µs
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != from) return true;
    pause();
  }
  return false;
}

Helpers::Helpers(int count, std::atomic<uint32_t>& news, std::function<uint32_t(int)> help)
    : wanted_(count), news_(news), help_(std::move(help)) {
  try {
    for (int i = 1; i <= count; ++i) threads_.emplace_back([this, i] { serve(i); });
  } catch (const std::system_error&) {
  }
}

Helpers::~Helpers() {
  ended_ = true;
  news_ = UINT32_MAX;
  news_.notify_all();
}

void Helpers::close() {
  uint32_t inside = inside_.fetch_or(kClosed, std::memory_order_acq_rel) | kClosed;
  while (inside != kClosed) {
    if (!changes_soon(inside_, inside)) inside_.wait(inside, std::memory_order_acquire);
    inside = inside_.load(std::memory_order_acquire);
  }
}

void Helpers::serve(int thread) {
  for (;;) {
    uint32_t seen = news_.load(std::memory_order_acquire);
    if (ended_) return;
    if (inside_.fetch_add(1, std::memory_order_acq_rel) < kClosed) seen = help_(thread);
    if (inside_.fetch_sub(1, std::memory_order_acq_rel) == kClosed + 1) inside_.notify_all();
    if (!changes_soon(news_, seen)) news_.wait(seen, std::memory_order_acquire);
  }
}

} // namespace ridge::kernels::cpu
