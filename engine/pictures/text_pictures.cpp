#include "engine/pictures/text_pictures.h"

#include "core/random.h"
#include "kernels/cuda/executor/executor.h"

#include <algorithm>

namespace ridge::engine {

int32_t EncodedTile::id(int64_t token) const {
  constexpr uint64_t kBits = (uint64_t{1} << 30) - 1;
  return -1 - static_cast<int32_t>(core::mix_bits(hash + static_cast<uint64_t>(token)) & kBits);
}

void TextPictures::append(std::vector<int32_t>& text, std::shared_ptr<const EncodedTile> tile) {
  places_.push_back({std::ssize(text), std::move(tile)});
  for (int64_t i = 0; i < places_.back().tile->tokens; ++i) text.push_back(places_.back().tile->id(i));
}

const TextPictures::Place* TextPictures::at(int64_t token) const {
  const auto behind = std::ranges::upper_bound(places_, token, {}, &Place::first);
  if (behind == places_.begin()) return nullptr;
  const Place& place = *std::prev(behind);
  return token < place.end() ? &place : nullptr;
}

std::array<int32_t, core::kPlaceAxes> TextPictures::axes(int64_t token) const {
  int64_t shorter = 0;
  int32_t pictures = 0;
  for (const Place& place : places_) {
    if (place.first > token) break;
    const EncodedTile& tile = *place.tile;
    if (token < place.end()) {
      const auto start = static_cast<int32_t>(place.first - shorter);
      const int64_t i = token - place.first - (tile.framed ? 1 : 0);
      if (tile.columns == 0) break;
      const auto line = static_cast<int32_t>(i / tile.columns), column = static_cast<int32_t>(i % tile.columns);
      if (!tile.framed) return {start, start + line, start + column, 0};
      const auto place = static_cast<int32_t>(token - shorter);
      if (i < 0 || line == tile.lines) return {place, place, place, place};
      return {place, column, line, pictures};
    }
    ++pictures;
    if (tile.columns > 0 && !tile.framed) shorter += tile.tokens - std::max(tile.columns, tile.lines);
  }
  const auto place = static_cast<int32_t>(token - shorter);
  return {place, place, place, 0};
}

int64_t TextPictures::whole(int64_t count) const {
  const Place* last = count > 0 ? at(count - 1) : nullptr;
  return last && last->tile->sees_ahead && last->end() > count ? last->first : count;
}

int64_t TextPictures::end_of_part(int64_t first, int64_t end) const {
  const int64_t whole_end = whole(end);
  if (whole_end > first) return whole_end;
  const Place* place = at(first);
  return place ? place->end() : end;
}

void PlacedBatch::append(std::span<const int32_t> part, int64_t first, int32_t stream, const TextPictures* pictures) {
  if (pictures && !pictures->empty()) parts_.push_back({tokens.size(), part.size(), first, pictures});
  tokens.insert(tokens.end(), part.begin(), part.end());
  for (int64_t i = 0; i < std::ssize(part); ++i) positions.push_back(static_cast<int32_t>(first + i));
  streams.insert(streams.end(), part.size(), stream);
}

core::Batch PlacedBatch::batch(const core::Program& program, const core::Executor* reader) {
  const bool waits = !reader || !kernels::cuda::reads_sent_rows(*reader);
  const EncodedTile* last = nullptr;
  rows_.clear();
  axes_.clear();
  block_ends_.clear();
  std::span<const float> rows;
  const int64_t width = program.row_width;
  if (!parts_.empty()) block_ends_.resize(tokens.size());
  if (!parts_.empty() || core::rope_uses_picture_axis(program)) {
    for (const int32_t position : positions) axes_.insert(axes_.end(), {position, position, position, 0});
  }
  for (const Part& part : parts_)
    for (size_t i = 0; i < part.count; ++i) {
      const int64_t token = part.first + static_cast<int64_t>(i);
      std::ranges::copy(part.pictures->axes(token), axes_.begin() + (part.begin + i) * core::kPlaceAxes);
      const TextPictures::Place* place = part.pictures->at(token);
      if (!place) continue;
      const EncodedTile& tile = *place->tile;
      const float* row = tile.rows.get() + (token - place->first) * tile.width;
      if (&tile != last) { // rows of several tiles are read here
        if (last) last->wait_for_rows();
        if (last || waits) tile.wait_for_rows();
        last = &tile;
      }
      tokens[part.begin + i] = -1 - static_cast<int32_t>(rows.size() / width);
      if (rows.empty() || (rows_.empty() && row == rows.data() + rows.size())) {
        rows = {rows.empty() ? row : rows.data(), rows.size() + width};
      } else {
        tile.wait_for_rows();
        if (rows_.empty()) rows_.assign(rows.begin(), rows.end());
        rows_.insert(rows_.end(), row, row + width);
        rows = rows_;
      }
      if (tile.sees_ahead) block_ends_[part.begin + i] = static_cast<int32_t>(place->end());
    }
  core::Batch made{tokens, positions, streams, outputs};
  if (!program.has_token_coordinates) return made;
  made.rows = rows;
  made.axes = axes_;
  made.block_ends = block_ends_;
  return made;
}

} // namespace ridge::engine
