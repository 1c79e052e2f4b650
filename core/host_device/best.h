// Top-k by a heap, worst first.
#pragma once

#include "core/host_device.h"

#include <cstdint>

namespace ridge::core {

// Replaces heap[at] by `item`: moves the worse children up as far as a leaf, then `item` from there to its place.
template <typename Better>
RIDGE_HD void sift(int32_t* heap, int size, int at, int32_t item, const Better& better) {
  const int first = at;
  int child = 2 * at + 2;
  for (; child < size; child = 2 * at + 2) {
    if (better(heap[child], heap[child - 1])) --child;
    heap[at] = heap[child];
    at = child;
  }
  if (child == size) {
    heap[at] = heap[child - 1];
    at = child - 1;
  }
  for (; at > first && better(heap[(at - 1) / 2], item); at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
  heap[at] = item;
}

template <typename Better>
RIDGE_HD void make_heap(int32_t* heap, int size, const Better& better) {
  for (int at = size / 2; at-- > 0;) sift(heap, size, at, heap[at], better);
}

// Keeps the `size` best of items 0 to count - 1. Breaks ties as GNU's std::partial_sort, which the reference uses:
// models whose positions share scores depend on it.
template <typename Better>
RIDGE_HD void keep_best(int32_t* heap, int size, int count, const Better& better) {
  for (int i = 0; i < size; ++i) heap[i] = i;
  make_heap(heap, size, better);
  for (int i = size; i < count; ++i)
    if (better(i, heap[0])) sift(heap, size, 0, i, better);
}

} // namespace ridge::core
