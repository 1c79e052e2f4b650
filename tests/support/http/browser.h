// Headless Chromium over DevTools pipes: JSON texts ending in a zero byte.
#pragma once

#include "support/temporary_folder.h"
#include "support/watchdog.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace ridge::tests {

class Browser {
 public:
  using Json = nlohmann::json;

  explicit Browser(const std::string& program) {
    int in[2], out[2];
    REQUIRE((::pipe2(in, O_CLOEXEC) == 0 && ::pipe2(out, O_CLOEXEC) == 0));
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      constexpr int kFromUs = 3, kToUs = 4;
      const int from = ::fcntl(in[0], F_DUPFD, 10), to = ::fcntl(out[1], F_DUPFD, 10);
      ::dup2(from, kFromUs), ::dup2(to, kToUs);
      const int nothing = ::open("/dev/null", O_RDWR);
      for (const int stream : {0, 1, 2}) ::dup2(nothing, stream);
      const std::string data = "--user-data-dir=" + folder_.path();
      ::execlp(program.c_str(), program.c_str(), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
               "--disable-background-networking", "--remote-debugging-pipe", data.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(in[0]), ::close(out[1]);
    to_ = in[1], from_ = out[0];
  }
  ~Browser() {
    ::close(to_), ::close(from_);
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  void open(const std::string& url) {
    session_.clear();
    const Json target = call("Target.createTarget", {{"url", "about:blank"}});
    session_ = call("Target.attachToTarget", {{"targetId", target["targetId"]}, {"flatten", true}})["sessionId"];
    call("Runtime.enable");
    call("Log.enable");
    call("Page.navigate", {{"url", url}});
    CHECK(becomes("the page to be there", "typeof byId === 'function' && document.readyState === 'complete'"));
  }

  Json value(const std::string& expression) {
    const Json answer =
        call("Runtime.evaluate", {{"expression", expression}, {"awaitPromise", true}, {"returnByValue", true}});
    if (answer.contains("exceptionDetails")) FAIL("the page throws: ", answer["exceptionDetails"].dump());
    return answer["result"].value("value", Json());
  }
  bool becomes(const char* what, const std::string& expression) {
    return eventually(what, [&] { return value(expression) == true; });
  }
  void type(const std::string& text) { call("Input.insertText", {{"text", text}}); }
  void press_enter() {
    const Json key = {{"key", "Enter"}, {"code", "Enter"}, {"windowsVirtualKeyCode", 13}, {"text", "\r"}};
    for (const char* type : {"keyDown", "keyUp"}) {
      Json event = key;
      event["type"] = type;
      call("Input.dispatchKeyEvent", event);
    }
  }
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  Json call(const std::string& method, Json parameters = Json::object()) {
    Json message = {{"id", ++last_}, {"method", method}, {"params", std::move(parameters)}};
    if (!session_.empty()) message["sessionId"] = session_;
    const std::string text = message.dump() + '\0';
    REQUIRE(::write(to_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    while (true) {
      const Json answer = next(method);
      if (answer.value("id", 0) == last_) {
        if (answer.contains("error")) FAIL(method, ": ", answer["error"].dump());
        return answer["result"];
      }
      const std::string event = answer.value("method", "");
      if (event == "Runtime.exceptionThrown" ||
          (event == "Log.entryAdded" && answer["params"]["entry"]["level"] == "error"))
        complaints_.push_back(answer["params"].dump());
    }
  }
  Json next(const std::string& method) {
    const Watchdog watchdog("the browser to answer " + method);
    size_t end;
    while ((end = read_.find('\0')) == std::string::npos) {
      pollfd fd = {from_, POLLIN, 0};
      char buffer[65536];
      const ssize_t n = ::poll(&fd, 1, 1000) > 0 ? ::read(from_, buffer, sizeof buffer) : 0;
      REQUIRE_MESSAGE((n > 0 || (fd.revents == 0 && !watchdog.expired())), "the browser has ended");
      read_.append(buffer, static_cast<size_t>(n));
    }
    Json message = Json::parse(read_.substr(0, end));
    read_.erase(0, end + 1);
    return message;
  }

  TemporaryFolder folder_;
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1, last_ = 0;
  std::string session_, read_;
  std::vector<std::string> complaints_;
};

} // namespace ridge::tests
