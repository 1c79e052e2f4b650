// A prompt's product whose result is summed over ranks: columns go over the link while others are computed.
#pragma once

#include "kernels/cuda/gemm/prompt_product.h"

#include <functional>

namespace ridge::kernels::cuda {

// Where exchanges run, beside products.
struct ExchangeStream {
  Stream stream{-2}; // blocks of an exchange go before those of the next product
  Event done;
};

struct PartExchange {
  // Launches the exchange of a part: of each row `columns` from `first` on, kPartColumns but for the last one.
  std::function<void(const Launch&, int64_t first, int64_t columns)> launch;
  const ExchangeStream& beside;
};

// One matrix of one segment. The stream of the launch goes on behind the last exchange.
void launch_prompt_product(const Launch&, const PromptMatrices& matrix, PromptScratch&, const PartExchange& exchange);

} // namespace ridge::kernels::cuda
