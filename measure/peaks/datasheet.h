// Published peak rates of GPUs. With several memory variants per name, the more common (RTX 3080: 10 GB).
#pragma once

#include <string_view>

namespace ridge::measure {

// Without sparsity; 0: none or unknown.
struct Datasheet {
  std::string_view name; // as the driver reports it
  double memory_bytes_per_second = 0;
  double fp32_flops = 0;       // without tensor cores
  double tensor_f16_flops = 0; // f16 or bf16 products, f32 sums
  double tensor_int8_ops = 0;
  double tensor_fp8_flops = 0; // f32 sums
};

// Null: unknown card.
const Datasheet* find_datasheet(std::string_view gpu_name);

} // namespace ridge::measure
