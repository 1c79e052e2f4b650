#include "ui/window_impl.h"

#include "core/error.h"
#include "ui/png.h"
#include "ui/widgets/gl.h"
#include "ui/widgets/glyphs.h"
#include "ui/widgets/picture_paths.h"
#include "ui/widgets/places.h"
#include "ui/widgets/textures.h"
#include "ui/widgets/widgets.h"

#include <GLFW/glfw3.h>
#include <backends/imgui_impl_glfw.h>
#include <backends/imgui_impl_opengl3.h>
#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <filesystem>

namespace ridge::ui {

using api::EngineState;

namespace {

constexpr int kMinWidth = 900, kMinHeight = 600; // units
constexpr double kFrameSeconds = 1.0 / 60;
constexpr double kCaretSeconds = 0.4; // a focused caret blinks

std::string last_glfw_error;

} // namespace

Window::Window(WindowOptions options) : impl_(std::make_unique<Impl>()) {
  Layout& layout = impl_->layout;
  if (!options.layout_file.empty()) layout = load_layout(options.layout_file);
  impl_->saved_layout = layout;
  if (options.width > 0) layout.width = options.width;
  if (options.height > 0) layout.height = options.height;
  if (options.light) layout.light = *options.light;
  impl_->dark = !layout.light;
  impl_->options = std::move(options);
  enable_widget_positions(impl_->options.enable_widget_positions);
  impl_->open();
}

Window::~Window() {
  if (ImGui::GetCurrentContext()) {
    free_unused_textures();
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

bool Window::is_waiting_for_events() const { return impl_->at_rest; }

void Window::Impl::open() {
  std::string names;
  panel = panels().size();
  const std::string wanted = options.panel.substr(0, options.panel.find('/'));
  for (size_t i = 0; i < panels().size(); ++i) {
    if ((options.panel.empty() ? layout.panel : wanted) == panels()[i].name) panel = i;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", panels()[i].name);
  }
  if (panel == panels().size() && options.panel.empty()) panel = 0; // from a version with other panels
  if (panel == panels().size())
    throw Error(fmt::format("unknown panel '{}'; expected one of {}", options.panel, names), Error::kUsage);
  for (const PanelInfo& info : panels()) shown.push_back(info.make());
  if (wanted != options.panel && !shown[panel]->show(std::string_view(options.panel).substr(wanted.size() + 1)))
    throw Error(fmt::format("unknown panel '{}': {} has no such part", options.panel, wanted), Error::kUsage);

  glfwSetErrorCallback([](int, const char* message) { last_glfw_error = message; });
  need_window_libraries();
  if (!glfwInit())
    throw_error("cannot open a window: {}. A display is needed (DISPLAY or WAYLAND_DISPLAY); without one, use ridge "
                "chat in a terminal",
                last_glfw_error);
  glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
  glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 3);
  glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
  glfwWindowHint(GLFW_SCALE_TO_MONITOR, GLFW_TRUE);
  window = glfwCreateWindow(layout.width, layout.height, "ridge", nullptr, nullptr);
  if (!window) {
    glfwTerminate();
    throw_error("cannot open a window with OpenGL 3.3: {}; use ridge chat in a terminal", last_glfw_error);
  }
  glfwSetWindowSizeLimits(window, kMinWidth, kMinHeight, GLFW_DONT_CARE, GLFW_DONT_CARE);
  if (options.width == 0) fit_on_screen();
  glfwMakeContextCurrent(window);
  glfwSwapInterval(1);
  glfwSetWindowUserPointer(window, this);
  glfwSetWindowContentScaleCallback(
      window, [](GLFWwindow* w, float, float) { static_cast<Impl*>(glfwGetWindowUserPointer(w))->rescale = true; });
  glfwSetDropCallback(window, [](GLFWwindow* w, int count, const char** paths) {
    auto* impl = static_cast<Impl*>(glfwGetWindowUserPointer(w));
    if (impl->engine) impl->take_dropped({paths, paths + count});
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
      const double wait = drawn_at + kFrameSeconds - glfwGetTime(); // without vsync
      wait > 0.001 ? glfwWaitEventsTimeout(wait) : glfwPollEvents();
      if (glfwGetTime() < drawn_at + kFrameSeconds - 0.001) { // one frame for early events
        w.frames_wanted = kSettlingFrames;
        continue;
      }
    } else {
      if (ImGui::GetIO().WantTextInput) {
        glfwWaitEventsTimeout(kCaretSeconds);
        w.frames_wanted = 1;
      } else {
        w.at_rest = true;
        glfwWaitEvents();
        w.at_rest = false;
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
                        now->picture_facts->size() < now->pictures.size() ||
                        (now->tensor && static_cast<int>(now->tensor->formats.size()) < now->tensor->formats_to_try);
      quiet_frames = busy ? 0 : quiet_frames + 1;
      if (quiet_frames > w.options.after_frames) {
        w.save_screenshot();
        glfwSetWindowShouldClose(w.window, GLFW_TRUE);
      }
    }
    glfwSwapBuffers(w.window);
    ++w.frames;
    w.frame_times.end(engine.snapshot()->state == EngineState::writing, ImGui::GetDrawData()->TotalVtxCount);
  }
  w.remember();
  w.engine = nullptr;
}

// ImGui 1.86 samples keys when a frame begins. Holds keys pressed and released since the last frame for this one.
// A size that was kept may be one of a larger screen, or of one with a smaller scale.
void Window::Impl::fit_on_screen() {
  GLFWmonitor* monitor = glfwGetPrimaryMonitor();
  if (!monitor) return;
  int width, height, left, top, screen_width = 0, screen_height = 0;
  glfwGetWindowSize(window, &width, &height);
  glfwGetMonitorWorkarea(monitor, &left, &top, &screen_width, &screen_height);
  if (screen_width <= 0 || screen_height <= 0 || (width <= screen_width && height <= screen_height)) return;
  glfwSetWindowSize(window, std::min(width, screen_width), std::min(height, screen_height));
}

// Returns the keys to release after it.
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
    load_fonts(zoomed());
    apply_theme(dark, zoomed());
    ImGui_ImplOpenGL3_DestroyDeviceObjects(); // includes the font texture
    rescale = false;
  }
  ImGui_ImplOpenGL3_NewFrame();
  ImGui_ImplGlfw_NewFrame();
  if (!options.screenshot.empty())
    ImGui::GetIO().MousePos = {-FLT_MAX, -FLT_MAX}; // screenshots do not depend on the
                                                    // mouse
  const std::vector<int> held = hold_short_presses();
  ImGui::NewFrame();
  const auto now = engine->snapshot();
  take_keys(*now);
  draw_window(*now);
  finish_places();
  ImGui::Render();
  for (const int key : held) ImGui::GetIO().KeysDown[key] = false;
  int width, height;
  glfwGetFramebufferSize(window, &width, &height);
  gl().viewport(0, 0, width, height);
  const ImVec4 back = to_vec4(theme().background);
  gl().clear_color(back.x, back.y, back.z, 1);
  gl().clear(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
  free_unused_textures();
}

void Window::Impl::take_keys(const api::Snapshot& now) {
  const ImGuiIO& io = ImGui::GetIO();
  const auto pressed = [](int key) { return ImGui::IsKeyPressed(key, false); };
  if (io.KeyCtrl) {
    for (size_t i = 0; i < shown.size(); ++i)
      if (pressed(GLFW_KEY_1 + static_cast<int>(i))) {
        panel = i;
        help = false;
      }
    const bool idle = now.state == EngineState::idle;
    if (pressed(GLFW_KEY_R) && idle && !now.messages.empty()) engine->send(api::intent::Regenerate{});
    if (pressed(GLFW_KEY_N) && (idle || now.state == EngineState::measuring))
      engine->send(api::intent::NewConversation{});
    if (pressed(GLFW_KEY_O) && !dialog.is_open()) ask_for_file();
    if (pressed(GLFW_KEY_L)) set_dark(!dark);
    if (pressed(GLFW_KEY_EQUAL) || pressed(GLFW_KEY_KP_ADD)) set_zoom(layout.zoom + 10);
    if (pressed(GLFW_KEY_MINUS) || pressed(GLFW_KEY_KP_SUBTRACT)) set_zoom(layout.zoom - 10);
    if (pressed(GLFW_KEY_0) || pressed(GLFW_KEY_KP_0)) set_zoom(100);
    if (pressed(GLFW_KEY_Q)) glfwSetWindowShouldClose(window, GLFW_TRUE);
  }
  if (dialog.is_open() || now.tool_question || shown[panel]->takes_escape()) return;
  if (pressed(GLFW_KEY_F1)) help = !help;
  const bool in_field = ImGui::GetInputTextState(ImGui::GetActiveID()) != nullptr; // Escape leaves it first
  if (pressed(GLFW_KEY_ESCAPE) && !in_field) {
    if (now.state == EngineState::writing || now.state == EngineState::reading || now.state == EngineState::measuring)
      engine->send(api::intent::Stop{});
    help = false;
  }
}

void Window::Impl::ask_for_file() {
  engine->send(api::intent::ListModels{});
  load_settings.begin(*engine->snapshot());
  dialog.set_side([this](const std::string& path) { load_settings.draw(*engine->snapshot(), engine->send, path); });
  dialog.ask(FileDialog::For::open, "Open a model", "",
             [this](const std::string& path) { open_path(path, load_settings.options()); });
}

// Takes all pictures, or the first other path.
void Window::Impl::take_dropped(const std::vector<std::string>& paths) {
  bool opened = false;
  for (const std::string& path : paths)
    if (is_picture_name(path) || !std::exchange(opened, true)) open_path(path);
}

// Pictures join the unsent message, folders go to a panel, addresses become jobs, other files go to the engine.
void Window::Impl::open_path(const std::string& path, std::optional<api::ModelOptions> options) {
  if (is_picture_name(path)) {
    engine->send(api::intent::AddPicture{path});
    return show_panel("chat");
  }
  if (FileDialog::is_address(path)) {
    engine->send(api::intent::StartJob{api::PullRequest{path}});
    return show_panel("jobs");
  }
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored))
    return engine->send(api::intent::OpenModel{path, std::move(options)});
  for (size_t i = 0; i < shown.size(); ++i)
    if (shown[i]->take_folder(path)) panel = i;
}

void Window::Impl::show_panel(std::string_view name) {
  for (size_t i = 0; i < shown.size(); ++i)
    if (panels()[i].name == name) panel = i;
}

void Window::Impl::set_dark(bool now_dark) {
  dark = now_dark;
  layout.light = !dark;
  apply_theme(dark, zoomed());
}

void Window::Impl::set_zoom(int percent) {
  percent = std::clamp(percent, kMinZoom, kMaxZoom);
  rescale |= percent != layout.zoom;
  layout.zoom = percent;
}

void Window::Impl::remember() {
  if (options.layout_file.empty()) return;
  layout.panel = panels()[panel].name;
  if (!glfwGetWindowAttrib(window, GLFW_MAXIMIZED)) {
    glfwGetWindowSize(window, &layout.width, &layout.height);
    layout.width = static_cast<int>(static_cast<float>(layout.width) / scale); // GLFW scales it on creation
    layout.height = static_cast<int>(static_cast<float>(layout.height) / scale);
  }
  if (layout != saved_layout) save_layout(options.layout_file, layout);
}

void Window::Impl::save_screenshot() const {
  int width, height;
  glfwGetFramebufferSize(window, &width, &height);
  std::vector<uint8_t> pixels(static_cast<size_t>(width) * height * 3);
  gl().pixel_store(GL_PACK_ALIGNMENT, 1);
  gl().read_pixels(0, 0, width, height, GL_RGB, GL_UNSIGNED_BYTE, pixels.data());
  write_png(options.screenshot, width, height, pixels);
}

} // namespace ridge::ui
