#include "server/page/page.h"

#include "core/files/sha256.h"
#include "core/strings/base64.h"

#include <fmt/format.h>

#include <string_view>

// The assembler embeds the files; CMake defines the folder.
#define RIDGE_PAGE_FILE(name, file)                                                                                    \
  asm(".section .rodata\n.global ridge_page_" name "\n.global ridge_page_" name "_end\nridge_page_" name               \
      ":\n.incbin \"" RIDGE_PAGE_FOLDER "/" file "\"\nridge_page_" name "_end:\n.byte 0\n.previous\n")
RIDGE_PAGE_FILE("html", "page.html");
RIDGE_PAGE_FILE("css", "page.css");
RIDGE_PAGE_FILE("markdown", "markdown.js");
RIDGE_PAGE_FILE("chat", "chat.js");

extern "C" const char ridge_page_html[], ridge_page_html_end[], ridge_page_css[], ridge_page_css_end[],
    ridge_page_markdown[], ridge_page_markdown_end[], ridge_page_chat[], ridge_page_chat_end[];

namespace ridge::server {
namespace {

void put_between(std::string& html, std::string_view tags, std::string_view text) {
  html.insert(html.find(tags) + tags.find("</"), text);
}

std::string hash_of(std::string_view text) {
  return "'sha256-" + core::to_base64(core::Sha256().add(text).digest()) + "'";
}

} // namespace

const Page& chat_page() {
  static const Page page = [] {
    const std::string style(ridge_page_css, ridge_page_css_end);
    std::string script(ridge_page_markdown, ridge_page_markdown_end);
    script.append(ridge_page_chat, ridge_page_chat_end);
    Page made = {{ridge_page_html, ridge_page_html_end}, {}};
    put_between(made.content, "<style></style>", style);
    put_between(made.content, "<script></script>", script);
    made.policy = fmt::format("default-src 'none'; script-src {}; style-src {}; connect-src 'self'; img-src data:; "
                              "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                              "require-trusted-types-for 'script'",
                              hash_of(script), hash_of(style));
    return made;
  }();
  return page;
}

} // namespace ridge::server
