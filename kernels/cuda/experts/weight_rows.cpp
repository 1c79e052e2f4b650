#include "kernels/cuda/experts/weight_rows.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace ridge::kernels::cuda {
namespace {

// Calls visit(first, count, bytes before them) per run.
template <typename Visit>
void visit_runs(const core::Weight& w, int64_t first, int64_t end, Visit&& visit) {
  const int64_t run = w.rows_per_run(), begin = first;
  for (int64_t next; first < end; first = next) {
    next = std::min(end, (first / run + 1) * run);
    visit(first, next - first, (first - begin) * w.row_bytes);
  }
}

} // namespace

// One parallel region: starting one costs as much as copying a megabyte.
void copy_rows(std::span<const RowCopy> copies) {
  constexpr int64_t kShare = 64 << 10;
  std::vector<RowCopy> shares;
  for (const RowCopy& copy : copies) {
    const int64_t row_bytes = copy.weight->row_bytes, rows = std::max<int64_t>(1, kShare / row_bytes);
    for (int64_t at = 0; at < copy.count; at += rows)
      shares.push_back({copy.weight, copy.first + at, std::min(rows, copy.count - at), copy.to + at * row_bytes});
  }
#pragma omp parallel for schedule(dynamic)
  for (const RowCopy& share : shares)
    visit_runs(*share.weight, share.first, share.first + share.count, [&](int64_t row, int64_t n, int64_t before) {
      std::memcpy(share.to + before, share.weight->row(row), n * share.weight->row_bytes);
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
