// A modifiable small model with zero weights.
#pragma once

#include "core/error.h"
#include "gguf/writer.h"
#include "models/model.h"
#include "models/synthetic.h"

#include <memory>
#include <string>
#include <vector>

namespace ridge::tests {

struct ModelImage {
  gguf::Metadata metadata;
  std::vector<gguf::TensorInfo> tensors;

  ModelImage() = default;
  explicit ModelImage(const models::Shape& shape)
      : metadata(models::metadata_of(shape)), tensors(models::tensors_of(shape)) {}

  static models::Shape dense(std::string_view architecture) {
    return {"small", architecture, 2, 64, 96, 4, 2, 16, 32, 1e4};
  }
  static models::Shape with_experts(std::string_view architecture) {
    models::Shape shape = dense(architecture);
    shape.experts = 8;
    shape.experts_used = 2;
    return shape;
  }

  gguf::File open() const {
    auto image = std::make_shared<std::vector<std::byte>>();
    gguf::Writer writer(*image, metadata, tensors);
    for (const gguf::TensorInfo& tensor : tensors) writer.write(std::vector<std::byte>(tensor.bytes()));
    writer.finish();
    return gguf::File::from_bytes(image, "small.gguf");
  }
  std::string refusal() const {
    const gguf::File file = open();
    try {
      models::build_program(file);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }
};

} // namespace ridge::tests
