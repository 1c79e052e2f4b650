#include "engine/prefixes/prefix_cache.h"

#include <algorithm>
#include <cstring>

namespace ridge::engine {
namespace {

constexpr int64_t kMaxBytesAhead = int64_t{1} << 30;

// Everything that rows depend on besides tokens. Long contexts may use other rope frequencies.
std::string key_of(const core::Executor& executor, const core::Program& program, const std::string& model) {
  const core::ExecutorConfig& config = executor.config();
  std::string key = fmt::format("{}\n{}\nk {} v {} exact {} wide {}{}\n", model, executor.block_layout(),
                                static_cast<int>(config.k_type), static_cast<int>(config.v_type), config.exact,
                                config.wide, config.batch_invariant ? " batch-invariant" : "");
  for (const core::RopeTable& table : program.rope_tables)
    key += &table.frequencies(config.context) == &table.inverse_frequency ? "short " : "long ";
  return key;
}

} // namespace

std::unique_ptr<PrefixCache> PrefixCache::make(core::Executor& executor, const core::Program& program,
                                               const PrefixSettings& settings) {
  if (settings.bytes <= 0 || executor.block_layout().empty()) return nullptr;
  return std::unique_ptr<PrefixCache>(new PrefixCache(executor, program, settings));
}

PrefixCache::PrefixCache(core::Executor& executor, const core::Program& program, const PrefixSettings& settings)
    : executor_(executor), warn_(settings.warn ? settings.warn : [](const std::string&) {}),
      keeps_answers_(settings.keeps_answers), shape_{core::block_positions(program), executor.block_bytes(),
                                                     executor.saved_floats()},
      store_(shape_, settings.bytes, [&executor] { return executor.make_block(); }) {
  if (settings.folder.empty()) return;
  files_.emplace(settings.folder, settings.folder_bytes, key_of(executor, program, settings.model), shape_,
                 PrefixFiles::Limits{executor.config().context, program.vocab}, warn_);
  store_.on_evict([this](const PrefixPart& part) { files_->write(part); });
}

void PrefixCache::preallocate(int64_t tokens) {
  if (files_)
    for (PrefixBlock& block : files_->written()) store_.take_back(std::move(block));
  if (shape_.block_bytes == 0) return;
  const int64_t blocks = (tokens + shape_.block_positions - 1) / shape_.block_positions;
  executor_.expect_blocks(std::min({blocks, store_.new_blocks(), kMaxBytesAhead / shape_.block_bytes}));
}

std::optional<PrefixStore::Hold> PrefixCache::hold(StreamCache& stream) {
  const std::vector<int32_t> tokens(stream.tokens().begin(), stream.tokens().end());
  if (!store_.fits(tokens, shape_.state_elements > 0 ? 1 : 0)) return std::nullopt;
  stream.save(store_, 1);
  if (store_.usable(tokens) < std::ssize(tokens)) return std::nullopt;
  return store_.hold(tokens);
}

int64_t PrefixCache::fetch(std::span<const int32_t> tokens, int64_t present) {
  if (!files_) return 0;
  const int64_t before = store_.usable(tokens);
  for (int64_t usable = before;;) {
    const PrefixPart part = files_->read(tokens, store_.common(tokens), std::max(usable, present),
                                         [this] { return executor_.make_block(); });
    if (part.tokens.empty()) return usable - before;
    const int64_t common = store_.common(tokens);
    const auto fill = [&](int64_t first, std::span<const PrefixBlock> blocks) {
      const int64_t start = part.first / shape_.block_positions;
      for (size_t i = 0; i < blocks.size(); ++i)
        std::memcpy(blocks[i].get(), part.blocks[first - start + i].get(), shape_.block_bytes);
    };
    store_.insert(part.tokens, part.states, fill, 1);
    const int64_t now = store_.usable(tokens);
    if (now <= usable && store_.common(tokens) <= common) return usable - before;
    usable = now;
  }
}

void PrefixCache::write_all() {
  if (!files_) return;
  store_.for_each([this](const PrefixPart& part) { files_->write(part); });
  files_->flush();
}

} // namespace ridge::engine
