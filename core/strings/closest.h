// What a person probably meant by a word that is not known.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::core {

// The known word that is nearest to `word`, whatever the case and the dashes: one that differs in few letters, or that
// begins with it. Empty where none is near.
std::string closest(std::string_view word, std::span<const std::string> known);

// "; did you mean 'chat'?", or nothing where no known word is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);

} // namespace ridge::core
