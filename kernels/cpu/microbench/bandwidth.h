#pragma once

namespace ridge::kernels::cpu {

// Bytes per second of `threads` threads (0: all cores), the upper limit of decode: with the best of several prefetch
// distances. Reads six times the last-level cache (at most an eighth of the memory) eight times: 0.5 s with 40 MB, 3 s
// with 480 MB. Throws std::bad_alloc.
double measure_read_bandwidth(int threads);

} // namespace ridge::kernels::cpu
