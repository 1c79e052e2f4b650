// Names of files, repositories and models: what they say, what a manifest names, and which are safe to use as paths.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::hub {

std::string upper(std::string_view text);
std::string environment(const char* name); // a variable's value; empty where it is not set

bool is_gguf_file(std::string_view path); // by its name: any file that a person may name

// Whether a file name is a language model's: not a projector of images, a drafter or an importance matrix. For files
// that no user named: where a model is to be chosen, or those of other programs are listed.
bool is_model_file(std::string_view file_name);
bool is_projector_file(std::string_view file_name); // an encoder of pictures: mmproj-X.gguf, X-mmproj-F16.gguf

// The type that the name of a model ends with, in upper case: "Q4_K_M" of "Qwen3-8B-Q4_K_M". Empty where there is none.
std::string type_in_name(std::string_view name);

// Whether `text` is `digits` hexadecimal digits in lower case.
bool is_hash(std::string_view text, size_t digits);

// The blob that is the model of an Ollama manifest, as a file name: "sha256-0123…". Nothing where the text is no
// manifest, has no model or several, or names anything but a hash.
std::optional<std::string> model_blob(std::string_view manifest);
std::optional<std::string> projector_blob(std::string_view manifest); // the same of its encoder of pictures

// Whether a path stays below the folder it is joined to and can be shown: relative, its parts neither empty nor "." nor
// "..", no control characters, no part longer than file systems take.
bool is_safe_path(std::string_view path);

bool is_repository(std::string_view text); // OWNER/NAME as hubs allow them
bool is_revision(std::string_view text);   // a branch, a tag, a commit or refs/pr/1

// "a/b c" -> "a/b%20c". With slashes escaped too, one segment of a URL.
std::string url_escaped(std::string_view path, bool slashes = false);

} // namespace ridge::hub
