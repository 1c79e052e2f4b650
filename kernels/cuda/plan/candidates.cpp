#include "kernels/cuda/plan/candidates.h"

#include "core/host_device/round_up.h"
#include "kernels/cuda/plan/batch_plan.h"
#include "kernels/cuda/products/cuts.h"
#include "kernels/cuda/products/gemm.h"
#include "kernels/cuda/products/scratch_sizes.h"
#include "kernels/cuda/runtime/fused_glu.h"
#include "quant/registry.h"

#include <algorithm>
#include <cmath>

namespace ridge::kernels::cuda {
namespace {

constexpr int64_t kMaxWideRows = 2048;     // more were not measured
constexpr int64_t kMaxKeptWideRows = 1536; // likewise, where prompt products keep decoded weights
constexpr int64_t kFewChoicesAnExpert = 5; // sorted_wide_rows() has no memory for fewer

// µs per million weights on an H200: a matvec pass of up to four tokens, a tile of 8, 16, 32 tokens, a wide tile.
struct DecodeCost {
  double pass, tile_8, tile_16, tile_32, wide;
};
constexpr DecodeCost kPacked = {0.27, 0.152, 0.173, 0.307, 0.35}, // Q4_K, Q6_K
    kBytes = {0.27, 0.184, 0.23, 0.494, 0.53},                    // Q8_0: more shared-memory reads
    kCodebook = {0.30, 0.241, 0.264, 0.366, 0.55};                // IQ3_S

const DecodeCost& decode_cost(const quant::FormatInfo* format) {
  if (!format) return kPacked;
  const double bits = 8.0 * static_cast<double>(format->block_bytes) / static_cast<double>(format->block_weights);
  if (bits >= 8) return kBytes;
  return bits < 4 && format->name.starts_with("IQ") ? kCodebook : kPacked;
}

// A product's size, where small matrices count as `least_side`.
struct Work {
  int64_t rows, cols, out_rows;
  double bytes;
  int64_t experts;
  const DecodeCost* decode;

  double millions() const { return static_cast<double>(cols * out_rows) * 1e-6; }
};

// Can this way multiply the group's product m, and how long does that take?
struct Question {
  const PlanInputs& in;
  const ProductGroup& group;
  const MatrixStep& m;
  Work work;
  ProductKernel way = ProductKernel::matvec;

  const ChipRates& chip() const { return in.rates; }
  ProductDesc desc() const { return desc_of(in.program, m, group.rows); }
  double read_us() const { return work.bytes / chip().bytes; }
  // The measured costs of an H200, scaled by lanes.
  double decode_us(double of_million) const {
    static const double measured = known_chip("H200").rates().lanes;
    return work.millions() * of_million * measured / chip().lanes;
  }
};

Work work_of(const PlanInputs& in, const ProductGroup& group, const MatrixStep& m) {
  const core::Weight& first = in.program.weights[m.parts[0].weight];
  Work work{
      group.rows, first.cols, 0, 0, m.ids == kNone ? 0 : first.count, &decode_cost(quant::find_format(first.type))};
  for (const MatrixStep::Part& part : m.parts) {
    const core::Weight& w = in.program.weights[part.weight];
    work.out_rows += w.rows;
    work.bytes += static_cast<double>(w.matrix_bytes());
  }
  const double millions = work.millions();
  const int64_t least = work.experts > 0 ? in.least_side / 2 : in.least_side;
  work.cols = std::max(work.cols, least);
  work.out_rows = std::max(work.out_rows, least);
  work.bytes *= work.millions() / millions;
  return work;
}

// Units of 128 columns that a multiprocessor multiplies one after another. A block's start and end take as long as
// three.
int64_t head_units(const ChipLimits& chip, const ProductDesc& product, int64_t heads, int log2_parts) {
  const int64_t tokens = product.tokens / heads, row_groups = wide_groups(wide_tile_rows(tokens)) >> log2_parts,
                blocks = heads * wide_tiles(tokens) *
                         core::ceil_div(int64_t{product.row_tiles()}, row_groups * kWideRows / kBatchRows),
                pairs = core::ceil_div(product.cols, 2 * kWideColumns),
                units = std::min(core::ceil_div(product.cols, kWideColumns),
                                 2 * core::ceil_div(pairs, int64_t{1} << log2_parts));
  return core::ceil_div(blocks, chip.sm_count) * (3 + units);
}

bool always(const Question&) { return true; }

bool fits_tiles(const Question& q) {
  if (!has_tensor_products(q.in.config, q.in.limits) || !q.in.limits.small_batch) return false;
  if (q.work.experts == 0 ? q.group.dataflow || q.work.rows > kMaxTiledTokens : q.work.rows <= q.m.used)
    return false; // one token's choices are distinct
  return cut_tiles(q.in.limits, q.desc(), tile_of(q.way)).has_value();
}

// Products that do not fit use tiles of 8. Matrices of heads were not measured.
bool fits_dots(const Question& q) {
  return q.in.limits.bulk_copies && q.work.experts > 0 && !q.m.of_heads && fits_tiles(q) &&
         std::ranges::any_of(q.group.products, [&](const MatrixStep* m) {
           return cut_dots(q.in.limits, desc_of(q.in.program, *m, q.work.rows)).has_value();
         });
}

bool fits_wide(const Question& q) {
  if (!has_tensor_products(q.in.config, q.in.limits) || !q.in.limits.prompt_products || !q.in.limits.small_batch)
    return false;
  if (q.work.experts == 0) {
    const core::ExecutorConfig& config = q.in.config;
    const int64_t most = config.communicator || q.desc().adapted() ? kMaxDividedTokens // their epilogues
                         : config.max_outputs == 0                 ? kMaxKeptWideRows
                                                                   : kMaxWideRows;
    return !q.group.dataflow && q.work.rows <= most && cut_wide(q.in.limits, q.desc());
  }
  const int64_t rows = sorted_wide_rows(q.work.rows, q.work.experts, q.m.of_heads);
  return rows > 0 &&
         (q.m.of_heads || rows * core::round_up(q.work.cols, kWideColumns) * kF16Bytes <= kMaxSortedWideBytes);
}

bool is_large_dense(const Question& q) {
  return has_tensor_products(q.in.config, q.in.limits) && q.work.experts == 0 && !q.group.dataflow;
}
bool fits_prompt(const Question& q) { // its second stream cannot be part of a graph
  return is_large_dense(q) && has_prompt_products(q.in.config, q.in.limits) && q.work.rows > kGraphTokens;
}
bool fits_gemm(const Question& q) { return is_large_dense(q) && !has_prompt_products(q.in.config, q.in.limits); }
bool fits_bytes(const Question& q) {
  return fits_gemm(q) && q.in.limits.integer_products && !q.in.config.wide && !core::amplifies_errors(q.in.program) &&
         q.desc().format.bytes && (!q.m.glu || fused_glu(*q.m.glu));
}

// Costs in µs, fitted to whole steps on one H200: llama-8b in Q4_K_M, Q8_0 and IQ3_S, qwen3-30b-a3b, gpt-oss-20b, 3 to
// 512 tokens, also with the limits of sm_80 and sm_89.

constexpr double kStart = 3;
constexpr double kLateStart = 6.5; // without overlap with the predecessor
double start(const Question& q) { return q.in.overlap && q.in.limits.overlap ? kStart : kLateStart; }

// A warp takes 32 groups of columns at once, of which a head's matrix may have few.
double filled_lanes(const Question& q) {
  const int64_t at_once = int64_t{kTileGroups} * q.desc().format.group_weights;
  return static_cast<double>(q.work.cols) / static_cast<double>(core::round_up(q.work.cols, at_once));
}

double matvec(const Question& q) {
  const Work& d = q.work;
  const bool bulk = q.in.limits.bulk_copies;
  const double pass = q.decode_us(d.decode->pass);
  if (d.experts > 0) {
    double each = q.read_us() * (bulk ? 0.97 : 2.4);
    if (q.m.of_heads && bulk) each = std::max(each, 0.5 * pass / filled_lanes(q));
    return 4 + static_cast<double>(d.rows) * each;
  }
  if (d.rows <= 2) return (q.group.dataflow ? 1.1 : 4) + std::max(q.read_us(), (d.rows == 1 ? 0.4 : 0.6) * pass);
  // includes the conversions that neighbours need, since matvec hands on no f16
  return (bulk ? 13 : 10) + static_cast<double>(core::ceil_div(d.rows, 4)) *
                                std::max({bulk ? 0.1 : 0.5, q.read_us(), (bulk ? 1 : 1.4) * pass});
}

// A norm reads the whole row first.
double conversion(const Question& q) {
  if (q.work.rows > kMaxDividedTokens && q.work.experts == 0) { // f32 is read and f16 written; prompts' results are f16
    if (q.way == ProductKernel::prompt && q.m.norm == kNone) return 0;
    return 3 + static_cast<double>(q.work.rows * q.work.cols * (kFloatBytes + kF16Bytes)) / q.chip().bytes;
  }
  if (q.m.norm != kNone) return q.way == ProductKernel::dots ? 3 : 6;
  const bool made_by_gate_and_up =
      (q.way == ProductKernel::tiles_8 || q.way == ProductKernel::tiles_16) && q.group.rows <= kMaxHalfTokens;
  return q.group.after_attention || q.way == ProductKernel::dots || made_by_gate_and_up ? 0 : 3;
}

// Choices fall at random on four fifths of the experts, since routers prefer some.
double expert_tiles(const Work& d, int tile) {
  const double experts = 0.8 * static_cast<double>(d.experts), mean = static_cast<double>(d.rows) / experts;
  if (mean > 300) return experts * (mean / tile + 0.5);
  double count = 0, term = std::exp(-mean), below = term;
  for (int64_t n = 1, full = 0; full < 64; ++n) {
    if (n == full * tile + 1) {
      if (1 - below < 1e-4) break;
      count += 1 - below;
      ++full;
    }
    term *= mean / static_cast<double>(n);
    below += term;
  }
  return experts * count;
}

double sorted_experts(const Question& q, int tile, double decode_us, double products_us) {
  const double each = 1.15 * std::max({q.read_us(), decode_us, products_us}) + 0.1;
  return 7 + expert_tiles(q.work, tile) * each + 0.015 * static_cast<double>(q.work.rows);
}

double tiled(const Question& q) {
  const Work& d = q.work;
  const DeviceLimits& limits = q.in.limits;
  const int tile = tile_of(q.way);
  double decode = q.way == ProductKernel::tiles_8    ? d.decode->tile_8
                  : q.way == ProductKernel::tiles_16 ? d.decode->tile_16
                                                     : d.decode->tile_32;
  if (!limits.bulk_copies) {
    if (q.way == ProductKernel::tiles_16) decode *= limits.shared_per_block < 160 << 10 ? 1.85 : 1.36;
    if (q.way == ProductKernel::tiles_32) decode *= 1.56;
  }
  // Tiles break the f16 hand-over between wide neighbours: llama-8b with 32 streams 10,410 tokens per second, 8,130
  // with gate and up in tiles of 32.
  if (q.way == ProductKernel::tiles_32 && d.experts == 0 && limits.prompt_products) decode *= 1.5;
  const double products = d.millions() * 1e6 * tile / (0.8 * q.chip().half_products);
  if (d.experts > 0) return sorted_experts(q, tile, q.decode_us(decode), products);
  const double each = std::max(q.decode_us(decode), products);
  return start(q) + (q.way == ProductKernel::tiles_32 ? 3 : 0) + std::max(1.15 * q.read_us(), each) +
         1.15 * each * static_cast<double>(core::ceil_div(d.rows, tile) - 1);
}

double dots(const Question& q) {
  const Work& d = q.work;
  return 6 + expert_tiles(d, 8) * (q.read_us() + 0.08) + static_cast<double>(d.rows) * q.decode_us(0.045);
}

double wide_heads(const Question& q) {
  const int64_t moved = q.work.rows * (q.work.cols * (kFloatBytes + 2 * kF16Bytes) + q.work.out_rows * kFloatBytes);
  const ProductDesc desc = q.desc();
  const int log2_parts = cut_heads(q.in.limits, desc, q.work.experts).log2_parts;
  return 5 + static_cast<double>(moved) / q.chip().bytes +
         1.1 * static_cast<double>(head_units(q.in.limits, desc, q.work.experts, log2_parts));
}

double wide(const Question& q) {
  const Work& d = q.work;
  const bool many = d.experts == 0 && d.rows > kMaxDividedTokens;
  const auto products = [&](int64_t tile) {
    return d.millions() * 1e6 * static_cast<double>(tile) / ((many ? 0.93 : 0.5) * q.chip().wgmma_products);
  };
  if (q.m.of_heads) return wide_heads(q);
  if (d.experts > 0) {
    const int tile = sorted_wide_tile(d.rows, d.experts, false);
    const int64_t multiplied = tile == kCountedTile ? std::min<int64_t>(tile, d.rows / d.experts + 16) : tile;
    return sorted_experts(q, tile, q.decode_us(0.63 * d.decode->wide), products(multiplied));
  }
  const double few_rows = d.out_rows <= 3 * kWideRows ? 12 : 0;
  const double decoding = q.decode_us(d.decode->wide), multiplying = products(wide_tile_rows(d.rows));
  const double each = many ? 0.5 * decoding + multiplying : std::max(decoding, multiplying);
  return start(q) + few_rows + std::max(1.15 * q.read_us(), each * static_cast<double>(wide_tiles(d.rows)));
}

// Blocks of `block_rows` x 128 tokens; a multiprocessor takes at least as long as `least`.
double blocks_us(const Question& q, int64_t block_rows, double least, double products_per_us) {
  const auto blocks =
      static_cast<double>(core::ceil_div(q.work.out_rows, block_rows) * core::ceil_div(q.work.rows, 128));
  const double sm_count = q.in.limits.sm_count;
  const double multiply = std::max(blocks / sm_count, least) * static_cast<double>(q.work.cols * block_rows * 128) /
                          (products_per_us / sm_count);
  return std::max(q.read_us(), multiply);
}
double gemm(const Question& q) {
  return start(q) + blocks_us(q, 128, 1.4, std::min(0.8 * q.chip().half_products, 2.63 * q.chip().lanes));
}
double bytes(const Question& q) {
  return start(q) + blocks_us(q, 64, 1.5, std::min(0.8 * q.chip().byte_products, 3.4 * q.chip().lanes));
}

double prompt(const Question& q) {
  const double products = static_cast<double>(core::round_up(q.work.rows, kPromptTokens)) * q.work.millions() * 1e6 /
                          (0.7 * q.chip().wgmma_products);
  return 20 + q.decode_us(1.35) + products;
}

struct Candidate {
  ProductKernel way;
  std::string_view name;
  bool (*fits)(const Question&);
  double (*microseconds)(const Question&); // without the input's conversion
};
constexpr Candidate kCandidates[] = {
    {ProductKernel::matvec, "matvec", always, matvec},        {ProductKernel::tiles_8, "tiles-8", fits_tiles, tiled},
    {ProductKernel::tiles_16, "tiles-16", fits_tiles, tiled}, {ProductKernel::tiles_32, "tiles-32", fits_tiles, tiled},
    {ProductKernel::dots, "dots", fits_dots, dots},           {ProductKernel::wide, "wide", fits_wide, wide},
    {ProductKernel::gemm, "gemm", fits_gemm, gemm},           {ProductKernel::bytes, "bytes", fits_bytes, bytes},
    {ProductKernel::prompt, "prompt", fits_prompt, prompt},
};
static_assert(std::size(kCandidates) == kWays);

} // namespace

ProductDesc desc_of(const core::Program& program, const MatrixStep& m, int64_t tokens) {
  const core::Weight& first = program.weights[m.parts[0].weight];
  ProductDesc desc{
      .format = format_numbers(static_cast<quant::Type>(first.type)), .tokens = tokens, .cols = first.cols};
  for (const MatrixStep::Part& part : m.parts) {
    if (part.change.scale) desc.ranks[desc.parts] = program.weights[part.change.a].rows;
    desc.rows[desc.parts++] = program.weights[part.weight].rows;
  }
  desc.gated = m.glu.has_value();
  desc.experts = m.ids != kNone;
  desc.one_matrix = !desc.experts || (m.of_heads && m.used == 1 && m.shared_expert.empty());
  desc.residual = m.residual != kNone;
  return desc;
}

std::string_view name_of(ProductKernel way) { return std::ranges::find(kCandidates, way, &Candidate::way)->name; }

std::optional<ProductKernel> way_named(std::string_view name) {
  const auto* found = std::ranges::find(kCandidates, name, &Candidate::name);
  return found == std::end(kCandidates) ? std::nullopt : std::optional(found->way);
}

WayFactors way_factors(const std::map<std::string, double>& by_name) {
  WayFactors factors;
  factors.fill(1);
  for (const auto& [name, factor] : by_name)
    if (const std::optional<ProductKernel> way = way_named(name)) factors[static_cast<size_t>(*way)] = factor;
  return factors;
}

ProductChoice choose(const PlanInputs& in, const ProductGroup& group, std::optional<ProductKernel> forced) {
  std::vector<Question> questions;
  for (const MatrixStep* m : group.products) questions.push_back({in, group, *m, work_of(in, group, *m)});
  ProductChoice choice;
  double least = INFINITY;
  for (const Candidate& candidate : kCandidates) {
    for (Question& q : questions) q.way = candidate.way;
    if (!std::ranges::all_of(questions, candidate.fits)) continue;
    double microseconds = candidate.way == ProductKernel::matvec ? 0 : conversion(questions[0]);
    for (const Question& q : questions) microseconds += candidate.microseconds(q);
    microseconds *= in.factors[static_cast<size_t>(candidate.way)];
    choice.estimates.push_back({candidate.way, microseconds});
    if (forced == candidate.way) microseconds = -1;
    if (microseconds >= least) continue;
    least = microseconds;
    choice.way = candidate.way;
  }
  return choice;
}

bool has_tensor_products(const core::ExecutorConfig& config, const DeviceLimits& limits) {
  return !config.exact && !config.batch_invariant && limits.shared_per_block >= kGemmSharedBytes;
}

bool has_prompt_products(const core::ExecutorConfig& config, const DeviceLimits& limits) {
  return has_tensor_products(config, limits) && config.max_batch > kMaxTiledTokens && limits.prompt_products;
}

bool has_prompt_attention(const core::ExecutorConfig& config, const DeviceLimits& limits) {
  return has_tensor_products(config, limits) && limits.small_batch;
}

int sorted_wide_tile(int64_t choices, int64_t experts, bool of_heads) {
  const int64_t each = choices / experts, room = each + each / 4 + 4;
  if (of_heads) return wide_tile_rows(each);
  // Tokens per second on an H200, qwen3-30b-a3b with 32, 64 and 128 tokens of an expert: in tiles of 64, 96 and 96
  // 24,490, 33,560 and 42,720, in counted tiles 19,580, 34,270 and 46,870; gpt-oss-20b with 64, 128 and 256 (in tiles
  // of 96, 96 and 256) 43,250, 49,950 and 66,490, counted 48,580, 55,980 and 67,600.
  return room <= 64 ? wide_tile_rows(room) : kCountedTile;
}

int64_t sorted_wide_rows(int64_t choices, int64_t experts, bool of_heads) {
  if (choices <= kFewChoicesAnExpert * experts) return 0;
  const int64_t tile = sorted_wide_tile(choices, experts, of_heads);
  return of_heads ? experts * core::round_up(choices / experts, tile) : choices + experts * tile;
}

TileCut cut_heads(const ChipLimits& chip, const ProductDesc& product, int64_t heads) {
  const int64_t tokens = product.tokens / heads;
  const int tile = wide_tile_rows(tokens);
  TileCut cut{.token_tiles = static_cast<int>(heads * wide_tiles(tokens)), .row_tiles = product.row_tiles()};
  const auto units = [&](int log2_parts) { return head_units(chip, product, heads, log2_parts); };
  for (int log2_parts = 1; 1 << log2_parts <= wide_groups(tile) && 2 << log2_parts <= wide_slots(tile); ++log2_parts)
    if (units(log2_parts) < units(cut.log2_parts)) cut.log2_parts = log2_parts;
  return cut;
}

bool shared_expert_is_choice(const DeviceLimits& limits, int64_t rows, int64_t used) {
  constexpr int64_t kMaxRows = 8; // each reads the weights again, from L2; more were not measured
  const auto busy = [&](int64_t choices) { return choices * std::max<int64_t>(1, limits.sm_count / choices); };
  return rows == 1 || (rows <= kMaxRows && 6 * busy(rows * (used + 1)) >= 5 * busy(rows * used));
}

} // namespace ridge::kernels::cuda
