// A library with NCCL's names, of the version that RIDGE_FAKE_NCCL_VERSION says.
#include <cstdlib>

extern "C" {
int ncclGetVersion(int* version) {
  const char* text = std::getenv("RIDGE_FAKE_NCCL_VERSION");
  *version = text ? std::atoi(text) : 0;
  return text ? 0 : 1;
}
int ncclGetUniqueId(void*) { return 3; }
int ncclCommInitRank() { return 3; }
int ncclAllReduce() { return 3; }
int ncclCommDestroy() { return 3; }
int ncclCommAbort() { return 3; }
const char* ncclGetErrorString(int status) { return status == 3 ? "a fake's error" : "another"; }
}
