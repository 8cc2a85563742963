// Checksums of files: any byte of any tensor that changes is found and the tensor named, in one
// file and in shards; so is any bit of a header. Files of older versions and of others can be read.
#include <stdlib.h>
#include <unistd.h>

#include "arena.h"
#include "base/file.h"
#include "base/hash.h"
#include "run/shards.h"

static char folder[] = "/tmp/shoal_checksum_XXXXXX";

static int make_folder(void **state) {
  return mkdtemp(folder) ? setup_arena(state) : -1;
}

static int remove_folder(void **state) {
  char command[300];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command) || teardown_arena(state);
}

enum { COUNT = 4 };
static const unsigned char data[64] = {9, 8, 7, 6, 5, 4, 3, 2, 1};

// Of 24, 0, 8 and 4 bytes.
static const char *write_noted(const char *name, int64_t note_count,
                               const shoal_safetensors_note_t *notes, int64_t shard_bytes) {
  const char *path = shoal_arena_printf(&arena, "%s/%s", folder, name);
  shoal_safetensor_t tensors[COUNT] = {{.name = "a/weight", .type = {SHOAL_F32, SHOAL_SHAPE(2, 3)}},
                                       {.name = "nothing", .type = {SHOAL_F32, SHOAL_SHAPE(0, 3)}},
                                       {.name = "step", .type = {SHOAL_I64, SHOAL_SCALAR}},
                                       {.name = "b", .type = {SHOAL_F32, SHOAL_SHAPE(1)}}};
  shoal_shard_writer_t writer;
  assert_ok(shoal_shard_writer_begin(path, COUNT, tensors, note_count, notes, shard_bytes, &arena,
                                     &writer));
  for (int i = 0; i < COUNT; ++i) assert_ok(shoal_shard_writer_add(&writer, data + i));
  assert_ok(shoal_shard_writer_finish(&writer));
  return path;
}

static const char *write_files(const char *name, const char *note, int64_t shard_bytes) {
  const shoal_safetensors_note_t notes[] = {{"mine", "0000000000000000"},
                                            {note, SHOAL_CHECKPOINT_FORMAT}};
  return write_noted(name, 2, notes, shard_bytes);
}

// As earlier versions wrote it: numbers over the bytes in their order, none of the header.
static const char *write_old(const char *name) {
  static const char *const words[COUNT] = {"a/weight\0f32\0002\0003", "nothing\0f32\0000\0003",
                                           "step\0i64", "b\0f32\0001"};
  static const size_t lengths[COUNT] = {17, 16, 9, 8}, bytes[COUNT] = {24, 0, 8, 4};
  char sums[COUNT * SHOAL_CHECKSUM_STRIDE + 1] = "";
  for (int i = 0; i < COUNT; ++i) {
    shoal_checksum_t sum;
    shoal_checksum_init(&sum);
    shoal_checksum_add(&sum, words[i], lengths[i]);
    shoal_checksum_add(&sum, data + i, bytes[i]);
    snprintf(sums + i * SHOAL_CHECKSUM_STRIDE, sizeof sums - (size_t)i * SHOAL_CHECKSUM_STRIDE,
             "%016llx%s", (unsigned long long)shoal_checksum_value(&sum), i < COUNT - 1 ? " " : "");
  }
  const shoal_safetensors_note_t notes[] = {{"mine", "0000000000000000"},
                                            {SHOAL_CHECKSUMS_NOTE, sums}};
  return write_noted(name, 2, notes, 0);
}

// All tensors, of which one, or none, is damaged.
static void expect_damaged(const char *path, const char *name) {
  shoal_shards_t shards;
  assert_ok(shoal_shards_open(path, &arena, &shards));
  assert_int_equal(shards.count, COUNT);
  for (int64_t i = 0; i < shards.count; ++i) {
    const shoal_shard_tensor_t *tensor = &shards.tensors[i];
    shoal_status_t status = shoal_safetensors_check(tensor->file, tensor->tensor, &arena);
    if (!name || strcmp(tensor->tensor->name, name) != 0) {
      assert_ok(status);
      continue;
    }
    char words[64];
    snprintf(words, sizeof words, "tensor '%s' is not what was saved", name);
    assert_error(INVALID_ARGUMENT, words, status);
  }
  shoal_shards_close(&shards);
}

static void flip(const char *path, int64_t at) {
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
  const int byte = fgetc(file);
  assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
  assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
  assert_int_equal(fclose(file), 0);
}

static void flip_all(const char *path) {
  shoal_shards_t shards;
  assert_ok(shoal_shards_open(path, &arena, &shards));
  expect_damaged(path, NULL);
  for (int64_t i = 0; i < shards.count; ++i) {
    const shoal_shard_tensor_t *tensor = &shards.tensors[i];
    for (int64_t at = tensor->tensor->begin; at < tensor->tensor->end; ++at) {
      flip(tensor->file->path, at);
      expect_damaged(path, tensor->tensor->name);
      flip(tensor->file->path, at);
    }
  }
  shoal_shards_close(&shards);
  expect_damaged(path, NULL);
}

static void test_every_byte(void **state) {
  (void)state;
  flip_all(write_files("one", "shoal_checkpoint", 0));
  flip_all(write_files("shards", "shoal_checkpoint", 8));
  flip_all(write_old("old"));
}

// The header is replaced, at its length.
static void replace(const char *path, const char *from, const char *to) {
  const char *text;
  int64_t size;
  const char *file = shoal_arena_printf(&arena, "%s/model.safetensors", path);
  assert_ok(shoal_file_read(file, &arena, &text, &size));
  char *copy = shoal_arena_copy(&arena, text, (size_t)size, 1);
  char *at = memmem(copy, (size_t)size, from, strlen(from));
  assert_non_null(at);
  memcpy(at, to, strlen(from));
  assert_ok(shoal_file_write(file, copy, size));
}

// Of a file without a number of its header.
static void test_old_header(void **state) {
  (void)state;
  const char *path = write_old("header");
  replace(path, "\"b\": {\"dtype\": \"F32\"", "\"b\": {\"dtype\": \"I32\"");
  expect_damaged(path, "b");
  path = write_old("renamed");
  replace(path, "\"a/weight\"", "\"a/weighs\"");
  expect_damaged(path, "a/weighs");
  path = write_old("shape");
  replace(path, "[2, 3]", "[3, 2]");
  expect_damaged(path, "a/weight");
  path = write_old("fewer");
  replace(path, "shoal_checksums\": \"", "shoal_checksums\":\"0");
  shoal_shards_t shards;
  assert_ok(shoal_shards_open(path, &arena, &shards));
  assert_error(INVALID_ARGUMENT, "4 tensors do not have 5 checksums",
               shoal_safetensors_check(&shards.files[0], shards.tensors[0].tensor, &arena));
  shoal_shards_close(&shards);
}

// No bit of a header changes unnoticed: notes as little as names, its own checksum and its padding.
static void test_every_bit_of_the_header(void **state) {
  (void)state;
  const char *path = write_files("bits", "shoal_checkpoint", 0), *text;
  const char *file = shoal_arena_printf(&arena, "%s/model.safetensors", path);
  int64_t size;
  shoal_shards_t shards;
  assert_ok(shoal_shards_open(path, &arena, &shards));
  const int64_t end = shards.tensors[0].tensor->begin;
  shoal_shards_close(&shards);
  assert_ok(shoal_file_read(file, &arena, &text, &size));
  FILE *out = fopen(file, "r+b");
  assert_non_null(out);
  for (int64_t at = 0; at < end; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      assert_int_equal(fseek(out, (long)at, SEEK_SET), 0);
      fputc(text[at] ^ 1 << bit, out);
      fflush(out);
      shoal_status_t status = shoal_shards_open(path, &arena, &shards);
      if (!status) fail_msg("bit %d of byte %lld is not noticed", bit, (long long)at);
      shoal_status_free(status);
    }
    assert_int_equal(fseek(out, (long)at, SEEK_SET), 0);
    fputc(text[at], out);
  }
  assert_int_equal(fclose(out), 0);
  expect_damaged(path, NULL);
  replace(path, "\"mine\": \"0", "\"mine\": \"1");
  assert_error(INVALID_ARGUMENT, "the header is not what was saved: its checksum differs",
               shoal_shards_open(path, &arena, &shards));
  path = write_files("gone", "shoal_checkpoint", 0);
  replace(path, "shoal_header", "shoal_heador");
  assert_error(INVALID_ARGUMENT, "its checksum is gone", shoal_shards_open(path, &arena, &shards));
}

// ---- several writers ------------------------------------------------------------------

// Two writers put interleaved bytes; the files are those of one. A rank that sees no such file, or
// another one of that name, is told that the file system is not shared.
static void test_two_writers(void **state) {
  (void)state;
  const shoal_safetensors_note_t note = {SHOAL_CHECKPOINT_NOTE, SHOAL_CHECKPOINT_FORMAT};
  for (int64_t shard_bytes = 0; shard_bytes <= 8; shard_bytes += 8) {
    shoal_safetensor_t one[] = {{.name = "w", .type = {SHOAL_F32, SHOAL_SHAPE(5)}},
                                {.name = "b", .type = {SHOAL_U8, SHOAL_SHAPE(3)}},
                                {.name = "c", .type = {SHOAL_U8, SHOAL_SHAPE(7)}}};
    shoal_safetensor_t two[3];
    memcpy(two, one, sizeof two);
    const char *path = shoal_arena_printf(&arena, "%s/two%lld", folder, (long long)shard_bytes);
    shoal_shard_writer_t leader, other;
    int64_t words[16], count;
    assert_ok(shoal_shard_writer_words(3, one, shard_bytes, &arena, &count));
    assert_true(count <= 16);
    assert_ok(shoal_shard_writer_begin(path, 3, one, 1, &note, shard_bytes, &arena, &leader));
    shoal_shard_writer_tell(&leader, words);
    assert_error(NOT_FOUND, "do not share this file system",
                 shoal_shard_writer_join("/nowhere", 3, two, shard_bytes, words, &arena, &other));
    ++words[1];
    assert_error(NOT_FOUND, "do not share this file system",
                 shoal_shard_writer_join(path, 3, two, shard_bytes, words, &arena, &other));
    shoal_shard_writer_abandon(&other);
    --words[1];
    assert_ok(shoal_shard_writer_join(path, 3, two, shard_bytes, words, &arena, &other));
    static const int64_t bytes[] = {20, 3, 7};
    for (int64_t t = 0; t < 3; ++t) {
      assert_int_equal(one[t].begin, two[t].begin);
      for (int64_t at = 0; at < bytes[t]; ++at)
        assert_ok(shoal_shard_writer_put(at % 3 ? &leader : &other, t, at, data + at, 1));
    }
    assert_ok(shoal_shard_writer_flush(&leader));
    assert_ok(shoal_shard_writer_flush(&other));
    for (int t = 0; t < 3; ++t)
      leader.sums[t] = shoal_parts_sum_join(leader.sums[t], other.sums[t]);
    shoal_shard_writer_abandon(&other);
    assert_false(shoal_shards_complete(path));
    assert_ok(shoal_shard_writer_finish(&leader));
    shoal_shards_t shards;
    assert_ok(shoal_shards_open(path, &arena, &shards));
    for (int64_t i = 0; i < shards.count; ++i) {
      char got[20];
      const shoal_shard_tensor_t *tensor = &shards.tensors[i];
      assert_ok(shoal_safetensors_check(tensor->file, tensor->tensor, &arena));
      assert_ok(shoal_safetensors_read(tensor->file, tensor->tensor->begin, bytes[i], got));
      assert_memory_equal(got, data, bytes[i]);
    }
    shoal_shards_close(&shards);
  }
}

static void test_files_of_others(void **state) {
  (void)state;
  const char *path = write_files("others", "format", 0);
  shoal_shards_t shards;
  assert_ok(shoal_shards_open(path, &arena, &shards));
  assert_null(shoal_safetensors_note(&shards.files[0], SHOAL_SUMS_NOTE));
  assert_null(shoal_safetensors_note(&shards.files[0], SHOAL_HEADER_NOTE));
  flip(shards.files[0].path, shards.tensors[0].tensor->begin);
  expect_damaged(path, NULL);
  shoal_shards_close(&shards);
}

// More than is read at once: every piece counts, in its place.
static void test_large(void **state) {
  (void)state;
  enum { ELEMENTS = 600000 };  // 2.4 MB
  const char *path = shoal_arena_printf(&arena, "%s/large", folder);
  float *values = SHOAL_NEW(&arena, float, ELEMENTS);
  assert_non_null(values);
  for (int i = 0; i < ELEMENTS; ++i) values[i] = (float)i;
  shoal_safetensor_t tensor = {.name = "w", .type = {SHOAL_F32, SHOAL_SHAPE(ELEMENTS)}};
  const shoal_safetensors_note_t note = {SHOAL_CHECKPOINT_NOTE, "2"};
  shoal_shard_writer_t writer;
  shoal_shards_t shards;
  assert_ok(shoal_shard_writer_begin(path, 1, &tensor, 1, &note, 0, &arena, &writer));
  assert_ok(shoal_shard_writer_add(&writer, values));
  assert_ok(shoal_shard_writer_finish(&writer));
  assert_ok(shoal_shards_open(path, &arena, &shards));
  const shoal_shard_tensor_t *found = &shards.tensors[0];
  assert_ok(shoal_safetensors_check(found->file, found->tensor, &arena));
  flip(found->file->path, found->tensor->end - 1);
  assert_error(INVALID_ARGUMENT, "tensor 'w' is not what was saved",
               shoal_safetensors_check(found->file, found->tensor, &arena));
  shoal_shards_close(&shards);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_large),       cmocka_unit_test(test_every_byte),
      cmocka_unit_test(test_old_header),  cmocka_unit_test(test_every_bit_of_the_header),
      cmocka_unit_test(test_two_writers), cmocka_unit_test(test_files_of_others),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
