#include "models/guide.h"

#include <cstddef>
#include <span>

// The assembler puts the file into the read-only data. CMake defines its path, and rebuilds this file when it changes.
asm(R"(
  .section .rodata
  .balign 4096
  .global ridge_guide_begin
  .global ridge_guide_end
ridge_guide_begin:
  .incbin ")" RIDGE_GUIDE_FILE R"("
ridge_guide_end:
  .byte 0
  .previous
)");

extern "C" const std::byte ridge_guide_begin[], ridge_guide_end[];

namespace ridge::models {

gguf::File open_guide() {
  return gguf::File::from_span(std::span(ridge_guide_begin, ridge_guide_end), "the built-in guide");
}

} // namespace ridge::models
