// The OpenGL functions that ridge calls itself. They are found when a window is open, so that the executable starts on
// machines that have no OpenGL.
#pragma once

#include <GL/gl.h>

namespace ridge::ui {

struct GlFunctions {
  decltype(&::glViewport) viewport;
  decltype(&::glClearColor) clear_color;
  decltype(&::glClear) clear;
  decltype(&::glPixelStorei) pixel_store;
  decltype(&::glReadPixels) read_pixels;
  decltype(&::glBindTexture) bind_texture;
  decltype(&::glTexSubImage2D) tex_sub_image_2d;
  decltype(&::glGenTextures) gen_textures;
  decltype(&::glDeleteTextures) delete_textures;
  decltype(&::glTexParameteri) tex_parameter_i;
  decltype(&::glTexImage2D) tex_image_2d;
  void (*generate_mipmap)(GLenum target); // <GL/gl.h> ends before OpenGL 3
};

// Those of the current context, which must exist at the first call. Throws Error where one is missing.
const GlFunctions& gl();

// Throws Error where the libraries that a window needs are not installed: which, and how to get them.
void need_window_libraries();

} // namespace ridge::ui
