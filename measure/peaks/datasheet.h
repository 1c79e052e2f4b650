// What the makers of common GPUs promise, as a table of facts: the third column beside what was measured and what was
// achieved. A card that is not in it is unknown; nothing is derived. Where a maker sold different memory under one
// name, the more common one counts (RTX 3080: 10 GB).
#pragma once

#include <string_view>

namespace ridge::measure {

// Without sparsity; 0 where the card has no such unit or its maker does not say.
struct Datasheet {
  std::string_view name; // as the driver reports it
  double memory_bytes_per_second = 0;
  double fp32_flops = 0;       // no tensor cores
  double tensor_f16_flops = 0; // f16 or bf16 products, f32 sums
  double tensor_int8_ops = 0;
  double tensor_fp8_flops = 0; // f32 sums
};

// Null where the card is unknown.
const Datasheet* find_datasheet(std::string_view gpu_name);

} // namespace ridge::measure
