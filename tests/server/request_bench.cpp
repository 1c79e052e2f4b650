// Time from a request to its answer's first byte, with an executor that computes nothing, a real vocabulary and
// template, and an uncached prompt of 2,000 tokens.
//   ridge_request_bench VOCABULARY.gguf [TEMPLATE.jinja]
#include "core/clock.h"
#include "core/files/read_file.h"
#include "support/history_executor.h"
#include "support/http/socket.h"

#include "engine/options.h"
#include "server/models/service.h"
#include "server/server.h"

#include <algorithm>
#include <functional>
#include <random>
#include <thread>

using namespace ridge;
using server::Json;

namespace {

constexpr int kRounds = 60;

double median_ms(const std::function<void()>& run) {
  std::vector<double> times;
  for (int i = 0; i < kRounds; ++i) {
    const double start = core::seconds_now();
    run();
    times.push_back((core::seconds_now() - start) * 1e3);
  }
  std::ranges::nth_element(times, times.begin() + kRounds / 2);
  return times[kRounds / 2];
}

std::string text_of(std::mt19937_64& random, int words) {
  static const char* const kWords[] = {
      "the",    "model", "writes", "tokens,", "and",       "bandwidth", "of",     "memory",        "decides", "how",
      "fast. ", "It's",  "2,048",  "bytes",   "for(int i", "naïve",     "größer", "quantization;", "x += 1",  "\n\n"};
  std::string text;
  for (int i = 0; i < words; ++i) text += std::string(kWords[random() % std::size(kWords)]) + " ";
  return text;
}

Json tool(int number) {
  const Json parameters = Json::parse(R"({"type": "object", "properties": {
      "path": {"type": "string", "format": "path", "minLength": 1}, "url": {"type": "string", "format": "uri"},
      "lines": {"type": "array", "items": {"type": "integer", "minimum": 1}, "maxItems": 20}, "mode": {"enum": ["r", "w"]},
      "mail": {"type": "string", "format": "email", "maxLength": 100}, "slug": {"type": "string", "pattern": "^[a-z-]+$",
      "maxLength": 40}, "options": {"type": "object", "propertyNames": {"enum": ["a", "b"]},
      "additionalProperties": {"type": "number", "minimum": 0.5}}}, "required": ["path"], "additionalProperties": false})");
  return {{"type", "function"},
          {"function",
           {{"name", fmt::format("tool_{}", number)}, {"description", "What it does"}, {"parameters", parameters}}}};
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  gguf::File file = gguf::File::open(argv[1]);
  engine::LoadedModel model{std::move(file), {}, nullptr, nullptr};
  model.tokenizer = engine::find_tokenizer(model.file);
  auto executor = std::make_unique<tests::History>(tests::History::Settings{
      .streams = 4, .context = 8192, .max_batch = 8192, .vocab = model.need_tokenizer().vocab_size()});
  model.program = executor->program;
  model.executor = std::move(executor);
  const text::ChatTemplate chosen = argc > 2 ? text::ChatTemplate::parse(core::read_text_file(argv[2]), argv[2])
                                             : text::ChatTemplate::builtin("chatml");
  server::Service service(model, chosen, Json::object(), {}, "bench", [](const std::string&) {});
  server::Server server(service, {.port = 0});
  std::thread thread([&] { server.run(); });

  std::mt19937_64 random(1);
  const auto body = [&] {
    Json messages = Json::array();
    for (int turn = 0; turn < 9; ++turn)
      messages.push_back({{"role", turn % 2 == 0 ? "user" : "assistant"}, {"content", text_of(random, 130)}});
    return Json{{"messages", messages}, {"max_tokens", 1}, {"temperature", 0}, {"stream", true}};
  };
  std::vector<std::string> bodies;
  for (int i = 0; i < 3 * kRounds; ++i) bodies.push_back(body().dump());
  size_t next = 0;
  const Json parsed = Json::parse(bodies[0]);
  const server::Generation generation = service.chat(parsed["messages"], nullptr, Json::object());
  fmt::print("{} tokens, {} bytes\n", generation.prompt.size(), bodies[0].size());
  fmt::print("parse     {:.3f} ms\n", median_ms([&] { server::parse_body(bodies[next++ % bodies.size()]); }));
  fmt::print("render    {:.3f} ms\n",
             median_ms([&] { engine::render_chat(model, chosen, parsed["messages"], text::ChatOptions{}); }));
  fmt::print("tokenize  {:.3f} ms\n",
             median_ms([&] { engine::chat_tokens(*model.tokenizer, *generation.chat_prompt); }));
  fmt::print("to the first byte, with the connection {:.3f} ms\n", median_ms([&] {
               tests::Socket socket(server.port());
               socket.request("POST /v1/chat/completions", bodies[next++ % bodies.size()]);
               socket.wait_for_byte();
             }));
  Json with_tools = parsed;
  for (int i = 0; i < 100; ++i) with_tools["tools"].push_back(tool(i));
  const std::string tools_body = with_tools.dump();
  const auto request = [&] {
    tests::Socket socket(server.port());
    socket.request("POST /v1/chat/completions", tools_body);
    socket.wait_for_byte();
  };
  const double start = core::seconds_now();
  request();
  fmt::print("the same with 100 tools, {} bytes, {:.3f} ms", tools_body.size(), (core::seconds_now() - start) * 1e3);
  fmt::print(", and again {:.3f} ms\n", median_ms(request));
  server.stop();
  thread.join();
}
