#include "hub/http/curl.h"

#include "core/error.h"

#include <dlfcn.h>

namespace ridge::hub::curl {
namespace {

template <typename Function>
void find(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (!function) throw_error("cannot download: libcurl here has no {}; version 7.62 or newer is needed", name);
}

} // namespace

const Library& library() {
  static const Library functions = [] {
    void* loaded = nullptr;
    for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"})
      if (!loaded) loaded = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!loaded)
      throw_error("cannot download: libcurl.so.4 is missing; install libcurl4 (Debian, Ubuntu) or libcurl (Fedora), or "
                  "download the file by other means and give its path");
    Library f{};
    find(loaded, f.easy_init, "curl_easy_init");
    find(loaded, f.easy_cleanup, "curl_easy_cleanup");
    find(loaded, f.easy_reset, "curl_easy_reset");
    find(loaded, f.easy_setopt, "curl_easy_setopt");
    find(loaded, f.easy_perform, "curl_easy_perform");
    find(loaded, f.easy_getinfo, "curl_easy_getinfo");
    find(loaded, f.easy_strerror, "curl_easy_strerror");
    find(loaded, f.slist_append, "curl_slist_append");
    find(loaded, f.slist_free_all, "curl_slist_free_all");
    find(loaded, f.url, "curl_url");
    find(loaded, f.url_cleanup, "curl_url_cleanup");
    find(loaded, f.url_set, "curl_url_set");
    find(loaded, f.url_get, "curl_url_get");
    find(loaded, f.free, "curl_free");
    int (*global_init)(long);
    find(loaded, global_init, "curl_global_init");
    constexpr long kEverything = 3;
    if (global_init(kEverything) != kOk) throw_error("cannot download: libcurl does not start");
    return f;
  }();
  return functions;
}

} // namespace ridge::hub::curl
