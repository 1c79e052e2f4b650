// std::random_device of Debian's libstdc++ calls arc4random, which glibc 2.35 lacks.
#include <cstdint>
#include <cstdlib>
#include <sys/random.h>

extern "C" uint32_t arc4random() {
  uint32_t value;
  if (::getrandom(&value, sizeof value, 0) != sizeof value) std::abort(); // never for so few
  return value;
}
