// What a person writes to name a model that may not be here yet.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ridge::hub {

// hf:OWNER/REPO, hf:OWNER/REPO:Q4_K_M, hf:OWNER/REPO@REVISION:Q4_K_M, hf:OWNER/REPO/FOLDER/FILE.gguf, the address of
// any of these at huggingface.co, or another https:// address of a GGUF file.
struct Reference {
  std::string repository; // OWNER/REPO; empty: `url` is the file's
  std::string revision = "main";
  std::string type; // Q4_K_M; empty: the usual one
  std::string file; // path in the repository; empty: chosen by type
  std::string url;
};

// Nothing where the text does not begin with hf:, https:// or http://. Throws Error (usage) where it does and is wrong.
std::optional<Reference> parse_reference(std::string_view text);

// As it is written: hf:OWNER/REPO:TYPE.
std::string text_of(const Reference& reference);

} // namespace ridge::hub
