// Folders for prompts and conversations, which only their owner may read.
#pragma once

#include <string>
#include <sys/types.h>
#include <system_error>

namespace ridge::core {

inline constexpr mode_t kPrivateFile = 0600; // for AtomicFile

// Creates the folder and those around it that are missing, for their owner alone. One that is there stays as it is.
void create_private_folders(const std::string& path, std::error_code& problem);

} // namespace ridge::core
