// The entry point of every test program.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#ifdef RIDGE_SANITIZED
// ThreadSanitizer sees what libraries of the system do with memory, and not how they keep order.
extern "C" __attribute__((no_sanitize("thread"))) const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1";
}
#endif
