// Pictures in a real window. Run by run_under_xvfb.sh.
#include "app/window/window_engine.h"
#include "support/fake_pulse.h"
#include "support/recipes/vision_files.h"
#include "support/temporary_folder.h"
#include "ui/driver.h"
#include "ui/widgets/picture_paths.h"
#include "ui/window.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>

using namespace ridge;
using tests::eventually;
using tests::run_with_user;
using tests::User;

namespace {

app::WindowSetup setup_of(const tests::VisionFiles& files) {
  app::WindowSetup setup = tests::guide_setup();
  setup.model.model = files.model;
  setup.model.context = 600;
  setup.request.sampling.max_tokens = 4;
  setup.remember_files = false;
  return setup;
}

#ifdef RIDGE_COPY_PICTURE
// The clipboard's owner sends it in pieces.
void paste_a_picture(User& user, const tests::VisionFiles& files) {
  const std::string copied = files.own.write("copied.ppm", tests::ppm_of(tests::formula_picture(90, 70, 5)));
  const std::unique_ptr<FILE, int (*)(FILE*)> owner(
      ::popen(fmt::format("exec {} '{}' image/png", RIDGE_COPY_PICTURE, copied).c_str(), "r"), ::pclose);
  char line[16];
  REQUIRE(std::fgets(line, sizeof line, owner.get()) != nullptr);
  user.click("message box");
  user.press("ctrl+v");
}
#endif

// Runs in a second thread; the window needs the main one.
void use_pictures(User& user, const app::WindowEngine& engine, const ui::Window& window,
                  const tests::VisionFiles& files, const tests::FakePulse& microphone) {
  const auto now = [&] { return engine.snapshot(); };
  const auto unsent = [&](size_t pictures) {
    return eventually([&] {
      const auto at = now();
      if (at->pictures.size() != pictures || at->state != api::EngineState::idle) return false;
      if (pictures == 0) return true;
      const auto facts = at->picture_facts->find(at->pictures.back()->key);
      return facts != at->picture_facts->end() && facts->second.tokens > 0;
    });
  };
  const std::string dog = files.own.write("a dog.ppm", tests::ppm_of(tests::formula_picture(300, 200, 4)));
#ifdef RIDGE_DROP_FILE
  CHECK(std::system(fmt::format("{} ridge '{}'", RIDGE_DROP_FILE, dog).c_str()) == 0);
  CHECK(eventually([&] { return window.panel() == "chat"; }));
#else
  user.press("ctrl+1");
  user.click("add an image");
  user.type(dog);
  user.press("Return");
  (void)window;
#endif
  REQUIRE(unsent(1));
  CHECK(now()->pictures[0]->name == "a dog.ppm");
  user.click("×");
  REQUIRE(unsent(0));
  user.click("add an image");
  user.type(dog);
  user.press("Return");
  REQUIRE(unsent(1));

#ifdef RIDGE_COPY_PICTURE
  paste_a_picture(user, files);
  REQUIRE(unsent(2));
  CHECK(now()->pictures[1]->name == "pasted image");
  user.click("×", 1);
  REQUIRE(unsent(1));
#else
  MESSAGE("skipped: built without X11's headers, no picture is pasted");
#endif

  user.click("message box");
  user.type(files.image);
  user.press("ctrl+a");
  user.press("ctrl+x");
  user.press("ctrl+v");
  REQUIRE(unsent(2));
  user.type("what is it?");

  user.click("a dog.ppm");
  REQUIRE(eventually([&] { return now()->enlarged != nullptr; }));
  CHECK(now()->enlarged->key == now()->pictures[0]->key);
  CHECK(now()->enlarged->pixels->width == 300);
  user.press("Escape");
  CHECK(eventually([&] { return now()->enlarged == nullptr; }));

  user.click("message box");
  user.press("Return");
  REQUIRE(eventually([&] {
    const auto at = now();
    return at->messages.size() == 2 && at->state == api::EngineState::idle;
  }));
  CHECK(now()->messages[0].text == "what is it?");
  CHECK(now()->messages[0].pictures.size() == 2);
  user.point(900, 100); // a sent picture
  user.press("ctrl+2");
  CHECK(eventually([&] { return window.panel() == "gauges"; }));
  user.press("ctrl+l");
  user.press("ctrl+1");
  CHECK(now()->error == "");

  const int64_t heard = microphone.samples(); // this model sees only
  user.hold("speak", [&] {
    CHECK(eventually([&] { return now()->listening; }));
    microphone.wait_for(5000, heard);
  });
  CHECK(eventually([&] { return now()->error.find("no audio encoder") != std::string::npos; }));
  CHECK(!now()->listening);
}

} // namespace

TEST_CASE("pictures are dropped, picked, pasted, left out, enlarged and sent") {
  REQUIRE_REFERENCE();
  const tests::VisionFiles files{tests::VisionCase("gemma3")};
  const tests::FakePulse microphone;
  ui::WindowOptions options;
  options.panel = "gauges";
  options.enable_widget_positions = true;
  ui::Window window(options);
  app::WindowEngine engine(setup_of(files), [&] { window.wake(); });
  run_with_user(window, engine, [&](User& user) { use_pictures(user, engine, window, files, microphone); });
}

TEST_CASE("what file managers copy are pictures, and other text is none") {
  const tests::TemporaryFolder folder;
  const std::string cat = folder.write("a cat.jpg", ""), dog = folder.write("DOG.PNG", ""),
                    text = folder.write("t.txt", "");
  const std::string url = fmt::format("file://{}/a%20cat.jpg", folder.path());
  CHECK(ui::picture_paths(cat) == std::vector{cat});
  CHECK(ui::picture_paths(cat + "\n" + dog + "\n") == std::vector{cat, dog});
  CHECK(ui::picture_paths(url + "\r\n" + dog) == std::vector{cat, dog});
  CHECK(ui::picture_paths(fmt::format("file://localhost{}", dog)) == std::vector{dog});
  for (const std::string& other : {std::string(), text, "see " + cat, cat + "\n" + text, cat + ".none.png",
                                   std::string("cat.jpg"), std::string("file://"), std::string("file:///%zz.png")})
    CHECK(ui::picture_paths(other).empty());
  CHECK(ui::is_picture_name("x/Y.JPEG"));
  CHECK(!ui::is_picture_name("model.gguf"));
}
