// XDG base directories; empty without a home.
#pragma once

#include <string>

namespace ridge::core {

std::string config_folder(); // $XDG_CONFIG_HOME/ridge, else ~/.config/ridge
std::string state_folder();  // $XDG_STATE_HOME/ridge, else ~/.local/state/ridge
std::string cache_folder();  // $XDG_CACHE_HOME/ridge, else ~/.cache/ridge
std::string data_folder();   // $XDG_DATA_HOME/ridge, else ~/.local/share/ridge

} // namespace ridge::core
