// A prompt's product summed over ranks: columns are sent while others are computed.
#pragma once

#include "kernels/cuda/gemm/prompt_product.h"

#include <functional>

namespace ridge::kernels::cuda {

struct ExchangeStream {
  Stream stream{-2}; // priority: its blocks precede the next product's
  Event done;
};

struct PartExchange {
  // Exchanges columns [first, first + columns); kPartColumns except for the last part.
  std::function<void(const Launch&, int64_t first, int64_t columns)> launch;
  const ExchangeStream& beside;
};

// For one matrix of one segment. The stream continues after the last exchange.
void launch_prompt_product(const Launch&, const PromptMatrices& matrix, PromptScratch&, const PartExchange& exchange);

} // namespace ridge::kernels::cuda
