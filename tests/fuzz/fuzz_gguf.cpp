// GGUF files: open, read, compare a copy.
#include "core/error.h"
#include "tests/gguf/touch.h"

using namespace ridge;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const gguf::File file = gguf::File::from_span(std::as_bytes(std::span(data, size)), "fuzz.gguf");
    tests::touch(file);
    const std::vector<std::byte> image = tests::copy_of(file);
    tests::demand(tests::same_content(file, gguf::File::from_span(image, "copy.gguf")));
  } catch (const Error&) {
  }
  return 0;
}
