// Read bandwidth of this machine's memory: the upper limit of decode speed.
#pragma once

namespace ridge::kernels::cpu {

// Bytes per second of `threads` threads (0: all cores) over 256 MB or six times the last cache: the best of several
// prefetch distances, each a median of five passes. About 0.5 s. Throws std::bad_alloc.
double measure_read_bandwidth(int threads);

} // namespace ridge::kernels::cpu
