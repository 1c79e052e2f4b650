// Adapters in a Program: ops beside the products that they change.
#pragma once

#include "core/program.h"
#include "models/adapters/adapter_file.h"

#include <span>

namespace ridge::models {

struct ScaledAdapter {
  const AdapterFile* file;
  float scale = 1; // where a sequence asks for nothing else
};

// Adds Program::adapters and, to each product that one of them changes, y = W x, ops for y + B (s A x): A and B are
// those of all adapters side by side, s says how much of which counts for a row (core: adapter_scale). `model`: the
// file that the Program was built from. The adapters' files must outlive the Program, which points into them. Throws
// Error for an adapter that is not of this model, or that changes a tensor in another way than ops beside its product
// can.
void add_adapters(core::Program& program, const gguf::File& model, std::span<const ScaledAdapter> adapters);

} // namespace ridge::models
