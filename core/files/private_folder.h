// Folders for their owner only.
#pragma once

#include <string>
#include <sys/types.h>
#include <system_error>

namespace ridge::core {

inline constexpr mode_t kPrivateFile = 0600; // mode for AtomicFile

// Creates missing folders with mode 0700.
void create_private_folders(const std::string& path, std::error_code& problem);

} // namespace ridge::core
