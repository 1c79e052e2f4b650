// Shared libraries that are loaded on demand.
#pragma once

#include "core/error.h"

#include <dlfcn.h>

#include <initializer_list>
#include <string>

namespace ridge::core {

class SharedLibrary {
 public:
  // Loads the first of `names` that is there; it stays loaded. Throws Error(`missing`) for none.
  SharedLibrary(std::initializer_list<const char*> names, const std::string& missing) {
    for (const char* name : names)
      if (!library_) library_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library_) throw Error(missing);
  }

  // Throws Error(`missing`) if the library has no function of this name.
  template <typename Function>
  void find(Function& function, const char* name, const std::string& missing) const {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
    if (!function) throw Error(missing);
  }

 private:
  void* library_ = nullptr;
};

} // namespace ridge::core
