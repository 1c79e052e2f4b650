// Requests of editors' plugins, with the fields that each sends and reads.
#include "support/http/infill_model.h"

using namespace ridge;
using server::Json;
using tests::Endpoint;

namespace {

const Json kEditorsFiles = {{{"text", "int a;\n"}, {"time", {12, 345}}, {"filename", "a.h"}},
                            {{"text", "int b;\n"}, {"time", {12, 346}}, {"filename", "b.h"}}};

} // namespace

TEST_CASE("llama.vim reads files ahead, and finds them cached when it fills in") {
  const tests::InfillModel coder;
  const Json ahead = {{"id_slot", 0},
                      {"input_prefix", ""},
                      {"input_suffix", ""},
                      {"input_extra", kEditorsFiles},
                      {"prompt", ""},
                      {"n_predict", 0},
                      {"temperature", 0.0},
                      {"stream", false},
                      {"samplers", Json::array()},
                      {"cache_prompt", true},
                      {"t_max_prompt_ms", 1},
                      {"t_max_predict_ms", 1},
                      {"response_fields", {""}}};
  CHECK(coder.endpoint.post("/infill", ahead) == Json::object());
  const Json fields = {"content",
                       "timings/prompt_n",
                       "timings/prompt_ms",
                       "timings/prompt_per_token_ms",
                       "timings/prompt_per_second",
                       "timings/predicted_n",
                       "timings/predicted_ms",
                       "timings/predicted_per_token_ms",
                       "timings/predicted_per_second",
                       "timings/cache_n",
                       "truncated",
                       "tokens_cached"};
  const Json filled = coder.endpoint.post("/infill", {{"id_slot", 0},
                                                      {"input_prefix", "int main() {\n"},
                                                      {"input_suffix", "}\n"},
                                                      {"input_extra", kEditorsFiles},
                                                      {"prompt", "  return "},
                                                      {"n_predict", 8},
                                                      {"stop", Json::array()},
                                                      {"n_indent", 0},
                                                      {"top_k", 40},
                                                      {"top_p", 0.90},
                                                      {"stream", false},
                                                      {"samplers", {"top_k", "top_p", "infill"}},
                                                      {"cache_prompt", true},
                                                      {"t_max_prompt_ms", 500},
                                                      {"t_max_predict_ms", 250},
                                                      {"response_fields", fields}});
  CHECK(filled.size() == fields.size());
  for (const Json& field : fields) CHECK(filled.contains(field.get<std::string>()));
  CHECK(filled["content"].is_string());
  CHECK(filled["timings/cache_n"].get<int>() > 20); // the files
}

TEST_CASE("llama.vscode fills in without naming the fields it reads") {
  const tests::InfillModel coder;
  const Json filled = coder.endpoint.post("/infill", {{"input_prefix", "a\n"},
                                                      {"input_suffix", "\nb"},
                                                      {"input_extra", Json::array()},
                                                      {"prompt", ""},
                                                      {"n_predict", 4},
                                                      {"top_k", 40},
                                                      {"top_p", 0.99},
                                                      {"stream", false},
                                                      {"n_indent", 0},
                                                      {"samplers", {"top_k", "top_p", "infill"}},
                                                      {"cache_prompt", true},
                                                      {"t_max_prompt_ms", 500},
                                                      {"t_max_predict_ms", 2500}});
  CHECK(filled["content"].is_string());
  CHECK(filled["generation_settings"]["n_predict"] == 4);
  CHECK(filled["tokens_cached"].get<int>() > 0);
}

TEST_CASE("Continue writes the prompt around the gap itself, and reads a stream") {
  const tests::InfillModel coder;
  const Json body = {
      {"prompt", "<|fim_prefix|>a = <|fim_suffix|>\nb<|fim_middle|>"}, {"stream", true}, {"n_predict", 6},
      {"stop", {"<|fim_prefix|>", "<|file_sep|>", "/src/", "\n\n"}},   {"top_k", 40},    {"temperature", 0.01}};
  const tests::HttpReply reply = coder.endpoint.client().post("/completion", body.dump());
  REQUIRE(reply.status == 200);
  CHECK(reply.body.find("data: {\"index\":0,\"content\":") == 0);
  CHECK(reply.body.find("\"stop\":true") != std::string::npos);
  const Json whole = coder.endpoint.post(
      "/completion", {{"prompt", body["prompt"]}, {"n_predict", 0}, {"response_fields", {"tokens_evaluated"}}});
  CHECK(whole["tokens_evaluated"].get<int>() < 12); // control tokens, not their letters
}
