#include "hub/http/curl.h"

#include "core/files/shared_library.h"

namespace ridge::hub::curl {

const Library& library() {
  static const Library functions = [] {
    const core::SharedLibrary loaded({"libcurl.so.4", "libcurl-gnutls.so.4"},
                                     "cannot download: libcurl.so.4 is missing; install libcurl4 (Debian, Ubuntu) or "
                                     "libcurl (Fedora), or download the file another way and give its path");
    const auto find = [&](auto& function, const char* name) {
      loaded.find(
          function, name,
          fmt::format("cannot download: the installed libcurl has no {}; version 7.62 or later is needed", name));
    };
    Library f{};
    find(f.easy_init, "curl_easy_init");
    find(f.easy_cleanup, "curl_easy_cleanup");
    find(f.easy_reset, "curl_easy_reset");
    find(f.easy_setopt, "curl_easy_setopt");
    find(f.easy_perform, "curl_easy_perform");
    find(f.easy_getinfo, "curl_easy_getinfo");
    find(f.easy_strerror, "curl_easy_strerror");
    find(f.slist_append, "curl_slist_append");
    find(f.slist_free_all, "curl_slist_free_all");
    find(f.url, "curl_url");
    find(f.url_cleanup, "curl_url_cleanup");
    find(f.url_set, "curl_url_set");
    find(f.url_get, "curl_url_get");
    find(f.free, "curl_free");
    int (*global_init)(long);
    find(global_init, "curl_global_init");
    constexpr long kEverything = 3;
    if (global_init(kEverything) != kOk) throw_error("cannot download: libcurl failed to initialize");
    return f;
  }();
  return functions;
}

} // namespace ridge::hub::curl
