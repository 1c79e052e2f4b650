#include "core/files/descriptors.h"

#include <doctest/doctest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

TEST_CASE("the limit of descriptors is raised to the hard one, and no further") {
  const pid_t child = ::fork(); // limits apply to the whole process
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit low = {64, 200};
    rlimit now = {};
    const bool good = ::setrlimit(RLIMIT_NOFILE, &low) == 0 && ridge::core::raise_descriptor_limit() == 200 &&
                      ::getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur == 200 && now.rlim_max == 200 &&
                      ridge::core::raise_descriptor_limit() == 200;
    ::_exit(good ? 0 : 1);
  }
  int status = 1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
