// Token files, arrays, MNIST and CIFAR: what is read from whole files, and what is said of others.
#include "data_support.h"

static shoal_dataset_t *open_data(const char *path, shoal_dataset_options_t options) {
  shoal_dataset_t *dataset;
  assert_ok(shoal_dataset_open(path, &options, &dataset));
  return dataset;
}

static void assert_refused(const char *path, shoal_dataset_options_t options, const char *part) {
  shoal_dataset_t *dataset;
  assert_error(INVALID_ARGUMENT, part, shoal_dataset_open(path, &options, &dataset));
}

// ---- .npy -----------------------------------------------------------------------------

// A file of format `version` with that header and data.
static const char *write_npy(const char *name, int version, const char *header, const void *data,
                             size_t size) {
  unsigned char bytes[4096] = "\x93NUMPY";
  const size_t length = strlen(header), start = version == 1 ? 10 : 12;
  bytes[6] = (unsigned char)version;
  bytes[8] = (unsigned char)length;
  bytes[9] = (unsigned char)(length >> 8);
  memcpy(bytes + start, header, length);
  memcpy(bytes + start + length, data, size);
  return write_file(name, bytes, start + length + size);
}

static const char *header(const char *descr, const char *shape) {
  static char text[128];
  snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }  \n", descr,
           shape);
  return text;
}

static double element(const char *descr, const void *data, size_t size, int64_t index) {
  char shape[32], x[8];
  snprintf(shape, sizeof shape, "(%d,)", (int)(size / (size_t)(descr[2] - '0')));
  shoal_dataset_t *dataset = open_data(write_npy("a.npy", 1, header(descr, shape), data, size),
                                       (shoal_dataset_options_t){0});
  assert_ok(shoal_dataset_read(dataset, &(shoal_sample_t){.index = index}, (void *[]){x}));
  const double value = shoal_dtype_load(shoal_dataset_column(dataset, 0)->dtype, x, 0);
  shoal_dataset_free(dataset);
  remove(in_folder("a.npy"));
  return value;
}

static void test_npy_types(void **state) {
  (void)state;
  assert_true(element("<f4", (float[]){1.5f, -2.5f}, 8, 1) == -2.5);
  assert_true(element("<f8", (double[]){1.5, 0.1}, 16, 1) == 0.1);
  assert_true(element("<f2", "\x00\x3c\x00\xc0", 4, 1) == -2);
  assert_true(element(">f4", "\x3f\xc0\x00\x00\xc0\x20\x00\x00", 8, 0) == 1.5);
  assert_true(element(">i2", "\xff\xfe\x01\x02", 4, 0) == -2);
  assert_true(element(">i2", "\xff\xfe\x01\x02", 4, 1) == 258);
  assert_true(element("<u2", "\xff\xfe", 2, 0) == 65279);
  assert_true(element("|i1", "\x80", 1, 0) == -128);
  assert_true(element("|u1", "\x80", 1, 0) == 128);
  assert_true(element("|b1", "\0\1\1", 3, 2) == 1);
  assert_true(element("<i4", (int32_t[]){-7}, 4, 0) == -7);
  assert_true(element("<u4", "\xff\xff\xff\xff", 4, 0) == 4294967295.0);
  assert_true(element("<i8", (int64_t[]){-7}, 8, 0) == -7);
  shoal_dataset_t *dataset =
      open_data(write_npy("a.npy", 1, header("<u8", "(1,)"), "\xff\xff\xff\xff\xff\xff\xff\xff", 8),
                (shoal_dataset_options_t){0});
  remove(in_folder("a.npy"));
  int64_t x;
  assert_error(INVALID_ARGUMENT, "18446744073709551615 is too large",
               shoal_dataset_read(dataset, &(shoal_sample_t){0}, (void *[]){&x}));
  shoal_dataset_free(dataset);
}

static void test_arrays(void **state) {
  (void)state;
  float x[24];
  for (int i = 0; i < 24; ++i) x[i] = (float)i;
  const int64_t y[] = {4, 5, 6, 7};
  for (int version = 1; version <= 3; ++version) {
    const char *a = write_npy("x.npy", version, header("<f4", "(4, 2, 3)"), x, sizeof x);
    const char *b =
        write_npy("y.npy", version, "{\"shape\": (4L,), 'descr': \"<i8\", 'fortran_order': False}",
                  y, sizeof y);
    char list[512], named[512];
    snprintf(list, sizeof list, "%s,%s", a, b);
    snprintf(named, sizeof named, "arrays:image=%s,label=%s", a, b);
    for (int way = 0; way < 3; ++way) {
      shoal_dataset_t *dataset =
          open_data((const char *[]){list, named, folder}[way], (shoal_dataset_options_t){0});
      assert_int_equal(shoal_dataset_count(dataset), 4);
      assert_string_equal(shoal_dataset_column(dataset, 0)->name, way == 1 ? "image" : "x");
      assert_string_equal(shoal_dataset_column(dataset, 1)->name, way == 1 ? "label" : "y");
      assert_int_equal(shoal_dataset_column(dataset, 0)->shape.rank, 2);
      assert_int_equal(shoal_dataset_column(dataset, 1)->dtype, SHOAL_I64);
      float sample[6];
      int64_t label;
      assert_ok(
          shoal_dataset_read(dataset, &(shoal_sample_t){.index = 2}, (void *[]){sample, &label}));
      assert_memory_equal(sample, x + 12, sizeof sample);
      assert_int_equal(label, 6);
      shoal_dataset_free(dataset);
    }
    remove(a);
    remove(b);
  }
}

// A '=' or ',' in the name of a folder or file names nothing.
static void test_names(void **state) {
  (void)state;
  const float x[2] = {1, 2};
  assert_int_equal(mkdir(in_folder("lr=3"), 0700), 0);
  char list[512];
  snprintf(list, sizeof list, "%s,%s",
           write_npy("lr=3/a.npy", 1, header("<f4", "(2,)"), x, sizeof x),
           write_npy("lr=3/b.npy", 1, header("<f4", "(2,)"), x, sizeof x));
  shoal_dataset_t *dataset = open_data(list, (shoal_dataset_options_t){0});
  assert_int_equal(shoal_dataset_column_count(dataset), 2);
  assert_string_equal(shoal_dataset_column(dataset, 1)->name, "y");
  shoal_dataset_free(dataset);
  dataset = open_data(write_npy("a,b=c.npy", 1, header("<f4", "(2,)"), x, sizeof x),
                      (shoal_dataset_options_t){0});
  assert_int_equal(shoal_dataset_column_count(dataset), 1);
  shoal_dataset_free(dataset);
  remove(in_folder("a,b=c.npy"));
}

static void test_npy_errors(void **state) {
  (void)state;
  const shoal_dataset_options_t none = {.kind = "arrays"};
  char data[64] = {0};
#define REFUSED(part, text) assert_refused(write_npy("bad.npy", 1, text, data, 64), none, part)
  REFUSED("numpy.ascontiguousarray", "{'descr': '<f4', 'fortran_order': True, 'shape': (4, 4), }");
  REFUSED("type '<c8'", header("<c8", "(4,)"));
  REFUSED("type '|O'", header("|O", "(4,)"));
  REFUSED("type '<U5'", header("<U5", "(4,)"));
  REFUSED("structured", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4,), }");
  REFUSED("truncated: 17 elements of 4 bytes", header("<f4", "(17,)"));
  REFUSED("truncated", header("<f4", "(4611686018427387904,)"));
  REFUSED("too large", header("<f4", "(4294967296, 4294967296, 2)"));
  REFUSED("bad shape", header("<f4", "(99999999999999999999,)"));
  REFUSED("bad shape", header("<f4", "(4 4)"));
  REFUSED("bad shape", header("<f4", "(-1,)"));
  REFUSED("more than 8 dims", header("<f4", "(1,1,1,1,1,1,1,1,1)"));
  REFUSED("single number", header("<f4", "()"));
  REFUSED("no samples", header("<f4", "(0, 3)"));
  REFUSED("no samples", header("<f4", "(0, 4611686018427387904, 4611686018427387904)"));
  REFUSED("no type", "{'fortran_order': False, 'shape': (4,), }");
  REFUSED("no shape", "{'descr': '<f4', 'fortran_order': False, }");
  REFUSED("unknown key 'size'", "{'size': 3}");
  REFUSED("no dictionary", "hello");
  REFUSED("no dictionary", "{'descr");
#undef REFUSED
  assert_refused(write_file("bad.npy", "\x93NUMPY\1\0\xff\xff{'", 12), none, "header of 65535");
  assert_refused(write_file("bad.npy", "\x93NUMPY\2\0\xff\xff\xff\xff", 12), none,
                 "header of 4294967295");
  assert_refused(write_file("bad.npy", "\x93NUMPY\4\0\1\0{", 11), none, "format 4.0");
  assert_refused(write_file("bad.npy", "\x93NUMPY\1", 7), none, "ends at byte 7");
  assert_refused(write_file("bad.npy", "hello", 5), none, "does not begin");
  assert_refused(write_file("bad.npz", "PK\3\4abc", 7), (shoal_dataset_options_t){0}, "numpy.save");
  char list[512];
  snprintf(list, sizeof list, "%s,%s", write_npy("x.npy", 1, header("<f4", "(4,)"), data, 16),
           write_npy("y.npy", 1, header("<f4", "(3,)"), data, 12));
  assert_refused(list, none, "x.npy' has 4 samples, '");
  snprintf(list, sizeof list, "%s,%s,%s", in_folder("x.npy"), in_folder("x.npy"),
           in_folder("x.npy"));
  assert_refused(list, none, "has no name");
  shoal_dataset_t *dataset = open_data(in_folder("x.npy"), none);
  assert_int_equal(truncate(in_folder("x.npy"), 80), 0);
  float x;
  assert_error(IO, "sample 3 of",
               shoal_dataset_read(dataset, &(shoal_sample_t){.index = 3}, (void *[]){&x}));
  shoal_dataset_free(dataset);
}

// ---- tokens ---------------------------------------------------------------------------

static void assert_tokens(const char *path, shoal_dataset_options_t options, int64_t windows,
                          const int32_t *expected) {
  options.length = 3;
  shoal_dataset_t *dataset = open_data(path, options);
  assert_int_equal(shoal_dataset_count(dataset), windows);
  for (int64_t i = 0; i < windows; ++i) {
    int32_t ids[3], labels[3];
    assert_ok(shoal_dataset_read(dataset, &(shoal_sample_t){.index = i}, (void *[]){ids, labels}));
    assert_memory_equal(ids, expected + 3 * i, sizeof ids);
    assert_memory_equal(labels, expected + 3 * i + 1, sizeof ids);
  }
  shoal_dataset_free(dataset);
}

static void test_tokens(void **state) {
  (void)state;
  const int32_t tokens[] = {50256, 1, 65535, 3, 4, 5, 40000};
  uint16_t narrow[7];
  for (int i = 0; i < 7; ++i) narrow[i] = (uint16_t)tokens[i];
  const shoal_dataset_options_t none = {0};
  assert_tokens(write_file("t.bin", narrow, sizeof narrow), none, 2, tokens);
  assert_tokens(write_file("w.bin", tokens, sizeof tokens),
                (shoal_dataset_options_t){.token_bytes = 4}, 2, tokens);
  int32_t file[256 + 8] = {20240520, 1, 7};
  memcpy(file + 256, narrow, sizeof narrow);
  assert_tokens(write_file("h", file, 1024 + sizeof narrow), none, 2, tokens);
  file[0] = 20240801;
  file[1] = 7;
  memcpy(file + 256, tokens, sizeof tokens);
  assert_tokens(write_file("h32", file, 1024 + sizeof tokens), none, 2, tokens);
  const shoal_column_t ids = {"ids", SHOAL_I32, SHOAL_SHAPE(3), 0};
  const shoal_dataset_options_t model = {.inputs = &ids, .input_count = 1};
  assert_tokens(write_npy("t.npy", 1, header("<u2", "(7,)"), narrow, sizeof narrow), model, 2,
                tokens);
  int64_t wide[7];
  for (int i = 0; i < 7; ++i) wide[i] = tokens[i];
  assert_tokens(write_npy("t.npy", 1, header("<i8", "(7,)"), wide, sizeof wide), model, 2, tokens);
  // Several files, with and without a header, are one text.
  write_file("c0.bin", narrow, 2);
  write_file("c1.bin", narrow + 1, 6);
  file[0] = 20240520;
  file[1] = 1;
  file[2] = 3;
  memcpy(file + 256, narrow + 4, 6);
  write_file("c2.bin", file, 1030);
  char list[512];
  snprintf(list, sizeof list, "%s,%s,%s", in_folder("c0.bin"), in_folder("c1.bin"),
           in_folder("c2.bin"));
  assert_tokens(list, none, 2, tokens);
}

// A folder with files to train on and to test on does not mix them.
static void test_token_parts(void **state) {
  (void)state;
  char sub[128];
  snprintf(sub, sizeof sub, "%s", in_folder("parts"));
  assert_int_equal(mkdir(sub, 0700), 0);
  uint16_t tokens[21];
  int32_t all[21];
  for (int i = 0; i < 21; ++i) all[i] = tokens[i] = (uint16_t)(i + 7);
  write_file("parts/x_train_0.bin", tokens, 14);
  shoal_dataset_t *dataset;
  assert_error(
      NOT_FOUND, "'val' or 'test'",
      shoal_dataset_open(sub, &(shoal_dataset_options_t){.length = 3, .test = true}, &dataset));
  write_file("parts/x_train_1.bin", tokens + 7, 14);
  write_file("parts/x_val_0.bin", tokens + 14, 14);
  assert_tokens(sub, (shoal_dataset_options_t){0}, 4, all);
  assert_tokens(sub, (shoal_dataset_options_t){.test = true}, 2, all + 14);
}

static void test_token_errors(void **state) {
  (void)state;
  const shoal_dataset_options_t of_3 = {.length = 3, .kind = "tokens"};
  int32_t file[260] = {20240520, 1, 9};
  assert_refused(write_file("t.bin", file, 1040), of_3, "its header says 9 tokens of 2 bytes");
  assert_refused(write_file("t.bin", file, 600), of_3, "truncated");
  file[2] = -1;
  assert_refused(write_file("t.bin", file, 1040), of_3, "4294967295 tokens");
  file[1] = 2;
  assert_refused(write_file("t.bin", file, 1040), of_3, "version 2");
  assert_refused(write_file("t.bin", "abcde", 5), of_3, "no number of tokens");
  assert_refused(write_file("t.bin", "abcdef", 6), of_3, "has 3 tokens");
  assert_refused(in_folder("t.bin"), (shoal_dataset_options_t){.token_bytes = 3, .kind = "tokens"},
                 "tokens of 3 bytes");
  assert_refused(write_npy("t.npy", 1, header("<f4", "(4,)"), file, 16), of_3, "type f4");
  assert_refused(write_npy("t.npy", 1, header(">u2", "(4,)"), file, 8), of_3, "astype('<u4')");
  assert_refused(write_npy("t.npy", 1, header("<u2", "(2, 2)"), file, 8), of_3, "2 dims");
  // A token that is none is found when it is read.
  shoal_dataset_t *dataset =
      open_data(write_npy("t.npy", 1, header("<i4", "(4,)"), (int32_t[]){1, 2, -3, 4}, 16), of_3);
  int32_t ids[3];
  assert_error(INVALID_ARGUMENT, "has -3 as token 2",
               shoal_dataset_read(dataset, &(shoal_sample_t){0}, (void *[]){ids, NULL}));
  shoal_dataset_free(dataset);
}

// ---- MNIST, CIFAR ---------------------------------------------------------------------

static void write_mnist(const char *images, const char *labels, int count) {
  unsigned char pixels[16 + 3 * 20] = {0, 0, 8, 3, 0, 0, 0, (unsigned char)count,
                                       0, 0, 0, 4, 0, 0, 0, 5};
  unsigned char classes[8 + 3] = {0, 0, 8, 1, 0, 0, 0, (unsigned char)count, 7, 0, 9};
  for (int i = 0; i < 60; ++i) pixels[16 + i] = (unsigned char)(i * 4);
  write_file(images, pixels, (size_t)(16 + count * 20));
  write_file(labels, classes, (size_t)(8 + count));
}

static void test_mnist(void **state) {
  (void)state;
  char list[512], sub[128];
  snprintf(sub, sizeof sub, "%s", in_folder("mnist"));
  assert_int_equal(mkdir(sub, 0700), 0);
  write_mnist("mnist/train-images-idx3-ubyte", "mnist/train-labels-idx1-ubyte", 3);
  write_mnist("mnist/t10k-images-idx3-ubyte", "mnist/t10k-labels-idx1-ubyte", 2);
  snprintf(list, sizeof list, "%s/train-images-idx3-ubyte,%s/train-labels-idx1-ubyte", sub, sub);
  for (int way = 0; way < 3; ++way) {
    shoal_dataset_t *dataset =
        open_data(way == 0 ? list : sub, (shoal_dataset_options_t){.test = way == 2});
    assert_int_equal(shoal_dataset_count(dataset), way == 2 ? 2 : 3);
    assert_int_equal(shoal_dataset_column(dataset, 1)->classes, 10);
    float x[20];
    int32_t y;
    assert_ok(shoal_dataset_read(dataset, &(shoal_sample_t){.index = 1}, (void *[]){x, &y}));
    assert_int_equal(y, 0);
    for (int i = 0; i < 20; ++i) assert_true(x[i] == (float)((20 + i) * 4) / 255.0f);
    shoal_dataset_free(dataset);
  }
  const char *images = write_file("i", "\0\0\x08\3\0\0\0\2\0\0\0\1\0\0\0\1\5\6", 18);
  const char *labels = write_file("l", "\0\0\x08\1\0\0\0\2\4\x0b", 10);
  snprintf(list, sizeof list, "%s,%s", images, labels);
  shoal_dataset_t *dataset = open_data(list, (shoal_dataset_options_t){0});
  float x;
  int32_t y;
  assert_error(INVALID_ARGUMENT, "has 11 as label of record 1",
               shoal_dataset_read(dataset, &(shoal_sample_t){.index = 1}, (void *[]){&x, &y}));
  shoal_dataset_free(dataset);
  const shoal_dataset_options_t mnist = {.kind = "mnist"};
  write_file("l", "\0\0\x08\1\0\0\0\1\4", 9);
  assert_refused(list, mnist, "has 2 images");
  write_file("l", "\0\0\x0b\1\0\0\0\2\4\4", 10);
  assert_refused(list, mnist, "type 0x0b");
  write_file("i", "\0\0\x08\3\0\0\0\2\xff\xff\xff\xff\xff\xff\xff\xff\5\6", 18);
  assert_refused(list, mnist, "truncated");
  write_file("i", "\0\0\x08\3\0\0", 6);
  assert_refused(list, mnist, "no idx file of images");
  write_file("i", "\x1f\x8b\x08\3\0\0", 6);
  assert_refused(list, mnist, "gunzip");
  assert_refused(images, mnist, "not the images and the labels");
  assert_error(NOT_FOUND, "train-images",
               shoal_dataset_open(folder, &(shoal_dataset_options_t){.kind = "mnist"}, &dataset));
}

static void test_cifar(void **state) {
  (void)state;
  enum { COUNT = 3, RECORD = 3073 };
  static unsigned char data[COUNT * (RECORD + 1)];
  static float x[3 * 32 * 32];
  int32_t y;
  for (int kind = 0; kind < 2; ++kind) {
    const size_t size = RECORD + (size_t)kind, count = COUNT;
    for (size_t i = 0; i < count; ++i) {
      for (size_t k = 0; k < size; ++k) data[i * size + k] = (unsigned char)(k + 31 * i);
      data[i * size] = (unsigned char)(i + 1);
      if (kind) data[i * size + 1] = (unsigned char)(i + 90);
    }
    const char *path = write_file("c.bin", data, size * count);
    shoal_dataset_t *dataset = open_data(path, (shoal_dataset_options_t){0});
    assert_int_equal(shoal_dataset_column(dataset, 1)->classes, kind ? 100 : 10);
    assert_int_equal(shoal_dataset_count(dataset), COUNT);
    assert_ok(shoal_dataset_read(dataset, &(shoal_sample_t){.index = 2}, (void *[]){x, &y}));
    assert_int_equal(y, kind ? 92 : 3);
    for (size_t k = 0; k < 3072; ++k)
      assert_true(x[k] == (float)data[2 * size + 1 + (size_t)kind + k] / 255.0f);
    shoal_dataset_free(dataset);
  }
  assert_refused(write_file("c.bin", data, 5000), (shoal_dataset_options_t){.kind = "cifar10"},
                 "records of 3073");
  // The binary version's own folder: five files to train on, and one to test on.
  char sub[128];
  snprintf(sub, sizeof sub, "%s", in_folder("cifar"));
  assert_int_equal(mkdir(sub, 0700), 0);
  for (int i = 0; i < 3; ++i) data[i * RECORD] = (unsigned char)i;
  write_file("cifar/data_batch_1.bin", data, RECORD);
  write_file("cifar/data_batch_2.bin", data + RECORD, 2 * RECORD);
  write_file("cifar/test_batch.bin", data + 2 * RECORD, RECORD);
  shoal_dataset_t *train = open_data(sub, (shoal_dataset_options_t){0}),
                  *test = open_data(sub, (shoal_dataset_options_t){.test = true});
  assert_int_equal(shoal_dataset_count(train), 3);
  assert_int_equal(shoal_dataset_count(test), 1);
  assert_ok(shoal_dataset_read(train, &(shoal_sample_t){.index = 2}, (void *[]){NULL, &y}));
  assert_int_equal(y, 2);
  shoal_dataset_free(train);
  shoal_dataset_free(test);
}

// What folders and files are is told from what they hold.
static void test_recognised(void **state) {
  (void)state;
  const shoal_dataset_options_t none = {0};
  assert_refused(write_file("a.gz", "\x1f\x8b\x08", 3), none, "gunzip");
  assert_refused(write_file("a.png", "\x89PNG\r\n", 6), none, "sub-folder per class");
  char sub[128];
  snprintf(sub, sizeof sub, "%s", in_folder("empty"));
  assert_int_equal(mkdir(sub, 0700), 0);
  assert_refused(sub, none, "no data that is known");
  write_file("empty/a.txt", "hello world", 11);
  write_file("empty/b.txt", "!", 1);
  shoal_dataset_t *dataset = open_data(sub, (shoal_dataset_options_t){.length = 11});
  assert_int_equal(shoal_dataset_count(dataset), 1);
  shoal_dataset_free(dataset);
  // Texts under any names, in a folder of nothing else; .txt files are those that are meant.
  snprintf(sub, sizeof sub, "%s", in_folder("docs"));
  assert_int_equal(mkdir(sub, 0700), 0);
  assert_int_equal(mkdir(in_folder("docs/pictures"), 0700), 0);
  write_file("docs/guide.md", "hello\tworld", 11);
  write_file("docs/training.md", "\xc3\xbc\n", 3);
  dataset = open_data(sub, (shoal_dataset_options_t){.length = 13});
  assert_int_equal(shoal_dataset_count(dataset), 1);
  shoal_dataset_free(dataset);
  assert_error(NOT_FOUND, "'val' or 'test' in their names",
               shoal_dataset_open(sub, &(shoal_dataset_options_t){.test = true}, &dataset));
  write_file("docs/picture", "a\0b", 3);
  assert_refused(sub, none, "no data that is known");
  write_file("docs/z.txt", "abc", 3);
  dataset = open_data(sub, (shoal_dataset_options_t){.length = 2});
  assert_int_equal(shoal_dataset_count(dataset), 1);
  shoal_dataset_free(dataset);
}

// What would have no effect is refused.
static void test_variation(void **state) {
  (void)state;
  const char *text = write_file("v.txt", "hello world", 11);
  assert_refused(text, (shoal_dataset_options_t){.length = 2, .flip = true}, "flip has no effect");
  assert_refused(text, (shoal_dataset_options_t){.length = 2, .pad = 1}, "pad has no effect");
  assert_refused(text, (shoal_dataset_options_t){.length = 2, .resize = 1}, "resize has no effect");
  assert_refused(text, (shoal_dataset_options_t){.length = 2, .mean = {0, 0, 1}}, "mean has no");
  assert_refused(text, (shoal_dataset_options_t){.length = 2, .deviation = {1}},
                 "deviation has no");
  assert_refused("random", (shoal_dataset_options_t){.random_crop = true},
                 "random_crop has no effect on data of kind 'random'");
}

static void test_allocations(void **state) {
  (void)state;
  char data[64] = {0}, list[512];
  const shoal_dataset_options_t of_3 = {.length = 3};
  snprintf(list, sizeof list, "%s,%s", write_npy("x.npy", 1, header("<i2", "(4, 2)"), data, 16),
           write_npy("y.npy", 1, header("<f4", "(4,)"), data, 16));
  assert_allocations(list, (shoal_dataset_options_t){0});
  snprintf(list, sizeof list, "%s,%s", write_file("t0.bin", data, 20),
           write_file("t1.bin", data, 10));
  assert_allocations(list, of_3);
  assert_allocations(write_file("t.txt", data, 20), of_3);
  write_mnist("images", "labels", 3);
  snprintf(list, sizeof list, "%s,%s", in_folder("images"), in_folder("labels"));
  assert_allocations(list, (shoal_dataset_options_t){.kind = "mnist"});
  static unsigned char cifar[2 * 3073];
  assert_allocations(write_file("c.bin", cifar, sizeof cifar), (shoal_dataset_options_t){0});
  const shoal_column_t inputs[] = {{"x", SHOAL_F32, SHOAL_SHAPE(2, 3), 0},
                                   {"y", SHOAL_I32, SHOAL_SCALAR, 3}};
  const shoal_dataset_options_t made = {.inputs = inputs, .input_count = 2, .count = 5};
  assert_allocations("classes", made);
  assert_allocations("random", made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_npy_types),   cmocka_unit_test(test_arrays),
      cmocka_unit_test(test_npy_errors),  cmocka_unit_test(test_names),
      cmocka_unit_test(test_tokens),      cmocka_unit_test(test_token_errors),
      cmocka_unit_test(test_token_parts), cmocka_unit_test(test_mnist),
      cmocka_unit_test(test_cifar),       cmocka_unit_test(test_recognised),
      cmocka_unit_test(test_variation),   cmocka_unit_test(test_allocations),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
