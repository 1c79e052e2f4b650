// How a model that writes by diffusion fills in an answer, whose places all begin undecided.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ridge::core {

// Which places are decided first.
enum class FillOrder : uint8_t {
  usual,      // as the model's makers have it
  confidence, // those whose token is the most probable
  margin,     // those whose token is far more probable than the next one
  entropy,    // those of the least entropy
  random,
};

struct DiffusionParams {
  int64_t steps = 0;  // evaluations of the whole text, for all places; 0: one for each place
  int64_t block = -1; // places that are decided before those behind them; 0: all; -1: as the model's makers have it
  FillOrder order = FillOrder::usual;
};

inline constexpr std::string_view kFillOrders[] = {"confidence", "margin", "entropy", "random"};

// Nothing: no such order.
constexpr std::optional<FillOrder> fill_order_of_name(std::string_view name) {
  uint8_t order = static_cast<uint8_t>(FillOrder::confidence);
  for (const std::string_view known : kFillOrders) {
    if (known == name) return static_cast<FillOrder>(order);
    ++order;
  }
  return std::nullopt;
}

} // namespace ridge::core
