// Fusions between the q/k/v matrices and attention.
#include "kernels/cuda/plan/planner.h"

namespace ridge::kernels::cuda {

using core::Op;
using core::OpKind;
using core::ValueId;

namespace {

const core::RopeParams& rope_of(const Op& op) { return std::get<core::RopeParams>(op.params); }
const core::NormParams& norm_of(const Op& op) { return std::get<core::NormParams>(op.params); }

} // namespace

// Fuses norms and rotations into the step that writes the cache, and attention if that follows.
void Planner::fuse_heads() {
  struct Chain {
    ValueId in;
    const Op *norm = nullptr, *rope = nullptr;
    std::vector<int> steps;
  };
  // value <- rope <- norm, each with one reader.
  const auto chain_of = [&](ValueId id) {
    Chain chain{id, nullptr, nullptr, {}};
    if (const int at = writer_for_one(id, OpKind::rope); at >= 0) {
      chain.rope = steps_[at].op;
      chain.steps.push_back(at);
      chain.in = chain.rope->inputs[0];
      if (const int norm = writer_for_one(chain.in, OpKind::rms_norm); norm >= 0) {
        const auto& rope = rope_of(*chain.rope);
        const core::Weight& weights = program_.weights[steps_[norm].op->weights[0]];
        if (norm_of(*steps_[norm].op).group == rope.head_dim && weights.cols == rope.head_dim) {
          chain.norm = steps_[norm].op;
          chain.steps.push_back(norm);
          chain.in = chain.norm->inputs[0];
        }
      }
    }
    return chain;
  };
  // A norm of v with factors of 1 and one reader, or null.
  const auto norm_of_v = [&](ValueId v, int64_t head_dim) -> const Op* {
    const int at = writer_for_one(v, OpKind::rms_norm);
    if (at < 0) return nullptr;
    const core::Weight& factors = program_.weights[steps_[at].op->weights[0]];
    const auto* values = reinterpret_cast<const float*>(factors.data);
    const bool ones = values && std::all_of(values, values + factors.cols, [](float x) { return x == 1; });
    return ones && norm_of(*steps_[at].op).group == head_dim ? steps_[at].op : nullptr;
  };
  for_each_op(OpKind::kv_store, [&](int i, const Op& store) {
    const int32_t layer = std::get<core::KvParams>(store.params).layer;
    const auto attention = std::ranges::find_if(steps_, [&](const Step& step) {
      return step.is_op(OpKind::attention) && std::get<core::AttentionParams>(step.op->params).layer == layer;
    });
    if (attention == steps_.end()) return;
    const Chain q = chain_of(attention->op->inputs[0]), k = chain_of(store.inputs[0]);
    if (!q.rope || !k.rope) return;
    const auto &q_rope = rope_of(*q.rope), &k_rope = rope_of(*k.rope);
    const auto epsilon = [](const Op* norm) { return norm ? norm_of(*norm).epsilon : 0; };
    if (program_.rope_tables[q_rope.table].span != 1) return;
    if (q_rope.table != k_rope.table || q_rope.head_dim != k_rope.head_dim || epsilon(q.norm) != epsilon(k.norm))
      return;
    if (std::ranges::any_of(q.steps, [&](int s) { return s > i; })) return;
    Step& step = steps_[i];
    HeadsStep heads = {.q_in = q.in,
                       .k_in = k.in,
                       .v_in = store.inputs[1],
                       .q_out = q.rope->outputs[0],
                       .q_norm = q.norm ? q.norm->weights[0] : kNone,
                       .k_norm = k.norm ? k.norm->weights[0] : kNone,
                       .epsilon = epsilon(q.norm),
                       .q_heads = q_rope.heads,
                       .k_heads = k_rope.heads,
                       .head_dim = q_rope.head_dim,
                       .table = q_rope.table,
                       .kv_layer = layer};
    const Op* const v_norm = norm_of_v(store.inputs[1], q_rope.head_dim);
    if (v_norm && (!q.norm || norm_of(*v_norm).epsilon == heads.epsilon) &&
        program_.kv_layers[layer].v_dim == q_rope.head_dim) {
      heads.v_in = v_norm->inputs[0];
      heads.normalizes_v = true;
      heads.epsilon = norm_of(*v_norm).epsilon;
      mark_removed(writer(store.inputs[1]));
    }
    step.inputs = {q.in, k.in, heads.v_in};
    step.outputs = {q.rope->outputs[0]};
    if (attention == steps_.begin() + i + 1) {
      heads.attention = attention->op;
      step.outputs.push_back(attention->outputs[0]);
      mark_removed(i + 1);
    }
    step.work = heads;
    for (const Chain* chain : {&q, &k})
      for (const int merged : chain->steps) mark_removed(merged);
  });
}

void Planner::fuse_latent_heads() {
  // A rotation of whole heads with one reader, or null.
  const auto rotation = [&](ValueId id, int before) -> const Op* {
    const int at = writer_for_one(id, OpKind::rope);
    if (at < 0 || at > before) return nullptr;
    const auto& rope = rope_of(*steps_[at].op);
    const core::RopeTable& table = program_.rope_tables[rope.table];
    const bool whole = 2 * static_cast<int64_t>(table.inverse_frequency.size()) == rope.head_dim;
    return whole && table.span == 1 ? steps_[at].op : nullptr;
  };
  for_each_op(OpKind::latent_store, [&](int i, const Op& store) {
    const ValueId c = store.inputs[0], r = store.inputs[1];
    const Op* const k_rope = r == c ? nullptr : rotation(r, i);
    if (!k_rope || rope_of(*k_rope).heads != 1) return;
    LatentStep latent = {.c_in = c,
                         .r_in = k_rope->inputs[0],
                         .table = rope_of(*k_rope).table,
                         .kv_layer = std::get<core::KvParams>(store.params).layer};
    std::vector<int> taken = {writer(r)};
    if (const int norm = writer_for_one(c, OpKind::rms_norm);
        norm >= 0 && norm_of(*steps_[norm].op).group == program_.values[c].width) {
      latent.c_in = steps_[norm].op->inputs[0];
      latent.c_norm = steps_[norm].op->weights[0];
      latent.epsilon = norm_of(*steps_[norm].op).epsilon;
      taken.push_back(norm);
    }
    steps_[i].inputs = {latent.c_in, latent.r_in};
    const auto attention = std::ranges::find_if(steps_, [&](const Step& step) {
      const auto* params =
          step.get<OpStep>() && step.op ? std::get_if<core::AttentionParams>(&step.op->params) : nullptr;
      return params && params->layer == latent.kv_layer && step.op->inputs.size() > 1;
    });
    const Op* const q_rope = attention == steps_.end() ? nullptr : rotation(attention->op->inputs[1], i);
    if (q_rope && rope_of(*q_rope).table == latent.table && attention->op->inputs[0] != attention->op->inputs[1]) {
      latent.q_in = q_rope->inputs[0];
      latent.q_out = q_rope->outputs[0];
      latent.q_heads = rope_of(*q_rope).heads;
      taken.push_back(writer(latent.q_out));
      steps_[i].inputs.push_back(latent.q_in);
      steps_[i].outputs = {latent.q_out};
    }
    steps_[i].work = latent;
    for (const int merged : taken) mark_removed(merged);
  });
  // Directly before attention, so that products in between read their input as it arrives.
  for (int i = count(); i-- > 0;) {
    if (!steps_[i].get<LatentStep>()) continue;
    const auto store = steps_.begin() + i;
    const auto next = std::find_if(store + 1, steps_.end(), [](const Step& step) {
      return !step.matrix() && !(step.op && step.op->kind == OpKind::head_ids);
    });
    std::rotate(store, store + 1, next);
  }
}

} // namespace ridge::kernels::cuda
