#include "ui/widgets/gl.h"

#include "core/error.h"

#include <GLFW/glfw3.h>

#include <dlfcn.h>

namespace ridge::ui {
namespace {

template <typename Function>
void find(Function& function, const char* name) {
  function = reinterpret_cast<Function>(glfwGetProcAddress(name));
  if (!function) throw_error("cannot draw the window: this OpenGL has no {}", name);
}

} // namespace

const GlFunctions& gl() {
  static const GlFunctions functions = [] {
    GlFunctions f{};
    find(f.viewport, "glViewport");
    find(f.clear_color, "glClearColor");
    find(f.clear, "glClear");
    find(f.pixel_store, "glPixelStorei");
    find(f.read_pixels, "glReadPixels");
    find(f.bind_texture, "glBindTexture");
    find(f.tex_sub_image_2d, "glTexSubImage2D");
    find(f.gen_textures, "glGenTextures");
    find(f.delete_textures, "glDeleteTextures");
    find(f.tex_parameter_i, "glTexParameteri");
    find(f.tex_image_2d, "glTexImage2D");
    find(f.generate_mipmap, "glGenerateMipmap");
    return f;
  }();
  return functions;
}

void need_window_libraries() {
  for (const char* name : {"libX11.so.6", "libGL.so.1"})
    if (!::dlopen(name, RTLD_LAZY | RTLD_LOCAL)) // never closed: the window uses it
      throw_error("cannot open a window: {} is missing; install libx11-6 and libgl1 (Debian, Ubuntu) or libX11 and "
                  "mesa-libGL (Fedora), or use ridge chat in a terminal",
                  name);
}

} // namespace ridge::ui
