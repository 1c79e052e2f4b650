#include "kernels/cpu/formats/byte_dots.h"

#include <atomic>

#ifdef __aarch64__
#include <sys/auxv.h>
#endif

namespace ridge::kernels::cpu {
namespace {

std::atomic<ByteDots>& dots_in_use() {
  static std::atomic<ByteDots> dots = best_byte_dots();
  return dots;
}

} // namespace

ByteDots best_byte_dots() {
#ifdef __aarch64__
  if (!(::getauxval(AT_HWCAP) & HWCAP_ASIMDDP)) return ByteDots::basic;
  return ::getauxval(AT_HWCAP2) & HWCAP2_I8MM ? ByteDots::i8mm : ByteDots::dotprod;
#else
  return ByteDots::basic;
#endif
}

ByteDots byte_dots() { return dots_in_use().load(std::memory_order_relaxed); }
void use_byte_dots(ByteDots dots) { dots_in_use().store(dots, std::memory_order_relaxed); }

} // namespace ridge::kernels::cpu
