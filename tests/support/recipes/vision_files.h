// A multimodal model as files.
#pragma once

#include "support/recipes/vision_case.h"
#include "support/temporary_folder.h"

#include <fmt/format.h>

#include <string>

namespace ridge::tests {

inline std::string ppm_of(const media::Picture& picture) {
  return fmt::format("P6 {} {} 255\n", picture.width, picture.height) +
         std::string(picture.rgb.begin(), picture.rgb.end());
}

struct VisionFiles {
  TemporaryFolder own;
  std::string model, mmproj, image;

  explicit VisionFiles(const VisionCase& c)
      : model(write(c, "model")), mmproj(write(c, "mmproj")),
        image(c.has_sound() ? own.write("a.wav", media::wav_of(c.sound()))
                            : own.write("cat.ppm", ppm_of(c.picture()))) {}

 private:
  std::string write(const VisionCase& c, const std::string& part) const {
    const std::vector<std::byte> bytes = c.image(part);
    return own.write(part + ".gguf", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
};

} // namespace ridge::tests
