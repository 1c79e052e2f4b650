#include "models/guide.h"

#include <cstddef>
#include <span>

// The assembler includes the files. CMake defines their paths and rebuilds this file when they change.
asm(R"(
  .section .rodata
  .balign 4096
  .global ridge_guide_begin
  .global ridge_guide_end
ridge_guide_begin:
  .incbin ")" RIDGE_GUIDE_FILE R"("
ridge_guide_end:
  .balign 4096
  .global ridge_draft_begin
  .global ridge_draft_end
ridge_draft_begin:
  .incbin ")" RIDGE_GUIDE_DRAFT R"("
ridge_draft_end:
  .byte 0
  .previous
)");

extern "C" const std::byte ridge_guide_begin[], ridge_guide_end[], ridge_draft_begin[], ridge_draft_end[];

namespace ridge::models {

gguf::File open_guide() {
  return gguf::File::from_span(std::span(ridge_guide_begin, ridge_guide_end), "the built-in guide");
}

bool is_guide(const gguf::File& file) {
  const auto tensors = file.tensors();
  return !tensors.empty() && tensors[0].data.data() > ridge_guide_begin && tensors[0].data.data() < ridge_guide_end;
}

gguf::File open_guide_draft() {
  return gguf::File::from_span(std::span(ridge_draft_begin, ridge_draft_end), "the built-in guide's draft");
}

} // namespace ridge::models
