#include "kernels/cuda/experts/weight_rows.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace ridge::kernels::cuda {
namespace {

// Calls visit(first, count, bytes before them) for each run that rows [first, end) lie in.
template <typename Visit>
void visit_runs(const core::Weight& w, int64_t first, int64_t end, Visit&& visit) {
  const int64_t run = w.rows_per_run(), begin = first;
  for (int64_t next; first < end; first = next) {
    next = std::min(end, (first / run + 1) * run);
    visit(first, next - first, (first - begin) * w.row_bytes);
  }
}

} // namespace

void copy_rows(uint8_t* to, const core::Weight& w, int64_t first, int64_t count) {
  constexpr int64_t kShare = 128 << 10; // bytes: tens of microseconds of page faults and copying
  const int64_t rows = std::max<int64_t>(1, kShare / w.row_bytes);
#pragma omp parallel for schedule(dynamic)
  for (int64_t at = 0; at < count; at += rows)
    visit_runs(w, first + at, first + std::min(count, at + rows), [&](int64_t row, int64_t n, int64_t before) {
      std::memcpy(to + at * w.row_bytes + before, w.row(row), n * w.row_bytes);
    });
}

void expect_rows(const core::Weight& w, int64_t first, int64_t count) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  visit_runs(w, first, first + count, [&](int64_t row, int64_t n, int64_t) {
    const auto begin = reinterpret_cast<uintptr_t>(w.row(row)), end = begin + n * w.row_bytes;
    ::madvise(reinterpret_cast<void*>(begin / page * page), end - begin / page * page, MADV_WILLNEED);
  });
}

} // namespace ridge::kernels::cuda
