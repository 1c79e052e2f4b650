// The encoders of all formats whose codes are found weight by weight: see schemes-inl.h.
#include "quant/encode/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/encode/plain.cpp"
#include <hwy/foreach_target.h>

#include "quant/encode/schemes-inl.h"
#include "quant/encode/tiles-inl.h"

RIDGE_LANES_BEGIN

template <typename Format>
EncodeBlocks encoder() {
  if constexpr (requires(Block<Format::kWeights> & b) { Scheme<Format>::search(b); })
    return &encode_blocks<Scheme, Format>;
  else
    return nullptr;
}

RIDGE_LANES_END

HWY_BEFORE_NAMESPACE();
namespace ridge::quant::HWY_NAMESPACE {
EncodeBlocks find_plain_encoder(Type type) {
  switch (type) {
#define RIDGE_FORMAT(name, id, weights, bytes)                                                                         \
  case Type::name:                                                                                                     \
    return encoder<name>();
#include "quant/formats.def"
#undef RIDGE_FORMAT
  }
  return nullptr;
}
} // namespace ridge::quant::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::quant {
HWY_EXPORT(find_plain_encoder);
EncodeBlocks find_plain_encoder(Type type) { return HWY_DYNAMIC_DISPATCH(find_plain_encoder)(type); }
} // namespace ridge::quant
#endif
