// Reading one class of a printed program: queues, slots, buffers, segments. parse_order.c has the
// orders.
#include <string.h>

#include "op/operands.h"
#include "op/reduce.h"
#include "program/parse_impl.h"
#include "shoal/options.h"

static bool out_of_memory(parse_t *p) {
  return shoal_scan_check(&p->scan, SHOAL_OOM());
}

// "0-3,7": ascending.
static bool read_ranks(parse_t *p, shoal_class_t *class) {
  SHOAL_VEC(int32_t) ranks = {0};
  int32_t world = p->program->world, low = 0;
  do {
    int32_t first, last;
    if (!shoal_parse_int32(p, "rank", low, world - 1, &first)) return false;
    last = first;
    if (shoal_scan_accept(&p->scan, "-") &&
        !shoal_parse_int32(p, "rank", first, world - 1, &last)) {
      return false;
    }
    p->ranks += last - first + 1;
    if (p->ranks > world) return shoal_scan_fail(&p->scan, "the classes have too many ranks");
    for (int32_t rank = first; rank <= last; ++rank) {
      if (!SHOAL_PUSH(p->arena, &ranks, rank)) return out_of_memory(p);
    }
    low = last + 1;
  } while (shoal_scan_accept(&p->scan, ","));
  class->ranks = ranks.items;
  class->rank_count = ranks.count;
  return true;
}

// ---- queues and slots ---------------------------------------------------------------

static bool read_queue_kind(parse_t *p, shoal_queue_kind_t *out_kind) {
  for (int kind = 0; kind < SHOAL_QUEUE_KIND_COUNT; ++kind) {
    *out_kind = (shoal_queue_kind_t)kind;
    if (shoal_scan_accept(&p->scan, shoal_queue_kind_name(*out_kind))) return true;
  }
  return shoal_scan_fail(&p->scan, "a queue is of kind compute, comm or copy");
}

static bool read_queues(parse_t *p, shoal_class_t *class) {
  SHOAL_VEC(shoal_program_queue_t) queues = {0};
  class->queues = shoal_program_default_queues;
  class->queue_count = SHOAL_QUEUE_KIND_COUNT;
  while (shoal_scan_accept(&p->scan, "queue")) {
    shoal_program_queue_t queue;
    if (!shoal_scan_name(&p->scan, p->arena, &queue.name)) return false;
    if (!read_queue_kind(p, &queue.kind) || !shoal_parse_line_end(p)) return false;
    if (queues.count == SHOAL_MAX_QUEUES) {
      return shoal_scan_fail(&p->scan, "a class has at most %d queues", SHOAL_MAX_QUEUES);
    }
    for (int64_t i = 0; i < queues.count; ++i) {
      if (strcmp(queues.items[i].name, queue.name) != 0) continue;
      return shoal_scan_fail(&p->scan, "there are two queues '%s'", queue.name);
    }
    if (!SHOAL_PUSH(p->arena, &queues, queue)) return out_of_memory(p);
    class->queues = queues.items;
    class->queue_count = (int32_t)queues.count;
  }
  return !p->scan.error;
}

static bool read_slot_groups(parse_t *p, shoal_class_t *class) {
  SHOAL_VEC(shoal_slot_group_t) groups = {0};
  while (shoal_scan_accept(&p->scan, "slots")) {
    shoal_slot_group_t group = {0};
    if (!shoal_parse_index(p, "slot group", groups.count)) return false;
    if (!shoal_parse_int32(p, "slots", 1, SHOAL_PROGRAM_MAX_MICRO, &group.slots)) return false;
    group.by_step = shoal_scan_accept(&p->scan, "by_step");
    if (!shoal_parse_line_end(p)) return false;
    if (!SHOAL_PUSH(p->arena, &groups, group)) return out_of_memory(p);
  }
  if (groups.count > SHOAL_PROGRAM_MAX_GROUPS) {
    return shoal_scan_fail(&p->scan, "a class has at most %d slot groups, not %lld",
                           SHOAL_PROGRAM_MAX_GROUPS, (long long)groups.count);
  }
  class->slot_groups = groups.items;
  class->slot_group_count = (int32_t)groups.count;
  return !p->scan.error;
}

// ---- buffers ------------------------------------------------------------------------

static bool read_kind(parse_t *p, shoal_buffer_t *buffer) {
  for (int kind = 0; kind < SHOAL_BUFFER_KIND_COUNT; ++kind) {
    buffer->kind = (shoal_buffer_kind_t)kind;
    if (shoal_scan_accept(&p->scan, shoal_buffer_kind_name(buffer->kind))) return true;
  }
  return shoal_scan_fail(&p->scan, "a buffer is temp, state, input, output or next");
}

static bool read_memory(parse_t *p, shoal_buffer_t *buffer) {
  char word[16];
  if (!shoal_scan_accept(&p->scan, "memory")) return true;
  if (!shoal_scan_word(&p->scan, word, sizeof word)) return false;
  return shoal_memory_kind_parse(word, &buffer->memory) ||
         shoal_scan_fail(&p->scan, "memory is device, host or file");
}

static bool read_buffer(parse_t *p, const shoal_class_t *class, int64_t index,
                        shoal_buffer_t *buffer) {
  *buffer = (shoal_buffer_t){.state = -1, .group = -1, .count = -1};
  if (!shoal_parse_index(p, "buffer", index) || !read_kind(p, buffer)) return false;
  if ((buffer->kind == SHOAL_BUFFER_STATE || buffer->kind == SHOAL_BUFFER_NEXT) &&
      !shoal_parse_int32(p, "state", 0, p->program->state_count - 1, &buffer->state)) {
    return false;
  }
  if (!shoal_scan_string(&p->scan, p->arena, &buffer->name)) return false;
  if (!shoal_scan_type(&p->scan, &buffer->type)) return false;
  if (!shoal_parse_layout(p, &buffer->type, &buffer->layout)) return false;
  buffer->parts = shoal_scan_accept(&p->scan, "parts");
  if (!read_memory(p, buffer)) return false;
  int64_t most = INT64_MAX / SHOAL_PROGRAM_MAX_MICRO / 4;
  if (shoal_scan_accept(&p->scan, "group") &&
      !shoal_parse_int32(p, "slot group", 0, class->slot_group_count - 1, &buffer->group)) {
    return false;
  }
  if (!shoal_scan_expect(&p->scan, "bytes")) return false;
  if (!shoal_parse_int(p, "bytes", 0, most, &buffer->bytes)) return false;
  if (!shoal_scan_expect(&p->scan, "offset")) return false;
  if (!shoal_parse_int(p, "offset", 0, INT64_MAX / 4, &buffer->offset)) return false;
  if (!shoal_scan_accept(&p->scan, "count")) return shoal_parse_line_end(p);
  return shoal_parse_int32(p, "count", 0, INT32_MAX, &buffer->count) && shoal_parse_line_end(p);
}

static bool read_buffers(parse_t *p, shoal_class_t *class) {
  SHOAL_VEC(shoal_buffer_t) buffers = {0};
  while (shoal_scan_accept(&p->scan, "buffer")) {
    shoal_buffer_t buffer;
    if (!read_buffer(p, class, buffers.count, &buffer)) return false;
    if (!SHOAL_PUSH(p->arena, &buffers, buffer)) return out_of_memory(p);
  }
  if (buffers.count > INT32_MAX) return shoal_scan_fail(&p->scan, "too many buffers");
  for (int64_t i = 0; i < buffers.count; ++i) {
    if (buffers.items[i].count < buffers.count) continue;
    return shoal_scan_fail(&p->scan, "buffer %lld counts in buffer %d, which is not there",
                           (long long)i, buffers.items[i].count);
  }
  class->buffers = buffers.items;
  class->buffer_count = buffers.count;
  return !p->scan.error;
}

// ---- instructions -------------------------------------------------------------------

static bool read_queue(parse_t *p, const shoal_class_t *class, int32_t *out_queue) {
  const char *name, *names[SHOAL_MAX_QUEUES];
  if (!shoal_scan_name(&p->scan, p->arena, &name)) return false;
  for (*out_queue = 0; *out_queue < class->queue_count; ++*out_queue) {
    names[*out_queue] = class->queues[*out_queue].name;
    if (strcmp(names[*out_queue], name) == 0) return true;
  }
  shoal_hint_t hint;
  const char *meant = shoal_did_you_mean(name, names, class->queue_count, "", &hint);
  return shoal_scan_fail(&p->scan, "the class has no queue '%s'%s%s", name, meant[0] ? ": " : "",
                         meant);
}

static bool read_opcode(parse_t *p, shoal_opcode_t *out_opcode) {
  static const char *const names[] = {
#define SHOAL_OPCODE(id, name, doc) name,
#include "shoal/opcodes.inc"
#undef SHOAL_OPCODE
  };
  char word[32];
  if (!shoal_scan_word(&p->scan, word, sizeof word)) return false;
  for (int i = 0; i < SHOAL_OPCODE_COUNT; ++i) {
    *out_opcode = (shoal_opcode_t)i;
    if (strcmp(names[i], word) == 0) return true;
  }
  shoal_hint_t hint;
  const char *meant = shoal_did_you_mean(word, names, SHOAL_OPCODE_COUNT, "", &hint);
  return shoal_scan_fail(&p->scan, "'%s' is no opcode%s%s", word, meant[0] ? ": " : "", meant);
}

// "(0, 1, -)"; '(' was read. Only a reshard may leave a side out.
static bool read_operands(parse_t *p, const shoal_class_t *class, bool may_lack, int32_t *out_count,
                          const int32_t **out_list) {
  SHOAL_VEC(int32_t) list = {0};
  do {
    int32_t buffer = -1;
    if (!(may_lack && shoal_scan_accept(&p->scan, "-")) &&
        !shoal_parse_int32(p, "buffer", 0, class->buffer_count - 1, &buffer)) {
      return false;
    }
    if (!SHOAL_PUSH(p->arena, &list, buffer)) return out_of_memory(p);
  } while (shoal_scan_accept(&p->scan, ","));
  *out_count = (int32_t)list.count;
  *out_list = list.items;
  return shoal_scan_expect(&p->scan, ")");
}

static bool read_reduce(parse_t *p, shoal_reduce_t *out_reduce) {
  char word[32];
  if (!shoal_scan_expect(&p->scan, "reduce")) return false;
  if (!shoal_scan_word(&p->scan, word, sizeof word)) return false;
  return shoal_reduce_parse(word, out_reduce) ||
         shoal_scan_fail(&p->scan, "there is no reduction '%s'", word);
}

// "channel 3,4": one for each pair of an input and an output.
static bool read_channels(parse_t *p, shoal_instruction_t *in) {
  if (!shoal_scan_expect(&p->scan, "channel")) return false;
  const int32_t count = shoal_instruction_channels(in);
  int32_t *channels = SHOAL_NEW(p->arena, int32_t, count);
  if (!channels) return out_of_memory(p);
  for (int32_t i = 0; i < count; ++i) {
    if (i > 0 && !shoal_scan_expect(&p->scan, ",")) return false;
    if (!shoal_parse_int32(p, "channel", 0, p->program->channel_count - 1, &channels[i])) {
      return false;
    }
  }
  in->channels = channels;
  return true;
}

// What only this opcode has, and the number of its operands.
static bool read_details(parse_t *p, shoal_instruction_t *in) {
  int32_t inputs, outputs;
  shoal_opcode_arity(in->opcode, &inputs, &outputs);
  if (in->opcode == SHOAL_OPCODE_COMPUTE) {  // its attributes say how many operands it has
    shoal_attr_value_t *attrs = NULL;
    if (!shoal_scan_attrs(&p->scan, "{", "}", in->op, p->arena, &attrs) ||
        !shoal_scan_check(&p->scan, shoal_op_check_inputs(in->op, attrs, in->input_count))) {
      return false;
    }
    in->attrs = attrs;
    inputs = in->input_count;
    outputs = shoal_op_outputs(in->op, attrs);
  }
  if (in->opcode == SHOAL_OPCODE_ASSEMBLE) inputs = in->input_count < 1 ? 1 : in->input_count;
  if (in->opcode == SHOAL_OPCODE_RESHARD) {
    inputs = outputs = in->input_count < 1                            ? 1
                       : in->input_count > SHOAL_PROGRAM_MAX_OPERANDS ? SHOAL_PROGRAM_MAX_OPERANDS
                                                                      : in->input_count;
  }
  if (in->input_count != inputs || in->output_count != outputs) {
    return shoal_scan_fail(&p->scan, "%s takes %d buffers and gives %d, not %d and %d",
                           in->op ? in->op->name : shoal_opcode_name(in->opcode), inputs, outputs,
                           in->input_count, in->output_count);
  }
  switch (in->opcode) {
    case SHOAL_OPCODE_RESHARD:
    case SHOAL_OPCODE_EXCHANGE:
      return read_channels(p, in);
    case SHOAL_OPCODE_ACCUMULATE:
      return read_reduce(p, &in->reduce);
    case SHOAL_OPCODE_FILL:
      return shoal_scan_expect(&p->scan, "value") && shoal_scan_double(&p->scan, &in->value);
    default:
      return true;
  }
}

static bool read_tail(parse_t *p, const shoal_class_t *class, int64_t index,
                      shoal_instruction_t *in) {
  if (!shoal_scan_string(&p->scan, p->arena, &in->name)) return false;
  if (shoal_scan_accept(&p->scan, "predicate") &&
      !shoal_parse_int32(p, "buffer", 0, class->buffer_count - 1, &in->predicate)) {
    return false;
  }
  if (shoal_scan_accept(&p->scan, "workspace")) {
    if (!shoal_parse_int(p, "workspace", 1, INT64_MAX / 4, &in->workspace)) return false;
    if (!shoal_scan_expect(&p->scan, "@")) return false;
    if (!shoal_parse_int(p, "offset", 0, INT64_MAX / 4, &in->workspace_offset)) return false;
  }
  if (!shoal_scan_accept(&p->scan, "wait")) return shoal_parse_line_end(p);
  SHOAL_VEC(int32_t) waits = {0};
  do {
    int32_t wait;
    if (!shoal_parse_int32(p, "an instruction to wait for,", 0, index - 1, &wait)) return false;
    if (!SHOAL_PUSH(p->arena, &waits, wait)) return out_of_memory(p);
  } while (!shoal_scan_at_end(&p->scan) && !shoal_scan_peek(&p->scan, "\n"));
  in->waits = waits.items;
  in->wait_count = (int32_t)waits.count;
  return shoal_parse_line_end(p);
}

static bool read_instruction(parse_t *p, const shoal_class_t *class, int64_t index,
                             shoal_instruction_t *in) {
  *in = (shoal_instruction_t){.predicate = -1};
  if (!shoal_parse_index(p, "instruction", index)) return false;
  if (!read_queue(p, class, &in->queue) || !read_opcode(p, &in->opcode)) return false;
  if (in->opcode == SHOAL_OPCODE_COMPUTE) {
    const char *name;
    if (!shoal_scan_name(&p->scan, p->arena, &name)) return false;
    if (!shoal_scan_check(&p->scan, shoal_op_find(p->registry, name, &in->op))) return false;
  }
  bool may_lack = in->opcode == SHOAL_OPCODE_RESHARD;
  if (shoal_scan_accept(&p->scan, "(") &&
      !read_operands(p, class, may_lack, &in->input_count, &in->inputs)) {
    return false;
  }
  if (shoal_scan_accept(&p->scan, "->") &&
      !(shoal_scan_expect(&p->scan, "(") &&
        read_operands(p, class, may_lack, &in->output_count, &in->outputs))) {
    return false;
  }
  return read_details(p, in) && read_tail(p, class, index, in);
}

// ---- all together -------------------------------------------------------------------

static bool read_segment(parse_t *p, const shoal_class_t *class, int64_t index,
                         shoal_segment_t *segment) {
  *segment = (shoal_segment_t){0};
  if (!shoal_parse_index(p, "segment", index)) return false;
  if (!shoal_scan_name(&p->scan, p->arena, &segment->name)) return false;
  if (!shoal_parse_line_end(p)) return false;
  SHOAL_VEC(shoal_instruction_t) list = {0};
  while (shoal_parse_at_digit(p)) {
    shoal_instruction_t in;
    if (!read_instruction(p, class, list.count, &in)) return false;
    if (!SHOAL_PUSH(p->arena, &list, in)) return out_of_memory(p);
  }
  segment->instructions = list.items;
  segment->instruction_count = list.count;
  return !p->scan.error;
}

// The device's, then those of other memory that are not empty.
static bool read_arenas(parse_t *p, shoal_class_t *class) {
  for (int kind = 0; kind < SHOAL_MEMORY_COUNT; ++kind) {
    const char *name = shoal_memory_kind_name((shoal_memory_kind_t)kind);
    if (kind > 0 && !shoal_scan_accept(&p->scan, name)) continue;
    if (!shoal_parse_int(p, "arena", 0, INT64_MAX / 8, &class->arena_bytes[kind])) return false;
  }
  return true;
}

bool shoal_parse_class(parse_t *p, int64_t index, shoal_class_t *class) {
  if (!shoal_parse_index(p, "class", index) || !shoal_scan_expect(&p->scan, "ranks")) return false;
  if (!read_ranks(p, class) || !shoal_scan_expect(&p->scan, "arena")) return false;
  if (!read_arenas(p, class)) return false;
  if (!shoal_parse_line_end(p) || !read_queues(p, class) || !read_slot_groups(p, class)) {
    return false;
  }
  if (!read_buffers(p, class)) return false;
  SHOAL_VEC(shoal_segment_t) segments = {0};
  while (shoal_scan_accept(&p->scan, "segment")) {
    shoal_segment_t segment;
    if (!read_segment(p, class, segments.count, &segment)) return false;
    if (!SHOAL_PUSH(p->arena, &segments, segment)) return out_of_memory(p);
  }
  class->segments = segments.items;
  class->segment_count = segments.count;
  SHOAL_VEC(shoal_order_t) orders = {0};
  while (shoal_scan_accept(&p->scan, "order")) {
    shoal_order_t order;
    if (!shoal_parse_order(p, class, &order)) return false;
    if (!SHOAL_PUSH(p->arena, &orders, order)) return out_of_memory(p);
  }
  class->orders = orders.items;
  class->order_count = orders.count;
  return !p->scan.error;
}
