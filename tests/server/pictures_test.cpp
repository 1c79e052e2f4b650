// Pictures and sounds in each API.
#include "core/strings/base64.h"
#include "engine/speculation/speculation.h"
#include "support/http/endpoint.h"
#include "support/recipes/vision_case.h"
#include "support/temporary_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <thread>

using namespace ridge;
using server::Json;

namespace {

std::string base64(std::string_view bytes) { return core::to_base64(std::as_bytes(std::span(bytes))); }

std::string picture(uint64_t seed) {
  const media::Picture made = tests::formula_picture(40, 30, seed);
  return base64(fmt::format("P6 {} {} 255\n", made.width, made.height) + std::string(made.rgb.begin(), made.rgb.end()));
}

std::string url_of(const std::string& data) { return "data:image/x-portable-pixmap;base64," + data; }

struct Pictures {
  explicit Pictures(std::string name = "gemma3") : name(std::move(name)) {}

  std::string name;
  tests::TemporaryFolder folder;
  std::string model = write("model"), mmproj = write("mmproj");
  tests::Endpoint endpoint{[this] {
    engine::LoadedModel opened = engine::open_generating(gguf::File::open(model), {.device = "cpu", .mmproj = mmproj});
    core::ExecutorConfig config = {.context = 256, .streams = 2, .max_batch = 64, .max_outputs = 2, .threads = 1};
    config.exact = true;
    engine::start_executor(opened, config, "cpu");
    return opened;
  }};

  std::string write(const std::string& part) {
    const std::vector<std::byte> bytes = tests::VisionCase(name).image(part);
    return folder.write(part + ".gguf", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
};

std::string wav(uint64_t seed) { return media::wav_of(tests::formula_sound(1500, 16000, seed)); }

struct Field {
  std::string name, content, file = {};
};

tests::HttpReply transcribe(const tests::Endpoint& endpoint, const std::vector<Field>& fields,
                            const std::string& type = "multipart/form-data; boundary=\"a b\"") {
  std::string body;
  for (const Field& field : fields)
    body += fmt::format("--a b\r\nContent-Disposition: form-data; name=\"{}\"{}\r\n\r\n{}\r\n", field.name,
                        field.file.empty() ? "" : fmt::format("; filename=\"{}\"", field.file), field.content);
  return endpoint.client().post("/v1/audio/transcriptions", body + "--a b--\r\n", {{"Content-Type", type}});
}

Json question(const Json& parts) {
  return {{"messages", Json::array({{{"role", "user"}, {"content", parts}}})}, {"max_tokens", 1}};
}
const Json kText = {{"type", "text"}, {"text", "a cat"}};

Json openai(const std::string& url) {
  return question(Json::array({{{"type", "image_url"}, {"image_url", {{"url", url}}}}, kText}));
}

} // namespace

TEST_CASE("pictures cost the same tokens in every API, and are evaluated once") {
  REQUIRE_REFERENCE();
  const Pictures pictures;
  const tests::Endpoint& endpoint = pictures.endpoint;
  const auto usage = [&](const Json& body) { return endpoint.post("/v1/chat/completions", body)["usage"]; };
  const int64_t text = usage(question(Json::array({kText})))["prompt_tokens"];
  const Json first = usage(openai(url_of(picture(1))));
  const int64_t tokens = first["prompt_tokens"];
  CHECK(tokens >= text + 16 + 2); // 16 rows, start, end
  const Json again = usage(openai(url_of(picture(1)))), other = usage(openai(url_of(picture(2))));
  CHECK(again["prompt_tokens_details"]["cached_tokens"] == tokens - 1);
  CHECK(other["prompt_tokens_details"]["cached_tokens"] < text);
  CHECK(other["prompt_tokens"] == tokens);

  const std::string data = picture(3);
  const Json block = {{"type", "image"}, {"source", {{"type", "base64"}, {"media_type", "image/x"}, {"data", data}}}};
  CHECK(endpoint.post("/v1/messages", question(Json::array({block, kText})))["usage"]["input_tokens"].get<int64_t>() <=
        tokens);
  const Json part = {{"type", "input_image"}, {"image_url", url_of(data)}};
  const Json words = {{"type", "input_text"}, {"text", "a cat"}};
  const Json input = Json::array({{{"role", "user"}, {"content", Json::array({part, words})}}});
  CHECK(endpoint.post("/v1/responses", {{"input", input}, {"max_output_tokens", 16}})["usage"]["input_tokens"] ==
        tokens);
  Json chat = tests::chat_body("a cat", 1);
  chat["messages"][0]["images"] = {data};
  chat["stream"] = false;
  chat["options"] = {{"num_predict", 1}};
  chat.erase("max_tokens");
  CHECK(endpoint.post("/api/chat", chat)["prompt_eval_count"] == tokens);
  CHECK(endpoint.post("/api/generate", {{"prompt", "a cat"},
                                        {"images", {data}},
                                        {"stream", false},
                                        {"options", {{"num_predict", 1}}}})["prompt_eval_count"] == tokens);
}

TEST_CASE("what is no picture, and addresses, are refused by their place") {
  REQUIRE_REFERENCE();
  const Pictures pictures;
  const tests::Endpoint& endpoint = pictures.endpoint;
  const auto refusal = [&](const std::string& url) {
    return endpoint.post("/v1/chat/completions", openai(url), 400)["error"]["message"].get<std::string>();
  };
  const std::string place = "messages[0].content[0].image_url.url: ";
  CHECK(refusal("https://example.org/cat.png").starts_with(place + "this server does not download images"));
  CHECK(refusal("") == place + "no image: expected data:image/png;base64,…");
  CHECK(refusal("data:image/png;base64,!!!!") == place + "expected base64");
  CHECK(refusal(url_of(base64("no image"))).starts_with(place + "not a supported image"));
  CHECK(refusal(url_of(base64("P6 60000 60000 255\n"))).starts_with(place + "is 60000 × 60000 pixels"));
  Json raw = {{"prompt", "a"}, {"raw", true}, {"images", {picture(1)}}};
  CHECK(endpoint.post("/api/generate", raw, 400)["error"] == "images: this server takes no images");
  const Json several = Json(std::vector<Json>(65, {{"type", "image_url"}, {"image_url", url_of(picture(1))}}));
  CHECK(endpoint.post("/v1/chat/completions", question(several), 400)["error"]["message"].get<std::string>().find(
            "at most 64 images") != std::string::npos);
}

TEST_CASE("a server says that its model takes pictures") {
  REQUIRE_REFERENCE();
  const Pictures pictures;
  CHECK(Json::parse(pictures.endpoint.get("/props"))["modalities"]["vision"] == true);
  const auto takes = [](const tests::Endpoint& endpoint) {
    return Json::parse(endpoint.get("/v1/models"))["data"][0]["architecture"]["input_modalities"];
  };
  CHECK(takes(pictures.endpoint) == Json(std::vector{"text", "image"}));
  const Json all = pictures.endpoint.post("/api/show", Json::object())["capabilities"];
  CHECK(std::ranges::find(all, "vision") != all.end());
  const tests::Endpoint guide;
  CHECK(takes(guide) == Json(std::vector{"text"}));
  CHECK(Json::parse(guide.get("/props"))["modalities"]["vision"] == false);
}

TEST_CASE("a model with an encoder beside it is loaded again for the first picture, and only then") {
  REQUIRE_REFERENCE();
  tests::TemporaryFolder folder;
  const auto write = [&](const std::string& part) {
    const std::vector<std::byte> bytes = tests::VisionCase("gemma3").image(part);
    return folder.write(part + ".gguf", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  const std::string model = write("model"), mmproj = write("mmproj"),
                    plain = folder.write("plain.gguf", tests::read_file(model));
  server::ModelSetup setup;
  setup.model.device = "cpu";
  setup.model.threads = 1;
  std::mutex mutex;
  std::vector<std::string> lines;
  const auto log = [&](const std::string& line) {
    const std::scoped_lock lock(mutex);
    lines.push_back(line);
  };
  const auto logged = [&](std::string_view end) {
    const std::scoped_lock lock(mutex);
    return std::ranges::count_if(lines, [&](const std::string& line) { return line.find(end) != std::string::npos; });
  };
  const auto serve = [&](std::vector<server::ModelFile> files, bool only_one, const auto& ask) {
    lines.clear();
    server::Models models(std::move(files), {setup, 0, 0, only_one}, {.note = log}, log);
    server::Server server(models, {.port = 0, .limits = tests::patient()});
    std::jthread thread([&] { server.run(); });
    const auto post = [&](const std::string& path, const Json& body) {
      const tests::HttpReply reply = tests::HttpClient(server.port()).post(path, body.dump());
      REQUIRE(reply.whole);
      return std::pair(reply.status, Json::parse(reply.body));
    };
    const auto get = [&](const std::string& path) {
      return Json::parse(tests::HttpClient(server.port()).get(path).body);
    };
    ask(post, get);
    server.stop();
  };
  const std::string chat = "/v1/chat/completions";
  Json with_picture = openai(url_of(picture(1)));

  serve({{"model", model, mmproj}}, true, [&](const auto& post, const auto& get) {
    CHECK(post(chat, question("a")).first == 200);
    CHECK(get("/props")["modalities"]["vision"] == true);
    CHECK(get("/v1/models")["data"][0]["architecture"]["input_modalities"][1] == "image");
    CHECK(logged("to reload it with its encoder") == 0);
    CHECK(post(chat, openai("data:image/png;base64,!")).first == 400);
    CHECK(logged("to reload it with its encoder") == 0);
    std::vector<std::jthread> together;
    for (int i = 0; i < 4; ++i) together.emplace_back([&] { CHECK(post(chat, with_picture).first == 200); });
    together.clear();
    CHECK(logged("to reload it with its encoder") == 1);
    const Json ollama = {{"messages", Json::array({{{"role", "user"}, {"content", "a"}, {"images", {picture(2)}}}})},
                         {"stream", false},
                         {"keep_alive", 0},
                         {"options", {{"num_predict", 1}}}};
    CHECK(post("/api/chat", ollama).first == 200);
    CHECK(post(chat, question("a")).first == 200);
    CHECK(logged("unloaded") == 1);
  });

  serve({{"model", model, mmproj}, {"plain", plain}}, false, [&](const auto& post, const auto& get) {
    const Json list = get("/v1/models")["data"];
    CHECK(list[0]["architecture"]["input_modalities"].size() == 2);
    CHECK(list[1]["architecture"]["input_modalities"].size() == 1);
    with_picture["model"] = "plain";
    CHECK(post(chat, with_picture).first == 400);
    with_picture["model"] = "model";
    CHECK(post(chat, with_picture).first == 200);
    CHECK(logged("unloaded") == 1);
  });
}

TEST_CASE("pictures of addresses are fetched where the server was told to") {
  REQUIRE_REFERENCE();
  Pictures pictures;
  const std::string data = picture(1), file = *core::from_base64(data);
  std::vector<double> seconds;
  std::mutex mutex;
  const tests::Endpoint& endpoint = pictures.endpoint;
  pictures.endpoint.service.fetch_pictures_by([&](const std::string& url, double left) {
    const std::scoped_lock lock(mutex);
    seconds.push_back(left);
    if (url != "https://example.org/cat.ppm") throw_error("cannot be fetched: {}", url);
    return file;
  });
  const auto usage = [&](const Json& body) { return endpoint.post("/v1/chat/completions", body)["usage"]; };
  const Json known = usage(openai(url_of(data))), fetched = usage(openai("https://example.org/cat.ppm"));
  CHECK(fetched["prompt_tokens"] == known["prompt_tokens"]);
  CHECK(fetched["prompt_tokens_details"]["cached_tokens"] == known["prompt_tokens"].get<int64_t>() - 1);
  const Json block = {{"type", "image"}, {"source", {{"type", "url"}, {"url", "https://example.org/cat.ppm"}}}};
  endpoint.post("/v1/messages", question(Json::array({block, kText})));
  CHECK(seconds.size() == 2);
  CHECK(seconds[0] > 1);
  const auto refusal = [&](const std::string& url) {
    return endpoint.post("/v1/chat/completions", openai(url), 400)["error"]["message"].get<std::string>();
  };
  const std::string place = "messages[0].content[0].image_url.url: ";
  CHECK(refusal("http://localhost/") == place + "cannot be fetched: http://localhost/");
  for (const char* url : {"file:///etc/passwd", "ftp://example.org/a", "cat.png"})
    CHECK(refusal(url).starts_with(place + "expected an http or https address"));
  CHECK(refusal("").starts_with(place + "no image"));
}

TEST_CASE("sounds in messages cost their tokens, and are evaluated once") {
  REQUIRE_REFERENCE();
  const Pictures sounds("qwen3a");
  const auto usage = [&](const Json& parts) {
    return sounds.endpoint.post("/v1/chat/completions", question(parts))["usage"];
  };
  const auto part = [](const std::string& data) {
    return Json{{"type", "input_audio"}, {"input_audio", {{"data", data}, {"format", "wav"}}}};
  };
  const int64_t text = usage(Json::array({kText}))["prompt_tokens"];
  const int64_t tokens = usage(Json::array({part(base64(wav(1))), kText}))["prompt_tokens"];
  CHECK(tokens == text + 26 + 2); // rows, start, end
  const Json again = usage(Json::array({part(base64(wav(1))), kText}));
  CHECK(again["prompt_tokens_details"]["cached_tokens"] == tokens - 1);
  const auto refusal = [&](const Json& given) {
    return sounds.endpoint.post("/v1/chat/completions", question(Json::array({given})), 400)["error"]["message"]
        .get<std::string>();
  };
  const std::string place = "messages[0].content[0].input_audio.data: ";
  CHECK(refusal(part("!!!!")) == place + "expected base64");
  CHECK(refusal(part(base64("RIFF....WAVE"))).starts_with(place + "is truncated"));
  CHECK(refusal({{"type", "image_url"}, {"image_url", {{"url", url_of(picture(1))}}}}).find("has no image encoder") !=
        std::string::npos);
  CHECK(Json::parse(sounds.endpoint.get("/props"))["modalities"] == Json({{"vision", false}, {"audio", true}}));
}

TEST_CASE("what is said in a sound comes in every form that clients ask for") {
  REQUIRE_REFERENCE();
  const Pictures sounds("qwen3a");
  const tests::Endpoint& endpoint = sounds.endpoint;
  const Field file = {"file", wav(2), "a \\\"b\\\".wav"};
  const auto text_of = [&](const std::string& form) {
    const tests::HttpReply reply = transcribe(endpoint, {file, {"response_format", form}, {"language", "en"}});
    CHECK(reply.status == 200);
    return reply.body;
  };
  const Json json = Json::parse(text_of("json")), verbose = Json::parse(text_of("verbose_json"));
  const std::string text = json["text"];
  CHECK(json["usage"]["input_tokens"] > 28);
  CHECK(json["usage"]["output_tokens"] > 0);
  CHECK(text_of("text") == text + "\n");
  CHECK(verbose["text"] == text);
  CHECK(verbose["duration"] == 1.5);
  CHECK(verbose["language"] == "en");
  CHECK(verbose["segments"].size() == 1);
  std::string line = text;
  std::ranges::replace(line, '\n', ' ');
  CHECK(text_of("srt") == "1\n00:00:00,000 --> 00:00:01,500\n" + line + "\n");
  CHECK(text_of("vtt") == "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\n" + line + "\n");
  const std::string events = transcribe(endpoint, {file, {"stream", "true"}, {"language", "en"}}).body;
  CHECK(events.find("transcript.text.delta") != std::string::npos);
  CHECK(events.find("\"type\":\"transcript.text.done\"") != std::string::npos);
}

TEST_CASE("forms that are malformed, and what cannot be transcribed, are refused in one line") {
  REQUIRE_REFERENCE();
  const Pictures sounds("qwen3a");
  const Field file = {"file", wav(3), "a.wav"};
  const auto message_of = [](const tests::HttpReply& reply) {
    CHECK(reply.status == 400);
    return Json::parse(reply.body)["error"]["message"].get<std::string>();
  };
  const auto refusal = [&](const std::vector<Field>& fields) {
    return message_of(transcribe(sounds.endpoint, fields));
  };
  CHECK(refusal({{"model", "x"}}) == "file: is missing");
  CHECK(refusal({{"file", "text", "a.wav"}}).starts_with("file: not a supported image"));
  CHECK(refusal({file, {"response_format", "xml"}}).starts_with("response_format: expected json"));
  CHECK(refusal({file, {"temperature", "hot"}}) == "temperature: expected a number from 0 to 2");
  CHECK(refusal({file, {"timestamp_granularities[]", "word"}}).find("does not provide word timestamps") !=
        std::string::npos);
  CHECK(refusal(std::vector<Field>(65, file)) == "multipart/form-data: it has more than 64 parts");
  const auto of_body = [&](const std::string& body, const std::string& type) {
    return message_of(sounds.endpoint.client().post("/v1/audio/transcriptions", body, {{"Content-Type", type}}));
  };
  const std::string form = "multipart/form-data; boundary=x";
  CHECK(of_body("{}", "application/json").starts_with("Content-Type: expected multipart/form-data"));
  CHECK(of_body("", "multipart/form-data").find("expected a boundary") != std::string::npos);
  CHECK(of_body("", form).find("the boundary is missing in the body") != std::string::npos);
  CHECK(of_body("--x\r\nContent", form).find("the headers of a part have no end") != std::string::npos);
  CHECK(of_body("--x\r\n\r\nabc", form).find("the body is truncated") != std::string::npos);
  CHECK(of_body("--xyz", form).find("unexpected text after") != std::string::npos);
  const tests::Endpoint guide;
  CHECK(message_of(transcribe(guide, {file})).find("does not accept audio") != std::string::npos);
}
