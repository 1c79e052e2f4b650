// What names of files, repositories and models mean, and whether they are safe as paths.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::hub {

std::string upper(std::string_view text);
std::string environment(const char* name);

bool is_gguf_file(std::string_view path);

// Whether a name looks like a language model's, not a projector's, drafter's or importance matrix's.
bool is_model_file(std::string_view file_name);
bool is_projector_file(std::string_view file_name); // mmproj-X.gguf, X-mmproj-F16.gguf

// "Q4_K_M" of "Qwen3-8B-Q4_K_M"; empty: none.
std::string type_in_name(std::string_view name);

bool is_hash(std::string_view text, size_t digits);

// "sha256-0123…", the only model in an Ollama manifest; nothing if the manifest is malformed.
std::optional<std::string> model_blob(std::string_view manifest);
std::optional<std::string> projector_blob(std::string_view manifest);

// Whether a relative path is printable and stays below its folder.
bool is_safe_path(std::string_view path);

bool is_repository(std::string_view text);
bool is_revision(std::string_view text); // branch, tag, commit or refs/pr/1

// "a/b c" -> "a/b%20c". `slashes`: escapes slashes, too.
std::string url_escaped(std::string_view path, bool slashes = false);

} // namespace ridge::hub
