#include "quant/encode/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/encode/plain.cpp"
#include <hwy/foreach_target.h>

#include "quant/encode/schemes-inl.h"
#include "quant/encode/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::quant::HWY_NAMESPACE {
EncodeBlocks find_plain_encoder(Type type) { return find_scheme(type); }
SearchBlocks find_plain_search(Type type) { return find_search(type); }
} // namespace ridge::quant::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::quant {
HWY_EXPORT(find_plain_encoder);
EncodeBlocks find_plain_encoder(Type type) { return HWY_DYNAMIC_DISPATCH(find_plain_encoder)(type); }
HWY_EXPORT(find_plain_search);
SearchBlocks find_plain_search(Type type) { return HWY_DYNAMIC_DISPATCH(find_plain_search)(type); }
} // namespace ridge::quant
#endif
