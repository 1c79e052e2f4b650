// What a template may cost. A chat template comes with a downloaded model, so it is as hostile as any file: these
// bounds keep the worst one to about a second of one core, a bounded stack and a bounded heap. The largest
// templates in use (30 KB of source, conversations of a thousand messages) stay a hundred times below them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ridge::text::jinja {

struct Limits {
  size_t max_source_bytes = size_t{1} << 20;
  int max_nesting = 200;                        // statements and expressions inside each other, in the source
  int64_t max_steps = 20'000'000;               // expressions evaluated, items visited, 64-byte pieces scanned
  int max_depth = 600;                          // expressions, statements and macro calls in progress
  size_t max_value_bytes = size_t{32} << 20;    // one string, or one list
  size_t max_created_bytes = size_t{512} << 20; // all values made in one rendering
  size_t max_output_bytes = size_t{64} << 20;
};

inline constexpr int kMaxValueDepth = 200;           // lists and dicts inside each other
inline constexpr size_t kMaxIntegerDigits = 4300;    // as many as Python prints
inline constexpr size_t kMaxParts = size_t{1} << 21; // of one text that is split
inline constexpr int64_t kMaxRange = 100'000;        // numbers in a range(); Jinja2's sandbox has the same

} // namespace ridge::text::jinja
