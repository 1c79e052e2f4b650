// std::random_device of Debian's libstdc++ calls arc4random, which glibc has only since 2.36. With this one in the
// executable, 2.35 is enough.
#include <cstdint>
#include <cstdlib>
#include <sys/random.h>

extern "C" uint32_t arc4random() {
  uint32_t value;
  if (::getrandom(&value, sizeof value, 0) != sizeof value) std::abort(); // never for so few bytes
  return value;
}
