// How diffusion models fill an answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ridge::core {

// Which positions are decided first.
enum class FillOrder : uint8_t {
  usual,      // the model's default
  confidence, // most probable token
  margin,     // largest lead over the second token
  entropy,    // least entropy
  random,
};

struct DiffusionParams {
  int64_t steps = 0;  // evaluations of the text; 0: one per position
  int64_t block = -1; // positions decided before later ones; 0: all; -1: the model's default
  FillOrder order = FillOrder::usual;
};

inline constexpr std::string_view kFillOrders[] = {"confidence", "margin", "entropy", "random"};

constexpr std::optional<FillOrder> fill_order_of_name(std::string_view name) {
  uint8_t order = static_cast<uint8_t>(FillOrder::confidence);
  for (const std::string_view known : kFillOrders) {
    if (known == name) return static_cast<FillOrder>(order);
    ++order;
  }
  return std::nullopt;
}

} // namespace ridge::core
