// Renders bytes as a chat template, with limits that keep it under a second even with sanitizers. Only ridge::Error may
// be thrown, and data ranges must be sorted.
#include "core/error.h"
#include "text/jinja/jinja.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace jinja = ridge::text::jinja;
  static const auto variables = nlohmann::ordered_json::parse(R"({
    "messages": [
      {"role": "system", "content": "Be brief."},
      {"role": "user", "content": [{"type": "text", "text": "héllo <b> 🦙"}]},
      {"role": "assistant", "content": null, "tool_calls": [
        {"id": "a1", "type": "function", "function": {"name": "f", "arguments": {"x": [1, 2.5, true, null]}}}]},
      {"role": "tool", "tool_call_id": "a1", "content": "  21\n"}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
    "documents": null, "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>"})");
  jinja::Limits limits;
  limits.max_steps = 100'000;
  limits.max_value_bytes = size_t{1} << 20;
  limits.max_created_bytes = size_t{16} << 20;
  try {
    const std::string_view source(reinterpret_cast<const char*>(data), size);
    const jinja::TaintedText out = jinja::Template::parse(source, "fuzz", limits).render_tainted(variables, std::tm{});
    size_t end = 0;
    for (const ridge::text::ByteSpan& span : out.data()) { // sorted, not adjacent, not empty
      if (span.begin >= span.end || (end > 0 && span.begin <= end)) std::abort();
      end = span.end;
    }
    if (end > out.size()) std::abort();
  } catch (const ridge::Error&) {
  }
  return 0;
}
