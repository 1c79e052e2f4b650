#include "core/program.h"

#include <algorithm>

namespace ridge::core {

BufferPlan plan_buffers(const Program& program) {
  const size_t value_count = program.values.size();
  std::vector<size_t> last_use(value_count, 0);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    for (ValueId id : program.ops[i].inputs) last_use[id] = i;
    for (ValueId id : program.ops[i].outputs) last_use[id] = std::max(last_use[id], i);
  }
  for (const ValueId id : {program.result(), program.hidden})
    if (id >= 0) last_use[id] = program.ops.size();

  BufferPlan plan;
  plan.slot_of_value.assign(value_count, -1);
  std::vector<bool> busy;
  const auto place = [&](ValueId id) {
    const ValueInfo& value = program.values[id];
    // The tightest free slot that fits, else the widest free one, which grows.
    int32_t best = -1;
    for (size_t s = 0; s < plan.slots.size(); ++s) {
      if (busy[s] || plan.slots[s].gathered != value.gathered) continue;
      if (best < 0) {
        best = static_cast<int32_t>(s);
        continue;
      }
      const int64_t width = plan.slots[s].width, best_width = plan.slots[best].width;
      const bool fits = width >= value.width, best_fits = best_width >= value.width;
      if (fits != best_fits ? fits : (fits ? width < best_width : width > best_width)) best = static_cast<int32_t>(s);
    }
    if (best < 0) {
      best = static_cast<int32_t>(plan.slots.size());
      plan.slots.push_back({0, value.gathered});
      busy.push_back(false);
    }
    plan.slots[best].width = std::max(plan.slots[best].width, value.width);
    plan.slot_of_value[id] = best;
    busy[best] = true;
  };
  if (program.input >= 0) place(program.input);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    for (ValueId id : program.ops[i].outputs) place(id);
    const auto release = [&](ValueId id) {
      if (last_use[id] == i) busy[plan.slot_of_value[id]] = false;
    };
    for (ValueId id : program.ops[i].inputs) release(id);
    for (ValueId id : program.ops[i].outputs) release(id);
  }
  return plan;
}

} // namespace ridge::core
