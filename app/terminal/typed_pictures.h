// Picture and sound files in a typed line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::app {

// Absolute paths of files with a known signature, as terminals write them: quoted, escaped, file:// URLs, or from ~.
// The whole line may also be one path.
struct TypedPicture {
  size_t begin, end; // in the line
  std::string path;
};
std::vector<TypedPicture> typed_pictures(std::string_view line);

// `text` if the file exists, otherwise unescaped as above.
std::string given_path(const std::string& text);

} // namespace ridge::app
