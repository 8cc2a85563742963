// Binding: parts, addresses and pieces of known programs; and reshards of many kinds executed on
// bound messages and steps, as the executor would, against the whole tensor. Every rank has
// different data.
#include "base/text.h"
#include "program/program_impl.h"
#include "program_support.h"
#include "shoal/program.h"
#include "unit/random.h"

enum { MAX_RANKS = 8, MAX_ELEMENTS = 512 };

static shoal_program_t *parse(const char *text, shoal_registry_t *registry) {
  shoal_program_t *program = NULL;
  assert_ok(shoal_program_parse("p", text, registry, shoal_allocator_system(), &program));
  return program;
}

// ---- known programs --------------------------------------------------------------------

static void parts_of_micro_batches(void **state) {
  (void)state;
  // Rows of x: micro-batches {0,1,2} {3,4} {5,6}; ranks 2|1, 1|1, 1|1.
  static const int64_t rows[2][3] = {{2, 1, 1}, {1, 1, 1}}, first[2][3] = {{0, 3, 5}, {2, 4, 6}};
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = parse(TRAIN, registry);
  for (int32_t rank = 0; rank < 2; ++rank) {
    shoal_arena_t arena;
    shoal_arena_init(shoal_allocator_system(), &arena);
    shoal_bound_t bound;
    assert_ok(shoal_program_bind(program, rank, &arena, &bound));
    assert_int_equal(bound.order_count, 2);
    const shoal_bound_order_t *train = &bound.orders[1];
    assert_string_equal(train->graph, "train");
    assert_int_equal(train->call_count, 6);
    for (int64_t m = 0; m < 3; ++m) {
      const shoal_bound_call_t *call = &train->calls[1 + m];
      assert_int_equal(call->micro, m);
      const shoal_bound_instruction_t *mul = &call->instructions[1];
      assert_int_equal(mul->inputs[0]->type.shape.dims[0], rows[rank][m]);
      assert_int_equal(mul->inputs[0]->boxes.dims[0].own[0].start, first[rank][m]);
      assert_int_equal(mul->call.outputs[0].shape.dims[0], rows[rank][m]);
      assert_int_equal(mul->call.inputs[1].shape.rank, 1);
      assert_int_equal(mul->outputs[0]->offset, 128);
      assert_ptr_equal(mul->inputs[1], train->calls[1].instructions[1].inputs[1]);  // w: bound once
      const shoal_motion_t *gather = &call->instructions[2].reshard->whole;
      assert_int_equal(gather->kind, SHOAL_RESHARD_ALL_GATHER);
      assert_true(gather->collective);
      assert_int_equal(gather->group_count, 2);
      for (int32_t i = 0; i < 2; ++i) {
        assert_int_equal(gather->group[i], i);
        assert_int_equal(gather->counts[i], 4 * rows[i][m]);
      }
      assert_int_equal(gather->send_count + gather->recv_count + gather->step_count, 0);
      const shoal_bound_instruction_t *accumulate = &call->instructions[4];
      assert_int_equal(accumulate->piece_count, 1);
      assert_int_equal(accumulate->pieces[0].size[0], 4);
      const shoal_bound_instruction_t *copy = &call->instructions[5];
      assert_int_equal(copy->piece_count, 1);
      assert_int_equal(copy->pieces[0].rank, 1);  // rows lie one behind the other: one run
      assert_int_equal(copy->pieces[0].size[0], 4 * (rows[0][m] + rows[1][m]));
      assert_int_equal(copy->pieces[0].src_offset, 0);
      assert_int_equal(copy->pieces[0].dst_offset, 4 * first[0][m]);
    }
    const shoal_motion_t *sum = &train->calls[4].instructions[0].reshard->whole;
    assert_true(sum->collective);
    assert_int_equal(sum->group_count, 2);
    assert_int_equal(sum->group[0], 0);
    assert_int_equal(sum->group[1], 1);
    assert_int_equal(sum->send_count + sum->recv_count + sum->step_count + sum->staging, 0);
    shoal_arena_deinit(&arena);
  }
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_bound_t bound;
  assert_error(INVALID_ARGUMENT, "no rank 2", shoal_program_bind(program, 2, &arena, &bound));
  shoal_bound_buffer_t buffer;
  assert_error(INVALID_ARGUMENT, "not on the mesh",
               shoal_buffer_bind(&program->classes[0], &program->classes[0].buffers[0], 9, 0, 0,
                                 &arena, &buffer));
  shoal_arena_deinit(&arena);
  shoal_program_free(program);
  shoal_registry_release(registry);
}

static void slots_and_idle_sides(void **state) {
  (void)state;
  shoal_registry_t *registry = test_registry();
  shoal_program_t *program = parse(STAGES, registry);
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_bound_t bound;
  assert_ok(shoal_program_bind(program, 3, &arena, &bound));
  const shoal_bound_call_t *calls = bound.orders[0].calls;
  assert_int_equal(calls[0].instructions[1].outputs[0]->offset, 192);  // slot 0 lies last
  assert_int_equal(calls[1].instructions[1].outputs[0]->offset, 128);  // micro-batch 1: slot 1
  assert_int_equal(calls[1].instructions[0].outputs[0]->offset, 0);    // one slot for all
  assert_null(calls[0].instructions[0].inputs[0]);
  assert_int_equal(calls[0].instructions[0].reshard->whole.send_count, 0);
  // Micro-batch 0 has rows 0,1 | 2 on a and 0 | 1 | 2 on b; micro-batch 1 rows 3 | 4 and 3 | 4 |
  // none.
  assert_int_equal(calls[0].instructions[0].reshard->whole.recvs[0].peer, 0);
  assert_int_equal(calls[1].instructions[0].reshard->whole.recvs[0].peer, 1);
  assert_ok(shoal_program_bind(program, 4, &arena, &bound));
  calls = bound.orders[0].calls;
  assert_false(calls[0].instructions[0].idle);
  assert_true(calls[1].instructions[0].idle);
  assert_int_equal(calls[1].instructions[1].outputs[0]->count,
                   0);  // an empty part is computed, too
  shoal_arena_deinit(&arena);
  shoal_program_free(program);
  shoal_registry_release(registry);
}

// ---- reshards, executed ----------------------------------------------------------------

typedef struct reshard_case {
  const char *type, *src, *dst;
  const char *kind;  // NULL: whatever it is
} reshard_case_t;

// Ranks 0 to 5 on a, 2 to 6 on b; rank 7 on neither.
#define MESHES "mesh a!d=2,t=3\nmesh b!x=5@6,2-5\n"

static const reshard_case_t cases[] = {
    {"f64[7, 12]", "a!d:0", "a!", "all_gather"},
    {"f64[7, 12]", "a!", "a!d:0", "slice"},
    {"f64[7, 12]", "a!t:1/5", "a!t:1/5", "none"},
    {"f64[7, 12]", "a!d:partial(sum)", "a!", "all_reduce"},
    {"f64[7, 12]", "a!d:partial(sum),t:0", "a!t:0", "all_reduce"},
    {"f64[7, 12]", "a!t:partial(sum),d:partial(sum)", "a!", "all_reduce"},
    {"f64[7, 12]", "a!t:partial(max)", "a!", "all_reduce"},
    {"f64[7, 12]", "a!t:partial(sum)", "a!t:1", "reduce_scatter"},
    {"f64[7, 12]", "a!t:partial(sum)", "a!t:1,d:0", NULL},
    {"f64[7, 12]", "a!t:partial(sum),d:0", "a!d:1", NULL},
    {"f64[7, 12]", "a!t:partial(sum),d:0", "b!x:1", "between"},
    {"f64[7, 12]", "a!t:partial(min),d:0", "b!", "between"},
    {"f64[7, 12]", "a!d:partial(sum),t:0", "a!d:partial(sum)", "all_gather"},
    {"f64[7, 12]", "a!d:0", "a!d:1", "all_to_all"},
    {"f64[7, 12]", "a!t:0/2,d:1", "a!d:0,t:1/3", NULL},
    {"f64[7, 12]", "a!t:0", "a!t:0+1+1", "halo"},
    {"f64[7, 12]", "a!t:0+1+1,d:1", "b!x:0+0+2", "between"},
    {"f64[7, 12]", "a!d:flat", "a!t:flat/5", NULL},
    {"f64[7, 12]", "a!d:partial(sum)", "a!d:flat", NULL},
    {"f64[7, 12]", "a!t:1*3/2,d:flat", "b!x:flat", "between"},
    {"f64[7, 12]", "a!t:1*3/2", "a!", NULL},
    {"f64[7, 12]", "a!t:1*(6/2,4,2)", "a!t:0(3,0,1)", NULL},
    {"f64[7, 12]", "a!", "a!d:partial(sum)", NULL},
    {"f64[7, 12]", "b!x:0", "a!d:partial(sum),t:0", "between"},
    {"f64[7, 12]", "a!t:partial(sum)", "a!d:partial(sum),t:0", NULL},
    {"f64[7, 12]", "b!", "a!t:1", "between"},
    {"f64[2, 3, 5]", "b!x:2", "a!d:1,t:0", "between"},
    {"f64[2]", "b!x:0", "a!t:0", "between"},
    {"f64[]", "a!d:partial(sum)", "b!", "between"},
    {"f64[]", "b!", "a!", "between"},
    {"f64[0, 4]", "a!d:partial(sum),t:1", "a!", NULL},
};

static const shoal_cut_t *partial_along(const shoal_layout_t *layout, const char *axis) {
  int32_t index = shoal_mesh_axis(layout->mesh, axis);
  for (int32_t i = 0; index >= 0 && i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    if (cut->axis == index && cut->kind == SHOAL_CUT_PARTIAL) return cut;
  }
  return NULL;
}

// What the source holds of an element at these coordinates of its partial axes.
static double summand(const shoal_layout_t *src, const int64_t *coords, int64_t element) {
  double value = 1.0 + (double)element;
  for (int32_t a = 0; a < src->mesh->axis_count; ++a) {
    if (partial_along(src, src->mesh->axes[a].name)) value = 7 * value + 3 + (double)coords[a];
  }
  return value;
}

static double join(shoal_reduce_t reduce, double a, double b) {
  if (reduce == SHOAL_REDUCE_SUM) return a + b;
  return reduce == SHOAL_REDUCE_MAX ? (a > b ? a : b) : (a < b ? a : b);
}

// What the destination must hold at `coords`, from the definition: partial axes that both keep fix
// the source's coordinate, others are joined; where only the destination is partial, coordinate 0
// has it all.
static double expected(const shoal_channel_t *channel, const int64_t *coords, int64_t element) {
  const shoal_layout_t *src = channel->src, *dst = channel->dst;
  for (int32_t a = 0; a < dst->mesh->axis_count; ++a) {
    const char *name = dst->mesh->axes[a].name;
    if (partial_along(dst, name) && !partial_along(src, name) && coords[a] != 0) return 0;
  }
  double result = 0;
  bool any = false;
  for (int64_t position = 0; position < shoal_mesh_size(src->mesh); ++position) {
    int64_t at[SHOAL_MAX_AXES];
    shoal_mesh_coords(src->mesh, position, at);
    bool counts = true;
    shoal_reduce_t reduce = SHOAL_REDUCE_SUM;
    for (int32_t a = 0; a < src->mesh->axis_count; ++a) {
      const char *name = src->mesh->axes[a].name;
      const shoal_cut_t *partial = partial_along(src, name);
      if (!partial)
        counts = counts && at[a] == 0;
      else if (partial_along(dst, name))
        counts = counts && at[a] == coords[shoal_mesh_axis(dst->mesh, name)];
      else
        reduce = partial->reduce;
    }
    if (!counts) continue;
    double value = summand(src, at, element);
    result = any ? join(reduce, result, value) : value;
    any = true;
  }
  return result;
}

typedef struct rank_memory {
  double input[MAX_ELEMENTS], output[MAX_ELEMENTS], staging[4 * MAX_ELEMENTS];
  const shoal_bound_instruction_t *code;
  int32_t sent[MAX_RANKS], received[MAX_RANKS];  // messages, by peer
} rank_memory_t;

static void move(const shoal_piece_t *pieces, int64_t count, const double *src, double *dst,
                 bool accumulate, shoal_reduce_t reduce) {
  for (int64_t p = 0; p < count; ++p) {
    const shoal_piece_t *piece = &pieces[p];
    int64_t total = 1;
    for (int32_t d = 0; d < piece->rank; ++d) total *= piece->size[d];
    for (int64_t i = 0; i < total; ++i) {
      int64_t rest = i, from = piece->src_offset, to = piece->dst_offset;
      for (int32_t d = piece->rank - 1; d >= 0; --d) {
        from += rest % piece->size[d] * piece->src_stride[d];
        to += rest % piece->size[d] * piece->dst_stride[d];
        rest /= piece->size[d];
      }
      dst[to] = accumulate ? join(reduce, dst[to], src[from]) : src[from];
    }
  }
}

// The n-th message that `from` sends to `to`.
static const shoal_parcel_t *message_of(const rank_memory_t *from, int32_t to, int32_t n) {
  const shoal_motion_t *reshard = &from->code->reshard->whole;
  for (int32_t i = 0; i < reshard->send_count; ++i) {
    if (reshard->sends[i].peer == to && n-- == 0) return &reshard->sends[i];
  }
  fail_msg("the message is not sent");
  return NULL;
}

static void run_rank(rank_memory_t *ranks, int32_t rank) {
  rank_memory_t *mine = &ranks[rank];
  const shoal_motion_t *reshard = &mine->code->reshard->whole;
  if (mine->code->idle || !mine->code->outputs[0]) return;
  int64_t count = mine->code->outputs[0]->count;
  if (reshard->collective && reshard->kind == SHOAL_RESHARD_ALL_GATHER) {
    int64_t at = 0;
    for (int32_t g = 0; g < reshard->group_count; ++g) {
      assert_int_equal(ranks[reshard->group[g]].code->inputs[0]->count, reshard->counts[g]);
      memcpy(mine->output + at, ranks[reshard->group[g]].input,
             (size_t)reshard->counts[g] * sizeof(double));
      at += reshard->counts[g];
    }
    assert_int_equal(at, count);
    return;
  }
  if (reshard->collective && reshard->kind == SHOAL_RESHARD_REDUCE_SCATTER) {
    int64_t at = 0;
    for (int32_t g = 0; reshard->group[g] != rank; ++g) at += reshard->counts[g];
    for (int64_t i = 0; i < count; ++i) {
      mine->output[i] = ranks[reshard->group[0]].input[at + i];
      for (int32_t g = 1; g < reshard->group_count; ++g) {
        mine->output[i] =
            join(reshard->reduce, mine->output[i], ranks[reshard->group[g]].input[at + i]);
      }
    }
    return;
  }
  if (reshard->collective) {
    for (int64_t i = 0; i < count; ++i) {
      mine->output[i] = ranks[reshard->group[0]].input[i];
      for (int32_t g = 1; g < reshard->group_count; ++g) {
        mine->output[i] = join(reshard->reduce, mine->output[i], ranks[reshard->group[g]].input[i]);
      }
    }
    return;
  }
  if (reshard->clear) {
    for (int64_t i = 0; i < count; ++i) mine->output[i] = 0;
  }
  for (int32_t i = 0; i < reshard->recv_count; ++i) {
    const shoal_parcel_t *recv = &reshard->recvs[i];
    const rank_memory_t *from = &ranks[recv->peer];
    const shoal_parcel_t *send = message_of(from, rank, mine->received[recv->peer]++);
    assert_int_equal(send->count, recv->count);
    memcpy((recv->direct ? mine->output : mine->staging) + recv->offset / 8,
           (send->direct ? from->input : from->staging) + send->offset / 8,
           (size_t)recv->count * sizeof(double));
  }
  for (int32_t i = 0; i < reshard->step_count; ++i) {
    const shoal_step_t *step = &reshard->steps[i];
    const shoal_parcel_t *recv = step->recv < 0 ? NULL : &reshard->recvs[step->recv];
    if (recv && recv->direct) continue;
    move(step->pieces, step->piece_count, recv ? mine->staging + recv->offset / 8 : mine->input,
         mine->output, step->add, reshard->reduce);
  }
}

// A program of one reshard, with a class per rank.
static void add_classes(shoal_text_t *text, const reshard_case_t *c) {
  static const struct { int first, last; } members[2] = {{0, 5}, {2, 6}};
  for (int rank = 0; rank < MAX_RANKS; ++rank) {
    bool has[2];
    for (int side = 0; side < 2; ++side) {
      int mesh = (side ? c->dst : c->src)[0] - 'a';
      has[side] = rank >= members[mesh].first && rank <= members[mesh].last;
    }
    shoal_text_addf(text, "class %d ranks %d arena 65536\n", rank, rank);
    int count = 0;
    for (int side = 0; side < 2; ++side) {
      if (!has[side]) continue;
      shoal_text_addf(text, "  buffer %d temp \"v\" %s \"%s\" bytes 4096 offset %d\n", count++,
                      c->type, side ? c->dst : c->src, side * 4096);
    }
    if (count == 0) continue;
    shoal_text_addf(text,
                    "  segment 0 s\n    0 comm reshard (%s) -> (%s) channel 0 \"v\" workspace "
                    "32768@8192\n  order run 0\n",
                    has[0] ? "0" : "-", has[1] ? (has[0] ? "1" : "0") : "-");
  }
}

static void run_case(const reshard_case_t *c, shoal_registry_t *registry) {
  shoal_text_t text;
  shoal_text_init(shoal_allocator_system(), &text);
  shoal_text_addf(&text,
                  "shoal_program 1\nworld 8\nmicro 1\n" MESHES "channel 0 %s \"%s\" -> \"%s\"\n",
                  c->type, c->src, c->dst);
  add_classes(&text, c);
  shoal_program_t *program = parse(text.data, registry);
  const shoal_channel_t *channel = &program->channels[0];
  int64_t elements = shoal_shape_count(&channel->type.shape), most = 0, coords[SHOAL_MAX_AXES];
  static rank_memory_t ranks[MAX_RANKS];
  memset(ranks, 0, sizeof ranks);
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  for (int32_t rank = 0; rank < MAX_RANKS; ++rank) {
    rank_memory_t *mine = &ranks[rank];
    shoal_bound_t bound;
    assert_ok(shoal_program_bind(program, rank, &arena, &bound));
    if (bound.order_count == 0) continue;
    mine->code = &bound.orders[0].calls[0].instructions[0];
    if (!mine->code->reshard) continue;
    if (c->kind) assert_string_equal(shoal_reshard_name(mine->code->reshard->whole.kind), c->kind);
    if (mine->code->reshard->whole.staging > most &&
        !shoal_motion_only_sends(&mine->code->reshard->whole))
      most = mine->code->reshard->whole.staging;
    for (int64_t i = 0; i < MAX_ELEMENTS; ++i) mine->output[i] = -1e9;
    if (!mine->code->inputs[0]) continue;
    double whole[MAX_ELEMENTS];
    shoal_mesh_coords(channel->src->mesh, shoal_mesh_position(channel->src->mesh, rank), coords);
    for (int64_t i = 0; i < elements; ++i) whole[i] = summand(channel->src, coords, i);
    assert_ok(shoal_boxes_pack(&mine->code->inputs[0]->boxes, sizeof(double), whole, mine->input));
    for (int32_t i = 0; i < mine->code->reshard->whole.send_count; ++i) {
      const shoal_parcel_t *send = &mine->code->reshard->whole.sends[i];
      if (send->direct) continue;
      move(send->pieces, send->piece_count, mine->input, mine->staging + send->offset / 8, false,
           0);
    }
  }
  for (int32_t rank = 0; rank < MAX_RANKS; ++rank) {
    rank_memory_t *mine = &ranks[rank];
    if (!mine->code || !mine->code->outputs[0]) continue;
    run_rank(ranks, rank);
    double whole[MAX_ELEMENTS], part[MAX_ELEMENTS];
    shoal_mesh_coords(channel->dst->mesh, shoal_mesh_position(channel->dst->mesh, rank), coords);
    for (int64_t i = 0; i < elements; ++i) whole[i] = expected(channel, coords, i);
    assert_ok(shoal_boxes_pack(&mine->code->outputs[0]->boxes, sizeof(double), whole, part));
    for (int64_t i = 0; i < mine->code->outputs[0]->count; ++i) {
      if (mine->output[i] == part[i]) continue;
      fail_msg("%s: %s -> %s: rank %d, element %lld is %g, not %g", c->type, c->src, c->dst, rank,
               (long long)i, mine->output[i], part[i]);
    }
  }
  for (int32_t from = 0; from < MAX_RANKS; ++from) {  // nothing is sent that is not received
    if (!ranks[from].code || !ranks[from].code->reshard) continue;
    const shoal_motion_t *reshard = &ranks[from].code->reshard->whole;
    for (int32_t i = 0; i < reshard->send_count; ++i) ++ranks[from].sent[reshard->sends[i].peer];
    for (int32_t to = 0; to < MAX_RANKS; ++to) {
      assert_int_equal(ranks[from].sent[to], ranks[to].received[from]);
    }
  }
  int64_t workspace;
  assert_ok(shoal_channel_workspace(channel, 1, NULL, &arena, &workspace));
  assert_int_equal(workspace, most);
  shoal_arena_deinit(&arena);
  shoal_program_free(program);
  shoal_text_deinit(&text);
}

static void reshards_move_the_right_elements(void **state) {
  (void)state;
  shoal_registry_t *registry = test_registry();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) run_case(&cases[i], registry);
  shoal_registry_release(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_of_micro_batches),
      cmocka_unit_test(slots_and_idle_sides),
      cmocka_unit_test(reshards_move_the_right_elements),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
