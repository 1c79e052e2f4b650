#include "ui/widgets/textures.h"

#include "ui/widgets/gl.h"

#include <cstdint>
#include <map>
#include <utility>

namespace ridge::ui {
namespace {

struct Texture {
  GLuint name = 0;
  bool used = false; // in this frame
};
std::map<std::shared_ptr<const api::Pixels>, Texture> textures;

// With mipmaps.
GLuint upload(const api::Pixels& pixels) {
  GLuint name = 0;
  gl().gen_textures(1, &name);
  gl().bind_texture(GL_TEXTURE_2D, name);
  gl().tex_parameter_i(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_LINEAR_MIPMAP_LINEAR);
  gl().tex_parameter_i(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_LINEAR);
  gl().tex_parameter_i(GL_TEXTURE_2D, GL_TEXTURE_WRAP_S, GL_CLAMP_TO_EDGE);
  gl().tex_parameter_i(GL_TEXTURE_2D, GL_TEXTURE_WRAP_T, GL_CLAMP_TO_EDGE);
  gl().pixel_store(GL_UNPACK_ALIGNMENT, 1);
  gl().pixel_store(GL_UNPACK_ROW_LENGTH, 0);
  gl().tex_image_2d(GL_TEXTURE_2D, 0, GL_RGB, pixels.width, pixels.height, 0, GL_RGB, GL_UNSIGNED_BYTE,
                    pixels.rgb.data());
  gl().generate_mipmap(GL_TEXTURE_2D);
  return name;
}

} // namespace

ImTextureID texture_of(const std::shared_ptr<const api::Pixels>& pixels) {
  Texture& texture = textures[pixels];
  if (texture.name == 0) texture.name = upload(*pixels);
  texture.used = true;
  return reinterpret_cast<ImTextureID>(static_cast<uintptr_t>(texture.name));
}

void free_unused_textures() {
  for (auto at = textures.begin(); at != textures.end();) {
    Texture& texture = at->second;
    if (std::exchange(texture.used, false)) {
      ++at;
      continue;
    }
    gl().delete_textures(1, &texture.name);
    at = textures.erase(at);
  }
}

} // namespace ridge::ui
