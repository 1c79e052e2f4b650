// Messages of errors.
#pragma once

#include "core/error.h"

#include <string>

namespace ridge::tests {

// Returns the message of the Error that `call` throws; empty: none.
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
