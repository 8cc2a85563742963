// Copies: strided blocks, accumulation in every type, predicates; compared with a plain loop.
#include <stdlib.h>

#include "device/reduce.h"
#include "device_modes.h"

#define COUNT 600

// A block of 2 x 3 x 4 from a 5 x 6 x 7 array into a 4 x 3 x 2 one, transposed.
static const shoal_piece_t transposed = {.rank = 3,
                                         .size = {2, 3, 4},
                                         .src_offset = 1 * 42 + 2 * 7 + 3,
                                         .src_stride = {42, 7, 1},
                                         .dst_offset = 5,
                                         .dst_stride = {1, 2, 6}};
static const shoal_piece_t line = {.rank = 1,
                                   .size = {50},
                                   .src_offset = 200,
                                   .src_stride = {1},
                                   .dst_offset = 100,
                                   .dst_stride = {1}};
static const shoal_piece_t backwards = {.rank = 1,
                                        .size = {9},
                                        .src_offset = 308,
                                        .src_stride = {-1},
                                        .dst_offset = 300,
                                        .dst_stride = {2}};
static const shoal_piece_t scalar = {.rank = 0, .src_offset = 599, .dst_offset = 599};
static const shoal_piece_t empty = {.rank = 2, .size = {4, 0}, .src_offset = 1 << 20};

static void model_copy(const shoal_copy_t *copy, const uint8_t *src, uint8_t *dst) {
  const int64_t element = (int64_t)shoal_dtype_size(copy->dtype);
  for (int64_t p = 0; p < copy->piece_count; ++p) {
    const shoal_piece_t *piece = &copy->pieces[p];
    int64_t total = 1;
    for (int32_t d = 0; d < piece->rank; ++d) total *= piece->size[d];
    for (int64_t i = 0; i < total; ++i) {
      int64_t from = piece->src_offset, to = piece->dst_offset, rest = i;
      for (int32_t d = piece->rank - 1; d >= 0; --d) {
        from += rest % piece->size[d] * piece->src_stride[d];
        to += rest % piece->size[d] * piece->dst_stride[d];
        rest /= piece->size[d];
      }
      if (copy->accumulate) {
        shoal_reduce_join(copy->dtype, copy->reduce, 1, src + from * element, dst + to * element);
      } else {
        memcpy(dst + to * element, src + from * element, (size_t)element);
      }
    }
  }
}

static void fill(shoal_dtype_t dtype, int salt, void *data) {
  for (int64_t i = 0; i < COUNT; ++i) {
    const int64_t value = (i * 37 + salt * 101) % 97 - (dtype == SHOAL_U8 ? 0 : 40);
    if (shoal_dtype_is_float(dtype)) {
      shoal_dtype_store(dtype, data, i, (double)value / 7);
    } else {
      shoal_dtype_store_int(dtype, data, i, value);
    }
  }
}

static void check_copy(shoal_device_t *device, shoal_arena_t *arena, shoal_copy_t copy) {
  const size_t bytes = COUNT * shoal_dtype_size(copy.dtype);
  double src[COUNT], dst[COUNT], want[COUNT];
  fill(copy.dtype, 1, src);
  fill(copy.dtype, 2, dst);
  memcpy(want, dst, bytes);
  model_copy(&copy, (uint8_t *)src, (uint8_t *)want);
  shoal_queue_t *queue = make_queue(device);
  copy.src = make_buffer(device, (int64_t)bytes);
  copy.dst = make_buffer(device, (int64_t)bytes);
  assert_ok(shoal_queue_upload(queue, src, copy.src, (int64_t)bytes));
  assert_ok(shoal_queue_upload(queue, dst, copy.dst, (int64_t)bytes));
  if (arena) assert_ok(shoal_copy_prepare(device, arena, &copy));
  assert_ok(shoal_queue_copy(queue, &copy));
  assert_ok(shoal_queue_download(queue, copy.dst, dst, (int64_t)bytes));
  assert_ok(shoal_queue_wait(queue));
  if (memcmp(dst, want, bytes) != 0) {
    for (int64_t i = 0; i < COUNT; ++i) {
      const double a = shoal_dtype_load(copy.dtype, dst, i),
                   b = shoal_dtype_load(copy.dtype, want, i);
      if (a != b) {
        fail_msg("%s %s: element %d is %g, not %g", shoal_dtype_name(copy.dtype),
                 copy.accumulate ? shoal_reduce_name(copy.reduce) : "copy", (int)i, a, b);
      }
    }
  }
  shoal_device_release(device, copy.src);
  shoal_device_release(device, copy.dst);
  shoal_queue_free(queue);
}

static void test_copies(void **state) {
  (void)state;
  const shoal_piece_t pieces[] = {transposed, line, backwards, scalar, empty};
  shoal_arena_t *arena = NULL;
  assert_ok(shoal_arena_create(shoal_allocator_system(), &arena));
  FOR_EACH_MODE(device) {
    for (int dtype = 0; dtype < SHOAL_DTYPE_COUNT; ++dtype) {
      shoal_copy_t copy = {.dtype = (shoal_dtype_t)dtype, .piece_count = 5, .pieces = pieces};
      check_copy(device, NULL, copy);
      check_copy(device, arena, copy);
      copy.accumulate = true;
      if (shoal_dtype_is_storage(copy.dtype)) {
        shoal_queue_t *queue = make_queue(device);
        assert_error(UNSUPPORTED, "cannot be joined by sum", shoal_queue_copy(queue, &copy));
        shoal_queue_free(queue);
        continue;
      }
      const shoal_reduce_t reduces[] = {SHOAL_REDUCE_SUM, SHOAL_REDUCE_MAX, SHOAL_REDUCE_MIN,
                                        SHOAL_REDUCE_PROD};
      for (int r = 0; r < 4; ++r) {
        copy.reduce = reduces[r];
        check_copy(device, r % 2 ? arena : NULL, copy);
      }
    }
  }
  shoal_arena_free(arena);
}

// Joined in f32 and rounded once, as the host's collectives do it.
static void test_half(void **state) {
  (void)state;
  FOR_EACH_MODE(device) {
    const shoal_dtype_t halves[] = {SHOAL_BF16, SHOAL_F16};
    for (int h = 0; h < 2; ++h) {
      enum { N = 20, PARTS = 3 };
      const shoal_dtype_t dtype = halves[h];
      uint16_t parts[PARTS][N], out[N], want[N];
      const void *sources[PARTS];
      for (int p = 0; p < PARTS; ++p) {
        for (int i = 0; i < N; ++i) shoal_dtype_store(dtype, parts[p], i, (1 + p) / 3.0 + i * 0.7);
        sources[p] = parts[p];
      }
      shoal_reduce_all(dtype, SHOAL_REDUCE_SUM, N, PARTS, sources, want);
      shoal_queue_t *queue = make_queue(device);
      shoal_address_t memory = make_buffer(device, 1024), wide = memory + 512;
      assert_ok(shoal_queue_upload(queue, parts, memory, sizeof parts));
      // Every element of the f32 side has a stride of 2.
      shoal_piece_t pieces[PARTS + 1];
      shoal_copy_t copies[PARTS + 1];
      for (int p = 0; p <= PARTS; ++p) {
        pieces[p] = (shoal_piece_t){.rank = 1, .size = {N}, .src_stride = {1}, .dst_stride = {2}};
        pieces[p].src_offset = p * N;
        copies[p] = (shoal_copy_t){.src = memory,
                                   .dst = wide,
                                   .dtype = dtype,
                                   .widen = true,
                                   .accumulate = p > 0,
                                   .piece_count = 1,
                                   .pieces = &pieces[p]};
      }
      pieces[PARTS] = (shoal_piece_t){.rank = 1, .size = {N}, .src_stride = {2}, .dst_stride = {1}};
      copies[PARTS] = (shoal_copy_t){.src = wide,
                                     .dst = memory,
                                     .dtype = dtype,
                                     .narrow = true,
                                     .piece_count = 1,
                                     .pieces = &pieces[PARTS]};
      for (int p = 0; p <= PARTS; ++p) assert_ok(shoal_queue_copy(queue, &copies[p]));
      assert_ok(shoal_queue_download(queue, memory, out, sizeof out));
      assert_ok(shoal_queue_wait(queue));
      assert_memory_equal(out, want, sizeof out);
      assert_int_equal(shoal_device_touched(device, memory), 512 + (2 * (N - 1) + 1) * 4);
      copies[PARTS].accumulate = true;
      assert_error(INVALID_ARGUMENT, "is not joined", shoal_queue_copy(queue, &copies[PARTS]));
      copies[0].narrow = true;
      assert_error(INVALID_ARGUMENT, "and narrowed at once", shoal_queue_copy(queue, &copies[0]));
      copies[0] = (shoal_copy_t){.src = memory, .dst = wide, .dtype = SHOAL_F32, .widen = true};
      assert_error(INVALID_ARGUMENT, "of f32 cannot be widened",
                   shoal_queue_copy(queue, &copies[0]));
      shoal_device_release(device, memory);
      shoal_queue_free(queue);
    }
  }
}

// Without a source: the reduction's identity, in every type, and nowhere else.
static void test_identity(void **state) {
  (void)state;
  const shoal_piece_t pieces[] = {transposed, line, backwards, scalar, empty};
  FOR_EACH_MODE(device) {
    shoal_queue_t *queue = make_queue(device);
    for (int dtype = 0; dtype < SHOAL_DTYPE_COUNT; ++dtype) {
      for (int r = 0; r < SHOAL_REDUCE_COUNT; ++r) {
        if (!shoal_reduce_supported((shoal_dtype_t)dtype, (shoal_reduce_t)r)) continue;
        double data[COUNT], want[COUNT], identity[COUNT];
        fill((shoal_dtype_t)dtype, 3, data);
        const size_t bytes = COUNT * shoal_dtype_size((shoal_dtype_t)dtype);
        memcpy(want, data, bytes);
        shoal_reduce_fill((shoal_dtype_t)dtype, (shoal_reduce_t)r, COUNT, identity);
        shoal_copy_t copy = {.dtype = (shoal_dtype_t)dtype,
                             .reduce = (shoal_reduce_t)r,
                             .piece_count = 5,
                             .pieces = pieces};
        model_copy(&copy, (uint8_t *)identity, (uint8_t *)want);
        copy.dst = make_buffer(device, (int64_t)bytes);
        assert_ok(shoal_queue_upload(queue, data, copy.dst, (int64_t)bytes));
        assert_ok(shoal_queue_copy(queue, &copy));
        assert_ok(shoal_queue_download(queue, copy.dst, data, (int64_t)bytes));
        assert_ok(shoal_queue_wait(queue));
        assert_memory_equal(data, want, bytes);
        copy.accumulate = true;
        assert_error(INVALID_ARGUMENT, "needs a source", shoal_queue_copy(queue, &copy));
        shoal_device_release(device, copy.dst);
      }
    }
    shoal_queue_free(queue);
  }
}

static void test_lse(void **state) {
  (void)state;
  shoal_device_t *device = make_device(0);
  shoal_copy_t copy = {.dtype = SHOAL_F64,
                       .accumulate = true,
                       .reduce = SHOAL_REDUCE_LSE,
                       .piece_count = 1,
                       .pieces = &line};
  check_copy(device, NULL, copy);
  shoal_queue_t *queue = make_queue(device);
  copy.dtype = SHOAL_I32;
  assert_error(UNSUPPORTED, "lse", shoal_queue_copy(queue, &copy));
  shoal_queue_free(queue);
  shoal_device_free(device);
}

static void test_predicate(void **state) {
  (void)state;
  FOR_EACH_MODE(device) {
    shoal_queue_t *queue = make_queue(device);
    shoal_address_t memory = make_buffer(device, 1024), flag = make_buffer(device, 1);
    const shoal_piece_t piece = {.rank = 1, .size = {4}, .src_stride = {1}, .dst_stride = {1}};
    shoal_copy_t copy = {.src = memory,
                         .dst = memory + 512,
                         .dtype = SHOAL_I32,
                         .piece_count = 1,
                         .pieces = &piece,
                         .predicate = &flag};
    int32_t out[4];
    assert_ok(shoal_queue_fill(queue, &(shoal_fill_t){memory, SHOAL_I32, 4, 7}));
    for (int on = 0; on < 2; ++on) {
      assert_ok(shoal_queue_fill(queue, &(shoal_fill_t){flag, SHOAL_BOOL, 1, on}));
      assert_ok(shoal_queue_copy(queue, &copy));
      assert_ok(shoal_queue_wait(queue));
      assert_int_equal(shoal_device_touched(device, memory), on ? 528 : 16);
      assert_ok(shoal_queue_download(queue, memory, out, 16));
      assert_ok(shoal_queue_wait(queue));
    }
    assert_ok(shoal_queue_download(queue, memory + 512, out, 16));
    assert_ok(shoal_queue_wait(queue));
    assert_int_equal(out[3], 7);
    copy.dst = memory + 1016;  // the last element would lie outside
    assert_ok(shoal_queue_copy(queue, &copy));
    assert_error(INTERNAL, "destination of a copy", shoal_queue_wait(queue));
    shoal_arena_t *arena = NULL;
    assert_ok(shoal_arena_create(shoal_allocator_system(), &arena));
    assert_error(INTERNAL, "destination of a copy", shoal_copy_prepare(device, arena, &copy));
    copy.pieces = NULL;
    assert_error(INVALID_ARGUMENT, "its pieces", shoal_copy_prepare(device, arena, &copy));
    shoal_arena_free(arena);
    shoal_queue_free(queue);
  }
}

// A fill with a predicate, prepared and not.
static void test_predicate_of_fill(void **state) {
  (void)state;
  shoal_arena_t *arena = NULL;
  assert_ok(shoal_arena_create(shoal_allocator_system(), &arena));
  FOR_EACH_MODE(device) {
    shoal_queue_t *queue = make_queue(device);
    shoal_address_t memory = make_buffer(device, 40000), flag = make_buffer(device, 1);
    for (int prepared = 0; prepared < 2; ++prepared) {
      shoal_fill_t fill = {
          .dst = memory, .dtype = SHOAL_F64, .count = 5000, .value = 3, .predicate = &flag};
      if (prepared) assert_ok(shoal_fill_prepare(device, arena, &fill));
      assert_ok(shoal_queue_fill(queue, &(shoal_fill_t){memory, SHOAL_F64, 5000, 2}));
      for (int on = 0; on < 2; ++on) {
        double out[5000];
        assert_ok(shoal_queue_fill(queue, &(shoal_fill_t){flag, SHOAL_BOOL, 1, on}));
        assert_ok(shoal_queue_fill(queue, &fill));
        assert_ok(shoal_queue_download(queue, memory, out, sizeof out));
        assert_ok(shoal_queue_wait(queue));
        for (int i = 0; i < 5000; ++i) assert_true(out[i] == (on ? 3 : 2));
      }
    }
    shoal_fill_t outside = {.dst = memory + 8, .dtype = SHOAL_F64, .count = 5000};
    assert_error(INTERNAL, "fill: 40000 bytes", shoal_fill_prepare(device, arena, &outside));
    assert_null(outside.prepared);
    outside.count = -1;
    assert_error(INVALID_ARGUMENT, "-1", shoal_fill_prepare(device, arena, &outside));
    assert_error(INVALID_ARGUMENT, "-1", shoal_queue_fill(queue, &outside));
    assert_error(INVALID_ARGUMENT, "nothing", shoal_queue_fill(queue, NULL));
    shoal_queue_free(queue);
  }
  shoal_arena_free(arena);
}

static void test_fill(void **state) {
  (void)state;
  FOR_EACH_MODE(device) {
    shoal_queue_t *queue = make_queue(device);
    shoal_address_t memory = make_buffer(device, 64);
    for (int dtype = 0; dtype < SHOAL_DTYPE_COUNT; ++dtype) {
      double out[8];
      assert_ok(shoal_queue_fill(queue, &(shoal_fill_t){memory, (shoal_dtype_t)dtype, 7, 1}));
      assert_ok(shoal_queue_download(queue, memory, out, 64));
      assert_ok(shoal_queue_wait(queue));
      for (int i = 0; i < 7; ++i) assert_true(shoal_dtype_load((shoal_dtype_t)dtype, out, i) == 1);
    }
    shoal_queue_free(queue);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_copies),    cmocka_unit_test(test_half),
      cmocka_unit_test(test_identity),  cmocka_unit_test(test_lse),
      cmocka_unit_test(test_predicate), cmocka_unit_test(test_predicate_of_fill),
      cmocka_unit_test(test_fill),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
