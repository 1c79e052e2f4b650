// What this machine's memory gives to readers: the ceiling that decoding is measured against.
#pragma once

namespace ridge::kernels::cpu {

// Bytes per second that `threads` threads (0: all cores) read from memory together: the median of several passes over a
// buffer of 1 GB, many times any cache, in ordinary pages as a mapped model file has them. Takes about a second. Throws
// std::bad_alloc when there is no room for the buffer.
double measure_read_bandwidth(int threads);

} // namespace ridge::kernels::cpu
