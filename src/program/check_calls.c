// Structure of what spans calls: queues, groups of slots, lanes, and what each call of an order
// says of them. Waits reach back at most a period, and each call names a slot of exactly those
// groups that its segment touches: the parts that follow look slots up without asking again.
#include <string.h>

#include "program/check_impl.h"

// ---- tables -------------------------------------------------------------------------

static shoal_status_t check_queues(const place_t *place) {
  const shoal_class_t *class = place_class(place);
  if (class->queue_count < 1 || class->queue_count > SHOAL_MAX_QUEUES) {
    return MISMATCH(place, "a class has 1 to 8 queues", "it has %d queues", class->queue_count);
  }
  _Static_assert(SHOAL_MAX_QUEUES == 8, "the hint says how many");
  for (int32_t i = 0; i < class->queue_count; ++i) {
    const shoal_program_queue_t *queue = &class->queues[i];
    if (!queue->name || (unsigned)queue->kind >= SHOAL_QUEUE_KIND_COUNT) {
      return MISMATCH(place, "a queue has a name and a kind", "queue %d has none", i);
    }
    for (int32_t k = 0; k < i; ++k) {
      if (strcmp(class->queues[k].name, queue->name) != 0) continue;
      return MISMATCH(place, "give each queue a name of its own", "it has two queues '%s'",
                      queue->name);
    }
  }
  return NULL;
}

static shoal_status_t check_groups(const place_t *place) {
  const shoal_class_t *class = place_class(place);
  if (class->slot_group_count > SHOAL_PROGRAM_MAX_GROUPS) {
    return MISMATCH(place, "put buffers that live as long into one group",
                    "it has %d slot groups, and at most %d can be", class->slot_group_count,
                    SHOAL_PROGRAM_MAX_GROUPS);
  }
  for (int32_t g = 0; g < class->slot_group_count; ++g) {
    if (class->slot_groups[g].slots > 0) continue;
    return MISMATCH(place, "a group has at least one slot", "slot group %d has %d slots", g,
                    class->slot_groups[g].slots);
  }
  if (shoal_class_period(class) > SHOAL_PROGRAM_MAX_PERIOD) {
    return MISMATCH(place, "give the groups by step the same number of slots",
                    "its slots by step come round after more than %d steps",
                    SHOAL_PROGRAM_MAX_PERIOD);
  }
  return NULL;
}

shoal_status_t shoal_program_check_queues(const check_t *check, int64_t c) {
  const place_t place = {
      .program = check->program, .class = c, .segment = -1, .instruction = -1, .micro = -1};
  SHOAL_RETURN_IF_ERROR(check_queues(&place));
  return check_groups(&place);
}

// ---- lanes --------------------------------------------------------------------------

// The first reshards of a lane that send, and that receive.
typedef struct lane {
  const shoal_instruction_t *sends, *receives;
} lane_t;

static shoal_status_t one_queue(const place_t *place, const shoal_instruction_t *in,
                                const shoal_instruction_t *other, const char *what) {
  if (!other || other->queue == in->queue) return NULL;
  const shoal_class_t *class = place_class(place);
  return MISMATCH(place, "put them on one queue, or give one of the channels another lane",
                  "it %s on queue '%s', and '%s' of the same lane %d on queue '%s'", what,
                  class->queues[in->queue].name, other->name,
                  place->program->channels[in->channels[0]].lane, class->queues[other->queue].name);
}

// Messages of a lane match in order, so one queue sends all of a class's, and one receives them.
static shoal_status_t check_lanes(place_t place) {
  const shoal_class_t *class = place_class(&place);
  lane_t lanes[SHOAL_MAX_LANES] = {{0}};
  for (place.segment = 0; place.segment < class->segment_count; ++place.segment) {
    const shoal_segment_t *segment = &class->segments[place.segment];
    for (int64_t i = 0; i < segment->instruction_count; ++i) {
      const shoal_instruction_t *in = &segment->instructions[i];
      place.instruction = i;
      if (!in->channels) continue;
      lane_t *lane = &lanes[place.program->channels[in->channels[0]].lane];
      if (in->inputs[0] >= 0) {
        SHOAL_RETURN_IF_ERROR(one_queue(&place, in, lane->sends, "sends"));
        lane->sends = in;
      }
      if (in->outputs[0] >= 0) {
        SHOAL_RETURN_IF_ERROR(one_queue(&place, in, lane->receives, "receives"));
        lane->receives = in;
      }
    }
  }
  return NULL;
}

// ---- calls --------------------------------------------------------------------------

static void touch(const shoal_class_t *class, int32_t buffer, bool *touched) {
  if (buffer < 0) return;
  const int32_t group = class->buffers[buffer].group;
  if (group >= 0) touched[group] = true;
  touch(class, class->buffers[buffer].count, touched);  // which itself is not bounded
}

// The groups that operands, their counts and predicates of a segment are in.
static void find_touched(const shoal_class_t *class, const shoal_segment_t *segment,
                         bool *touched) {
  for (int64_t i = 0; i < segment->instruction_count; ++i) {
    const shoal_instruction_t *in = &segment->instructions[i];
    for (int32_t k = 0; k < in->input_count; ++k) touch(class, in->inputs[k], touched);
    for (int32_t k = 0; k < in->output_count; ++k) touch(class, in->outputs[k], touched);
    touch(class, in->predicate, touched);
  }
}

static shoal_status_t check_slots(const shoal_class_t *class, const shoal_segment_call_t *call,
                                  const bool *touched) {
  if (class->slot_group_count > 0 && !call->slots) {
    return SHOAL_ERROR(MISMATCH, "it names no slots");
  }
  for (int32_t g = 0; g < class->slot_group_count; ++g) {
    const int32_t slot = call->slots[g];
    if (slot < -1 || slot >= class->slot_groups[g].slots) {
      return SHOAL_ERROR_HINT(MISMATCH, "name a slot that the group has",
                              "it names slot %d of group %d, which has %d", slot, g,
                              class->slot_groups[g].slots);
    }
    if ((slot >= 0) == touched[g]) continue;
    return SHOAL_ERROR_HINT(
        MISMATCH, "name a slot of each group that the segment's buffers are in, and of no other",
        "it names %s slot of group %d, which its segment %s", slot >= 0 ? "a" : "no", g,
        touched[g] ? "touches" : "does not touch");
  }
  return NULL;
}

static shoal_status_t check_waits(const shoal_class_t *class, const shoal_order_t *order,
                                  int64_t index) {
  const shoal_segment_call_t *call = &order->calls[index];
  const shoal_segment_t *segment = &class->segments[call->segment];
  const int64_t farthest = shoal_class_period(class) * order->call_count;
  for (int32_t i = 0; i < call->wait_count; ++i) {
    const shoal_call_wait_t *wait = &call->waits[i];
    if (wait->instruction < 0 || wait->instruction >= segment->instruction_count) {
      return SHOAL_ERROR(MISMATCH, "its segment has no instruction %d to wait", wait->instruction);
    }
    if (wait->back < 1 || wait->back > farthest) {
      return SHOAL_ERROR_HINT(
          MISMATCH, "wait for an earlier call, of the steps in which slots come round",
          "instruction %d waits for the call %d calls before it; it is 1 to %lld",
          wait->instruction, wait->back, (long long)farthest);
    }
    const shoal_segment_t *earlier =
        &class->segments[shoal_order_back(order, index, wait->back)->segment];
    if (wait->other < 0 || wait->other >= earlier->instruction_count) {
      return SHOAL_ERROR(MISMATCH,
                         "instruction %d waits for instruction %d of '%s', which is not there",
                         wait->instruction, wait->other, earlier->name);
    }
    if (segment->instructions[wait->instruction].queue !=
        earlier->instructions[wait->other].queue) {
      continue;
    }
    return SHOAL_ERROR_HINT(MISMATCH, "wait for instructions on other queues",
                            "instruction %d waits for instruction %d of '%s', which is on the same "
                            "queue and so before it anyway",
                            wait->instruction, wait->other, earlier->name);
  }
  return NULL;
}

shoal_status_t shoal_program_check_calls(const check_t *check, int64_t c) {
  const shoal_class_t *class = &check->program->classes[c];
  place_t place = {
      .program = check->program, .class = c, .segment = -1, .instruction = -1, .micro = -1};
  SHOAL_RETURN_IF_ERROR(check_lanes(place));
  bool **touched = SHOAL_NEW(check->scratch, bool *, class->segment_count);
  if (!touched) return SHOAL_OOM();
  for (int64_t s = 0; s < class->segment_count; ++s) {
    touched[s] = SHOAL_NEW(check->scratch, bool, class->slot_group_count);
    if (!touched[s]) return SHOAL_OOM();
    find_touched(class, &class->segments[s], touched[s]);
  }
  for (int64_t i = 0; i < class->order_count; ++i) {
    const shoal_order_t *order = &class->orders[i];
    place.graph = order->graph;
    for (int64_t k = 0; k < order->call_count; ++k) {
      const shoal_segment_call_t *call = &order->calls[k];
      shoal_status_t status = check_slots(class, call, touched[call->segment]);
      if (!status) status = check_waits(class, order, k);
      if (!status) continue;
      char said[160];
      return shoal_program_check_at(
          &place, shoal_status_annotatef(
                      status, "%s", shoal_program_check_call(class, order, k, said, sizeof said)));
    }
  }
  return NULL;
}
