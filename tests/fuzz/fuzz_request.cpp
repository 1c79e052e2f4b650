// Hostile bodies of requests: each is either read or refused with an ApiError.
#include "server/api_error.h"
#include "server/openai.h"

#include <cstdint>
#include <string>

using namespace ridge::server;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const Json body = parse_body(std::string(reinterpret_cast<const char*>(data), size));
    const Fields fields(body, "");
    answers_wanted(fields);
    ridge::core::SamplingOptions sampling;
    take_sampling(fields, sampling);
    ridge::core::validate(sampling.params);
  } catch (const ApiError&) {
  }
  return 0;
}
