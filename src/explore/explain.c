// Reasons are looked for in the programs, by the kind of change.
#include "explore/explain.h"

#include <string.h>

#include "program/bind.h"

// What a mutation speaks of; NULL where it is no part of one.
typedef struct place {
  const shoal_class_t *class;
  const shoal_segment_t *segment;
  const shoal_instruction_t *in;
  int64_t index;
} place_t;

static place_t find_place(const shoal_program_t *program, const shoal_mutation_t *mutation) {
  place_t place = {.index = mutation->instruction};
  if (mutation->class >= 0) place.class = &program->classes[mutation->class];
  if (mutation->segment >= 0) place.segment = &place.class->segments[mutation->segment];
  if (mutation->instruction >= 0) place.in = &place.segment->instructions[mutation->instruction];
  return place;
}

// ---- memory -------------------------------------------------------------------------------------

typedef struct range {
  int64_t from, to;
} range_t;

// The bytes of a buffer that a call means; those of all its slots when there is no call.
static range_t range_of(const shoal_class_t *class, int32_t buffer,
                        const shoal_segment_call_t *call) {
  if (buffer < 0) return (range_t){0, 0};
  const shoal_buffer_t *b = &class->buffers[buffer];
  const int64_t slots = shoal_buffer_slots(class, b);
  const int32_t slot = call ? shoal_call_slot(class, call, b->group, 0) : -1;
  const int64_t from = shoal_buffer_slot_place(class, b, slot < 0 ? slots - 1 : slot);
  return (range_t){from, from + b->bytes * (slot < 0 ? slots : 1)};
}

static bool overlap(range_t a, range_t b) {
  return a.from < b.to && b.from < a.to;
}

static range_t workspace_of(const shoal_instruction_t *in) {
  return (range_t){in->workspace_offset, in->workspace_offset + in->workspace};
}

// An instruction in a call.
typedef struct step {
  const shoal_class_t *class;
  const shoal_instruction_t *in;
  const shoal_segment_call_t *call;  // NULL: any
} step_t;

// Does `a` write what `b` reads or writes? Scratch is nobody's once its instruction is done, and
// two that add to the same sum may do so in any order.
static bool disturbs(const step_t *a, const step_t *b) {
  if (a->in->opcode == SHOAL_OPCODE_ACCUMULATE && b->in->opcode == SHOAL_OPCODE_ACCUMULATE &&
      a->in->outputs[0] == b->in->outputs[0] && a->in->reduce == b->in->reduce)
    return false;
  for (int32_t o = 0; o <= a->in->output_count; ++o) {
    range_t written = o < a->in->output_count ? range_of(a->class, a->in->outputs[o], a->call)
                                              : workspace_of(a->in);
    for (int32_t i = 0; i < b->in->input_count; ++i)
      if (overlap(written, range_of(b->class, b->in->inputs[i], b->call))) return true;
    for (int32_t i = 0; i < b->in->output_count; ++i)
      if (overlap(written, range_of(b->class, b->in->outputs[i], b->call))) return true;
    if (o < a->in->output_count && overlap(written, workspace_of(b->in))) return true;
    if (b->in->predicate >= 0 && overlap(written, range_of(b->class, b->in->predicate, NULL)))
      return true;
  }
  return false;
}

// Is the buffer read in the segment before it is written there?
static bool comes_in(const shoal_segment_t *segment, int32_t buffer) {
  for (int64_t i = 0; i < segment->instruction_count; ++i) {
    const shoal_instruction_t *in = &segment->instructions[i];
    if (in->predicate == buffer) return true;
    for (int32_t k = 0; k < in->input_count; ++k)
      if (in->inputs[k] == buffer) return true;
    for (int32_t k = 0; k < in->output_count; ++k)
      if (in->outputs[k] == buffer) return in->opcode == SHOAL_OPCODE_ACCUMULATE;
  }
  return false;
}

// Does the buffer carry something into or out of a segment, or is it made and used up inside?
static bool crosses(const shoal_class_t *class, int32_t buffer) {
  const shoal_buffer_kind_t kind = class->buffers[buffer].kind;
  if (kind == SHOAL_BUFFER_STATE || kind == SHOAL_BUFFER_NEXT) return true;
  for (int64_t s = 0; s < class->segment_count; ++s)
    if (comes_in(&class->segments[s], buffer)) return true;
  return false;
}

// Does a step write on what another segment's step takes from outside or leaves for others?
static bool spoils(const step_t *a, const step_t *b) {
  bool both_add =
      a->in->opcode == SHOAL_OPCODE_ACCUMULATE && b->in->opcode == SHOAL_OPCODE_ACCUMULATE;
  for (int32_t o = 0; o <= a->in->output_count; ++o) {
    range_t written = o < a->in->output_count ? range_of(a->class, a->in->outputs[o], a->call)
                                              : workspace_of(a->in);
    for (int32_t k = 0; k < b->in->input_count + b->in->output_count; ++k) {
      int32_t buffer =
          k < b->in->input_count ? b->in->inputs[k] : b->in->outputs[k - b->in->input_count];
      if (buffer < 0 || !crosses(b->class, buffer)) continue;
      if (both_add && buffer == a->in->outputs[0] && a->in->reduce == b->in->reduce) continue;
      if (overlap(written, range_of(b->class, buffer, b->call))) return true;
    }
  }
  return false;
}

static bool segments_disturb(const shoal_class_t *class, const shoal_segment_call_t *a,
                             const shoal_segment_call_t *b) {
  const shoal_segment_t *first = &class->segments[a->segment],
                        *second = &class->segments[b->segment];
  for (int64_t i = 0; i < first->instruction_count; ++i)
    for (int64_t k = 0; k < second->instruction_count; ++k) {
      step_t x = {class, &first->instructions[i], a}, y = {class, &second->instructions[k], b};
      if (spoils(&x, &y) || spoils(&y, &x)) return true;
    }
  return false;
}

// ---- reasons ------------------------------------------------------------------------------------

static const char *why_twice(const place_t *p) {
  if (!p->in || p->in->opcode == SHOAL_OPCODE_ACCUMULATE) return NULL;
  for (int32_t o = 0; o < p->in->output_count; ++o)
    for (int32_t i = 0; i < p->in->input_count; ++i)
      if (overlap(range_of(p->class, p->in->outputs[o], NULL),
                  range_of(p->class, p->in->inputs[i], NULL)))
        return NULL;
  return "it reads nothing that it writes, so twice is once";
}

static const char *why_swap(const place_t *p) {
  if (!p->in || p->index + 1 >= p->segment->instruction_count) return NULL;
  step_t first = {p->class, p->in, NULL}, next = {p->class, p->in + 1, NULL};
  if (disturbs(&first, &next) || disturbs(&next, &first)) return NULL;
  return "the two touch no memory of each other's";
}

// Commutative: a fact of arithmetic, not of the op's record.
static const char *why_inputs(const place_t *p) {
  static const char *const commutative[] = {"shoal.add", "shoal.mul", "shoal.maximum",
                                            "shoal.minimum", "shoal.equal"};
  if (p->in && p->in->opcode == SHOAL_OPCODE_ASSEMBLE)
    return "each piece says where it belongs, and where two overlap they are alike";
  if (!p->in || !p->in->op) return NULL;
  for (size_t i = 0; i < sizeof commutative / sizeof commutative[0]; ++i)
    if (strcmp(p->in->op->name, commutative[i]) == 0)
      return "the op does not mind the order of its inputs";
  return NULL;
}

static bool is_read(const shoal_class_t *class, int32_t buffer) {
  if (class->buffers[buffer].kind != SHOAL_BUFFER_TEMP) return true;
  for (int64_t s = 0; s < class->segment_count; ++s)
    for (int64_t i = 0; i < class->segments[s].instruction_count; ++i) {
      const shoal_instruction_t *in = &class->segments[s].instructions[i];
      if (in->predicate == buffer) return true;
      for (int32_t k = 0; k < in->input_count; ++k)
        if (in->inputs[k] == buffer) return true;
    }
  return false;
}

static const char *why_drop(const place_t *p) {
  if (!p->in || p->in->opcode == SHOAL_OPCODE_FETCH || p->in->opcode == SHOAL_OPCODE_RESHARD)
    return NULL;
  for (int32_t o = 0; o < p->in->output_count; ++o)
    if (is_read(p->class, p->in->outputs[o])) return NULL;
  return "nobody reads what it makes";
}

static const char *why_channel(const shoal_program_t *program, const shoal_mutation_t *mutation) {
  const shoal_channel_t *a = &program->channels[mutation->first],
                        *b = &program->channels[mutation->second];
  if (a->type.dtype == b->type.dtype && shoal_shape_equal(&a->type.shape, &b->type.shape) &&
      shoal_layout_equal(a->src, b->src) && shoal_layout_equal(a->dst, b->dst) &&
      a->micro == b->micro)
    return "the channel has the same type and layouts, and all ranks changed to it";
  return NULL;
}

static const char *why_calls(const place_t *p, const shoal_mutation_t *mutation) {
  const shoal_segment_call_t *call = &p->class->orders[mutation->first].calls[mutation->second];
  if (call[0].segment == call[1].segment && call[0].micro != call[1].micro)
    return "the same segment for two micro-batches: only the order of sums changes";
  if (!segments_disturb(p->class, &call[0], &call[1]))
    return "neither segment touches what the other takes or leaves";
  return NULL;
}

// Mutations add an eighth to real attributes.
static const char *why_attribute(const place_t *p) {
  if (!p->in) return NULL;
  for (int32_t o = 0; o < p->in->output_count; ++o)
    if (shoal_dtype_is_float(p->class->buffers[p->in->outputs[o]].type.dtype)) return NULL;
  return "the number is stored as an integer, which an eighth does not change";
}

const char *shoal_explain_mutation(const shoal_program_t *program,
                                   const shoal_mutation_t *mutation) {
  const place_t p = find_place(program, mutation);
  switch (mutation->kind) {
    case SHOAL_MUTATION_REPEAT:
      return why_twice(&p);
    case SHOAL_MUTATION_SWAP:
      return why_swap(&p);
    case SHOAL_MUTATION_INPUTS:
      return why_inputs(&p);
    case SHOAL_MUTATION_DROP:
      return why_drop(&p);
    case SHOAL_MUTATION_CALL_SWAP:
      return why_calls(&p, mutation);
    case SHOAL_MUTATION_ATTRIBUTE:
      return why_attribute(&p);
    case SHOAL_MUTATION_CHANNEL:
      return why_channel(program, mutation);
    case SHOAL_MUTATION_CHANNEL_LANE:
      return "whoever shares a lane with it still comes in the same order (the static check proves "
             "it)";
    case SHOAL_MUTATION_BUFFER_SLOT:
    case SHOAL_MUTATION_GROUP_SLOT:
    case SHOAL_MUTATION_GROUP_STEP:
    case SHOAL_MUTATION_CALL_SLOT:
      return "the slot is free while it is needed (the static check proves it)";
    case SHOAL_MUTATION_WAIT:
    case SHOAL_MUTATION_CALL_WAIT:
    case SHOAL_MUTATION_CALL_WAIT_BACK:
    case SHOAL_MUTATION_CALL_WAIT_OTHER:
    case SHOAL_MUTATION_QUEUE:
      return "other waits order the two as well (the static check proves it)";
    case SHOAL_MUTATION_WORKSPACE_HALVE:
      if (p.in->opcode != SHOAL_OPCODE_RESHARD) return NULL;
      return "it is planned for the rank that needs most; these need less (the static check proves "
             "it)";
    case SHOAL_MUTATION_BUFFER_MORE:
    case SHOAL_MUTATION_BUFFER_MOVE:
    case SHOAL_MUTATION_OFFLOAD:
    case SHOAL_MUTATION_WORKSPACE_MOVE:
      return "the bytes it takes are free while it needs them (the static check proves it)";
    default:
      return NULL;
  }
}
