// Copies: strided blocks, accumulation in every type, predicates; compared with a plain loop.
#include <stdlib.h>

#include "device_modes.h"
#include "op/reduce.h"

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

static void check_copy(shoal_device_t *device, shoal_copy_t copy) {
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
  FOR_EACH_MODE(device) {
    for (int dtype = 0; dtype < SHOAL_DTYPE_COUNT; ++dtype) {
      shoal_copy_t copy = {.dtype = (shoal_dtype_t)dtype, .piece_count = 5, .pieces = pieces};
      check_copy(device, copy);
      copy.accumulate = true;
      const shoal_reduce_t reduces[] = {SHOAL_REDUCE_SUM, SHOAL_REDUCE_MAX, SHOAL_REDUCE_MIN,
                                        SHOAL_REDUCE_PROD};
      for (int r = 0; r < 4; ++r) {
        copy.reduce = reduces[r];
        check_copy(device, copy);
      }
    }
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
  check_copy(device, copy);
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
    assert_ok(shoal_queue_fill(queue, memory, SHOAL_I32, 4, 7));
    for (int on = 0; on < 2; ++on) {
      assert_ok(shoal_queue_fill(queue, flag, SHOAL_BOOL, 1, on));
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
    shoal_queue_free(queue);
  }
}

static void test_fill(void **state) {
  (void)state;
  FOR_EACH_MODE(device) {
    shoal_queue_t *queue = make_queue(device);
    shoal_address_t memory = make_buffer(device, 64);
    for (int dtype = 0; dtype < SHOAL_DTYPE_COUNT; ++dtype) {
      double out[8];
      assert_ok(shoal_queue_fill(queue, memory, (shoal_dtype_t)dtype, 7, 1));
      assert_ok(shoal_queue_download(queue, memory, out, 64));
      assert_ok(shoal_queue_wait(queue));
      for (int i = 0; i < 7; ++i) assert_true(shoal_dtype_load((shoal_dtype_t)dtype, out, i) == 1);
    }
    shoal_queue_free(queue);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_copies),
      cmocka_unit_test(test_lse),
      cmocka_unit_test(test_predicate),
      cmocka_unit_test(test_fill),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
