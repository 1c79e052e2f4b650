// The builder of projector files: appends ops to an Encoder's Programs, stage by stage.
// Tensor names omit ".weight"; shapes are checked. A linear adds its bias and clamps its input and output if the file
// has such tensors.
#pragma once

#include "models/vision/hparams.h"
#include "models/vision/projector.h"

#include <array>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::models::vision {

enum class Norm : uint8_t { layer, rms };

enum class TableResize : uint8_t {
  corners,      // bilinear, aligned corners
  linear,       // bilinear, pixel centers
  wider,        // linear, for sides longer by 0.1, as Hunyuan's encoder was trained
  antialiased,  // linear, widened when shrinking
  cubic,        // a = -0.75, pixel centers
  smooth_cubic, // a = -0.5, widened when shrinking
};

inline constexpr float kHidden = -30000; // below any score, also as F16

// Properties common to all layers.
struct LayerSpec {
  Norm norm = Norm::layer;
  core::ActivationParams activation;
  int32_t rope = -1;         // index in Program::rope_tables; -1: none
  bool may_swap_ffn = false; // swaps ffn_up and ffn_down if the widths say so
  bool v_norm = false;
  std::vector<int32_t> head_order = {};           // permutes q and k heads before rope
  double scale = 0;                               // 0: 1 / sqrt(head width)
  bool ends_normed = true;                        // post_ln directly follows the layers
  bool norms_results = false;                     // ln1 and ln2 norm what blocks add, not what they read
  int64_t window = 0;                             // tokens per block, for layers that attend within blocks
  std::function<bool(int64_t il)> in_blocks = {}; // layers that do; empty: none
};

class Builder {
 public:
  // For tiles of this size in pixels.
  Builder(const gguf::File& file, int64_t width, int64_t height);
  // For audio.
  explicit Builder(const gguf::File& file);

  const Hparams& hparams() const { return hparams_; }
  bool has(const std::string& tensor) const { return file_.find_tensor(tensor) != nullptr; }
  int64_t columns() const { return columns_; } // patches per line
  int64_t lines() const { return lines_; }
  Encoder& encoder() { return encoder_; }

  // From clip.use_gelu and clip.use_silu, else quick GELU.
  core::ActivationParams activation() const;

  using Step = std::function<core::ValueId(core::ValueId)>;
  // Begins the first stage. Rows are `group` input rows, by index; -1: zeros.
  core::ValueId begin_given(int64_t width, int64_t group, std::vector<int32_t> from);
  // Tiles are adjacent squares that are encoded separately. Must be called first.
  void cut_squares();
  // Begins the first stage: patches line by line, through v.patch_embd and its bias. `first` is applied to pixels. With
  // `more`, zero rows follow and the bias is omitted.
  core::ValueId patches(int64_t side, int64_t more = 0, const Step& first = {});
  core::ValueId patches(int64_t side, int64_t more, const Step& first, const std::string& tensor, int64_t width);
  // Orders patches by blocks of `side` × `side`; `whole` pads incomplete blocks. Call it before anything that depends
  // on the order.
  void in_squares(int64_t side, bool whole = false);
  // Adds `table` [rows, width] to the rows or the patches.
  core::ValueId add_rows(core::ValueId x, const std::string& name, std::span<const float> table);
  core::ValueId add_to_patches(core::ValueId x, const std::string& name, std::span<const float> table);
  core::ValueId add_vector(core::ValueId x, const std::string& name, std::span<const float> vector);
  core::ValueId rows(const std::string& name, std::span<const float> table, int64_t width);
  // v.position_embd without resizing. With v.class_embd it has one more row, and includes the patches' bias.
  std::vector<float> table_with_class();
  // v.position_embd resized to this grid [columns * lines, width].
  std::vector<float> position_table(TableResize resize);
  int64_t table_side();
  // v.position_embd of a square, by nearest lower row.
  std::vector<float> nearest_places(int64_t side);
  // Sums of a table by column and a table by line.
  std::vector<float> table_by_axes();
  std::vector<float> values(const std::string& tensor, int64_t count);
  std::vector<float> linear_of(std::span<const float> row, const std::string& tensor);

  // Half of the pairs of `dims` elements rotate by one axis (1: line, 2: column), half by the other. Rows from `first`
  // have their patch's position, others 0.
  struct RopeSpec {
    core::RopeStyle style;
    int64_t dims;
    int first_axis = 1;
    double base = 10000;
    double second_factor = 1;
    int32_t first = 0;
  };
  int32_t rope(const RopeSpec& spec);
  int32_t rope(core::RopeTable table); // the caller sets Stage::axes

  core::ValueId norm(core::ValueId x, const std::string& tensor, Norm kind);
  void use_epsilon(float epsilon) { epsilon_ = epsilon; }
  core::ValueId norm(core::ValueId x, const std::string& tensor, Norm kind, float epsilon, int64_t group);
  core::ValueId unit_norm(core::ValueId x, const std::string& name, int64_t group);
  core::ValueId linear(core::ValueId x, const std::string& tensor, int64_t rows);
  core::ValueId linear(core::ValueId x, const std::string& tensor);
  core::ValueId activate(core::ValueId x, const std::string& name, core::ActivationParams params);
  core::ValueId gelu(core::ValueId x, const std::string& name) { return activate(x, name, {core::Activation::gelu}); }
  core::ValueId add(core::ValueId a, core::ValueId b, const std::string& name, float scale = 1);
  core::ValueId fold(core::ValueId x, const std::string& name, int64_t width, double scale);
  core::ValueId concat(core::ValueId a, core::ValueId b, const std::string& name);
  core::ValueId permute(core::ValueId x, const std::string& name, std::span<const int32_t> order, int64_t group);
  core::ValueId times(core::ValueId x, const std::string& tensor);
  core::ValueId times(core::ValueId x, const std::string& name, std::span<const float> factors);
  // The constant `part` before each head.
  core::ValueId before_heads(core::ValueId x, int64_t heads, core::ValueId part, const std::string& name);
  // Attention; sets the layer of `params`.
  core::ValueId attend(core::ValueId q, core::ValueId k, core::ValueId v, const std::string& name,
                       const core::KvLayer& heads, core::AttentionParams params, bool causal = false);
  // Attention, not causal. Rows' `hidden` is added to their scores: 0, or kHidden.
  core::ValueId attend_to_seen(core::ValueId q, core::ValueId k, core::ValueId v, const std::string& name,
                               std::span<const float> hidden, core::KvLayer heads, const core::AttentionParams& params);
  // A matrix and a bias per head, concatenated.
  core::ValueId times_each_head(core::ValueId x, int64_t heads, const std::string& name,
                                std::span<const float> matrices, std::span<const float> biases);
  // The same matrix [rows][head width] and bias for each head.
  core::ValueId times_heads(core::ValueId x, int64_t heads, const std::string& name, std::span<const float> matrix,
                            std::span<const float> bias);
  // Rows [first, first + rows) of a matrix of `all` rows, and of its bias, times x; q, k and v from one tensor.
  core::ValueId part_of(core::ValueId x, const std::string& tensor, const char* part, int64_t first, int64_t rows,
                        int64_t all);
  std::array<core::ValueId, 3> split_qkv(core::ValueId x, const std::string& tensor, int64_t q_rows, int64_t kv_rows);
  // All layers, or the first `count`, between pre_ln and post_ln if present. `ended` maps each layer's output to the
  // next input.
  core::ValueId layers(core::ValueId x, const LayerSpec& spec, int64_t count = -1,
                       const std::function<core::ValueId(core::ValueId x, int64_t il)>& ended = {});

  // Ends a stage and begins one whose rows are squares of `side` × `side` rows with all `values`. Returns its parts,
  // each [side² * width].
  std::vector<core::ValueId> merge(const std::vector<core::ValueId>& values, int64_t side);
  core::ValueId merge(core::ValueId value, int64_t side) { return merge(std::vector{value}, side)[0]; }
  // Ends a stage with `value` and begins one whose rows are `group` rows by index; -1: zeros.
  core::ValueId begin_stage(core::ValueId value, int64_t group, std::vector<int32_t> from);
  core::ValueId merge_padded(core::ValueId value, int64_t side);
  // Likewise with the 3 × 3 rows around every `step`-th row and column; `more` zero rows follow.
  core::ValueId around(core::ValueId value, int64_t step, int64_t more = 0);
  // A convolution [rows][channel][dy][dx] of squares of `patches` patches.
  core::ValueId convolution(core::ValueId x, const std::string& tensor, int64_t patches);
  // Reorders columns of merge()'s rows from [dy, dx][channel] to [channel][dy, dx].
  core::ValueId channels_first(core::ValueId x, const std::string& name, int64_t patches);
  // Ends the last stage: its rows are the tokens, of the language model's width.
  void tokens(core::ValueId x);
  // Adds v.boi before the tokens and v.eoi after them.
  void between_ends();
  const std::vector<int32_t>& from() const { return encoder_.stages.back().from; }

  std::string own(const std::string& tensor) const { return prefix_ + tensor; }
  void begin_layer(int64_t il) { layer_ = static_cast<int32_t>(il); }
  void skip_layer(int64_t il);
  // Marks a tensor that has no effect as used.
  void skip(std::string_view tensor) { used_.emplace(tensor); }
  int64_t width_of(core::ValueId id) const { return encoder_.stages.back().program.values[id].width; }
  int64_t rows_of(const std::string& tensor) const;    // throws Error if missing
  const gguf::Tensor& tensor(const std::string& name); // throws Error if missing

  core::ValueId emit(core::OpKind kind, const std::string& name, std::vector<core::ValueId> inputs, int64_t width,
                     std::vector<core::WeightId> weights = {}, core::OpParams params = {});
  core::WeightId constant(const std::string& name, std::span<const float> values, int64_t rows = 1);

  Encoder finish() &&;

 private:
  core::ValueId layer(core::ValueId x, int64_t il, const LayerSpec& spec);
  core::ValueId attention(core::ValueId x, int64_t il, const LayerSpec& spec);
  core::ValueId ffn(core::ValueId x, int64_t il, const LayerSpec& spec);
  core::ValueId head_norm(core::ValueId x, const std::string& tensor, Norm kind, int64_t head_dim);
  core::ValueId clamped(core::ValueId x, const std::string& tensor, std::string_view which);
  core::Weight view(const std::string& name, int64_t cols, int64_t rows);
  core::WeightId matrix(const std::string& name, int64_t cols, int64_t rows);
  core::WeightId vector(const std::string& name, int64_t width);
  core::WeightId add_weight(core::Weight weight);
  std::vector<int32_t> rows_by_line();
  std::vector<int32_t> squares(int64_t side, int64_t step, int64_t first);
  std::vector<core::ValueId> begin_stage(const std::vector<core::ValueId>& values, int64_t group,
                                         std::vector<int32_t> from);
  core::ValueId begin(const std::string& input, int64_t width);
  float epsilon() const { return epsilon_ ? *epsilon_ : hparams_.epsilon(); }
  Stage& stage() { return encoder_.stages.back(); }
  core::Program& program() { return stage().program; }
  [[noreturn]] void misshapen(const gguf::Tensor& tensor, int64_t cols, int64_t rows) const;
  void refuse_unused() const;

  const gguf::File& file_;
  const Hparams hparams_;
  const std::string prefix_;
  int64_t width_px_ = 0, height_px_ = 0;
  int64_t columns_ = 0, lines_ = 0;
  struct Grid {
    int64_t columns, lines;
  } grid_ = {};
  Encoder encoder_;
  int32_t layer_ = -1;
  std::optional<float> epsilon_;
  std::set<std::string, std::less<>> used_;
};

} // namespace ridge::models::vision
