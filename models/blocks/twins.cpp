// Two matrices, one of which a token takes: for texts, or for pictures. They are a pair of experts, each token's known
// by whether it has a row (core::Batch::rows), so that steps without pictures read only the matrices of texts.
#include "core/error.h"
#include "models/blocks/builder.h"

namespace ridge::models {

using core::OpKind;
using core::ValueId;

// A row's mean square, almost 1 after its norm, becomes exactly 1; it is 0 without a row. Scores of text and picture
// are the same numbers, so the greater one is 1.
Builder::Medium Builder::medium_of(ValueId x) {
  const auto [at, is_new] = media_.try_emplace({layer_, gathered(x)});
  Medium& medium = at->second;
  if (!is_new) return medium;
  const std::string blk = layer_name(layer_);
  if (const auto first = media_.find({0, false}); first != at) {
    medium = first->second;
    if (gathered(x)) medium.is_text = gather(medium.is_text), medium.is_picture = gather(medium.is_picture);
  } else {
    constexpr float kEpsilon = 1e-20f;
    const int64_t width = hparams_.width();
    const ValueId row = input_row_slice(0, "picture row");
    const ValueId normed = emit(OpKind::rms_norm, "picture norm", {row}, width, {constant("picture norm", width, 1)},
                                core::NormParams{kEpsilon, width});
    const ValueId squares = emit(OpKind::glu, "picture squares", {normed, normed}, width, {},
                                 core::ActivationParams{core::Activation::identity});
    const ValueId twice = emit(OpKind::linear, "picture square", {squares}, 1,
                               {constant("picture square", width, 2 / static_cast<float>(width))});
    medium.is_picture = emit(OpKind::clamp, "is picture", {twice}, 1, {}, core::ClampParams{0, 1});
    const ValueId one = emit(OpKind::softmax, "one", {medium.is_picture}, 1);
    medium.is_text = add(one, medium.is_picture, "is text", -1);
  }
  const ValueId scores = emit(OpKind::concat, blk + "media", {medium.is_text, medium.is_picture}, 2);
  medium.ids = value(blk + "medium", 1, gathered(x), core::ValueKind::i32);
  const ValueId shares = value(blk + "medium_share", 1, gathered(x));
  program_.ops.push_back(
      {OpKind::route, layer_, blk + "route", {scores}, {medium.ids, shares}, {}, core::RouteParams{2, 1}});
  return medium;
}

// Matrices of one type are runs of rows, however far apart; else both multiply, one of them zeros.
ValueId Builder::linear_of_twins(ValueId x, const std::string& tensor, const std::string& twin, const RowSlice& rows) {
  const Medium medium = medium_of(x);
  const auto part_of = [&](const std::string& name) {
    core::Weight weight = tensor_weight(name + ".weight", width_of(x), rows.tensor_rows, 1);
    weight.part = rows.part;
    weight.rows = rows.rows;
    weight.data += rows.first * weight.row_bytes;
    return weight;
  };
  core::Weight of_text = part_of(tensor), of_pictures = part_of(twin);
  const std::string name = rows.part.empty() ? tensor : fmt::format("{} {}", tensor, rows.part);
  if (of_text.type == of_pictures.type && !of_text.owned && !of_pictures.owned) {
    of_text.part = fmt::format("{}{}or {}", rows.part, rows.part.empty() ? "" : " ", twin);
    of_text.count = 2;
    of_text.run_rows = rows.rows;
    of_text.run_stride = of_pictures.data - of_text.data;
    return emit(OpKind::expert_linear, name, {x, medium.ids}, rows.rows, {add_weight(std::move(of_text))},
                core::ExpertParams{1});
  }
  const auto product = [&](ValueId is_this, core::Weight weight, const std::string& of) {
    const ValueId own = emit(OpKind::glu, of + " row", {is_this, x}, width_of(x), {},
                             core::ActivationParams{core::Activation::identity});
    return emit(OpKind::linear, of, {own}, rows.rows, {add_weight(std::move(weight))});
  };
  return add(product(medium.is_text, std::move(of_text), name),
             product(medium.is_picture, std::move(of_pictures), fmt::format("{} {}", twin, rows.part)), name + " sum");
}

} // namespace ridge::models
