// First use of the window, with a local hub. Run by run_under_xvfb.sh.
#include "app/window/window_engine.h"
#include "support/http/fake_hub.h"
#include "support/reference.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"
#include "ui/driver.h"
#include "ui/window.h"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace ridge;
using tests::eventually;
using tests::run_with_user;
using tests::User;

namespace {

// Restores environment variables.
class Variables {
 public:
  explicit Variables(std::initializer_list<std::pair<const char*, std::string>> changed) {
    for (const auto& [name, value] : changed) {
      const char* const before = std::getenv(name);
      before_.emplace_back(name, before ? std::optional<std::string>(before) : std::nullopt);
      value.empty() ? ::unsetenv(name) : ::setenv(name, value.c_str(), 1);
    }
  }
  ~Variables() {
    for (const auto& [name, value] : before_) value ? ::setenv(name, value->c_str(), 1) : ::unsetenv(name);
  }

 private:
  std::vector<std::pair<const char*, std::optional<std::string>>> before_;
};

} // namespace

TEST_CASE("where no model is here the window offers some, and a click gets one, which answers") {
  const tests::TemporaryFolder home;
  tests::FakeHub hub;
  tests::TinyModel().write(home / "served.gguf");
  hub.repository = "ggml-org/gemma-3-270m-it-GGUF";
  hub.files = {{"gemma-3-270m-it-Q8_0.gguf", tests::read_file(home / "served.gguf")}};
  std::filesystem::remove(home / "served.gguf");
  const Variables variables({{"HOME", home.path()},
                             {"HF_ENDPOINT", hub.hub.address()},
                             {"HF_HOME", ""},
                             {"HF_HUB_CACHE", ""},
                             {"XDG_CACHE_HOME", ""},
                             {"XDG_DATA_HOME", ""},
                             {"XDG_CONFIG_HOME", ""},
                             {"XDG_STATE_HOME", ""}});
  app::WindowSetup setup = tests::guide_setup();
  setup.request.sampling.max_tokens = 4;
  setup.remember_files = false;
  ui::WindowOptions options;
  options.enable_widget_positions = true;
  ui::Window window(options);
  app::WindowEngine engine(setup, [&] { window.wake(); });
  run_with_user(window, engine, [&](User& user) {
    const auto now = [&] { return engine.snapshot(); };
    REQUIRE(eventually([&] { return now()->first_models && !now()->first_models->empty(); }));
    user.click("Get Gemma 3 270M");
    REQUIRE(eventually([&] { return !now()->jobs->empty() && now()->jobs->front().over(); }));
    CHECK(now()->jobs->front().error == "");
    REQUIRE(eventually([&] {
      window.wake();
      const auto at = now();
      return at->model && at->model->path.ends_with("gemma-3-270m-it-Q8_0.gguf") && at->state == api::EngineState::idle;
    }));
    user.click("message box");
    user.type("hello");
    user.press("Return");
    REQUIRE(eventually([&] {
      const auto at = now();
      return at->messages.size() == 2 && at->state == api::EngineState::idle;
    }));
    CHECK(now()->messages[1].facts->tokens > 0);
    CHECK(now()->error == "");
  });
}
