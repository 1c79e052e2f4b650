// Limits of templates, which are untrusted: about a second of one core, bounded stack and heap. The largest known
// templates (30 KB, 1000 messages) stay 100 times below.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ridge::text::jinja {

struct Limits {
  size_t max_source_bytes = size_t{1} << 20;
  int max_nesting = 200;                     // in the source
  int64_t max_steps = 20'000'000;            // expressions, items, 64-byte pieces of text
  int max_depth = 600;                       // of nested evaluation and macro calls
  size_t max_value_bytes = size_t{32} << 20; // one string or list
  size_t max_created_bytes = size_t{512} << 20;
  size_t max_output_bytes = size_t{64} << 20;
};

inline constexpr int kMaxValueDepth = 200;           // nested lists and dicts
inline constexpr size_t kMaxIntegerDigits = 4300;    // Python's limit for printing
inline constexpr size_t kMaxParts = size_t{1} << 21; // of a split text
inline constexpr int64_t kMaxRange = 100'000;        // numbers in a range(); Jinja2's sandbox has the same

} // namespace ridge::text::jinja
