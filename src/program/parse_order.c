// Reading an order of a printed program: calls, with their slots and waits.
#include "program/parse_impl.h"

// "{0=1,2=0}"; '{' was read.
static bool read_slots(parse_t *p, const shoal_class_t *class, int32_t *slots) {
  do {
    int32_t group, slot;
    if (!shoal_parse_int32(p, "slot group", 0, class->slot_group_count - 1, &group)) return false;
    if (!shoal_scan_expect(&p->scan, "=")) return false;
    if (!shoal_parse_int32(p, "slot", 0, class->slot_groups[group].slots - 1, &slot)) return false;
    if (slots[group] >= 0) {
      return shoal_scan_fail(&p->scan, "the call names two slots of group %d", group);
    }
    slots[group] = slot;
  } while (shoal_scan_accept(&p->scan, ","));
  return shoal_scan_expect(&p->scan, "}");
}

// "[1<2.3,4<1.0]"; '[' was read. How far back calls go is known when all have been read.
static bool read_waits(parse_t *p, const shoal_class_t *class, shoal_segment_call_t *call) {
  SHOAL_VEC(shoal_call_wait_t) waits = {0};
  const int64_t count = class->segments[call->segment].instruction_count;
  do {
    shoal_call_wait_t wait;
    if (!shoal_parse_int32(p, "instruction", 0, count - 1, &wait.instruction)) return false;
    if (!shoal_scan_expect(&p->scan, "<")) return false;
    if (!shoal_parse_int32(p, "calls back", 1, INT32_MAX, &wait.back)) return false;
    if (!shoal_scan_expect(&p->scan, ".")) return false;
    if (!shoal_parse_int32(p, "instruction", 0, INT32_MAX, &wait.other)) return false;
    if (!SHOAL_PUSH(p->arena, &waits, wait)) return shoal_scan_check(&p->scan, SHOAL_OOM());
  } while (shoal_scan_accept(&p->scan, ","));
  call->waits = waits.items;
  call->wait_count = (int32_t)waits.count;
  return shoal_scan_expect(&p->scan, "]");
}

static bool read_call(parse_t *p, const shoal_class_t *class, shoal_segment_call_t *call) {
  *call = (shoal_segment_call_t){.micro = -1};
  if (!shoal_parse_int32(p, "segment", 0, class->segment_count - 1, &call->segment)) return false;
  if (shoal_scan_accept(&p->scan, ":") &&
      !shoal_parse_int32(p, "micro-batch", 0, p->program->micro - 1, &call->micro)) {
    return false;
  }
  if (class->slot_group_count > 0) {
    int32_t *slots = SHOAL_NEW(p->arena, int32_t, class->slot_group_count);
    if (!slots) return shoal_scan_check(&p->scan, SHOAL_OOM());
    for (int32_t g = 0; g < class->slot_group_count; ++g) slots[g] = -1;
    call->slots = slots;
    if (shoal_scan_accept(&p->scan, "{") && !read_slots(p, class, slots)) return false;
  }
  return !shoal_scan_accept(&p->scan, "[") || read_waits(p, class, call);
}

// Every wait is for an instruction that is there.
static bool check_waits(parse_t *p, const shoal_class_t *class, const shoal_order_t *order) {
  const int64_t farthest = order->call_count * SHOAL_PROGRAM_MAX_PERIOD;
  for (int64_t k = 0; k < order->call_count; ++k) {
    const shoal_segment_call_t *call = &order->calls[k];
    for (int32_t i = 0; i < call->wait_count; ++i) {
      const shoal_call_wait_t *wait = &call->waits[i];
      if (wait->back > farthest) {
        return shoal_scan_fail(&p->scan, "call %lld waits for the call %d calls before it",
                               (long long)k, wait->back);
      }
      const shoal_segment_call_t *other = shoal_order_back(order, k, wait->back);
      if (wait->other < class->segments[other->segment].instruction_count) continue;
      return shoal_scan_fail(&p->scan, "call %lld waits for instruction %d of segment %d",
                             (long long)k, wait->other, other->segment);
    }
  }
  return true;
}

bool shoal_parse_order(parse_t *p, const shoal_class_t *class, shoal_order_t *order) {
  *order = (shoal_order_t){0};
  if (!shoal_scan_name(&p->scan, p->arena, &order->graph)) return false;
  SHOAL_VEC(shoal_segment_call_t) calls = {0};
  while (shoal_parse_at_digit(p)) {
    shoal_segment_call_t call;
    if (!read_call(p, class, &call)) return false;
    if (!SHOAL_PUSH(p->arena, &calls, call)) return shoal_scan_check(&p->scan, SHOAL_OOM());
  }
  order->calls = calls.items;
  order->call_count = calls.count;
  return check_waits(p, class, order) && shoal_parse_line_end(p);
}
