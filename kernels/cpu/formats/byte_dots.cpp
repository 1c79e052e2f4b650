#include "kernels/cpu/formats/byte_dots.h"

#include <atomic>

#ifdef __aarch64__
#include <sys/auxv.h>
#else
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace ridge::kernels::cpu {
namespace {

std::atomic<ByteDots>& dots_in_use() {
  static std::atomic<ByteDots> dots = best_byte_dots();
  return dots;
}

#ifndef __aarch64__
// Linux saves the tiles' 8 KB only for processes that ask for them; the answer holds for all threads.
bool may_use_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  constexpr unsigned kTile = 1U << 24, kInt8 = 1U << 25;
  if ((d & kTile) == 0 || (d & kInt8) == 0) return false;
  constexpr long kRequest = 0x1023, kTileData = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}
#endif

} // namespace

ByteDots best_byte_dots() {
#ifdef __aarch64__
  if (!(::getauxval(AT_HWCAP) & HWCAP_ASIMDDP)) return ByteDots::basic;
  return ::getauxval(AT_HWCAP2) & HWCAP2_I8MM ? ByteDots::i8mm : ByteDots::dotprod;
#else
  static const bool tiles = may_use_tiles();
  return tiles ? ByteDots::amx : ByteDots::basic;
#endif
}

bool has_byte_dots(ByteDots dots) {
  const ByteDots best = best_byte_dots();
  return dots == ByteDots::basic || dots == best || (dots == ByteDots::dotprod && best == ByteDots::i8mm);
}

ByteDots byte_dots() { return dots_in_use().load(std::memory_order_relaxed); }
void use_byte_dots(ByteDots dots) { dots_in_use().store(dots, std::memory_order_relaxed); }

} // namespace ridge::kernels::cpu
