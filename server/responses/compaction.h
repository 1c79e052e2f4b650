// Items of type `compaction`: a conversation's summary, opaque to clients but complete in itself.
#pragma once

#include <optional>
#include <string>

namespace ridge::server {

std::string compaction_content(const std::string& summary);        // an item's `encrypted_content`
std::optional<std::string> summary_of(const std::string& content); // null: another server made it

} // namespace ridge::server
