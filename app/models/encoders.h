// The encoders of pictures and sounds that lie beside models.
#pragma once

#include <string>
#include <string_view>

namespace ridge::app {

inline constexpr std::string_view kNoEncoder = "none"; // as --mmproj has it: do without

// The encoder of the model at `model`, by the names of what lies beside it and by the width of its rows; of several
// types the best. Empty: there is none. Throws Error where several may be it, and where what is there does not fit.
std::string find_encoder(const std::string& model);

// The one that `mmproj` names, or find_encoder()'s where it is empty. Empty: there is none, or none is wanted. Throws
// Error where the named one does not fit, too.
std::string encoder_to_use(const std::string& mmproj, const std::string& model);
// The same for pictures and sounds that are there. Throws a usage Error where there is none.
std::string encoder_for_media(const std::string& mmproj, const std::string& model);

} // namespace ridge::app
