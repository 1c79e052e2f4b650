// Writes the rows that llama.cpp makes of an image or audio, and prints the number of tokens of each piece:
//   mtmd_rows model.gguf mmproj.gguf media.ppm|media.f32 rows.f32 [threads]
// Build with llama.cpp's headers (include, ggml/include, tools/mtmd) and its static libraries mtmd, llama and ggml.
#include "llama.h"
#include "mtmd.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

static mtmd_bitmap* read_media(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  if (path.ends_with(".f32"))
    return mtmd_bitmap_init_from_audio(bytes.size() / sizeof(float), reinterpret_cast<const float*>(bytes.data()));
  int width = 0, height = 0, start = 0;
  if (std::sscanf(bytes.c_str(), "P6 %d %d 255%n", &width, &height, &start) != 2) std::exit(1);
  return mtmd_bitmap_init(width, height, reinterpret_cast<const unsigned char*>(bytes.data()) + start + 1);
}

int main(int argc, char** argv) {
  if (argc < 5) return 1;
  llama_model_params model_params = llama_model_default_params();
  model_params.n_gpu_layers = 0;
  llama_model* model = llama_model_load_from_file(argv[1], model_params);
  mtmd_context_params params = mtmd_context_params_default();
  params.use_gpu = params.warmup = false;
  params.n_threads = argc > 5 ? std::atoi(argv[5]) : 2;
  params.flash_attn_type =
      std::getenv("FLASH_ATTENTION") ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  mtmd_context* context = model ? mtmd_init_from_file(argv[2], model, params) : nullptr;
  if (!context) return 2;
  const mtmd_bitmap* media = read_media(argv[3]);
  const std::string prompt = mtmd_get_marker(context);
  const mtmd_input_text text = {prompt.data(), prompt.size(), true, true};
  mtmd_input_chunks* chunks = mtmd_input_chunks_init();
  if (mtmd_tokenize(context, chunks, &text, &media, 1) != 0) return 3;
  std::ofstream out(argv[4], std::ios::binary);
  for (size_t i = 0; i < mtmd_input_chunks_size(chunks); ++i) {
    const mtmd_input_chunk* chunk = mtmd_input_chunks_get(chunks, i);
    if (mtmd_input_chunk_get_type(chunk) == MTMD_INPUT_CHUNK_TYPE_TEXT) continue;
    const auto start = std::chrono::steady_clock::now();
    if (mtmd_encode_chunk(context, chunk) != 0) return 4;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::fprintf(stderr, "encoded in %.3f s\n", took.count());
    const size_t tokens = mtmd_input_chunk_get_n_tokens(chunk);
    out.write(reinterpret_cast<const char*>(mtmd_get_output_embd(context)),
              static_cast<std::streamsize>(tokens * llama_model_n_embd_inp(model) * sizeof(float)));
    std::printf("%zu\n", tokens);
  }
}
