#include "models/vision/hparams.h"

#include "core/error.h"
#include "models/file/hparams.h"
#include "quant/registry.h"

#include <algorithm>
#include <cmath>

namespace ridge::models::vision {

int64_t Hparams::in_range(std::string_view name, int64_t value, int64_t least, int64_t most) const {
  if (value < least || value > most)
    throw_error("{}: {} is {}, expected {} to {}", path(), key(name), value, least, most);
  return value;
}

int64_t Hparams::count(std::string_view name, int64_t most, int64_t least) const {
  return in_range(name, file_.get_int(key(name)), least, most);
}
int64_t Hparams::count_or(std::string_view name, int64_t fallback, int64_t most, int64_t least) const {
  return in_range(name, file_.get_int(key(name), fallback), least, most);
}

int64_t Hparams::whole_key_or(std::string_view whole_key, int64_t fallback) const {
  return file_.get_int(whole_key, fallback);
}

double Hparams::number(std::string_view name) const {
  const double value = file_.get_float(key(name));
  if (!std::isfinite(value)) throw_error("{}: {} is {}", path(), key(name), value);
  return value;
}

std::array<float, 3> Hparams::colors(std::string_view name) const {
  const gguf::Value* value = file_.find(key(name));
  const auto numbers = value ? value->as_floats() : std::nullopt;
  if (!numbers || numbers->size() != 3) throw_error("{}: {}: expected three values", path(), key(name));
  std::array<float, 3> made;
  std::ranges::copy(*numbers, made.begin());
  for (const float number : made)
    if (!std::isfinite(number)) throw_error("{}: {} has {}", path(), key(name), number);
  return made;
}

std::vector<int64_t> Hparams::counts(std::string_view name) const {
  const gguf::Value* value = file_.find(key(name));
  return value ? value->as_ints().value_or(std::vector<int64_t>()) : std::vector<int64_t>();
}

bool Hparams::flag(std::string_view whole_key) const { return file_.get_bool(whole_key, false); }

std::vector<float> Hparams::floats(const std::string& tensor, int64_t count) const {
  const gguf::Tensor* found = file_.find_tensor(tensor);
  const quant::FormatInfo* format = found ? found->type.format() : nullptr;
  if (!format || found->weights() != count)
    throw_error("{}: tensor {} is missing, or has not {} values", path(), tensor, count);
  std::vector<float> made(count);
  format->decode(found->data.data(), count, made.data());
  return made;
}

int64_t Hparams::width() const { return count("embedding_length", kMaxWidth); }
int64_t Hparams::layers() const { return count("block_count", kMaxLayers, 0); }
int64_t Hparams::heads() const { return count("attention.head_count", kMaxHeads); }
int64_t Hparams::head_dim() const {
  const int64_t width = this->width(), heads = this->heads();
  if (!has("attention.head_dim") && width % heads != 0)
    throw_error("{}: {} heads do not divide a width of {}", path(), heads, width);
  return count_or("attention.head_dim", width / heads, kMaxHeadDim);
}
int64_t Hparams::patch() const { return count("patch_size", 1024); }
int64_t Hparams::image_size() const {
  const int64_t patch = this->patch(), size = count("image_size", 8192);
  if (size < patch)
    throw_error("{}: {} is {}, smaller than a patch of {} pixels", path(), key("image_size"), size, patch);
  return size / patch * patch;
}
int64_t Hparams::text_width() const { return count("projection_dim", kMaxWidth); }
float Hparams::epsilon() const {
  const double epsilon = number("attention.layer_norm_epsilon");
  if (!(epsilon >= 0 && epsilon < 1)) throw_error("{}: {} is {}", path(), key("attention.layer_norm_epsilon"), epsilon);
  return static_cast<float>(epsilon);
}

} // namespace ridge::models::vision
