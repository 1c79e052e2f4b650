// The chat on a pseudo-terminal and in a pipe.
#include "app/support.h"
#include "app/terminal/chat/chat.h"
#include "support/adapters.h"
#include "support/reference.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace ridge::tests;
using json = nlohmann::ordered_json;

namespace {

const char* kEndOfInput = "\x04";
const char* kInterrupt = "\x03";
const char* kUp = "\033[A";
const char* kLeft = "\033[D";

Terminal::Environment environment(const char* term = "xterm") {
  return {{"TERM", term}, {"XDG_STATE_HOME", folder() / "state"}, {"LC_ALL", "C.UTF-8"}, {"NO_COLOR", "1"}};
}

std::vector<std::string> chat_args(std::vector<std::string> extra = {}) {
  std::vector<std::string> args = {RIDGE_BINARY, "chat", "-m", tiny_model(), "-n", "8", "-s", "1", "-t", "1"};
  args.insert(args.end(), extra.begin(), extra.end());
  return args;
}

json saved(Terminal& chat, const std::string& name) {
  chat.type("/save " + (folder() / name) + "\r");
  REQUIRE(chat.expect("[saved"));
  return json::parse(read_file(folder() / name))["messages"];
}

void begin_answer(Terminal& chat) {
  REQUIRE(chat.expect("> "));
  chat.type("go on\r");
  REQUIRE(chat.expect("\033[?2004l"));
  REQUIRE(chat.expect_more());
}

} // namespace

TEST_CASE("a typed message is answered, with a status line, and Ctrl-D leaves") {
  Terminal chat(chat_args(), environment());
  REQUIRE(chat.expect("> "));
  chat.type("hello\r");
  CHECK(chat.expect("tokens"));
  CHECK(chat.expect("· context "));
  REQUIRE(chat.expect("> "));
  chat.type(kEndOfInput);
  CHECK(chat.exit_status() == 0);
}

TEST_CASE("a line can be edited before it is sent") {
  Terminal chat(chat_args(), environment());
  REQUIRE(chat.expect("> "));
  chat.type("helo");
  chat.type(kLeft);
  chat.type("l\x05 there\x7f\x7f\x7f\x7f\x7f\x7f!\r"); // insert, end of line, backspaces
  REQUIRE(chat.expect("· context "));
  CHECK(saved(chat, "edited.json")[0]["content"] == "hello!");
}

TEST_CASE("history comes back, also in the next chat") {
  {
    Terminal chat(chat_args(), environment());
    REQUIRE(chat.expect("> "));
    chat.type("remember me\r");
    REQUIRE(chat.expect("· context "));
    chat.type("/exit\r");
    CHECK(chat.exit_status() == 0);
  }
  Terminal chat(chat_args(), environment());
  REQUIRE(chat.expect("> "));
  chat.type(kUp);
  chat.type(kUp);
  CHECK(chat.expect("remember me"));
}

TEST_CASE("several lines become one message: continued, or pasted") {
  Terminal chat(chat_args(), environment());
  REQUIRE(chat.expect("> "));
  chat.type("first \\\r");
  REQUIRE(chat.expect("… "));
  chat.type("second\r");
  REQUIRE(chat.expect("· context "));
  REQUIRE(chat.expect("> "));
  chat.type("see: \033[200~one\rtwo\rthree\033[201~ end");
  REQUIRE(chat.expect("3 lines]"));
  chat.type("\r");
  REQUIRE(chat.expect("· context "));
  const json messages = saved(chat, "lines.json");
  CHECK(messages[0]["content"] == "first \nsecond");
  CHECK(messages[2]["content"] == "see: one\ntwo\nthree end");
}

TEST_CASE("Ctrl-C stops the answer and not the program, and on an empty line it says how to leave") {
  Terminal chat(chat_args({"-n", "-1", "--ignore-eos", "-c", "200000"}), environment());
  begin_answer(chat);
  chat.type(kInterrupt);
  CHECK(chat.expect("[stopped]"));
  REQUIRE(chat.expect("> "));
  chat.type("and on\r");
  REQUIRE(chat.expect("\033[?2004l"));
  chat.type(kInterrupt); // possibly before the answer
  CHECK(chat.expect("[stopped]"));
  REQUIRE(chat.expect("> "));
  chat.type("dropped");
  REQUIRE(chat.expect("dropped"));
  chat.type(kInterrupt);
  CHECK(chat.expect("/exit to leave"));
  const json messages = saved(chat, "stopped.json");
  CHECK(messages.size() == 4); // the dropped line was not sent
  CHECK(messages[3]["role"] == "assistant");
}

TEST_CASE("keys typed during an answer are not shown in it, and the terminal is as before at the end") {
  Terminal chat(chat_args({"-n", "-1", "--ignore-eos", "-c", "200000"}), environment());
  begin_answer(chat);
  chat.type("QQ@QQ");
  REQUIRE(chat.expect_more());
  CHECK_FALSE(chat.shows_keys());
  chat.type(kInterrupt);
  REQUIRE(chat.expect("[stopped]"));
  CHECK(chat.seen().find("QQ@QQ") == std::string::npos);
  REQUIRE(chat.expect("> "));
  chat.type("/exit\r");
  REQUIRE(chat.exit_status() == 0);
  CHECK(chat.shows_keys());
}

TEST_CASE("Ctrl-D typed during an answer leaves behind it") {
  Terminal chat(chat_args({"-n", "3000", "--ignore-eos", "-c", "8192"}), environment());
  begin_answer(chat);
  chat.type(kEndOfInput);
  CHECK(chat.expect("· context "));
  CHECK(chat.exit_status() == 0);
}

TEST_CASE("Ctrl-C between a message and its answer stops the answer, and no later one") {
  ridge::api::GenerateRequest request;
  request.sampling.grammar = "root ::= [a-z]{8}";
  ridge::api::ModelOptions options;
  options.model = tiny_model();
  options.device = "cpu";
  options.speculation = "off";
  ridge::app::Toolbox no_tools({});
  ridge::app::ChatModel model(options, request, "", no_tools);
  ridge::app::InterruptFlag interrupt;
  ridge::app::Chat chat(model, no_tools, request, {}, interrupt);
  const ridge::engine::Conversation& conversation = model.conversation();
  const auto last = [&] { return conversation.messages().back()["content"].get<std::string>(); };

  CHECK(chat.take("hello"));
  CHECK(last().size() == 8);
  std::raise(SIGINT);
  CHECK(chat.take("hello again"));
  CHECK(conversation.messages().size() == 4);
  CHECK(last() == "");
  CHECK(chat.take("/regen"));
  CHECK(last().size() == 8);
}

TEST_CASE("a resize in the middle of a line loses nothing") {
  Terminal chat(chat_args(), environment());
  REQUIRE(chat.expect("> "));
  chat.type("before ");
  REQUIRE(chat.expect("before "));
  chat.resize(40, 132);
  REQUIRE(chat.expect("\r\033[J"));
  REQUIRE(chat.expect("before "));
  chat.type("after\r");
  REQUIRE(chat.expect("· context "));
  CHECK(saved(chat, "resized.json")[0]["content"] == "before after");
}

TEST_CASE("a line of several rows is drawn again from its first row when the terminal is resized") {
  Terminal chat(chat_args(), environment());
  REQUIRE(chat.expect("> "));
  chat.type(std::string(60, 'x'));
  REQUIRE(chat.expect(std::string(60, 'x')));
  chat.resize(40, 25); // three rows: 62 columns with the prompt
  REQUIRE(chat.expect("\033[2A\r\033[J"));
  REQUIRE(chat.expect("xxxxxxxxxx"));
  chat.resize(40, 100); // separately drawn rows stay rows
  REQUIRE(chat.expect("\033[2A\r\033[J"));
  chat.type("y\r");
  REQUIRE(chat.expect("· context "));
  CHECK(saved(chat, "rows.json")[0]["content"] == std::string(60, 'x') + "y");
}

TEST_CASE("Tab completes commands, their values and paths") {
  const std::string file = folder().write("a file to read.txt", "text\n");
  Terminal chat(chat_args(), environment());
  REQUIRE(chat.expect("> "));
  chat.type("/sa\t" + (folder() / "tab.json") + "\r");
  CHECK(chat.expect("[saved 0 messages to " + (folder() / "tab.json")));
  chat.type("/set repeat-p\t1.5\r");
  CHECK(chat.expect("[repeat-penalty = 1.5]"));
  chat.type("/set context-s\to\tn\r"); // common prefix
  CHECK(chat.expect("on   off"));
  CHECK(chat.expect("[context-shift = on]"));
  chat.type("/read " + (folder() / "a fi") + "\t\r");
  CHECK(chat.expect("a file to read.txt: 5 bytes]"));
  REQUIRE(chat.expect("· context "));
  chat.type("/s\t");
  CHECK(chat.expect("/set"));
  CHECK(chat.expect("/stats"));
}

TEST_CASE("every command does what /help says") {
  Terminal chat(chat_args(), environment());
  REQUIRE(chat.expect("> "));
  chat.type("/help\r");
  for (const char* name : {"/help", "/clear", "/regen", "/undo", "/system", "/read", "/image", "/model", "/lora",
                           "/copy", "/export", "/save", "/load", "/set", "/shift", "/compact", "/stats", "/exit"})
    CHECK(chat.expect(name));
  chat.type("/system You are a test.\r");
  CHECK(chat.expect("[system prompt set]"));
  chat.type("one\r");
  REQUIRE(chat.expect("· context "));
  chat.type("/regen\r");
  REQUIRE(chat.expect("· context "));
  json messages = saved(chat, "commands.json");
  CHECK(messages.size() == 3);
  CHECK(messages[0] == json{{"role", "system"}, {"content", "You are a test."}});

  chat.type("/set temp 0\r");
  CHECK(chat.expect("[temp = 0]"));
  chat.type("/stats\r");
  CHECK(chat.expect("answers"));
  chat.type("/undo\r");
  CHECK(chat.expect("[undone]"));
  CHECK(saved(chat, "undone.json").size() == 1);
  chat.type("/load " + (folder() / "commands.json") + "\r");
  CHECK(chat.expect("[loaded 3 messages]"));
  chat.type("/read " + folder().write("note.txt", "text of a file\n") + "\r");
  REQUIRE(chat.expect("· context "));
  messages = saved(chat, "read.json");
  CHECK(messages.size() == 5);
  CHECK(messages[3]["content"] == "text of a file\n");
  chat.type("/clear\r");
  CHECK(chat.expect("[cleared]"));
  CHECK(saved(chat, "cleared.json").size() == 1);
  chat.type("/?\r");
  CHECK(chat.expect("/help"));
  chat.type("/bye\r");
  CHECK(chat.exit_status() == 0);
}

TEST_CASE("the sampling that the model file recommends is said and used, and an option comes before it") {
  TinyModel model;
  model.further.set("general.sampling.temp", 0.5f);
  model.further.set("general.sampling.top_k", int32_t{7});
  model.further.set("general.sampling.top_p", -1.0f);
  model.write(folder() / "recommends.gguf");
  Terminal chat({RIDGE_BINARY, "chat", "-m", folder() / "recommends.gguf", "-t", "1", "--temp", "0.9"}, environment(),
                500);
  CHECK(chat.expect("general.sampling.top_p is ignored: --top-p must be from 0 to 1 (off), not -1"));
  CHECK(chat.expect("sampling settings recommended by the model file: top-k 7 (change them with /set)"));
  REQUIRE(chat.expect("> "));
  chat.type("/set\r");
  CHECK(chat.expect("temp               0.9"));
  CHECK(chat.expect("top-k              7"));
  REQUIRE(chat.expect("> "));
  chat.type(kEndOfInput);
  CHECK(chat.exit_status() == 0);
}

TEST_CASE("/lora shows, scales, switches off and loads adapters, and the conversation stays") {
  const ridge::gguf::File model = ridge::gguf::File::open(tiny_model());
  std::mt19937_64 random(2);
  for (const char* name : {"one.gguf", "two.gguf"}) {
    AdapterImage adapter("llama", 8);
    adapter.metadata.set("general.name", std::string(name, 3));
    for (const char* tensor : {"blk.0.attn_q.weight", "blk.1.ffn_down.weight"})
      adapter.add_pair(*model.find_tensor(tensor), 4, random);
    adapter.write(folder() / name);
  }
  Terminal chat(chat_args({"--lora", (folder() / "one.gguf") + ":0.5"}), environment());
  REQUIRE(chat.expect("> "));
  chat.type("hello\r");
  REQUIRE(chat.expect("· context "));
  chat.type("/lora\r");
  CHECK(chat.expect("[0: one, scale 0.5]"));
  chat.type("/lora 0 2\r");
  CHECK(chat.expect("[0: one, scale 2]"));
  chat.type("/lora 1 2\r");
  CHECK(chat.expect("'1' is not a number from 0 to 0"));
  chat.type("/lora " + (folder() / "two.gguf") + "\r");
  CHECK(chat.expect("[0: one, scale 2]"));
  CHECK(chat.expect("[1: two, scale 1]"));
  chat.type("/regen\r");
  REQUIRE(chat.expect("· context "));
  chat.type("/lora off\r");
  CHECK(chat.expect("[1: two, scale 0]"));
  CHECK(saved(chat, "adapted.json")[0]["content"] == "hello");
  chat.type(kEndOfInput);
  CHECK(chat.exit_status() == 0);
}

TEST_CASE("/regen gives another answer, unless the seed is fixed") {
  Terminal chat({RIDGE_BINARY, "chat", "-m", tiny_model(), "-n", "16", "-t", "1", "--temp", "2"}, environment());
  REQUIRE(chat.expect("> "));
  chat.type("one\r");
  REQUIRE(chat.expect("· context "));
  const json first = saved(chat, "first.json");
  chat.type("/regen\r");
  REQUIRE(chat.expect("· context "));
  CHECK(saved(chat, "second.json")[1] != first[1]);
  chat.type("/set seed 5\r");
  chat.type("/regen\r");
  CHECK(chat.expect("[the seed is fixed"));
  REQUIRE(chat.expect("· context "));
  const json fixed = saved(chat, "third.json");
  chat.type("/regen\r");
  REQUIRE(chat.expect("· context "));
  CHECK(saved(chat, "fourth.json")[1] == fixed[1]);
}

TEST_CASE("mistakes are explained and the chat goes on") {
  Terminal chat(chat_args(), environment());
  REQUIRE(chat.expect("> "));
  const std::string junk = folder().write("junk.json", "{{{"), notes = folder().write("notes.txt", "mine");
  for (const auto& [typed, said] : std::vector<std::pair<std::string, std::string>>{
           {"/nonsense", "unknown command /nonsense; /help lists them"},
           {"/staats", "unknown command /staats; did you mean '/stats'?"},
           {"/set tmep 1", "unknown option 'tmep'; did you mean 'temp'?"},
           {"/set temp", "the value is missing; it is 0.8"},
           {"/set grammar root ::= nothing", "nothing"},
           {"/set thinking perhaps", "expected on or off, found 'perhaps'"},
           {"/set ctx-size -3", "'-3' is not a number from 0 to"},
           {"/model /no/such/model.gguf", "no such file"},
           {"/model " + junk, "junk.json"},
           {"/lora 0 1", "no adapters; /lora FILE loads one"},
           {"/lora /no/such/adapter.gguf", "/no/such/adapter.gguf"},
           {"/lora " + tiny_model(), "not an adapter"},
           {"/copy", "there is no answer yet"},
           {"/export", "give a file"},
           {"/read " + (folder() / "absent.txt"), "absent.txt: cannot open"},
           {"/load " + junk, "is not valid JSON"},
           {"/save /no/such/folder/x.json", "/no/such/folder"},
           {"/set temp hot", "'hot' is not a number"},
           {"/set warmth 1", "unknown option 'warmth'"},
           {"/set top-p 3", "top-p"},
           {"/save " + tiny_model(), "is also an input"},
           {"/save " + notes, "exists and is not a saved conversation"},
           {"/regen", "no answer yet"},
           {"/undo", "nothing to undo"}}) {
    CAPTURE(typed);
    chat.type(typed + "\r");
    CHECK(chat.expect("ridge: error: "));
    CHECK(chat.expect(said));
  }
  CHECK(read_file(notes) == "mine");
  const std::string parts = R"([{"role": "system", "content": [{"type": "text", "text": "Be brief."}]}])";
  chat.type("/load " + folder().write("parts.json", parts) + "\r");
  REQUIRE(chat.expect("[loaded 1 messages]"));
  chat.type("/system\r");
  CHECK(chat.expect("Be brief."));
  chat.type("/clear\r/system none\r");
  CHECK(chat.expect("[system prompt removed]"));
  chat.type("still there?\r");
  CHECK(chat.expect("· context "));
}

TEST_CASE("a model that is shortened while the chat is open costs the answer, not the chat") {
  const std::string model = folder() / "short.gguf";
  std::filesystem::copy_file(tiny_model(), model);
  std::vector<std::string> args = chat_args();
  args[3] = model;
  Terminal chat(args, environment());
  REQUIRE(chat.expect("> "));
  chat.type("hello\r");
  REQUIRE(chat.expect("· context "));
  std::filesystem::resize_file(model, 4096);
  chat.type("hello again\r");
  CHECK(chat.expect("short.gguf: another program truncated it"));
  REQUIRE(chat.expect("> "));
  chat.type("/regen\r");
  CHECK(chat.expect("short.gguf: another program truncated it"));
  REQUIRE(chat.expect("> "));
  CHECK(saved(chat, "short.json").size() == 2);
  chat.type("/stats\r");
  CHECK(chat.expect("context "));
  REQUIRE(chat.expect("> "));
  chat.type(kEndOfInput);
  const int status = chat.exit_status();
  CHECK((status == 0 || status == 1)); // not killed by a signal
}

TEST_CASE("a full context is announced, then refused, or with --context-shift forgotten from the front") {
  const std::string words(80, 'w'); // about 105 tokens with the template
  SUBCASE("without shift") {
    Terminal chat(chat_args({"-c", "256"}), environment());
    REQUIRE(chat.expect("> "));
    chat.type(words + "\r");
    REQUIRE(chat.expect("· context "));
    chat.type(words + "\r");
    CHECK(chat.expect("[context nearly full"));
    REQUIRE(chat.expect("· context "));
    chat.type(words + "\r");
    CHECK(chat.expect("the context holds 256"));
  }
  SUBCASE("and /shift sends what had no room, where it is wanted then") {
    Terminal chat(chat_args({"-c", "256"}), environment());
    REQUIRE(chat.expect("> "));
    for (int i = 0; i < 2; ++i) {
      chat.type(words + "\r");
      REQUIRE(chat.expect("· context "));
    }
    chat.type("the last " + words + "\r");
    CHECK(chat.expect("/shift drops the oldest exchanges"));
    chat.type("/shift\r");
    CHECK(chat.expect("[context shift: the "));
    REQUIRE(chat.expect("· context "));
    const json messages = saved(chat, "shift.json");
    CHECK(messages.size() < 6);
    CHECK(messages[messages.size() - 2]["content"] == "the last " + words);
  }
  SUBCASE("and /compact makes room by a summary, which /undo takes back") {
    Terminal chat(
        {RIDGE_BINARY, "chat", "-m", tiny_model(), "-s", "1", "-t", "1", "-c", "2048", "-n", "8", "--ignore-eos"},
        environment());
    REQUIRE(chat.expect("> "));
    chat.type("/compact\r");
    CHECK(chat.expect("there is no conversation to summarize"));
    chat.type("hello\r");
    REQUIRE(chat.expect("· context "));
    chat.type("/compact\r");
    REQUIRE(chat.expect("replaces 2 messages"));
    json messages = saved(chat, "compact.json");
    REQUIRE(messages.size() == 1);
    CHECK(messages[0]["content"].get<std::string>().starts_with("This is a summary"));
    chat.type("/undo\r");
    REQUIRE(chat.expect("the 2 messages are back"));
    messages = saved(chat, "undone.json");
    REQUIRE(messages.size() == 2);
    CHECK(messages[0]["content"] == "hello");
    chat.type(words + "\r");
    REQUIRE(chat.expect("· context "));
  }
  SUBCASE("with shift") {
    Terminal chat(chat_args({"-c", "256", "--context-shift"}), environment());
    REQUIRE(chat.expect("> "));
    for (int i = 0; i < 3; ++i) {
      chat.type(words + "\r");
      REQUIRE(chat.expect("· context "));
    }
    chat.type(words + "\r");
    CHECK(chat.expect("context shift"));
    CHECK(chat.expect("answer"));
    CHECK(saved(chat, "shifted.json").size() < 8);
  }
}

TEST_CASE("a context that an answer has filled counts no more tokens than it holds") {
  Terminal chat({RIDGE_BINARY, "chat", "-m", tiny_model(), "-s", "1", "-t", "1", "-c", "96", "--ignore-eos"},
                environment());
  REQUIRE(chat.expect("> "));
  chat.type("go on\r");
  CHECK(chat.expect("[the context is full"));
  CHECK(chat.expect("context 96 of 96]"));
  chat.type("/stats\r");
  CHECK(chat.expect("96 of 96 tokens"));
}

TEST_CASE("/model goes on with another model, and with the same messages") {
  TinyModel other;
  other.further.set("general.name", std::string("Other 1B Instruct"));
  other.further.set("general.sampling.top_k", int32_t{7});
  other.write(folder() / "other.gguf");
  Terminal chat(chat_args({"--temp", "0.5"}), environment());
  REQUIRE(chat.expect("> "));
  chat.type("hello\r");
  REQUIRE(chat.expect("· context "));
  chat.type("/model " + (folder() / "other.gguf") + "\r");
  CHECK(chat.expect("[Other 1B Instruct F16, context 512 tokens]"));
  chat.type("/set\r");
  CHECK(chat.expect("temp               0.5"));
  CHECK(chat.expect("top-k              7"));
  chat.type("and on\r");
  REQUIRE(chat.expect("· context "));
  CHECK(saved(chat, "both.json").size() == 4);
  chat.type("/set ctx-size 300\r");
  CHECK(chat.expect("[ctx-size = 300]"));
  chat.type("/set ignore-eos on\r/set stop zz\r/set cache-type-k f32\r");
  CHECK(chat.expect("[ignore-eos = on]"));
  CHECK(chat.expect("[stop = zz]"));
  CHECK(chat.expect("[cache-type-k = f32]"));
  chat.type("/model " + tiny_model() + "\r/set\r");
  CHECK(chat.expect("top-k              40"));
  chat.type("once more\r");
  REQUIRE(chat.expect("· context "));
  CHECK(saved(chat, "thrice.json").size() == 6);
}

TEST_CASE("/copy gives the terminal the answer, /export writes the conversation as Markdown") {
  Terminal chat({RIDGE_BINARY, "chat", "-m", tiny_model(), "-s", "1", "-t", "1", "--grammar",
                 "root ::= \"Code:\\n```c\\nint x;\\n```\\nDone.\""},
                environment());
  REQUIRE(chat.expect("> "));
  chat.type("/system Be brief.\rwrite\r");
  REQUIRE(chat.expect("· context "));
  chat.type("/copy\r");
  CHECK(chat.expect("\033]52;c;Q29kZToKYGBgYwppbnQgeDsKYGBgCkRvbmUu\a"));
  CHECK(chat.expect("[27 bytes copied to the clipboard"));
  chat.type("/copy code\r");
  CHECK(chat.expect("\033]52;c;aW50IHg7Cg==\a"));
  const std::string file = folder() / "talk.md";
  chat.type("/export " + file + "\r");
  REQUIRE(chat.expect("[wrote 3 messages to "));
  const std::string text = read_file(file);
  CHECK(text.ends_with("\n\n## System prompt\n\nBe brief.\n\n## You\n\nwrite\n\n## Answer\n\n"
                       "Code:\n```c\nint x;\n```\nDone.\n"));
  CHECK(text.starts_with("# "));
}

TEST_CASE("through a pipe the chat prints answers alone") {
  const Result result =
      run_ridge({"chat", "-m", tiny_model(), "-n", "8", "-s", "1", "--grammar", "root ::= [a-z]{8}"}, "hi\nagain\n");
  CHECK(result.status == 0);
  CHECK(result.out.size() == 2 * 9);
  CHECK(std::ranges::all_of(result.out, [](char c) { return (c >= 'a' && c <= 'z') || c == '\n'; }));
  const Result failed = run_ridge({"chat", "-m", tiny_model(), "-n", "8"}, "/read /absent\n");
  CHECK(failed.status == 1);
}

TEST_CASE("a dumb terminal gets plain lines") {
  Terminal chat(chat_args(), environment("dumb"));
  REQUIRE(chat.expect("> "));
  chat.type("hello\r");
  CHECK(chat.expect("· context "));
  CHECK(chat.seen().find("\033") == std::string::npos);
  chat.type(kEndOfInput);
  CHECK(chat.exit_status() == 0);
}

TEST_CASE("a call of a tool is shown, and what the user types is its result") {
  const std::string tools =
      folder().write("tools.json", R"({"tools": [{"type": "function", "function": {"name": "clock",
      "description": "The time"}}], "tool_choice": "required", "parallel_tool_calls": false})");
  const Result talk = run_ridge({"chat", "-m", tiny_model(), "-n", "400", "-s", "1", "--tools", tools},
                                "how late is it?\nhalf past nine\n/save " + (folder() / "calls.json") + "\n");
  CHECK(talk.status == 0);
  CHECK(talk.out.find("clock({") != std::string::npos);
  CHECK(talk.err.find("[enter the result of clock({") != std::string::npos);
  const json messages = json::parse(read_file(folder() / "calls.json"))["messages"];
  REQUIRE(messages.size() == 4);
  CHECK(messages[1]["tool_calls"][0]["function"]["name"] == "clock");
  CHECK(messages[2]["role"] == "tool");
  CHECK(messages[2]["content"] == "half past nine");
  CHECK(messages[2]["tool_call_id"] == messages[1]["tool_calls"][0]["id"]);
  CHECK(messages[3]["role"] == "assistant");

  const std::string wrong = folder().write("wrong.json", R"([{"name": "a b"}])");
  const Result refused = run_ridge({"chat", "-m", tiny_model(), "--tools", wrong}, "");
  CHECK(refused.status == 1);
  CHECK(refused.err.find("wrong.json: tool 0: name: expected") != std::string::npos);
}
