// Within the limits, parsing must equal nlohmann::json's.
#include "core/json/parse.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

template <typename Json>
void check(std::string_view text) {
  const auto read = ridge::core::find_json<Json>(text);
  const Json expected = Json::parse(text, nullptr, false);
  if (read && (expected.is_discarded() || read->dump(-1, ' ', false, Json::error_handler_t::replace) !=
                                              expected.dump(-1, ' ', false, Json::error_handler_t::replace)))
    std::abort();
  if (!read && !expected.is_discarded()) {
    try {
      ridge::core::parse_json<Json>(text);
      std::abort();
    } catch (const ridge::core::JsonError& error) {
      if (std::string_view(error.what()).starts_with("is not valid JSON")) std::abort();
    }
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check<nlohmann::json>(text);
  check<nlohmann::ordered_json>(text);
  ridge::core::find_json(text, {.exact_numbers = true});
  return 0;
}
