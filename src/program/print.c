// Printing a program: one record a line, one instruction a line. parse.c reads it back.
//
//   shoal_program 1
//   world 5
//   micro 3
//   mesh a!data=2,micro=3@0-1
//   state fc1/weight f32[784, 256] "a!tensor:1" saved
//   input train x f32[7, 64]
//   output train loss f32[]
//   output train logits f32[7, 256] request 4
//   channel 0 f32[7, 64] "a!micro:0,data:0" -> "b!micro:0,data:0" micro
//   class 0 ranks 0-1 arena 4096 host 2048
//     queue compute compute
//     queue gradients comm
//     slots 0 2
//     slots 1 2 by_step
//     buffer 0 temp "fc1/einsum" f32[7, 256] "a!micro:0,data:0" group 0 bytes 2048 offset 0 count 5
//     buffer 1 state 0 "fc1/weight" f32[784, 256] "a!tensor:1" memory host bytes 2048 offset 0
//     buffer 2 next 0 "sgd.w" f32[784, 256] "a!tensor:1" bytes 2048 offset 4096
//     buffer 3 temp "attention.lse" f32[2, 7, 64] "a!data:0" parts bytes 2048 offset 8192
//     segment 0 train.loop.0
//       0 copy feed -> (0) "x"
//       1 compute compute shoal.einsum (0, 1) -> (2) {equation="bc,cn->bn"} "fc1/einsum" wait 0
//       2 comm reshard (2) -> (-) channel 0 "fc1/einsum" workspace 128@4096 wait 1
//       3 compute fill -> (4) value 0 "grad" predicate 6
//       4 compute accumulate (3) -> (4) reduce sum "grad"
//       5 comm reshard (7, 8) -> (9, 10) channel 1,2 "grad"
//       6 comm exchange (11, 12, 13) -> (14) channel 3 "tokens"
//     order train 0:0{0=0} 0:1{0=1} 0:2{0=0}[1<2.3] 1
//
// Attributes that have their default are left out, and so are the queues compute, comm, copy where
// those are all, arenas of host and file memory where there are none, and that memory is device; an
// output on request is kept in that state; `parts` marks what several ranks have of a value; `-`
// stands for the side of a reshard that this class has no part in; a reshard of several values has
// as many inputs, outputs and channels. A call is segment:micro-batch, or the segment alone outside
// the loop; then {group=slot,...} and its waits, [instruction<back.other,...]: instruction 1 waits
// for instruction 3 of the call 2 calls before.
#include "op/reduce.h"
#include "op/text.h"
#include "program/program_impl.h"

static shoal_status_t add_layout(shoal_text_t *text, const shoal_layout_t *layout,
                                 shoal_arena_t *arena) {
  const char *printed;
  SHOAL_RETURN_IF_ERROR(shoal_layout_print(layout, arena, &printed));
  shoal_text_add_quoted(text, printed);
  return NULL;
}

// ---- tables -------------------------------------------------------------------------

static shoal_status_t add_head(shoal_text_t *text, const shoal_program_t *p, shoal_arena_t *arena) {
  shoal_text_addf(text, "shoal_program 1\nworld %d\nmicro %lld\n", p->world, (long long)p->micro);
  for (int64_t i = 0; i < p->mesh_count; ++i) {
    const char *printed;
    SHOAL_RETURN_IF_ERROR(shoal_mesh_print(&p->meshes[i], arena, &printed));
    shoal_text_addf(text, "mesh %s\n", printed);
  }
  for (int64_t i = 0; i < p->state_count; ++i) {
    const shoal_program_state_t *state = &p->states[i];
    shoal_text_add(text, "state ");
    shoal_text_add_name(text, state->name);
    shoal_text_add(text, " ");
    shoal_text_add_type(text, &state->type);
    shoal_text_add(text, " ");
    SHOAL_RETURN_IF_ERROR(add_layout(text, state->layout, arena));
    shoal_text_add(text, state->saved ? " saved\n" : "\n");
  }
  for (int64_t i = 0; i < p->input_count + p->output_count; ++i) {
    bool input = i < p->input_count;
    const shoal_program_port_t *port = input ? &p->inputs[i] : &p->outputs[i - p->input_count];
    shoal_text_add(text, input ? "input " : "output ");
    shoal_text_add_name(text, port->graph);
    shoal_text_add(text, " ");
    shoal_text_add_name(text, port->name);
    shoal_text_add(text, " ");
    shoal_text_add_type(text, &port->type);
    if (port->on_request) shoal_text_addf(text, " request %d", port->state);
    shoal_text_add(text, "\n");
  }
  for (int64_t i = 0; i < p->channel_count; ++i) {
    const shoal_channel_t *channel = &p->channels[i];
    shoal_text_addf(text, "channel %lld ", (long long)i);
    shoal_text_add_type(text, &channel->type);
    shoal_text_add(text, " ");
    SHOAL_RETURN_IF_ERROR(add_layout(text, channel->src, arena));
    shoal_text_add(text, " -> ");
    SHOAL_RETURN_IF_ERROR(add_layout(text, channel->dst, arena));
    if (channel->micro) shoal_text_add(text, " micro");
    if (channel->lane != 0) shoal_text_addf(text, " lane %d", channel->lane);
    shoal_text_add(text, "\n");
  }
  return NULL;
}

static shoal_status_t add_buffer(shoal_text_t *text, int64_t index, const shoal_buffer_t *buffer,
                                 shoal_arena_t *arena) {
  shoal_text_addf(text, "  buffer %lld %s ", (long long)index,
                  shoal_buffer_kind_name(buffer->kind));
  if (buffer->kind == SHOAL_BUFFER_STATE || buffer->kind == SHOAL_BUFFER_NEXT)
    shoal_text_addf(text, "%d ", buffer->state);
  shoal_text_add_quoted(text, buffer->name);
  shoal_text_add(text, " ");
  shoal_text_add_type(text, &buffer->type);
  shoal_text_add(text, " ");
  SHOAL_RETURN_IF_ERROR(add_layout(text, buffer->layout, arena));
  if (buffer->parts) shoal_text_add(text, " parts");
  if (buffer->memory != SHOAL_MEMORY_DEVICE)
    shoal_text_addf(text, " memory %s", shoal_memory_kind_name(buffer->memory));
  if (buffer->group >= 0) shoal_text_addf(text, " group %d", buffer->group);
  shoal_text_addf(text, " bytes %lld offset %lld", (long long)buffer->bytes,
                  (long long)buffer->offset);
  if (buffer->count >= 0) shoal_text_addf(text, " count %d", buffer->count);
  shoal_text_add(text, "\n");
  return NULL;
}

// ---- instructions -------------------------------------------------------------------

static void add_buffers(shoal_text_t *text, const char *before, int32_t count,
                        const int32_t *list) {
  if (count == 0) return;
  for (int32_t i = 0; i < count; ++i) {
    shoal_text_add(text, i ? ", " : before);
    if (list[i] < 0)
      shoal_text_add(text, "-");
    else
      shoal_text_addf(text, "%d", list[i]);
  }
  shoal_text_add(text, ")");
}

static shoal_status_t add_instruction(shoal_text_t *text, int64_t index, const shoal_class_t *class,
                                      const shoal_instruction_t *in) {
  shoal_text_addf(text, "    %lld ", (long long)index);
  shoal_text_add_name(text, class->queues[in->queue].name);
  shoal_text_addf(text, " %s", shoal_opcode_name(in->opcode));
  if (in->opcode == SHOAL_OPCODE_COMPUTE) {
    shoal_text_add(text, " ");
    shoal_text_add_name(text, in->op->name);
  }
  add_buffers(text, " (", in->input_count, in->inputs);
  add_buffers(text, " -> (", in->output_count, in->outputs);
  if (in->opcode == SHOAL_OPCODE_COMPUTE) {
    shoal_status_t status = shoal_text_add_attrs(text, in->op, in->attrs);
    if (status) return shoal_status_annotatef(status, "while printing '%s'", in->name);
  }
  for (int32_t i = 0; i < shoal_instruction_channels(in); ++i) {
    shoal_text_addf(text, "%s%d", i ? "," : " channel ", in->channels[i]);
  }
  if (in->opcode == SHOAL_OPCODE_ACCUMULATE) {
    shoal_text_addf(text, " reduce %s", shoal_reduce_name(in->reduce));
  }
  if (in->opcode == SHOAL_OPCODE_FILL) {
    shoal_text_add(text, " value ");
    shoal_text_add_double(text, in->value);
  }
  shoal_text_add(text, " ");
  shoal_text_add_quoted(text, in->name);
  if (in->predicate >= 0) shoal_text_addf(text, " predicate %d", in->predicate);
  if (in->workspace > 0) {
    shoal_text_addf(text, " workspace %lld@%lld", (long long)in->workspace,
                    (long long)in->workspace_offset);
  }
  for (int32_t i = 0; i < in->wait_count; ++i) {
    shoal_text_addf(text, "%s%d", i ? " " : " wait ", in->waits[i]);
  }
  shoal_text_add(text, "\n");
  return NULL;
}

// ---- all together -------------------------------------------------------------------

static void add_call(shoal_text_t *text, const shoal_class_t *class,
                     const shoal_segment_call_t *call) {
  shoal_text_addf(text, " %d", call->segment);
  if (call->micro >= 0) shoal_text_addf(text, ":%d", call->micro);
  bool any = false;
  for (int32_t g = 0; g < class->slot_group_count; ++g) {
    if (call->slots[g] < 0) continue;
    shoal_text_addf(text, "%s%d=%d", any ? "," : "{", g, call->slots[g]);
    any = true;
  }
  if (any) shoal_text_add(text, "}");
  for (int32_t i = 0; i < call->wait_count; ++i) {
    const shoal_call_wait_t *wait = &call->waits[i];
    shoal_text_addf(text, "%s%d<%d.%d", i ? "," : "[", wait->instruction, wait->back, wait->other);
  }
  if (call->wait_count > 0) shoal_text_add(text, "]");
}

static shoal_status_t add_class(shoal_text_t *text, int64_t index, const shoal_class_t *class,
                                shoal_arena_t *arena) {
  shoal_text_addf(text, "class %lld ranks ", (long long)index);
  for (int64_t i = 0, next; i < class->rank_count; i = next) {
    for (next = i + 1;
         next < class->rank_count && class->ranks[next] == class->ranks[next - 1] + 1;) {
      ++next;
    }
    shoal_text_addf(text, "%s%d", i ? "," : "", class->ranks[i]);
    if (next > i + 1) shoal_text_addf(text, "-%d", class->ranks[next - 1]);
  }
  shoal_text_addf(text, " arena %lld", (long long)class->arena_bytes[SHOAL_MEMORY_DEVICE]);
  for (int kind = SHOAL_MEMORY_HOST; kind < SHOAL_MEMORY_COUNT; ++kind) {
    if (class->arena_bytes[kind] == 0) continue;
    shoal_text_addf(text, " %s %lld", shoal_memory_kind_name((shoal_memory_kind_t)kind),
                    (long long)class->arena_bytes[kind]);
  }
  shoal_text_add(text, "\n");
  for (int32_t i = 0; i < class->queue_count && !shoal_class_has_default_queues(class); ++i) {
    shoal_text_add(text, "  queue ");
    shoal_text_add_name(text, class->queues[i].name);
    shoal_text_addf(text, " %s\n", shoal_queue_kind_name(class->queues[i].kind));
  }
  for (int32_t g = 0; g < class->slot_group_count; ++g) {
    shoal_text_addf(text, "  slots %d %d%s\n", g, class->slot_groups[g].slots,
                    class->slot_groups[g].by_step ? " by_step" : "");
  }
  for (int64_t i = 0; i < class->buffer_count; ++i) {
    SHOAL_RETURN_IF_ERROR(add_buffer(text, i, &class->buffers[i], arena));
  }
  for (int64_t s = 0; s < class->segment_count; ++s) {
    const shoal_segment_t *segment = &class->segments[s];
    shoal_text_addf(text, "  segment %lld ", (long long)s);
    shoal_text_add_name(text, segment->name);
    shoal_text_add(text, "\n");
    for (int64_t i = 0; i < segment->instruction_count; ++i) {
      SHOAL_RETURN_IF_ERROR(add_instruction(text, i, class, &segment->instructions[i]));
    }
  }
  for (int64_t i = 0; i < class->order_count; ++i) {
    const shoal_order_t *order = &class->orders[i];
    shoal_text_add(text, "  order ");
    shoal_text_add_name(text, order->graph);
    for (int64_t k = 0; k < order->call_count; ++k) {
      add_call(text, class, &order->calls[k]);
    }
    shoal_text_add(text, "\n");
  }
  return NULL;
}

static shoal_status_t add_program(shoal_text_t *text, const shoal_program_t *p,
                                  shoal_arena_t *arena) {
  SHOAL_RETURN_IF_ERROR(add_head(text, p, arena));
  for (int64_t c = 0; c < p->class_count; ++c) {
    SHOAL_RETURN_IF_ERROR(add_class(text, c, &p->classes[c], arena));
  }
  return NULL;
}

shoal_status_t shoal_program_print(const shoal_program_t *program, shoal_arena_t *arena,
                                   const char **out_text) {
  shoal_text_t text;
  shoal_arena_t scratch;
  shoal_text_init(arena->allocator, &text);
  shoal_arena_init(arena->allocator, &scratch);
  shoal_status_t status = add_program(&text, program, &scratch);
  shoal_arena_deinit(&scratch);
  return shoal_text_close(&text, status, arena, out_text);
}
