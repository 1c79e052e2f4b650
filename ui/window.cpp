#include "ui/window.h"

#include "core/error.h"
#include "ui/panels/panel.h"
#include "ui/png.h"
#include "ui/widgets/file_dialog.h"
#include "ui/widgets/glyphs.h"
#include "ui/widgets/widgets.h"

#include <GLFW/glfw3.h>
#include <backends/imgui_impl_glfw.h>
#include <backends/imgui_impl_opengl3.h>
#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>
#include <atomic>
#include <cfloat>
#include <cmath>
#include <filesystem>

namespace ridge::ui {

using core::EngineState;

namespace {

constexpr int kMinWidth = 900, kMinHeight = 600; // units
constexpr int kSettlingFrames = 4;               // drawn after the last event: hover and layout follow one frame late
constexpr double kFrameSeconds = 1.0 / 60;
constexpr double kCaretSeconds = 0.4; // while a text field has the focus, its caret blinks

std::string last_glfw_error;

struct Shortcut {
  const char *keys, *what;
};
constexpr Shortcut kShortcuts[] = {
    {"Ctrl 1 … 9", "show a panel"},
    {"Ctrl O", "open a model or a checkpoint's folder"},
    {"Enter", "send the message"},
    {"Shift Enter", "new line in the message"},
    {"Esc", "leave a field; stop the answer"},
    {"Ctrl R", "answer again"},
    {"Ctrl N", "new conversation"},
    {"Ctrl L", "light or dark"},
    {"Tab, arrows, Space", "reach and use every control"},
    {"F1", "this list"},
    {"Ctrl Q", "close the window"},
};

} // namespace

struct Window::Impl {
  WindowOptions options;
  GLFWwindow* window = nullptr;
  std::vector<std::unique_ptr<Panel>> shown;
  std::atomic<size_t> panel = 0;
  std::atomic<uint64_t> frames = 0;
  bool dark = true, rescale = true, help = false;
  float scale = 1;
  int frames_wanted = kSettlingFrames;
  uint64_t dismissed_error = 0;
  const EngineLink* engine = nullptr;
  std::vector<int> pressed_keys; // since the last frame
  FileDialog dialog;
  Layout layout, saved_layout;
  FrameTimes frame_times;

  void open();
  void draw_frame();
  std::vector<int> hold_short_presses();
  void draw_window(const core::Snapshot& now);
  void draw_rail(const core::Snapshot& now);
  void draw_status(const core::Snapshot& now) const;
  void draw_error(const core::Snapshot& now);
  void draw_help();
  void take_keys(const core::Snapshot& now);
  void ask_for_file();
  void open_path(const std::string& path);
  void save_screenshot() const;
  void set_dark(bool now_dark);
  void remember();
};

Window::Window(WindowOptions options) : impl_(std::make_unique<Impl>()) {
  Layout& layout = impl_->layout;
  if (!options.layout_file.empty()) layout = load_layout(options.layout_file);
  impl_->saved_layout = layout;
  if (options.width > 0) layout.width = options.width;
  if (options.height > 0) layout.height = options.height;
  if (options.light) layout.light = *options.light;
  impl_->dark = !layout.light;
  impl_->options = std::move(options);
  impl_->open();
}

Window::~Window() {
  if (ImGui::GetCurrentContext()) {
    ImGui_ImplOpenGL3_Shutdown();
    ImGui_ImplGlfw_Shutdown();
    ImGui::DestroyContext();
  }
  if (impl_->window) glfwDestroyWindow(impl_->window);
  glfwTerminate();
}

void Window::wake() { glfwPostEmptyEvent(); }

void Window::close() {
  glfwSetWindowShouldClose(impl_->window, GLFW_TRUE);
  glfwPostEmptyEvent();
}

const FrameTimes& Window::frame_times() const { return impl_->frame_times; }

std::string Window::panel() const { return panels()[impl_->panel].name; }

uint64_t Window::frames() const { return impl_->frames; }

void Window::Impl::open() {
  std::string names;
  panel = panels().size();
  const std::string wanted = options.panel.substr(0, options.panel.find('/'));
  for (size_t i = 0; i < panels().size(); ++i) {
    if ((options.panel.empty() ? layout.panel : wanted) == panels()[i].name) panel = i;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", panels()[i].name);
  }
  if (panel == panels().size() && options.panel.empty()) panel = 0; // remembered by a ridge with other panels
  if (panel == panels().size())
    throw Error(fmt::format("no panel '{}'; there are {}", options.panel, names), Error::kUsage);
  for (const PanelInfo& info : panels()) shown.push_back(info.make());
  if (wanted != options.panel && !shown[panel]->show(std::string_view(options.panel).substr(wanted.size() + 1)))
    throw Error(fmt::format("no panel '{}': {} has no such part", options.panel, wanted), Error::kUsage);

  glfwSetErrorCallback([](int, const char* message) { last_glfw_error = message; });
  if (!glfwInit())
    throw_error(
        "cannot open a window: {}. It needs a display (DISPLAY or WAYLAND_DISPLAY); ridge chat works in a terminal",
        last_glfw_error);
  glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
  glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 3);
  glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
  glfwWindowHint(GLFW_SCALE_TO_MONITOR, GLFW_TRUE);
  window = glfwCreateWindow(layout.width, layout.height, "ridge", nullptr, nullptr);
  if (!window) {
    glfwTerminate();
    throw_error("cannot open a window with OpenGL 3.3: {}; ridge chat works in a terminal", last_glfw_error);
  }
  glfwSetWindowSizeLimits(window, kMinWidth, kMinHeight, GLFW_DONT_CARE, GLFW_DONT_CARE);
  glfwMakeContextCurrent(window);
  glfwSwapInterval(1);
  glfwSetWindowUserPointer(window, this);
  glfwSetWindowContentScaleCallback(
      window, [](GLFWwindow* w, float, float) { static_cast<Impl*>(glfwGetWindowUserPointer(w))->rescale = true; });
  glfwSetDropCallback(window, [](GLFWwindow* w, int count, const char** paths) {
    auto* impl = static_cast<Impl*>(glfwGetWindowUserPointer(w));
    if (count > 0 && impl->engine) impl->open_path(paths[0]);
  });
  IMGUI_CHECKVERSION();
  ImGui::CreateContext();
  ImGui::GetIO().IniFilename = nullptr;
  ImGui::GetIO().ConfigFlags |= ImGuiConfigFlags_NavEnableKeyboard;
  ImGui_ImplGlfw_InitForOpenGL(window, true);
  glfwSetKeyCallback(window, [](GLFWwindow* w, int key, int scancode, int action, int modifiers) {
    ImGui_ImplGlfw_KeyCallback(w, key, scancode, action, modifiers);
    if (action != GLFW_PRESS || key < 0) return;
    std::vector<int>& pressed = static_cast<Impl*>(glfwGetWindowUserPointer(w))->pressed_keys;
    pressed.push_back(key);
    if (modifiers & GLFW_MOD_CONTROL) pressed.push_back(GLFW_KEY_LEFT_CONTROL);
    if (modifiers & GLFW_MOD_SHIFT) pressed.push_back(GLFW_KEY_LEFT_SHIFT);
  });
  glfwSetCharCallback(window, [](GLFWwindow* w, unsigned character) {
    character < 0x10000 ? ImGui_ImplGlfw_CharCallback(w, character) : type_far_character(character);
  });
  ImGui_ImplOpenGL3_Init("#version 330 core");
}

void Window::run(const EngineLink& engine) {
  Impl& w = *impl_;
  w.engine = &engine;
  int quiet_frames = 0;
  double drawn_at = 0;
  while (!glfwWindowShouldClose(w.window)) {
    const bool animated = !w.options.screenshot.empty();
    if (w.frames_wanted > 0 || animated) {
      const double wait = drawn_at + kFrameSeconds - glfwGetTime(); // where the screen does not set the pace
      wait > 0.001 ? glfwWaitEventsTimeout(wait) : glfwPollEvents();
      if (glfwGetTime() < drawn_at + kFrameSeconds - 0.001) { // an event came early: one frame for all of them
        w.frames_wanted = kSettlingFrames;
        continue;
      }
    } else {
      if (ImGui::GetIO().WantTextInput) {
        glfwWaitEventsTimeout(kCaretSeconds);
        w.frames_wanted = 1;
      } else {
        glfwWaitEvents();
      }
      w.frames_wanted = std::max(w.frames_wanted, kSettlingFrames - (ImGui::GetIO().WantTextInput ? 2 : 0));
    }
    drawn_at = glfwGetTime();
    w.frame_times.begin();
    w.draw_frame();
    w.frames_wanted = std::max(0, w.frames_wanted - 1);
    if (animated) {
      const auto now = engine.snapshot();
      const bool busy = now->state == EngineState::loading || now->state == EngineState::reading ||
                        now->state == EngineState::writing || now->state == EngineState::measuring ||
                        (now->tensor && static_cast<int>(now->tensor->formats.size()) < now->tensor->formats_to_try);
      quiet_frames = busy ? 0 : quiet_frames + 1;
      if (quiet_frames > w.options.after_frames) {
        w.save_screenshot();
        glfwSetWindowShouldClose(w.window, GLFW_TRUE);
      }
    }
    glfwSwapBuffers(w.window);
    ++w.frames;
    w.frame_times.end(engine.snapshot()->state == EngineState::writing);
  }
  w.remember();
  w.engine = nullptr;
}

// ImGui 1.86 sees what is down when a frame begins: a key that went down and up again since the last one, with its
// modifiers, is held for this frame. Returns the keys to let go after it.
std::vector<int> Window::Impl::hold_short_presses() {
  ImGuiIO& io = ImGui::GetIO();
  std::vector<int> held;
  for (const int key : pressed_keys)
    if (!io.KeysDown[key]) {
      io.KeysDown[key] = true;
      held.push_back(key);
    }
  pressed_keys.clear();
  io.KeyCtrl = io.KeysDown[GLFW_KEY_LEFT_CONTROL] || io.KeysDown[GLFW_KEY_RIGHT_CONTROL];
  io.KeyShift = io.KeysDown[GLFW_KEY_LEFT_SHIFT] || io.KeysDown[GLFW_KEY_RIGHT_SHIFT];
  io.KeyAlt = io.KeysDown[GLFW_KEY_LEFT_ALT] || io.KeysDown[GLFW_KEY_RIGHT_ALT];
  return held;
}

void Window::Impl::draw_frame() {
  if (rescale || glyphs_are_full()) {
    float scale_y;
    glfwGetWindowContentScale(window, &scale, &scale_y);
    load_fonts(scale);
    apply_theme(dark, scale);
    ImGui_ImplOpenGL3_DestroyFontsTexture();
    rescale = false;
  }
  ImGui_ImplOpenGL3_NewFrame();
  ImGui_ImplGlfw_NewFrame();
  if (!options.screenshot.empty()) ImGui::GetIO().MousePos = {-FLT_MAX, -FLT_MAX}; // what it shows hangs on no mouse
  const std::vector<int> held = hold_short_presses();
  ImGui::NewFrame();
  const auto now = engine->snapshot();
  take_keys(*now);
  draw_window(*now);
  ImGui::Render();
  for (const int key : held) ImGui::GetIO().KeysDown[key] = false;
  int width, height;
  glfwGetFramebufferSize(window, &width, &height);
  glViewport(0, 0, width, height);
  const ImVec4 back = to_vec4(theme().background);
  glClearColor(back.x, back.y, back.z, 1);
  glClear(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
}

void Window::Impl::take_keys(const core::Snapshot& now) {
  const ImGuiIO& io = ImGui::GetIO();
  const auto pressed = [](int key) { return ImGui::IsKeyPressed(key, false); };
  if (io.KeyCtrl) {
    for (size_t i = 0; i < shown.size(); ++i)
      if (pressed(GLFW_KEY_1 + static_cast<int>(i))) panel = i;
    const bool idle = now.state == EngineState::idle;
    if (pressed(GLFW_KEY_R) && idle && !now.messages.empty()) engine->send(core::intent::Regenerate{});
    if (pressed(GLFW_KEY_N) && (idle || now.state == EngineState::measuring))
      engine->send(core::intent::NewConversation{});
    if (pressed(GLFW_KEY_O) && !dialog.is_open()) ask_for_file();
    if (pressed(GLFW_KEY_L)) set_dark(!dark);
    if (pressed(GLFW_KEY_Q)) glfwSetWindowShouldClose(window, GLFW_TRUE);
  }
  if (dialog.is_open()) return; // Escape closes it
  if (pressed(GLFW_KEY_F1)) help = !help;
  const bool in_field = ImGui::GetInputTextState(ImGui::GetActiveID()) != nullptr; // which Escape leaves
  if (pressed(GLFW_KEY_ESCAPE) && !in_field) {
    if (now.state == EngineState::writing || now.state == EngineState::reading || now.state == EngineState::measuring)
      engine->send(core::intent::Stop{});
    help = false;
  }
}

void Window::Impl::ask_for_file() {
  dialog.ask(FileDialog::For::model, "Open a model", "", [this](const std::string& path) { open_path(path); });
}

// A folder goes to the panel that knows what to do with it, a file to the engine.
void Window::Impl::open_path(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return engine->send(core::intent::OpenModel{path});
  for (size_t i = 0; i < shown.size(); ++i)
    if (shown[i]->take_folder(path)) panel = i;
}

void Window::Impl::draw_window(const core::Snapshot& now) {
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(size);
  ImGui::Begin("ridge", nullptr,
               ImGuiWindowFlags_NoBackground | // which is cleared already
                   ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                   ImGuiWindowFlags_NoBringToFrontOnFocus | ImGuiWindowFlags_NoScrollWithMouse);
  const float rail = px(148), status = px(32), margin = px(16);
  ImGui::BeginChild("rail", {rail, size.y});
  draw_rail(now);
  ImGui::EndChild();
  ImGui::SetCursorPos({rail + px(4), margin});
  ImGui::BeginChild("content", {size.x - rail - px(4) - margin, size.y - status - margin - px(4)}, false,
                    ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse);
  draw_error(now);
  if (now.model || !panels()[panel].needs_model) {
    ImGui::PushID(static_cast<int>(panel.load()));
    shown[panel]->draw({now, engine->send, layout});
    ImGui::PopID();
  } else {
    const ImVec2 at = ImGui::GetWindowPos(), area = ImGui::GetWindowSize();
    const bool failed = now.state == EngineState::failed;
    text_at({at.x + area.x / 2, at.y + area.y / 2 - px(24)}, failed ? "No model is open" : "One moment", theme().text,
            fonts().title, 0.5f);
    text_at({at.x + area.x / 2, at.y + area.y / 2 + px(6)},
            failed ? "Drop a GGUF file on this window, or" : now.activity, theme().dim, fonts().body, 0.5f);
    if (failed) {
      ImGui::SetCursorPos({area.x / 2 - px(156), area.y / 2 + px(40)});
      if (accent_button("Open a file…", {px(150), px(34)})) ask_for_file();
      ImGui::SameLine(0, px(12));
      if (ImGui::Button("Open the guide", {px(150), px(34)})) engine->send(core::intent::OpenModel{""});
    }
  }
  ImGui::EndChild();
  ImGui::SetCursorPos({rail + px(4), size.y - status});
  ImGui::BeginChild("status", {size.x - rail - px(4) - margin, status}, false, ImGuiWindowFlags_NoScrollbar);
  draw_status(now);
  ImGui::EndChild();
  draw_help();
  dialog.draw(now.recent);
  ImGui::End();
}

void Window::Impl::draw_rail(const core::Snapshot&) {
  ImGui::SetCursorPos({px(22), px(18)});
  text("ridge", theme().text, fonts().title);
  ImGui::SetCursorPosY(px(64));
  ImGui::PushStyleVar(ImGuiStyleVar_ButtonTextAlign, ImVec2(0, 0.5f));
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, px(4)));
  const auto item = [&](const char* label, bool chosen) {
    ImGui::SetCursorPosX(px(12));
    ImGui::PushStyleColor(ImGuiCol_Button, chosen ? theme().raised : with_alpha(theme().raised, 0));
    ImGui::PushStyleColor(ImGuiCol_Text, chosen ? theme().text : theme().dim);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const bool pressed = ImGui::Button(label, {px(124), px(34)});
    ImGui::PopStyleColor(2);
    if (chosen)
      ImGui::GetWindowDrawList()->AddRectFilled({at.x, at.y + px(8)}, {at.x + px(3), at.y + px(26)}, theme().accent,
                                                px(2));
    return pressed;
  };
  for (size_t i = 0; i < shown.size(); ++i)
    if (item(panels()[i].title, i == panel)) panel = i;
  ImGui::SetCursorPosY(ImGui::GetWindowHeight() - px(126));
  if (item("Open…", false)) ask_for_file();
  if (item(dark ? "Light" : "Dark", false)) set_dark(!dark);
  if (item("Keys", help)) help = !help;
  ImGui::PopStyleVar(2);
}

void Window::Impl::draw_status(const core::Snapshot& now) const {
  const Theme& t = theme();
  const ImVec2 at = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
  const float y = at.y + (size.y - fonts().small->FontSize) / 2;
  const bool busy = now.state == EngineState::reading || now.state == EngineState::writing ||
                    now.state == EngineState::loading || now.state == EngineState::measuring;
  const ImU32 dot = now.state == EngineState::failed ? t.red : busy ? t.amber : t.green;
  ImGui::GetWindowDrawList()->AddCircleFilled({at.x + px(6), at.y + size.y / 2}, px(4), dot);
  std::string left = now.model ? fmt::format("{} · {}", now.model->label, now.model->engine) : "no model";
  left += fmt::format(" · {}", !now.activity.empty() ? now.activity : now.model ? "ready" : "waiting for a file");
  text_at({at.x + px(18), y}, left, t.dim, fonts().small);
  if (now.speed.tokens_per_s > 0)
    text_at({at.x + size.x, y},
            fmt::format("{:.1f} tok/s · {}/s · context {} of {}", now.speed.tokens_per_s,
                        bytes_text(now.speed.bytes_per_s), now.kv.tokens, now.kv.context),
            t.dim, fonts().small, 1);
}

void Window::Impl::draw_error(const core::Snapshot& now) {
  if (now.error_number == dismissed_error) return;
  const Theme& t = theme();
  const float width = ImGui::GetContentRegionAvail().x, inner = width - px(now.gpu_failed ? 258 : 120);
  const float height =
      fonts().body->CalcTextSizeA(fonts().body->FontSize, INFINITY, inner, now.error.c_str()).y + px(24);
  ImGui::PushStyleColor(ImGuiCol_ChildBg, mix(t.surface, t.red, 0.22f));
  ImGui::BeginChild("error", {width, height});
  ImGui::SetCursorPos({px(16), px(12)});
  ImGui::PushTextWrapPos(px(16) + inner);
  text(now.error, t.text);
  ImGui::PopTextWrapPos();
  ImGui::SetCursorPos({width - px(88), px(9)});
  if (now.gpu_failed) {
    ImGui::SetCursorPosX(width - px(226));
    if (ImGui::SmallButton("go on with the CPU")) {
      engine->send(core::intent::UseCpu{});
      dismissed_error = now.error_number;
    }
    ImGui::SameLine();
  }
  if (ImGui::SmallButton("dismiss")) dismissed_error = now.error_number;
  ImGui::EndChild();
  ImGui::PopStyleColor();
}

void Window::Impl::draw_help() {
  if (!help) return;
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos({size.x / 2, size.y / 2}, ImGuiCond_Always, {0.5f, 0.5f});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(px(24), px(20)));
  ImGui::PushStyleColor(ImGuiCol_WindowBg, theme().raised);
  ImGui::Begin("keys", &help,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_AlwaysAutoResize | ImGuiWindowFlags_NoSavedSettings |
                   ImGuiWindowFlags_NoMove);
  title("Keys");
  ImGui::Dummy({px(360), px(6)});
  for (const Shortcut& shortcut : kShortcuts) {
    text(shortcut.keys, theme().text, fonts().mono);
    ImGui::SameLine(px(200));
    text(shortcut.what, theme().dim);
  }
  ImGui::End();
  ImGui::PopStyleColor();
  ImGui::PopStyleVar();
}

void Window::Impl::set_dark(bool now_dark) {
  dark = now_dark;
  layout.light = !dark;
  apply_theme(dark, scale);
}

void Window::Impl::remember() {
  if (options.layout_file.empty()) return;
  layout.panel = panels()[panel].name;
  if (!glfwGetWindowAttrib(window, GLFW_MAXIMIZED)) {
    glfwGetWindowSize(window, &layout.width, &layout.height);
    layout.width = static_cast<int>(static_cast<float>(layout.width) / scale); // GLFW scales it when it opens one
    layout.height = static_cast<int>(static_cast<float>(layout.height) / scale);
  }
  if (layout != saved_layout) save_layout(options.layout_file, layout);
}

void Window::Impl::save_screenshot() const {
  int width, height;
  glfwGetFramebufferSize(window, &width, &height);
  std::vector<uint8_t> pixels(static_cast<size_t>(width) * height * 3);
  glPixelStorei(GL_PACK_ALIGNMENT, 1);
  glReadPixels(0, 0, width, height, GL_RGB, GL_UNSIGNED_BYTE, pixels.data());
  write_png(options.screenshot, width, height, pixels);
}

} // namespace ridge::ui
