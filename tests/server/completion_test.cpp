// llama.cpp-style completions and infill.
#include "support/http/infill_model.h"

#include <sstream>

using namespace ridge;
using server::Json;
using tests::Endpoint;

namespace {

std::vector<Json> events_of(const Endpoint& endpoint, const std::string& path, Json body) {
  body["stream"] = true;
  const tests::HttpReply reply = endpoint.client().post(path, body.dump());
  REQUIRE(reply.whole);
  REQUIRE(reply.status == 200);
  std::vector<Json> events;
  std::istringstream lines(reply.body);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("data: ")) events.push_back(Json::parse(line.substr(6)));
  return events;
}

std::string message_of(const Json& answer) { return answer["error"]["message"]; }

} // namespace

TEST_CASE("a completion has the fields of llama.cpp's server") {
  const Endpoint endpoint;
  const Json body = {
      {"prompt", "ridge is"}, {"n_predict", 4}, {"temperature", 0}, {"seed", 5}, {"return_tokens", true}};
  const Json whole = endpoint.post("/completion", body);
  const Json plain = endpoint.post("/v1/completions", {{"prompt", "ridge is"}, {"max_tokens", 4}, {"temperature", 0}});
  CHECK(whole["content"] == plain["choices"][0]["text"]);
  CHECK(whole["stop"] == true);
  CHECK(whole["stop_type"] == "limit");
  CHECK(whole["stopping_word"] == "");
  CHECK(whole["tokens"].size() == 4);
  CHECK(whole["tokens_predicted"] == 4);
  CHECK(whole["tokens_evaluated"] == plain["usage"]["prompt_tokens"]);
  CHECK(whole["truncated"] == false);
  CHECK(whole["has_new_line"].is_boolean());
  CHECK(whole["prompt"].get<std::string>().ends_with("ridge is"));
  CHECK(whole["id_slot"].get<int>() >= 0);
  CHECK(whole["timings"]["predicted_n"] == 4);
  const Json& settings = whole["generation_settings"];
  CHECK(settings["n_predict"] == 4);
  CHECK(settings["seed"] == 5);
  CHECK(settings["samplers"][0] == "penalties");
  CHECK(settings["dry_sequence_breakers"].size() == 4);
  CHECK_FALSE(whole.contains("completion_probabilities"));

  std::string content;
  Json tokens = Json::array();
  const std::vector<Json> events = events_of(endpoint, "/completion", body);
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    CHECK(events[i]["stop"] == false);
    CHECK(events[i]["tokens"].size() == 1);
    CHECK_FALSE(events[i].contains("timings"));
    content += events[i]["content"];
    tokens.push_back(events[i]["tokens"][0]);
  }
  CHECK(events.back()["stop"] == true);
  CHECK(events.back()["stop_type"] == "limit");
  CHECK(content + events.back()["content"].get<std::string>() == whole["content"].get<std::string>());
  CHECK(tokens == whole["tokens"]);
}

TEST_CASE("a completion ends by a word or by the model, and says which") {
  const Endpoint endpoint;
  Json body = {{"prompt", "ridge is"}, {"n_predict", 8}, {"temperature", 0}};
  const std::string text = endpoint.post("/completion", body)["content"];
  body["stop"] = {text.substr(text.size() - 3)};
  const Json stopped = endpoint.post("/completion", body);
  CHECK(stopped["stop_type"] == "word");
  CHECK(stopped["stopping_word"] == body["stop"][0]);
  body["logit_bias"] = {{endpoint.model.tokenizer->eos(), 100}};
  const Json ended = endpoint.post("/completion", body);
  CHECK(ended["stop_type"] == "eos");
  CHECK(ended["content"] == "");
}

TEST_CASE("a completion without an end stops where the context is full, and a prompt beyond it is an error") {
  const Endpoint endpoint;
  Json body = {{"prompt", "ridge is"}, {"n_predict", 4}, {"temperature", 0}, {"ignore_eos", true}};
  const Json settings = endpoint.post("/completion", body)["generation_settings"];
  REQUIRE(settings["logit_bias"].size() > 0);
  CHECK(settings["logit_bias"][0]["bias"].is_null());
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "a b ";
  const Json refused = endpoint.post("/completion", {{"prompt", text}}, 400)["error"];
  CHECK(refused["type"] == "exceed_context_size_error");
  CHECK(refused["n_prompt_tokens"].get<int>() > refused["n_ctx"].get<int>());
  body["prompt"] = text.substr(0, 1500);
  body["n_predict"] = -1;
  const Json cut = endpoint.post("/completion", body);
  CHECK(cut["truncated"] == true);
  CHECK(cut["stop_type"] == "limit");
}

TEST_CASE("prompts are texts, tokens, mixtures of these and lists of them") {
  const Endpoint endpoint;
  const auto prompt = [&](const Json& given) {
    return endpoint.post("/completion", {{"prompt", given}, {"n_predict", 1}})["prompt"].get<std::string>();
  };
  const std::string text = prompt("ridge is");
  const Json tokens = endpoint.post("/tokenize", {{"content", "ridge is"}, {"add_special", true}})["tokens"];
  CHECK(prompt(tokens) == text);
  CHECK(prompt({{"prompt_string", "ridge is"}, {"multimodal_data", Json::array()}}) == text);
  Json mixed = endpoint.post("/tokenize", {{"content", "ridge"}, {"add_special", true}})["tokens"];
  mixed.push_back(" is");
  CHECK(prompt(mixed) == text);
  const Json several = endpoint.post("/completion", {{"prompt", {"ridge is", "a", tokens}}, {"n_predict", 2}});
  REQUIRE(several.size() == 3);
  CHECK(several[0]["prompt"] == text);
  CHECK(several[2]["prompt"] == text);
  CHECK(several[2]["index"] == 2);
  CHECK(endpoint.post("/completion", {{"prompt", "a"}, {"n_predict", 2}, {"n_cmpl", 2}}).size() == 2);
  const auto error = [&](const Json& given) {
    return message_of(endpoint.post("/completion", {{"prompt", given}}, 400));
  };
  CHECK(error(7) == "prompt: expected a string, or a list of tokens and strings");
  CHECK(error({1, true}) == "prompt: expected a string, or a list of tokens and strings");
  CHECK(error({{"prompt_string", "a"}, {"multimodal_data", {"AAAA"}}}).starts_with("prompt.multimodal_data: "));
  CHECK(error({1, -4}).starts_with("prompt[1]: expected"));
  CHECK(message_of(endpoint.post("/completion", Json::object(), 400)) == "prompt is missing");
}

TEST_CASE("n_probs gives what was likely, by the model or by what samplers left") {
  const Endpoint endpoint;
  Json body = {{"prompt", "ridge"}, {"n_predict", 3}, {"n_probs", 10}, {"temperature", 0}, {"return_tokens", true}};
  for (const bool stream : {false, true}) {
    Json probabilities = Json::array();
    if (stream)
      for (const Json& event : events_of(endpoint, "/completion", body))
        for (const Json& one : event.value("completion_probabilities", Json::array())) probabilities.push_back(one);
    else
      probabilities = endpoint.post("/completion", body)["completion_probabilities"];
    REQUIRE(probabilities.size() == 3);
    for (const Json& one : probabilities) {
      CHECK(one["id"].get<int>() > 0);
      CHECK(one["logprob"].get<double>() <= 0);
      CHECK(one["bytes"].is_array());
      REQUIRE(one["top_logprobs"].size() == 10);
      CHECK(one["top_logprobs"][0]["id"] == one["id"]);
    }
  }
  body.update({{"post_sampling_probs", true}, {"temperature", 1}, {"top_k", 3}, {"top_p", 1}, {"min_p", 0}});
  const Json drawn = endpoint.post("/completion", body)["completion_probabilities"];
  REQUIRE(drawn.size() == 3);
  for (const Json& one : drawn) {
    CHECK_FALSE(one.contains("logprob"));
    REQUIRE(one["top_probs"].size() == 3);
    double sum = 0;
    for (const Json& top : one["top_probs"]) sum += top["prob"].get<double>();
    CHECK(sum == doctest::Approx(1));
    CHECK(one["prob"].get<double>() > 0);
  }
  body["temperature"] = 0;
  for (const Json& one : endpoint.post("/completion", body)["completion_probabilities"]) {
    CHECK(one["prob"] == 1);
    REQUIRE(one["top_probs"].size() == 10);
    CHECK(one["top_probs"][0]["id"] == one["id"]);
    CHECK(one["top_probs"][1]["prob"] == 0);
  }
  body["n_probs"] = 100;
  CHECK(message_of(endpoint.post("/completion", body, 400)).starts_with("n_probs: "));
}

TEST_CASE("response_fields chooses members by their paths") {
  const Endpoint endpoint;
  const Json body = {{"prompt", "ridge"},
                     {"n_predict", 2},
                     {"response_fields", {"content", "generation_settings/n_predict", "timings/prompt_n", "no/such"}}};
  const Json chosen = endpoint.post("/completion", body);
  CHECK(chosen.size() == 3);
  CHECK(chosen["generation_settings/n_predict"] == 2);
  CHECK(chosen["timings/prompt_n"].is_number());
}

TEST_CASE("a stream has timings with each token and says how far the prompt is read, where it is asked to") {
  const Endpoint endpoint;
  std::string prompt;
  for (int i = 0; i < 150; ++i) prompt += "word ";
  const Json body = {{"prompt", prompt},
                     {"n_predict", 2},
                     {"ignore_eos", true},
                     {"timings_per_token", true},
                     {"return_progress", true}};
  int64_t read = -1, total = 0;
  int tokens = 0;
  for (const Json& event : events_of(endpoint, "/completion", body)) {
    REQUIRE(event.contains("timings"));
    if (event.contains("prompt_progress")) {
      const Json& progress = event["prompt_progress"];
      CHECK(progress["processed"].get<int64_t>() > read);
      read = progress["processed"];
      total = progress["total"];
      CHECK(total >= read);
      CHECK(tokens == 0);
    } else if (event["stop"] == false) {
      ++tokens;
      CHECK(event["timings"]["predicted_n"] == tokens);
    }
  }
  CHECK(tokens >= 1);
  CHECK(read == total); // before the first token
  for (const char* path : {"/v1/completions", "/v1/chat/completions"}) {
    Json asked = body;
    asked["messages"] = {{{"role", "user"}, {"content", prompt}}};
    asked.erase(path == std::string_view("/v1/completions") ? "messages" : "prompt");
    int timed = 0;
    bool whole = false;
    std::istringstream lines([&] {
      asked["stream"] = true;
      return endpoint.client().post(path, asked.dump()).body;
    }());
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("data: {")) continue;
      const Json event = Json::parse(line.substr(6));
      REQUIRE(event["choices"].size() == 1);
      const bool opens = event["choices"][0].value("delta", Json::object()).contains("role");
      CHECK(event.contains("timings") != opens); // nothing is timed yet
      CHECK(event["system_fingerprint"].get<std::string>().starts_with("b"));
      if (event.contains("prompt_progress"))
        whole = event["prompt_progress"]["processed"] == event["prompt_progress"]["total"];
      if (event.contains("timings")) timed = event["timings"]["predicted_n"];
    }
    CHECK(timed == 2);
    CHECK(whole);
  }
}

TEST_CASE("a text that is filled in gets what stands around the gap, and other files") {
  const tests::InfillModel coder;
  const Endpoint& endpoint = coder.endpoint;
  Json body = {{"input_prefix", "def f():"}, {"input_suffix", "return x"}, {"n_predict", 4}, {"temperature", 0}};
  const Json plain = endpoint.post("/infill", body);
  CHECK(plain["content"].is_string());
  CHECK(plain["prompt"] == "<s><|fim_prefix|>def f():<|fim_suffix|>return x<|fim_middle|>");
  body["prompt"] = "x =";
  body["input_extra"] = {{{"text", "y"}, {"filename", "a.py"}}, {{"text", "z"}}};
  const Json filled = endpoint.post("/infill", body);
  const std::string prompt = filled["prompt"];
  CHECK(prompt.starts_with("<s><|repo_name|>"));
  CAPTURE(prompt);
  CHECK(prompt.find("<|file_sep|>a.py\n y<|file_sep|>tmp\n z<|file_sep|>") != std::string::npos);
  CHECK(prompt.find("def f(): x =<|fim_suffix|>") != std::string::npos);
  // The files stay cached.
  body["input_prefix"] = "def f(): #";
  const Json again = endpoint.post("/infill", body);
  CHECK(again["timings"]["cache_n"].get<int>() > 20);

  const std::vector<Json> events = events_of(endpoint, "/infill", body);
  CHECK(events.back()["stop"] == true);

  std::string longer;
  for (int i = 0; i < 3000; ++i) longer += 'a';
  body["input_prefix"] = longer;
  CHECK(endpoint.post("/infill", body)["tokens_evaluated"].get<int>() <= 508);
}

TEST_CASE("requests to fill in that are malformed are refused by the field's name") {
  const tests::InfillModel coder;
  const auto error = [&](const Json& fields) {
    Json body = {{"input_prefix", "a"}, {"input_suffix", "b"}};
    body.update(fields);
    return message_of(coder.endpoint.post("/infill", body, 400));
  };
  CHECK(error({{"input_extra", {{{"filename", "ok"}}}}}) == "input_extra[0].text is missing");
  CHECK(error({{"input_extra", {{{"filename", 123}, {"text", "abc"}}}}}) ==
        "input_extra[0].filename: expected a string");
  CHECK(error({{"input_extra", {{{"filename", "f"}, {"text", 4}}}}}) == "input_extra[0].text: expected a string");
  CHECK(error({{"input_extra", "x"}}).starts_with("input_extra: expected a list"));
  CHECK(error({{"input_prefix", nullptr}}) == "input_prefix is missing");
  CHECK(error({{"input_suffix", true}}).starts_with("input_suffix: expected"));
  const Endpoint guide;
  const std::string why = message_of(guide.post("/infill", {{"input_prefix", "a"}, {"input_suffix", "b"}}, 400));
  CHECK(why.starts_with("the model guide cannot fill in the middle"));
}

TEST_CASE("a completion's suffix and Ollama's are filled in front of") {
  const tests::InfillModel coder;
  const Endpoint& endpoint = coder.endpoint;
  const Json native =
      endpoint.post("/infill", {{"input_prefix", "a b"}, {"input_suffix", "c"}, {"n_predict", 6}, {"temperature", 0}});
  Json body = {{"prompt", "a b"}, {"suffix", "c"}, {"max_tokens", 6}, {"temperature", 0}};
  const Json completed = endpoint.post("/v1/completions", body);
  CHECK(completed["choices"][0]["text"] == native["content"]);
  CHECK(completed["usage"]["prompt_tokens"] == native["tokens_evaluated"]);
  body["prompt"] = {"a b", "d"};
  CHECK(endpoint.post("/v1/completions", body)["choices"].size() == 2);
  body["echo"] = true;
  CHECK(message_of(endpoint.post("/v1/completions", body, 400)).starts_with("echo: "));
  const Json ollama = endpoint.post(
      "/api/generate",
      {{"prompt", "a b"}, {"suffix", "c"}, {"stream", false}, {"options", {{"num_predict", 6}, {"temperature", 0}}}});
  CHECK(ollama["response"] == native["content"]);
}

TEST_CASE("lines that are indented less than wanted end a text") {
  const tests::InfillModel coder;
  const auto text = [&](int64_t indent, bool stream) {
    const Json body = {{"prompt", "x"},
                       {"n_predict", 100},
                       {"n_indent", indent},
                       {"grammar", "root ::= \"if\\n    b\\n\\n    c\\n d\\n\" [a-z]*"},
                       {"temperature", 0}};
    if (!stream) return coder.endpoint.post("/completion", body)["content"].get<std::string>();
    std::string whole;
    for (const Json& event : events_of(coder.endpoint, "/completion", body)) whole += event["content"];
    return whole;
  };
  for (const bool stream : {false, true}) {
    CHECK(text(4, stream) == "if\n    b\n\n    c");
    CHECK(text(1, stream) == "if\n    b\n\n    c\n d");
    CHECK(text(0, stream).starts_with("if\n    b\n\n    c\n d\n"));
  }
}

TEST_CASE("samplers of requests change what is drawn, and are refused out of range") {
  const Endpoint endpoint;
  const auto content = [&](const Json& fields) {
    Json body = {{"prompt", "ridge is"}, {"n_predict", 12}, {"seed", 3}, {"temperature", 1.5}};
    body.update(fields);
    return endpoint.post("/completion", body)["content"].get<std::string>();
  };
  const std::string usual = content(Json::object());
  CHECK(content(Json::object()) == usual);
  for (const Json& fields : {Json{{"mirostat", 2}, {"mirostat_tau", 0.1}}, Json{{"top_n_sigma", 0.01}},
                             Json{{"samplers", {"top_k"}}, {"top_k", 1}}, Json{{"samplers", "k"}, {"top_k", 1}}}) {
    CAPTURE(fields.dump());
    CHECK(content(fields) == content({{"temperature", 0}}));
  }
  for (const Json& fields : {Json{{"xtc_probability", 1}, {"xtc_threshold", 0.01}}, Json{{"dynatemp_range", 1.5}},
                             Json{{"adaptive_target", 0.01}}, Json{{"dry_multiplier", 50}, {"dry_allowed_length", 1}},
                             Json{{"mirostat", 1}}}) {
    CAPTURE(fields.dump());
    CHECK_FALSE(content(fields).empty());
  }
  const auto error = [&](const Json& fields) {
    Json body = {{"prompt", "ridge is"}, {"n_predict", 1}};
    body.update(fields);
    return message_of(endpoint.post("/completion", body, 400));
  };
  CHECK(error({{"mirostat", 3}}).starts_with("mirostat: expected"));
  CHECK(error({{"samplers", {"top_k", "warp"}}}).starts_with("samplers: unknown sampler \"warp\""));
  CHECK(error({{"samplers", {"top_k", "top_k"}}}) == "samplers: top_k is listed twice");
  CHECK(error({{"dry_sequence_breakers", "x"}}).starts_with("dry_sequence_breakers: expected"));
  CHECK(error({{"dry_sequence_breakers", {std::string(300, 'x')}}}).starts_with("dry_sequence_breakers: "));
  CHECK(error({{"xtc_threshold", 2}}).starts_with("xtc_threshold: "));
  CHECK(error({{"tfs_z", 0.5}}) == "tfs_z is not supported");
}

TEST_CASE("tokens come with their texts, and with their bytes where these are part of a character") {
  const tests::InfillModel coder;
  const Endpoint& endpoint = coder.endpoint;
  const Json body = {{"content", "ridge \U0001F980"}, {"with_pieces", true}};
  std::string text;
  bool bytes = false;
  const Json tokens = endpoint.post("/tokenize", body)["tokens"];
  for (const Json& token : tokens) {
    CHECK(token["id"].is_number());
    bytes |= token["piece"].is_array();
    if (token["piece"].is_string()) text += token["piece"];
    if (token["piece"].is_array())
      for (const Json& byte : token["piece"]) text += static_cast<char>(byte.get<int>());
  }
  CHECK(bytes);
  CHECK(text.ends_with("ridge \U0001F980"));
  const Json plain = endpoint.post("/tokenize", {{"content", "ridge"}, {"return_token_strs", true}});
  CHECK(plain["token_strs"].size() == plain["tokens"].size());
}
