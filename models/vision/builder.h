// What projectors' files are written with: a builder that reads an mmproj file's hyperparameters and tensors and
// appends ops to the Programs of an Encoder, one stage after the other.
//
// Tensors are named as in GGUF, without ".weight". Each is checked against the shape that the hyperparameters imply.
// A linear takes its ".bias" tensor where the file has one, and clamps its input and output where the file has limits.
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

// How a table of positions becomes one of another size.
enum class TableResize : uint8_t {
  corners,      // bilinear, corners on corners
  linear,       // bilinear, centres of pixels
  wider,        // the same, for sides that are a tenth of a place longer, as Hunyuan's encoder was trained
  antialiased,  // the same, a triangle that is as much wider as the table gets smaller
  cubic,        // a = -0.75, centres of pixels
  smooth_cubic, // a = -0.5, as much wider as the table gets smaller
};

// What all layers of an encoder have in common.
struct LayerSpec {
  Norm norm = Norm::layer;
  core::ActivationParams activation;    // of the feed-forward part
  int32_t rope = -1;                    // Program::rope_tables; -1: none
  bool may_swap_ffn = false;            // ffn_up and ffn_down have each other's names where the widths say so
  bool v_norm = false;                  // RMS norm of each v head, without weights
  std::vector<int32_t> head_order = {}; // in which elements of each head of q and k are turned; empty: as they are
  double scale = 0;                     // of q · k; 0: 1 / sqrt(elements)
  bool ends_normed = true;              // post_ln comes right behind the layers
  int64_t window = 0;                   // tokens of a block at most, where layers see theirs only
  std::function<bool(int64_t il)> in_blocks = {}; // which layers do; empty: none
};

class Builder {
 public:
  // For tiles of so many pixels.
  Builder(const gguf::File& file, int64_t width, int64_t height);
  // For sounds.
  explicit Builder(const gguf::File& file);

  const Hparams& hparams() const { return hparams_; }
  bool has(const std::string& tensor) const { return file_.find_tensor(tensor) != nullptr; }
  int64_t columns() const { return columns_; } // patches of a line
  int64_t lines() const { return lines_; }
  Encoder& encoder() { return encoder_; }

  // The usual activation of the file: clip.use_gelu, clip.use_silu, or quick GELU.
  core::ActivationParams activation() const;

  using Step = std::function<core::ValueId(core::ValueId)>;
  // Begins the first stage: its rows are `group` given rows of `width` elements each, by their numbers; -1: zeros.
  core::ValueId begin_given(int64_t width, int64_t group, std::vector<int32_t> from);
  // Tiles are squares side by side, which are encoded one by one. Before anything else.
  void cut_squares();
  // Begins the first stage: rows are patches of `side` pixels, line by line, through v.patch_embd, with its bias.
  // `first`: what pixels go through before. `more` rows of zeros come behind the patches: then without the bias.
  core::ValueId patches(int64_t side, int64_t more = 0, const Step& first = {});
  core::ValueId patches(int64_t side, int64_t more, const Step& first, const std::string& tensor, int64_t width);
  // Patches come square by square, of `side` patches, line by line in each: such a square is a block. With `whole`, all
  // are of the same size: with rows of zeros where the grid ends. Before anything that depends on their order.
  void in_squares(int64_t side, bool whole = false);
  // Adds a row to each row of x: `table` [rows, width], row by row of the stage, or of each patch.
  core::ValueId add_rows(core::ValueId x, const std::string& name, std::span<const float> table);
  core::ValueId add_to_patches(core::ValueId x, const std::string& name, std::span<const float> table);
  core::ValueId add_vector(core::ValueId x, const std::string& name, std::span<const float> vector); // to every row
  // A row of `table` for each row of the stage.
  core::ValueId rows(const std::string& name, std::span<const float> table, int64_t width);
  // v.position_embd of one grid, with a row more for v.class_embd, where the file has that: then the patches' bias is
  // in it.
  std::vector<float> table_with_class();
  // v.position_embd, of a square, for this grid of patches [columns * lines, width].
  std::vector<float> position_table(TableResize resize);
  int64_t table_side(); // of that square
  // The same of a square of `side`, by its nearest row before: a picture's edges are those of the square.
  std::vector<float> nearest_places(int64_t side);
  // v.position_embd as two tables, by column and by line: their sum for each patch.
  std::vector<float> table_by_axes();
  std::vector<float> values(const std::string& tensor, int64_t count); // of a tensor with so many, decoded
  // What a linear makes of a row that is the same for all pictures: computed once, here.
  std::vector<float> linear_of(std::span<const float> row, const std::string& tensor);

  // Rope of `dims` elements: half of the pairs turn by one axis (1: the line, 2: the column), half by the other. Rows
  // have the place of their patch, from `first` on; further ones are at 0.
  struct RopeSpec {
    core::RopeStyle style;
    int64_t dims;
    int first_axis = 1;
    double base = 10000;
    double second_factor = 1; // of the frequencies of the second half
    int32_t first = 0;
  };
  int32_t rope(const RopeSpec& spec);
  int32_t rope(core::RopeTable table); // where rows are is set by the projector: Stage::axes

  core::ValueId norm(core::ValueId x, const std::string& tensor, Norm kind);
  void use_epsilon(float epsilon) { epsilon_ = epsilon; } // in norms, instead of the file's
  core::ValueId norm(core::ValueId x, const std::string& tensor, Norm kind, float epsilon, int64_t group);
  core::ValueId unit_norm(core::ValueId x, const std::string& name, int64_t group); // RMS, without weights
  core::ValueId linear(core::ValueId x, const std::string& tensor, int64_t rows);
  core::ValueId linear(core::ValueId x, const std::string& tensor); // as many rows as the tensor has
  core::ValueId activate(core::ValueId x, const std::string& name, core::ActivationParams params);
  core::ValueId gelu(core::ValueId x, const std::string& name) { return activate(x, name, {core::Activation::gelu}); }
  core::ValueId add(core::ValueId a, core::ValueId b, const std::string& name, float scale = 1); // of b
  core::ValueId fold(core::ValueId x, const std::string& name, int64_t width, double scale);     // sum of parts
  core::ValueId concat(core::ValueId a, core::ValueId b, const std::string& name);
  core::ValueId permute(core::ValueId x, const std::string& name, std::span<const int32_t> order, int64_t group);
  core::ValueId times(core::ValueId x, const std::string& tensor); // each column with its factor
  core::ValueId times(core::ValueId x, const std::string& name, std::span<const float> factors);
  // Each of so many heads of x with `part`, which is the same for all, before it.
  core::ValueId before_heads(core::ValueId x, int64_t heads, core::ValueId part, const std::string& name);
  // Attention of all rows to one another, or as `params` say, whose layer is set here.
  core::ValueId attend(core::ValueId q, core::ValueId k, core::ValueId v, const std::string& name,
                       const core::KvLayer& heads, core::AttentionParams params, bool causal = false);
  // A matrix for each of so many heads of x, one behind the other, and a bias for each.
  core::ValueId times_each_head(core::ValueId x, int64_t heads, const std::string& name,
                                std::span<const float> matrices, std::span<const float> biases);
  // The same matrix, [rows][elements of a head], times each of so many heads of x, and the same bias behind it.
  core::ValueId times_heads(core::ValueId x, int64_t heads, const std::string& name, std::span<const float> matrix,
                            std::span<const float> bias);
  // q, k and v of a tensor that has one behind the other.
  // Rows [first, first + rows) of a matrix of `all`, and of its bias, times x.
  core::ValueId part_of(core::ValueId x, const std::string& tensor, const char* part, int64_t first, int64_t rows,
                        int64_t all);
  std::array<core::ValueId, 3> split_qkv(core::ValueId x, const std::string& tensor, int64_t q_rows, int64_t kv_rows);
  // All layers, or the first `count`, between pre_ln and post_ln, where the file has those (of the last, see
  // LayerSpec). `ended` gets what each
  // layer gives, and returns what goes on.
  core::ValueId layers(core::ValueId x, const LayerSpec& spec, int64_t count = -1,
                       const std::function<core::ValueId(core::ValueId x, int64_t il)>& ended = {});

  // Ends a stage and begins one whose rows are squares of `side` × `side` rows of it, line by line, each with what
  // `values` are of them, line by line. Returns the parts of it, each [side² * width].
  std::vector<core::ValueId> merge(const std::vector<core::ValueId>& values, int64_t side);
  core::ValueId merge(core::ValueId value, int64_t side) { return merge(std::vector{value}, side)[0]; }
  // Ends a stage with `value` and begins the next, whose rows are `group` rows of it each, by their numbers; -1: zeros.
  core::ValueId begin_stage(core::ValueId value, int64_t group, std::vector<int32_t> from);
  // As merge(), with zeros where squares are not whole.
  core::ValueId merge_padded(core::ValueId value, int64_t side);
  // The same with the 3 × 3 rows around each, or around every `step`th of each line and column. `more` rows of zeros
  // come behind.
  core::ValueId around(core::ValueId value, int64_t step, int64_t more = 0);
  // One row of the squares of `patches` patches each: a convolution [rows][channel][dy][dx], with its bias.
  core::ValueId convolution(core::ValueId x, const std::string& tensor, int64_t patches);
  // Reorders the columns of merge()'s rows from [dy, dx][channel] to [channel][dy, dx], the order of a convolution.
  core::ValueId channels_first(core::ValueId x, const std::string& name, int64_t patches);
  // Ends the last stage: its rows are the tokens, in order, as wide as the language model.
  void tokens(core::ValueId x);
  const std::vector<int32_t>& from() const { return encoder_.stages.back().from; }

  std::string own(const std::string& tensor) const { return prefix_ + tensor; } // "v." or "a." before it
  void begin_layer(int64_t il) { layer_ = static_cast<int32_t>(il); }           // that ops belong to; -1: to none
  void skip_layer(int64_t il);                                                  // one that is not used
  // A tensor that a file may have and that nothing depends on.
  void skip(std::string_view tensor) { used_.emplace(tensor); }
  int64_t width_of(core::ValueId id) const { return encoder_.stages.back().program.values[id].width; }
  int64_t rows_of(const std::string& tensor) const;    // of a matrix; throws Error where it is missing
  const gguf::Tensor& tensor(const std::string& name); // throws Error where it is missing

  core::ValueId emit(core::OpKind kind, const std::string& name, std::vector<core::ValueId> inputs, int64_t width,
                     std::vector<core::WeightId> weights = {}, core::OpParams params = {});
  core::WeightId constant(const std::string& name, std::span<const float> values, int64_t rows = 1);

  Encoder finish() &&; // validated

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
  std::vector<int32_t> rows_by_line(); // of the stage's grid
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
  const std::string prefix_; // of the encoder's own tensors
  int64_t width_px_ = 0, height_px_ = 0;
  int64_t columns_ = 0, lines_ = 0; // of patches
  struct Grid {
    int64_t columns, lines;
  } grid_ = {}; // of the stage's rows
  Encoder encoder_;
  int32_t layer_ = -1;
  std::optional<float> epsilon_;
  std::set<std::string, std::less<>> used_;
};

} // namespace ridge::models::vision
