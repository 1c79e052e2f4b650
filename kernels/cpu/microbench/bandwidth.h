// What this machine's memory gives to readers: the ceiling that decoding is measured against.
#pragma once

namespace ridge::kernels::cpu {

// Bytes per second that `threads` threads (0: all cores) read from memory together, 256 MB or six times the last cache
// at a time: the best that vector loads reach with and without software prefetch, each the median of five passes. Takes
// about half a second. Throws std::bad_alloc when there is no room for the buffer.
double measure_read_bandwidth(int threads);

} // namespace ridge::kernels::cpu
