// Layouts of checkpoints of architectures that share a file with others (models/checkpoints/rows.def).
#pragma once

#include "models/checkpoint.h"

namespace ridge::models::checkpoints {

extern const Checkpoint mistral3, smollm3, seed_oss, plain, ernie4_5_moe, phi3, glm4, glm4moe, post_norms, hunyuan,
    minimax_m2, cohere2, deepseek2, gemma, gemma4, muse_glimmer, gpt_oss;

} // namespace ridge::models::checkpoints
