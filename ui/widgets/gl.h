// OpenGL functions, loaded at run time so that ridge starts without OpenGL.
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

// Loads them at the first call, which needs a current context. Throws Error.
const GlFunctions& gl();

// Throws Error, with advice, if a library of the window is missing.
void need_window_libraries();

} // namespace ridge::ui
