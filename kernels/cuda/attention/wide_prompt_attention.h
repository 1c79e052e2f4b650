// Prefill attention on Hopper for heads of 512 and latent attention (wide_prompt_attention.cu).
#pragma once

#include "kernels/cuda/ops/ops.h"

namespace ridge::kernels::cuda {

inline constexpr int kWidePromptHead = 512;    // elements of a value
inline constexpr int kMaxWidePromptGroup = 32; // query heads of a KV head; the largest batch then has few enough blocks

// As launch_prompt_attention, which calls it; with few rows it launches wide_attention.cu.
void launch_wide_prompt_attention(const Launch&, const AttentionArgs&);
// Many consecutive tokens of one stream that see all before them, over f16.
bool can_attend_latent_prompts(const Launch&, const LatentArgs&);
void launch_latent_prompt_attention(const Launch&, const LatentArgs&);

} // namespace ridge::kernels::cuda
