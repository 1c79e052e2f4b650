#include "engine/sequences/step_plan.h"

#include <algorithm>

namespace ridge::engine {

std::vector<Piece> StepPlanner::plan(const std::function<bool(Stream&)>& waits) {
  std::vector<Piece> pieces;
  std::vector<Stream*> reading;
  int64_t room = executor_.config().max_batch, most = room; // `most` is for pictures, which cannot be split
  int64_t outputs = executor_.config().max_outputs - std::ssize(streams_); // one per stream is reserved
  for (Stream& stream : streams_) {
    if (!stream.sequence) continue;
    if (!stream.sequence->text_done(stream.cache.size())) {
      if (!waits(stream)) reading.push_back(&stream);
      continue;
    }
    // Several tokens after a recurrent state was rolled back. Each later stream needs room for one.
    const auto left = std::span(stream.sequence->tokens_).subspan(stream.cache.size());
    const int64_t count = std::min(std::ssize(left), room - (std::ssize(streams_) - 1 - stream.number));
    pieces.push_back({stream.number, {left.begin(), left.begin() + count}, false, count == std::ssize(left)});
    room -= count;
    most -= count;
  }
  if (!pieces.empty()) room = std::min(room, share_.tokens());
  std::ranges::sort(reading, {}, [](const Stream* stream) { return stream->sequence->number_; });
  for (size_t i = 0; i < reading.size() && room > 0; ++i) {
    Stream& stream = *reading[i];
    const std::span<const int32_t> text = stream.sequence->text();
    const bool all = stream.sequence->request_.keep_prompt_choices && stream.sequence->generated_ == 0;
    int64_t share = std::max<int64_t>(1, room / (std::ssize(reading) - static_cast<int64_t>(i)));
    if (all) share = std::min(share, 1 + outputs);
    int64_t count = stream.cache.next_piece(text, share);
    if (const TextPictures* pictures = stream.sequence->pictures()) {
      count = pictures->end_of_part(stream.cache.size(), stream.cache.size() + count) - stream.cache.size();
      if (count > most) continue;
    }
    const auto next = text.subspan(stream.cache.size(), count);
    const bool last = stream.cache.size() + count == std::ssize(text);
    pieces.push_back({stream.number, {next.begin(), next.end()}, true, last, 0, all});
    if (all) outputs -= count - 1;
    room -= count;
    most -= count;
  }
  return pieces;
}

PlacedBatch StepPlanner::batch_of(std::span<const Piece> pieces) const {
  PlacedBatch batch;
  for (const Piece& piece : pieces) {
    const Stream& stream = streams_[piece.stream];
    for (int64_t i = 0; i < std::ssize(piece.tokens); ++i)
      if (piece.all || (piece.wanted && i + 1 >= piece.known()))
        batch.outputs.push_back(static_cast<int32_t>(std::ssize(batch.tokens) + i));
    batch.append(piece.tokens, stream.cache.size(), piece.stream, stream.sequence->pictures());
  }
  return batch;
}

double StepPlanner::bytes_of(std::span<const Piece> pieces) const {
  int64_t tokens = 0, past = 0, outputs = 0;
  for (const Piece& piece : pieces) {
    tokens += std::ssize(piece.tokens);
    past += streams_[piece.stream].cache.size();
    outputs += piece.outputs();
  }
  const int64_t streams = std::ssize(pieces);
  return bytes_of(tokens / streams, past / streams, streams, outputs);
}

double StepPlanner::bytes_of(int64_t tokens, int64_t past, int64_t streams, int64_t outputs) const {
  const core::ExecutorConfig& config = executor_.config();
  return core::program_cost(program_, {tokens, past, streams, outputs, core::bytes_per_element(config.k_type),
                                       core::bytes_per_element(config.v_type)})
      .bytes();
}

} // namespace ridge::engine
