#pragma once

namespace ridge::kernels::cpu {

// Bytes per second of `threads` threads (0: all cores), the upper limit of decode: best of several prefetch distances.
// About 0.5 s. Throws std::bad_alloc.
double measure_read_bandwidth(int threads);

} // namespace ridge::kernels::cpu
