// The shapes of synthetic models: hyperparameters as the models' publishers give them.
#include "models/synthetic.h"

namespace ridge::models {

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> kShapes = {
      // clang-format off
      {.name = "llama-1b", .architecture = "llama", .layers = 16, .width = 2048, .ffn_width = 8192, .heads = 32,
       .kv_heads = 8, .head_dim = 64, .vocab = 128256, .rope_base = 5e5},
      {.name = "llama-3b", .architecture = "llama", .layers = 28, .width = 3072, .ffn_width = 8192, .heads = 24,
       .kv_heads = 8, .head_dim = 128, .vocab = 128256, .rope_base = 5e5},
      {.name = "llama-8b", .architecture = "llama", .layers = 32, .width = 4096, .ffn_width = 14336, .heads = 32,
       .kv_heads = 8, .head_dim = 128, .vocab = 128256, .rope_base = 5e5},
      {.name = "llama-70b", .architecture = "llama", .layers = 80, .width = 8192, .ffn_width = 28672, .heads = 64,
       .kv_heads = 8, .head_dim = 128, .vocab = 128256, .rope_base = 5e5},
      {.name = "mistral-7b", .architecture = "llama", .layers = 32, .width = 4096, .ffn_width = 14336, .heads = 32,
       .kv_heads = 8, .head_dim = 128, .vocab = 32768, .rope_base = 1e6},
      {.name = "mixtral-8x7b", .architecture = "llama", .layers = 32, .width = 4096, .ffn_width = 14336, .heads = 32,
       .kv_heads = 8, .head_dim = 128, .vocab = 32000, .rope_base = 1e6, .experts = 8, .experts_used = 2},
      {.name = "qwen2.5-0.5b", .architecture = "qwen2", .layers = 24, .width = 896, .ffn_width = 4864, .heads = 14,
       .kv_heads = 2, .head_dim = 64, .vocab = 151936, .rope_base = 1e6},
      {.name = "qwen2.5-7b", .architecture = "qwen2", .layers = 28, .width = 3584, .ffn_width = 18944, .heads = 28,
       .kv_heads = 4, .head_dim = 128, .vocab = 152064, .rope_base = 1e6},
      {.name = "qwen3-0.6b", .architecture = "qwen3", .layers = 28, .width = 1024, .ffn_width = 3072, .heads = 16,
       .kv_heads = 8, .head_dim = 128, .vocab = 151936, .rope_base = 1e6},
      {.name = "qwen3-4b", .architecture = "qwen3", .layers = 36, .width = 2560, .ffn_width = 9728, .heads = 32,
       .kv_heads = 8, .head_dim = 128, .vocab = 151936, .rope_base = 1e6},
      {.name = "qwen3-8b", .architecture = "qwen3", .layers = 36, .width = 4096, .ffn_width = 12288, .heads = 32,
       .kv_heads = 8, .head_dim = 128, .vocab = 151936, .rope_base = 1e6},
      {.name = "qwen3-32b", .architecture = "qwen3", .layers = 64, .width = 5120, .ffn_width = 25600, .heads = 64,
       .kv_heads = 8, .head_dim = 128, .vocab = 151936, .rope_base = 1e6},
      {.name = "qwen3-30b-a3b", .architecture = "qwen3moe", .layers = 48, .width = 2048, .ffn_width = 768, .heads = 32,
       .kv_heads = 4, .head_dim = 128, .vocab = 151936, .rope_base = 1e6, .experts = 128, .experts_used = 8},
      {.name = "qwen3.5-27b", .architecture = "qwen35", .layers = 64, .width = 5120, .ffn_width = 17408, .heads = 24,
       .kv_heads = 4, .head_dim = 256, .vocab = 248320, .rope_base = 1e7, .layer_kinds = "DDDA", .rope_dims = 64,
       .output_gate = true, .inner = 6144, .state = 128, .inner_heads = 48, .inner_groups = 16, .conv_kernel = 4},
      {.name = "qwen3.6-35b-a3b", .architecture = "qwen35moe", .layers = 40, .width = 2048, .ffn_width = 512,
       .heads = 16, .kv_heads = 2, .head_dim = 256, .vocab = 248320, .rope_base = 1e7, .experts = 256,
       .experts_used = 8, .layer_kinds = "DDDA", .rope_dims = 64, .output_gate = true, .inner = 4096, .state = 128,
       .inner_heads = 32, .inner_groups = 16, .conv_kernel = 4, .shared_ffn_width = 512},
      {.name = "qwen3-next-80b-a3b", .architecture = "qwen3next", .layers = 48, .width = 2048, .ffn_width = 512,
       .heads = 16, .kv_heads = 2, .head_dim = 256, .vocab = 151936, .rope_base = 1e7, .experts = 512,
       .experts_used = 10, .layer_kinds = "DDDA", .rope_dims = 64, .output_gate = true, .inner = 4096, .state = 128,
       .inner_heads = 32, .inner_groups = 16, .conv_kernel = 4, .shared_ffn_width = 512},
      {.name = "lfm2-8b-a1b", .architecture = "lfm2moe", .layers = 24, .width = 2048, .ffn_width = 1792, .heads = 32,
       .kv_heads = 8, .head_dim = 64, .vocab = 65536, .rope_base = 1e6, .experts = 32, .experts_used = 4,
       .layer_kinds = "CCACCCACCCACCCACCCACCACC", .conv_kernel = 3, .dense_layers = 2, .dense_ffn_width = 7168},
      {.name = "nemotron-nano-9b", .architecture = "nemotron_h", .layers = 56, .width = 4480, .ffn_width = 15680,
       .heads = 40, .kv_heads = 8, .head_dim = 128, .vocab = 131072, .rope_base = 1e4,
       .layer_kinds = "MFMFMFMMFMFMFMAFMFMFMAFMFMFMFMAFMFMFMFMAFMFMMFMFMFMFMFMF", .inner = 10240, .state = 128,
       .inner_heads = 128, .inner_groups = 8, .conv_kernel = 4},
      {.name = "granite-4-h-small", .architecture = "granitehybrid", .layers = 40, .width = 4096, .ffn_width = 768,
       .heads = 32, .kv_heads = 8, .head_dim = 128, .vocab = 100352, .rope_base = 1e4, .experts = 72,
       .experts_used = 10, .layer_kinds = "MMMMMAMMMM", .inner = 8192, .state = 128, .inner_heads = 128,
       .inner_groups = 1, .conv_kernel = 4, .shared_ffn_width = 1536},
      {.name = "mistral-small-24b", .architecture = "llama", .layers = 40, .width = 5120, .ffn_width = 32768,
       .heads = 32, .kv_heads = 8, .head_dim = 128, .vocab = 131072, .rope_base = 1e8},
      {.name = "deepseek-v2-lite", .architecture = "deepseek2", .layers = 27, .width = 2048, .ffn_width = 1408,
       .heads = 16, .kv_heads = 1, .head_dim = 192, .vocab = 102400, .rope_base = 1e4, .experts = 64,
       .experts_used = 6, .rope_dims = 64, .shared_ffn_width = 2816, .dense_layers = 1, .dense_ffn_width = 10944,
       .latent = 512, .value_dim = 128},
      {.name = "glm-4.7-flash", .architecture = "deepseek2", .layers = 47, .width = 2048, .ffn_width = 1536,
       .heads = 20, .kv_heads = 1, .head_dim = 256, .vocab = 154880, .rope_base = 1e6, .experts = 64,
       .experts_used = 4, .rope_dims = 64, .shared_ffn_width = 1536, .dense_layers = 1, .dense_ffn_width = 10240,
       .latent = 512, .query_latent = 768, .value_dim = 256},
      // clang-format on
  };
  return kShapes;
}

} // namespace ridge::models
