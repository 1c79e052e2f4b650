// What a call refuses its input with.
#pragma once

#include "core/error.h"

#include <string>

namespace ridge::tests {

// The message of the Error that `call` throws; empty where it throws none.
template <typename Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

} // namespace ridge::tests
