// References to models that may not be on this machine.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ridge::hub {

// hf:OWNER/REPO, hf:OWNER/REPO:Q4_K_M, hf:OWNER/REPO@REVISION:Q4_K_M, hf:OWNER/REPO/FILE.gguf, their huggingface.co
// URLs, or an https:// URL of a GGUF file.
struct Reference {
  std::string repository;
  std::string revision = "main";
  std::string type; // empty: the default
  std::string file;
  std::string url;
};

// Nothing unless the text starts with hf:, https:// or http://. Throws Error (usage) if it is malformed.
std::optional<Reference> parse_reference(std::string_view text);

std::string text_of(const Reference& reference);

} // namespace ridge::hub
