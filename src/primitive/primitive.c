// A primitive of one rank: its plan, its memory, and the exchange under way. What moves where is
// plan.c's business; here it is started and waited for.
#include "base/dtype.h"
#include "base/number.h"
#include "base/status.h"
#include "comm/comm_impl.h"
#include "op/reduce.h"
#include "primitive/primitive_impl.h"

struct shoal_primitive {
  shoal_world_t *world;
  shoal_allocator_t allocator;
  shoal_arena_t arena;
  shoal_primitive_plan_t plan;
  shoal_carrier_t forward, adjoint;
  shoal_group_t *group;  // where the plan is an all-reduce, for both directions
  void *staging;
  shoal_stencil_part_t stencil[SHOAL_MAX_RANK];
};

// ---- creating -------------------------------------------------------------------------

// Tags tell apart primitives that ranks planned differently, and the two directions.
static int32_t tag_of(const shoal_primitive_plan_t *plan, bool adjoint) {
  return (int32_t)((plan->hash ^ plan->hash >> 32) & 0x7fffff) << 1 | adjoint;
}

static shoal_status_t make_memory(shoal_primitive_t *p) {
  const shoal_motion_t *f = &p->plan.forward, *a = &p->plan.adjoint;
  SHOAL_RETURN_IF_ERROR(
      shoal_carrier_init(p->world, f, tag_of(&p->plan, false), &p->arena, &p->forward));
  SHOAL_RETURN_IF_ERROR(
      shoal_carrier_init(p->world, a, tag_of(&p->plan, true), &p->arena, &p->adjoint));
  const int64_t staging = shoal_max64(f->staging, a->staging);
  if (staging > 0 && !(p->staging = p->allocator.alloc(p->allocator.self, (size_t)staging))) {
    return SHOAL_OOM();
  }
  if (f->group_count > 0) {  // last: whoever fails before has made none
    SHOAL_RETURN_IF_ERROR(shoal_group_create(p->world, f->group_count, f->group, &p->group));
  }
  p->forward.staging = p->adjoint.staging = p->staging;
  p->forward.group = p->adjoint.group = p->group;
  return NULL;
}

static shoal_status_t check_ranks(shoal_world_t *world, const shoal_holding_t *holding) {
  const shoal_mesh_t *mesh = holding->layout ? holding->layout->mesh : NULL;
  const int64_t count = mesh ? shoal_mesh_size(mesh) : holding->part_count;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t rank = mesh ? shoal_mesh_rank(mesh, i) : holding->parts[i].rank;
    if (rank >= 0 && rank < shoal_world_size(world)) continue;
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "use a mesh of the world's ranks",
                            "rank %d holds a part, but the world has %d ranks", rank,
                            shoal_world_size(world));
  }
  return NULL;
}

static shoal_status_t check_value(shoal_dtype_t dtype, const shoal_shape_t *shape) {
  if (shoal_dtype_size(dtype) == 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "unknown element type %d", (int)dtype);
  }
  bool good = shape->rank >= 0 && shape->rank <= SHOAL_MAX_RANK;
  for (int32_t d = 0; good && d < shape->rank; ++d) good = shape->dims[d] >= 0;
  return good ? NULL : SHOAL_ERROR(INVALID_ARGUMENT, "a shape of rank %d", shape->rank);
}

static shoal_status_t init(shoal_primitive_t *p, shoal_dtype_t dtype, const shoal_shape_t *shape,
                           const shoal_holding_t *src, const shoal_holding_t *dst, bool refresh) {
  SHOAL_RETURN_IF_ERROR(check_value(dtype, shape));
  SHOAL_RETURN_IF_ERROR(shoal_primitive_plan(dtype, shape, src, dst, refresh,
                                             shoal_world_rank(p->world), &p->arena, &p->plan));
  SHOAL_RETURN_IF_ERROR(check_ranks(p->world, src));
  SHOAL_RETURN_IF_ERROR(check_ranks(p->world, dst));
  return make_memory(p);
}

shoal_status_t shoal_primitive_create(shoal_world_t *world, shoal_dtype_t dtype,
                                      const shoal_shape_t *shape, const shoal_holding_t *src,
                                      const shoal_holding_t *dst,
                                      const shoal_primitive_options_t *options,
                                      shoal_primitive_t **out_primitive) {
  shoal_allocator_t allocator =
      options && options->allocator.alloc ? options->allocator : world->allocator;
  shoal_primitive_t *p = allocator.alloc(allocator.self, sizeof *p);
  if (!p) return SHOAL_OOM();
  *p = (shoal_primitive_t){.world = world, .allocator = allocator};
  shoal_arena_init(allocator, &p->arena);
  shoal_world_retain(world);
  shoal_status_t status = init(p, dtype, shape, src, dst, options && options->refresh);
  if (status) {
    shoal_primitive_free(p);
    return status;
  }
  *out_primitive = p;
  return NULL;
}

void shoal_primitive_free(shoal_primitive_t *p) {
  if (!p) return;
  if (p->forward.busy) shoal_status_free(shoal_carrier_wait(&p->forward));
  if (p->adjoint.busy) shoal_status_free(shoal_carrier_wait(&p->adjoint));
  shoal_group_free(p->group);
  shoal_allocator_t allocator = p->allocator;
  shoal_arena_deinit(&p->arena);
  allocator.free(allocator.self, p->staging);
  shoal_world_release(p->world);
  allocator.free(allocator.self, p);
}

void shoal_primitive_set_stencil(shoal_primitive_t *p, int32_t dim, shoal_stencil_part_t part) {
  p->stencil[dim] = part;
}

// ---- applying -------------------------------------------------------------------------

static shoal_status_t check_call(const shoal_primitive_t *p, const shoal_carrier_t *carrier,
                                 const void *input, const void *output) {
  const shoal_motion_t *motion = carrier->motion;
  if (p->forward.busy || p->adjoint.busy) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "wait before starting it again",
                            "a primitive is started that is under way");
  }
  if (carrier == &p->adjoint && !p->plan.linear) {
    return SHOAL_ERROR_HINT(
        UNSUPPORTED, "only sums have adjoints", "a primitive that joins %s by %s has no adjoint",
        shoal_dtype_name(p->plan.forward.dtype), shoal_reduce_name(p->plan.forward.reduce));
  }
  if ((motion->input_count > 0 && !input) || (motion->output_count > 0 && !output)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "a primitive of %lld to %lld elements is given no buffer",
                       (long long)motion->input_count, (long long)motion->output_count);
  }
  if (input == output && motion->input_count > 0 && motion->output_count > 0 && !p->plan.in_place) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "use two buffers, or a halo exchange with `refresh`",
                            "a primitive that does not work in place is given one buffer");
  }
  return NULL;
}

typedef shoal_status_t (*carry_fn_t)(shoal_carrier_t *carrier, const void *input, void *output);

static shoal_status_t carry(shoal_primitive_t *p, carry_fn_t fn, shoal_carrier_t *carrier,
                            const void *input, void *output) {
  shoal_status_t status = check_call(p, carrier, input, output);
  if (!status) return fn(carrier, input, output);
  // The others wait for this rank, unless they are refused alike.
  if (shoal_status_code(status) != SHOAL_UNSUPPORTED) shoal_world_abort(p->world, status);
  return status;
}

// What the caller does next takes a while.
static shoal_status_t start(shoal_carrier_t *carrier, const void *input, void *output) {
  SHOAL_RETURN_IF_ERROR(shoal_carrier_start(carrier, input, output));
  shoal_world_stir(carrier->world);
  return NULL;
}

shoal_status_t shoal_primitive_start(shoal_primitive_t *primitive, const void *src, void *dst) {
  return carry(primitive, start, &primitive->forward, src, dst);
}

shoal_status_t shoal_primitive_start_adjoint(shoal_primitive_t *primitive, const void *dst,
                                             void *src) {
  return carry(primitive, start, &primitive->adjoint, dst, src);
}

shoal_status_t shoal_primitive_wait(shoal_primitive_t *p) {
  if (p->forward.busy) return shoal_carrier_wait(&p->forward);
  if (p->adjoint.busy) return shoal_carrier_wait(&p->adjoint);
  return SHOAL_ERROR(INVALID_ARGUMENT, "a primitive is waited for, but not started");
}

shoal_status_t shoal_primitive_apply(shoal_primitive_t *primitive, const void *src, void *dst) {
  return carry(primitive, shoal_carrier_run, &primitive->forward, src, dst);
}

shoal_status_t shoal_primitive_apply_adjoint(shoal_primitive_t *primitive, const void *dst,
                                             void *src) {
  return carry(primitive, shoal_carrier_run, &primitive->adjoint, dst, src);
}

// ---- asking ---------------------------------------------------------------------------

shoal_shape_t shoal_primitive_src_shape(const shoal_primitive_t *primitive) {
  return primitive->plan.src_shape;
}

shoal_shape_t shoal_primitive_dst_shape(const shoal_primitive_t *primitive) {
  return primitive->plan.dst_shape;
}

void shoal_primitive_interior(const shoal_primitive_t *primitive, const shoal_box_t **out_boxes,
                              int64_t *out_count) {
  *out_boxes = primitive->plan.interior;
  *out_count = primitive->plan.interior_count;
}

shoal_stencil_part_t shoal_primitive_stencil(const shoal_primitive_t *primitive, int32_t dim) {
  if (dim < 0 || dim >= SHOAL_MAX_RANK) return (shoal_stencil_part_t){0};
  return primitive->stencil[dim];
}

shoal_primitive_stats_t shoal_primitive_stats(const shoal_primitive_t *p) {
  const shoal_motion_t *motion = &p->plan.forward;
  const int64_t element = (int64_t)shoal_dtype_size(motion->dtype);
  shoal_primitive_stats_t stats = {
      .send_count = motion->send_count,
      .recv_count = motion->recv_count,
      .group_size = motion->group_count,
      .staging_bytes = shoal_max64(motion->staging, p->plan.adjoint.staging),
  };
  for (int32_t i = 0; i < motion->send_count; ++i) {
    stats.send_bytes += motion->sends[i].count * element;
  }
  for (int32_t i = 0; i < motion->recv_count; ++i) {
    stats.recv_bytes += motion->recvs[i].count * element;
  }
  for (int64_t i = 0; i < motion->step_count; ++i) {
    const shoal_step_t *step = &motion->steps[i];
    for (int64_t k = 0; step->recv < 0 && k < step->piece_count; ++k) {
      stats.local_bytes += shoal_piece_count(&step->pieces[k]) * element;
    }
  }
  return stats;
}
