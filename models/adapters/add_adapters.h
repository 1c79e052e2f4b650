// Adds adapters to a Program as ops beside the products that they change.
#pragma once

#include "core/program.h"
#include "models/adapters/adapter_file.h"

#include <span>

namespace ridge::models {

struct ScaledAdapter {
  const AdapterFile* file;
  float scale = 1;
};

// Adds Program::adapters and, after each changed product y = W x, ops for y + B (s A x), with the adapters' matrices
// side by side and scales s per row (core: adapter_scale). The files must outlive the Program. Throws Error for
// adapters of other models or with unsupported changes.
void add_adapters(core::Program& program, const gguf::File& model, std::span<const ScaledAdapter> adapters);

} // namespace ridge::models
