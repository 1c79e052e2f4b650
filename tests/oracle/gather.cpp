#include "support/naive.h"

namespace ridge::tests {

void naive_gather(Naive& naive, const core::Op& op) {
  for (const int32_t t : naive.batch().outputs) naive.value(op.outputs[0]).push_back(naive.in(op, 0, t));
}

} // namespace ridge::tests
