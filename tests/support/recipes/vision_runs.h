// Multimodal models opened by the engine.
#pragma once

#include "core/error.h"
#include "engine/pictures/picture_prompt.h"
#include "kernels/cpu/executor/executor.h"
#include "models/model.h"
#include "support/executor_runs.h"
#include "support/recipes/vision_case.h"
#include "support/temporary_folder.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ridge::tests {

struct OpenedVision {
  const VisionCase& c;
  const quant::Type type;
  TemporaryFolder folder;
  gguf::File file;
  std::unique_ptr<text::Tokenizer> tokenizer;
  core::Program program;
  engine::PictureReader reader;

  explicit OpenedVision(const VisionCase& of, bool exact = true, quant::Type as = quant::Type::F32, int gpu = -1)
      : c(of), type(as), file(gguf::File::open(write("model"))), tokenizer(text::Tokenizer::from_file(file)),
        program(models::build_program(file, models::Ending::pictures)),
        reader(write("mmproj"), {.threads = 1, .gpu = gpu, .exact = exact}) {}

  std::string write(const std::string& part) const {
    const std::vector<std::byte> bytes = c.image(part, type);
    return folder.write(part + ".gguf", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  std::string path(const std::string& part) const { return folder / (part + ".gguf"); }
  engine::PicturePrompt prompt() {
    return engine::picture_prompt(*tokenizer, reader, c.prompt(), std::vector{c.medium()});
  }
};

inline std::vector<float> rows_of(const engine::PicturePrompt& prompt, size_t first = 0) {
  std::vector<float> rows;
  for (const engine::TextPictures::Place& place : prompt.pictures.places().subspan(first))
    rows.insert(rows.end(), place.tile->all_rows().begin(), place.tile->all_rows().end());
  return rows;
}

inline std::pair<std::vector<float>, std::vector<float>> rows_to_compare(const VisionCase& c,
                                                                         const engine::PicturePrompt& prompt) {
  const std::vector<float> rows = rows_of(prompt, c.has_wrong_tiles() ? prompt.pictures.places().size() - 1 : 0);
  std::vector<float> wanted = c.embeddings();
  if (c.has_wrong_tiles()) wanted.erase(wanted.begin(), wanted.end() - std::ssize(rows));
  return {rows, wanted};
}

inline std::vector<float> vision_logits(OpenedVision& opened, const engine::PicturePrompt& prompt, int64_t most,
                                        bool exact = true,
                                        const MakeExecutor& make_executor = kernels::cpu::make_cpu_executor) {
  const int64_t count = std::ssize(prompt.tokens);
  core::ExecutorConfig config = {.context = count, .max_batch = count, .max_outputs = count, .threads = 1};
  config.k_type = config.v_type = exact ? core::KvType::f32 : core::KvType::f16;
  config.exact = exact;
  const auto executor = make_executor(opened.program, config);
  std::vector<float> logits;
  for (int64_t at = 0, end = 0; at < count; at = end) {
    end = prompt.pictures.end_of_part(at, std::min(count, at + most));
    engine::PlacedBatch placed;
    placed.append(std::span(prompt.tokens).subspan(at, end - at), at, 0, &prompt.pictures);
    for (int64_t i = at; i < end; ++i)
      if (!prompt.pictures.at(i)) placed.outputs.push_back(static_cast<int32_t>(i - at));
    executor->forward(placed.batch(opened.program));
    for (int64_t i = 0; i < std::ssize(placed.outputs); ++i) {
      const std::span<const float> row = executor->logits(i);
      logits.insert(logits.end(), row.begin(), row.end());
    }
  }
  return logits;
}

} // namespace ridge::tests
