// The chat page in a headless browser (`./dev test --browser`, RIDGE_BROWSER).
#include "engine/speculation/speculation.h"
#include "support/http/browser.h"
#include "support/http/endpoint.h"
#include "support/recipes/vision_case.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

using namespace ridge;
using namespace ridge::tests;

namespace {

const char* browser_program() {
  const char* const program = std::getenv("RIDGE_BROWSER");
  if (!program) MESSAGE("skipped: RIDGE_BROWSER names no browser (./dev test --browser)");
  return program;
}

std::string address(const Endpoint& endpoint) { return endpoint.server.address() + "/"; }

void ask(Browser& browser, const std::string& text) {
  browser.value("byId('text').focus()");
  browser.type(text);
  browser.press_enter();
}

bool answered(Browser& browser, int messages) {
  return browser.becomes("an answer", "running === null && conversation.length === " + std::to_string(messages) +
                                          " && conversation.at(-1).note !== ''");
}

std::string text_of(Browser& browser, const std::string& expression) {
  return browser.value(expression).get<std::string>();
}

} // namespace

TEST_CASE("in a browser a question is answered with its speed, again and after a reload") {
  const char* const program = browser_program();
  if (!program) return;
  const Endpoint endpoint;
  Browser browser(program);
  browser.open(address(endpoint));
  CHECK(browser.becomes("the model's name", "byId('model').value === 'guide'"));
  ask(browser, "What is Q4_K?");
  REQUIRE(answered(browser, 2));
  CHECK(text_of(browser, "byId('messages').textContent").find("Q4_K") != std::string::npos);
  const std::string note = text_of(browser, "conversation[1].note");
  CHECK(note.find(" tok/s") != std::string::npos);
  CHECK(note.find(" GB/s") != std::string::npos);
  CHECK(text_of(browser, "byId('speed').textContent").find(" tok/s") != std::string::npos);

  browser.value("[...document.querySelectorAll('button')].find((one) => one.textContent === 'Regenerate').click()");
  CHECK(browser.becomes("another answer", "running !== null || conversation[1].note !== ''"));
  REQUIRE(answered(browser, 2));
  ask(browser, "And Q6_K?");
  REQUIRE(answered(browser, 4));
  browser.value("window.isOld = true; location.reload()");
  CHECK(browser.becomes("the page again", "!window.isOld && typeof byId === 'function' && "
                                          "document.readyState === 'complete'"));
  CHECK(browser.value("conversation.length") == 4);
  CHECK(browser.value("document.querySelectorAll('article').length") == 4);
  browser.value("byId('new').click()");
  CHECK(browser.value("document.querySelectorAll('article').length") == 0);
  CHECK(browser.complaints().empty());
}

TEST_CASE("in a browser an answer can be stopped") {
  const char* const program = browser_program();
  if (!program) return;
  const Endpoint endpoint([] {
    engine::LoadedModel model = open_history({.streams = 1, .context = 1 << 16});
    dynamic_cast<History&>(*model.executor).before_step = [] { // slow, so that the test can stop it
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    };
    return model;
  });
  Browser browser(program);
  browser.open(address(endpoint));
  CHECK(browser.becomes("the model's name", "byId('model').value !== ''"));
  ask(browser, "go on for ever");
  CHECK(browser.becomes("the answer to begin", "running !== null && conversation[1].text.length > 0"));
  browser.value("byId('send').click()");
  CHECK(browser.becomes("the answer to end", "running === null"));
  CHECK(text_of(browser, "conversation[1].note").find("stopped") != std::string::npos);
  CHECK(browser.complaints().empty());
}

TEST_CASE("in a browser a server with a key asks for it, and says when it is wrong") {
  const char* const program = browser_program();
  if (!program) return;
  const Endpoint endpoint(4, "secret");
  Browser browser(program);
  browser.open(address(endpoint));
  for (const char* key : {"wrong", "secret"}) {
    CHECK(browser.becomes("the question for the key", "byId('ask-key').open && byId('key').value === ''"));
    browser.value(std::string("byId('key').value = '") + key + "'; document.querySelector('#ask-key button').click()");
  }
  CHECK(browser.becomes("the model's name", "byId('model').value === 'guide'"));
  ask(browser, "What is a K-quant?");
  CHECK(answered(browser, 2));
}

TEST_CASE("in a browser a picture is shown to a model that takes some") {
  const char* const program = browser_program();
  if (!program) return;
  REQUIRE_REFERENCE();
  const TemporaryFolder folder;
  const auto write = [&](const std::string& part) {
    const std::vector<std::byte> bytes = VisionCase("gemma3").image(part);
    return folder.write(part + ".gguf", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  const std::string model = write("model"), mmproj = write("mmproj");
  const Endpoint endpoint([&] {
    engine::LoadedModel opened = engine::open_generating(gguf::File::open(model), {.device = "cpu", .mmproj = mmproj});
    engine::start_executor(opened, {.context = 256, .streams = 2, .max_batch = 64, .max_outputs = 2, .threads = 1},
                           "cpu");
    return opened;
  });
  Browser browser(program);
  browser.open(address(endpoint));
  CHECK(browser.becomes("the button for pictures", "!byId('attach').hidden"));
  browser.value("(async () => { const canvas = element('canvas'); canvas.width = 40; canvas.height = 30;"
                "canvas.getContext('2d').fillRect(0, 0, 20, 20);"
                "const blob = await new Promise((done) => canvas.toBlob(done));"
                "await attach([new File([blob], 'a.png', {type: 'image/png'})]); })()");
  CHECK(browser.value("attached().length") == 1);
  ask(browser, "a cat");
  REQUIRE(answered(browser, 2));
  CHECK(browser.value("document.querySelectorAll('article.user img').length") == 1);
  CHECK(browser.value("byId('problem').hidden") == true);
  CHECK(browser.complaints().empty());
}

TEST_CASE("in a browser what a model writes is text, whatever it writes") {
  const char* const program = browser_program();
  if (!program) return;
  const Endpoint endpoint;
  Browser browser(program);
  browser.open(address(endpoint));
  const auto shown = [&](const std::string& markdown, const std::string& expression) {
    return browser.value("(() => { const body = element('div'); showMarkdown(body, " + Json(markdown).dump() +
                         "); return " + expression + "; })()");
  };
  const auto html = [&](const std::string& markdown) { return shown(markdown, "body.innerHTML").get<std::string>(); };
  CHECK(html("<img src=x onerror=alert(1)><script>alert(1)</script>") ==
        "<p>&lt;img src=x onerror=alert(1)&gt;&lt;script&gt;alert(1)&lt;/script&gt;</p>");
  for (const char* bad : {"[a](javascript:alert(1))", "[a](data:text/html,x)", "[a](vbscript:x)", "[a](//x)",
                          "![a](javascript:alert(1))", "[a]( java\tscript:alert(1))"})
    CHECK_MESSAGE(shown(bad, "body.querySelectorAll('a, img').length") == 0, bad);
  CHECK(html("![tracker](https://example.org/pixel.png)").find("<img") == std::string::npos);
  CHECK(html("[a](https://example.org/?q=\"onclick=\"x)").find("onclick=\"x") == std::string::npos);
  CHECK(html("```<script>\nx<b>\n```") == "<pre><div class=\"language\">&lt;script&gt;</div><code>x&lt;b&gt;</code>"
                                          "<button type=\"button\">Copy</button></pre>");

  CHECK(html("a **b** *c* ~~d~~ `e*` 2 * 3 * 4 snake_case_name") ==
        "<p>a <strong>b</strong> <em>c</em> <del>d</del> <code>e*</code> 2 * 3 * 4 snake_case_name</p>");
  CHECK(html("3. x\n   - y\n4. z") == "<ol start=\"3\"><li>x<ul><li>y</li></ul></li><li>z</li></ol>");
  CHECK(html("- [x] done") == "<ul><li class=\"task\"><input type=\"checkbox\" disabled=\"\"> done</li></ul>");
  CHECK(html("|a|b|\n|-|-:|\n|1|2|") ==
        "<div class=\"table\"><table><thead><tr><th>a</th><th class=\"right\">b</th></tr></thead>"
        "<tbody><tr><td>1</td><td class=\"right\">2</td></tr></tbody></table></div>");
  CHECK(html("> q\n> r\n\n# h\n---") == "<blockquote><p>q<br>r</p></blockquote><h1>h</h1><hr>");
  CHECK(html("```\nunfinished") == "<pre><code>unfinished</code><button type=\"button\">Copy</button></pre>");

  // Incremental rendering equals the whole; pathological texts stay fast.
  const std::string grown = "# A\n\n- b\n  - c\n\n```x\nd\n```\n\n|e|f|\n|-|-|\n|g|h|\n\ni **j** k";
  CHECK(
      browser.value("(() => { const a = element('div'), b = element('div'), text = " + Json(grown).dump() +
                    "; for (let i = 0; i <= text.length; ++i) showMarkdown(a, text.slice(0, i)); showMarkdown(b, text);"
                    " return a.innerHTML === b.innerHTML; })()") == true);
  for (const char* piece : {"*", "[", "`", "_a", "> ", "**a ", "- ", "|", "[a](", "  "})
    browser.value("showMarkdown(element('div'), " + Json(piece).dump() + ".repeat(5000))");
  CHECK(browser.complaints().empty());
}
