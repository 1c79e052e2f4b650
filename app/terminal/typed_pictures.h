// Files of pictures and sounds in a line that a person typed, pasted or dropped into the terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::app {

// The words of a line that are the absolute path of a file that begins as a picture or a sound does: as terminals write
// them, in quotes, with escaped spaces, as file:// URLs, or from ~ on; also the whole line, whatever spaces it has.
// What names no such file is text.
struct TypedPicture {
  size_t begin, end; // in the line
  std::string path;
};
std::vector<TypedPicture> typed_pictures(std::string_view line);

// The path of a file that a person gave a command: as it is where there is such a file, else as terminals write it.
std::string given_path(const std::string& text);

} // namespace ridge::app
