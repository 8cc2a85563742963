// Folders of images, and what is made of images: sizes, crops, flips, numbers. A build without
// libpng or libjpeg says so, and the tests that need them are skipped.
#include <math.h>

#include "base/arena.h"
#include "data/decode.h"
#include "data_support.h"

// ---- files ----------------------------------------------------------------------------

static uint32_t crc(const unsigned char *data, size_t size) {
  uint32_t sum = 0xffffffffu;
  for (size_t i = 0; i < size; ++i) {
    sum ^= data[i];
    for (int k = 0; k < 8; ++k) sum = sum >> 1 ^ (sum & 1 ? 0xedb88320u : 0);
  }
  return ~sum;
}

static void put(unsigned char *at, uint32_t value) {
  for (int i = 0; i < 4; ++i) at[i] = (unsigned char)(value >> (24 - 8 * i));
}

static size_t chunk(unsigned char *at, const char *type, const unsigned char *data, size_t size) {
  put(at, (uint32_t)size);
  memcpy(at + 4, type, 4);
  if (size > 0) memcpy(at + 8, data, size);
  put(at + 8 + size, crc(at + 4, size + 4));
  return size + 12;
}

// A PNG of RGB pixels [height, width, 3] in one block that is not compressed.
static size_t make_png(uint32_t width, uint32_t height, const unsigned char *pixels, size_t rows,
                       unsigned char *out) {
  static unsigned char raw[1 << 15];
  unsigned char head[13] = {[8] = 8, [9] = 2};
  put(head, width);
  put(head + 4, height);
  size_t size = 0, at = 8;
  const size_t row = 3 * (size_t)width;
  for (size_t y = 0; y < rows; ++y, size += row + 1) {
    raw[7 + size] = 0;
    memcpy(raw + 8 + size, pixels + y * row, row);
  }
  raw[0] = 0x78, raw[1] = 1, raw[2] = 1;
  raw[3] = (unsigned char)size, raw[4] = (unsigned char)(size >> 8);
  raw[5] = (unsigned char)~raw[3], raw[6] = (unsigned char)~raw[4];
  uint32_t a = 1, b = 0;
  for (size_t i = 0; i < size; ++i) {
    a = (a + raw[7 + i]) % 65521;
    b = (b + a) % 65521;
  }
  put(raw + 7 + size, b << 16 | a);
  memcpy(out, "\x89PNG\r\n\x1a\n", 8);
  at += chunk(out + at, "IHDR", head, 13);
  at += chunk(out + at, "IDAT", raw, size + 11);
  return at + chunk(out + at, "IEND", NULL, 0);
}

static unsigned char file[1 << 16];

static void write_png(const char *name, uint32_t width, uint32_t height,
                      const unsigned char *pixels) {
  write_file(name, file, make_png(width, height, pixels, height, file));
}

// 16 x 8 pixels: the left half (200, 100, 40), the right half (40, 40, 200).
static size_t make_jpeg(unsigned char *out) {
  static const char hex[] =
      "ffd8ffdb0043000302020302020303030304030304050805050404050a070706080c0a0c0c0b0a0b0b0d0e12100d"
      "0e110e0b0b1016101113141515150c0f171816141812141514ffdb00430103040405040509050509140d0b0d1414"
      "14141414141414141414141414141414141414141414141414141414141414141414141414141414141414141414"
      "1414ffc00011080008001003011100021101031101ffc4001500010100000000000000000000000000000408ffc4"
      "0014100100000000000000000000000000000000ffc400160101010100000000000000000000000000080709ffc4"
      "0014110100000000000000000000000000000000ffda000c03010002110311003f00120449a516a9092fffd9";
  for (size_t i = 0; i < sizeof hex / 2; ++i) {
    const char pair[] = {hex[2 * i], hex[2 * i + 1], 0};
    out[i] = (unsigned char)strtol(pair, NULL, 16);
  }
  return sizeof hex / 2;
}

static bool available(const unsigned char *data, size_t size) {
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_image_t image;
  shoal_status_t status = shoal_image_decode("x", data, (int64_t)size, 3, &arena, &image);
  const bool missing = shoal_status_code(status) == SHOAL_UNAVAILABLE;
  shoal_status_free(status);
  shoal_arena_deinit(&arena);
  return !missing;
}

// What is said to be there is there.
static void test_formats(void **state) {
  (void)state;
  bool png = false, jpeg = false;
  assert_string_equal(shoal_image_format(0, &png), "png");
  assert_string_equal(shoal_image_format(1, &jpeg), "jpeg");
  assert_null(shoal_image_format(2, NULL));
  assert_int_equal(png, available(file, make_png(1, 1, (unsigned char[]){1, 2, 3}, 1, file)));
  assert_int_equal(jpeg, available(file, make_jpeg(file)));
}

static void need_png(void) {
  if (!available(file, make_png(1, 1, (unsigned char[]){1, 2, 3}, 1, file))) skip();
}

static shoal_dataset_t *open_images(const char *path, shoal_dataset_options_t options) {
  shoal_dataset_t *dataset;
  assert_ok(shoal_dataset_open(path, &options, &dataset));
  return dataset;
}

static int32_t read_sample(shoal_dataset_t *dataset, shoal_sample_t sample, float *x) {
  int32_t y = -1;
  assert_ok(shoal_dataset_read(dataset, &sample, (void *[]){x, &y}));
  return y;
}

// A new folder in the test's own.
static const char *sub_folder(const char *name) {
  const char *path = in_folder(name);
  assert_int_equal(mkdir(path, 0700), 0);
  return path;
}

// ---- tests ----------------------------------------------------------------------------

static void test_folder(void **state) {
  (void)state;
  need_png();
  const char *path = sub_folder("a");
  sub_folder("a/dog");
  sub_folder("a/cat");
  unsigned char pixels[18];
  for (int i = 0; i < 18; ++i) pixels[i] = (unsigned char)(i * 14);
  write_png("a/dog/2.png", 3, 2, pixels);
  write_png("a/cat/b.PNG", 3, 2, pixels);
  pixels[0] = 255;
  write_png("a/cat/a.png", 3, 2, pixels);
  write_file("a/cat/notes.txt", "x", 1);
  write_file("a/readme", "x", 1);
  shoal_dataset_t *dataset = open_images(path, (shoal_dataset_options_t){0});
  assert_int_equal(shoal_dataset_count(dataset), 3);
  assert_int_equal(shoal_dataset_column(dataset, 1)->classes, 2);
  float x[18];
  assert_int_equal(read_sample(dataset, (shoal_sample_t){0}, x), 0);  // cat/a.png
  assert_true(x[0] == 1);
  assert_int_equal(read_sample(dataset, (shoal_sample_t){1}, x), 0);
  assert_int_equal(read_sample(dataset, (shoal_sample_t){2}, x), 1);
  for (int c = 0; c < 3; ++c)  // planes, not pixels
    for (int i = 0; i < 6; ++i) assert_true(x[c * 6 + i] == (float)(14 * (3 * i + c)) / 255.0f);
  shoal_dataset_free(dataset);

  const shoal_dataset_options_t normal = {
      .mean = {0.5, 0.25, 0}, .deviation = {0.5, 0, 0.25}, .kind = "images"};
  dataset = open_images(path, normal);
  read_sample(dataset, (shoal_sample_t){0}, x);
  assert_true(x[0] == 1);                                    // (1 - 0.5) / 0.5
  assert_true(fabsf(x[6] - (14 / 255.0f - 0.25f)) < 1e-6f);  // deviation 0 is 1
  assert_true(fabsf(x[12] - 28 / 255.0f / 0.25f) < 1e-6f);
  shoal_dataset_free(dataset);
  dataset = open_images(path, (shoal_dataset_options_t){.channels = 1});
  assert_int_equal(shoal_dataset_column(dataset, 0)->shape.dims[0], 1);
  read_sample(dataset, (shoal_sample_t){2}, x);
  shoal_dataset_free(dataset);

  // Another size is refused, unless sizes are said.
  write_png("a/dog/2.png", 2, 2, pixels);
  dataset = open_images(path, (shoal_dataset_options_t){0});
  assert_error(INVALID_ARGUMENT, "2.png' has 2 x 2 pixels, others have 3 x 2",
               shoal_dataset_read(dataset, &(shoal_sample_t){2}, (void *[]){x, NULL}));
  shoal_dataset_free(dataset);
  const shoal_column_t input = {"x", SHOAL_F32, SHOAL_SHAPE(3, 2, 2), 0};
  dataset = open_images(path, (shoal_dataset_options_t){.inputs = &input, .input_count = 1});
  for (int64_t i = 0; i < 3; ++i) read_sample(dataset, (shoal_sample_t){i}, x);
  assert_true(x[0] == 1);
  shoal_dataset_free(dataset);
}

// A pixel says where it is: red is 10 x, green is 10 y.
static void write_grid(const char *name, int width, int height) {
  static unsigned char pixels[3 * 32 * 32];
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      unsigned char *at = pixels + 3 * (y * width + x);
      at[0] = (unsigned char)(10 * x);
      at[1] = (unsigned char)(10 * y);
      at[2] = 77;
    }
  write_png(name, (uint32_t)width, (uint32_t)height, pixels);
}

static double at(const float *x, int channel, int row, int column, int size) {
  return x[(channel * size + row) * size + column] * 255.0;
}

static void test_crops(void **state) {
  (void)state;
  need_png();
  const char *path = sub_folder("b");
  sub_folder("b/one");
  write_grid("b/one/g.png", 12, 9);
  static float x[3 * 9 * 9], again[3 * 9 * 9];
  // From the middle: 4 x 4 of 12 x 9 begins at row 3 (of 2.5) and column 4.
  shoal_dataset_t *dataset =
      open_images(path, (shoal_dataset_options_t){.height = 4, .width = 4, .resize = 9});
  read_sample(dataset, (shoal_sample_t){.varied = true}, x);
  assert_true(fabs(at(x, 0, 0, 0, 4) - 40) < 1e-3 && fabs(at(x, 1, 0, 0, 4) - 30) < 1e-3);
  assert_true(fabs(at(x, 0, 3, 3, 4) - 70) < 1e-3 && fabs(at(x, 1, 3, 3, 4) - 60) < 1e-3);
  shoal_dataset_free(dataset);

  // Anywhere, both ways round; the same again of the same draw; as stored where it is not varied.
  const shoal_dataset_options_t random = {
      .height = 4, .width = 4, .resize = 9, .random_crop = true, .flip = true};
  dataset = open_images(path, random);
  int flips = 0, rows[6] = {0}, columns[9] = {0};
  for (int epoch = 0; epoch < 200; ++epoch) {
    const shoal_sample_t sample = {.varied = true, .epoch = epoch, .seed = 3};
    read_sample(dataset, sample, x);
    const double first = at(x, 0, 0, 0, 4), last = at(x, 0, 0, 3, 4);
    flips += first > last;
    ++rows[lround(at(x, 1, 0, 0, 4) / 10)];
    ++columns[lround((first < last ? first : last) / 10)];
    assert_true(fabs(fabs(first - last) - 30) < 1e-3);
    read_sample(dataset, sample, again);
    assert_memory_equal(x, again, 48 * sizeof *x);
  }
  assert_true(flips > 60 && flips < 140);
  for (int i = 0; i < 6; ++i) assert_true(rows[i] > 10);
  for (int i = 0; i < 9; ++i) assert_true(columns[i] > 5);
  read_sample(dataset, (shoal_sample_t){.epoch = 5, .seed = 3}, x);
  assert_true(fabs(at(x, 0, 0, 0, 4) - 40) < 1e-3);
  shoal_dataset_free(dataset);

  // Padded: black comes in from the border, and only there. Without, there is nothing to choose.
  write_grid("b/one/g.png", 9, 9);
  const shoal_dataset_options_t tight = {.height = 4, .width = 4, .random_crop = true};
  assert_error(INVALID_ARGUMENT,
               "random_crop has no effect: images of 9 x 9 pixels are resized to 4",
               shoal_dataset_open(path, &tight, &dataset));
  dataset = open_images(path, (shoal_dataset_options_t){.height = 9, .width = 9, .pad = 2});
  int black = 0;
  for (int epoch = 0; epoch < 50; ++epoch) {
    read_sample(dataset, (shoal_sample_t){.varied = true, .epoch = epoch}, x);
    for (int y = 0; y < 9; ++y)
      for (int c = 0; c < 9; ++c) {
        const double blue = at(x, 2, y, c, 9);
        assert_true(blue == 0 || fabs(blue - 77) < 1e-3);
        black += blue == 0;
        if (y >= 2 && y < 7 && c >= 2 && c < 7) assert_true(blue != 0);
      }
  }
  assert_true(black > 500);
  shoal_dataset_free(dataset);
}

// Of what is smaller than the crop nothing is cropped, at random or from the middle: refused when
// it is opened or, of images unlike the first, read. Padding makes it larger.
static void test_too_small(void **state) {
  (void)state;
  need_png();
  const char *path = sub_folder("s");
  sub_folder("s/one");
  write_grid("s/one/g.png", 12, 9);
  write_grid("s/one/h.png", 9, 12);
  shoal_dataset_t *dataset;
  for (int i = 0; i < 6; ++i) {
    const shoal_dataset_options_t small = {
        .height = 9, .width = 9, .resize = 4, .random_crop = i % 2 != 0, .pad = i / 2};
    assert_error(INVALID_ARGUMENT, "resized to 4 x 5, of which no 9 x 9 can be cropped",
                 shoal_dataset_open(path, &small, &dataset));
  }
  const shoal_dataset_options_t padded = {.height = 9, .width = 9, .resize = 4, .pad = 3};
  dataset = open_images(path, padded);
  shoal_dataset_free(dataset);
  dataset = open_images(path, (shoal_dataset_options_t){.height = 9, .width = 12, .resize = 9});
  static float x[3 * 9 * 12];
  read_sample(dataset, (shoal_sample_t){0}, x);
  assert_error(
      INVALID_ARGUMENT, "resized to 12 x 9, of which no 9 x 12 can be cropped",
      shoal_dataset_read(dataset, &(shoal_sample_t){.index = 1}, (void *const[]){x, NULL}));
  shoal_dataset_free(dataset);
}

// Smaller: every pixel counts. Larger: between the pixels, as half-pixel centres have it.
static void test_resize(void **state) {
  (void)state;
  need_png();
  const char *path = sub_folder("c");
  sub_folder("c/one");
  write_grid("c/one/g.png", 12, 12);
  float x[3 * 24 * 24];
  shoal_dataset_t *dataset = open_images(path, (shoal_dataset_options_t){.height = 4, .width = 4});
  read_sample(dataset, (shoal_sample_t){0}, x);
  for (int i = 1; i < 3; ++i) {  // inside the triangle is symmetric
    assert_true(fabs(at(x, 0, 0, i, 4) - 10 * (3 * i + 1)) < 1e-3);
    assert_true(fabs(at(x, 1, i, 0, 4) - 10 * (3 * i + 1)) < 1e-3);
    assert_true(fabs(at(x, 2, i, i, 4) - 77) < 1e-3);
  }
  // Stripes of one pixel become nearly even: 5/9 of the weight lies on those like the middle one.
  unsigned char stripes[3 * 144] = {0};
  for (int i = 0; i < 144; ++i) stripes[3 * i] = i % 2 ? 180 : 0;
  write_png("c/one/g.png", 12, 12, stripes);
  read_sample(dataset, (shoal_sample_t){0}, x);
  assert_true(fabs(at(x, 0, 0, 1, 4) - 80) < 1e-3 && fabs(at(x, 0, 0, 2, 4) - 100) < 1e-3);
  shoal_dataset_free(dataset);
  write_grid("c/one/g.png", 12, 12);
  dataset = open_images(path, (shoal_dataset_options_t){.height = 24, .width = 24});
  read_sample(dataset, (shoal_sample_t){0}, x);
  assert_true(at(x, 0, 0, 0, 24) == 0);
  assert_true(fabs(at(x, 0, 0, 1, 24) - 2.5) < 1e-3);
  assert_true(fabs(at(x, 0, 0, 2, 24) - 7.5) < 1e-3);
  assert_true(fabs(at(x, 0, 0, 23, 24) - 110) < 1e-3);
  shoal_dataset_free(dataset);
}

static void test_damaged(void **state) {
  (void)state;
  need_png();
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_image_t image;
  unsigned char pixels[3 * 64] = {0};
  const int64_t size = (int64_t)make_png(8, 8, pixels, 8, file);
  assert_ok(shoal_image_decode("p", file, size, 3, &arena, &image));
  assert_int_equal(image.height, 8);
  for (int64_t cut = 0; cut < size - 12; cut += 7)
    assert_error(INVALID_ARGUMENT, "'p'", shoal_image_decode("p", file, cut, 3, &arena, &image));
  file[40] ^= 1;  // a checksum tells
  assert_error(INVALID_ARGUMENT, "'p' cannot be decoded",
               shoal_image_decode("p", file, size, 3, &arena, &image));
  // Sizes that a file cannot have are refused before memory is asked for.
  const int64_t huge = (int64_t)make_png(60000, 60000, pixels, 0, file);
  assert_error(INVALID_ARGUMENT, "60000 x 60000 pixels",
               shoal_image_decode("p", file, huge, 3, &arena, &image));
  assert_error(INVALID_ARGUMENT, "neither a PNG nor a JPEG",
               shoal_image_decode("p", "GIF89a..", 8, 3, &arena, &image));
  shoal_arena_deinit(&arena);
}

static void test_jpeg(void **state) {
  (void)state;
  const int64_t size = (int64_t)make_jpeg(file);
  if (!available(file, (size_t)size)) skip();
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_image_t image;
  assert_ok(shoal_image_decode("j", file, size, 3, &arena, &image));
  assert_int_equal(image.width, 16);
  assert_int_equal(image.height, 8);
  const int expected[2][3] = {{200, 100, 40}, {40, 40, 200}};
  for (int side = 0; side < 2; ++side)
    for (int c = 0; c < 3; ++c) {
      const int got = image.pixels[4 * image.row_step + (4 + 8 * side) * image.column_step + c];
      assert_true(abs(got - expected[side][c]) < 6);
    }
  assert_ok(shoal_image_decode("j", file, size, 1, &arena, &image));
  assert_int_equal(image.row_step, 16);
  for (int64_t cut = 3; cut < size - 2; cut += 5)  // also inside the pixels
    assert_error(INVALID_ARGUMENT, "'j' cannot be decoded",
                 shoal_image_decode("j", file, cut, 3, &arena, &image));
  for (int i = 0; i + 8 < (int)size; ++i)
    if (file[i] == 0xff && file[i + 1] == 0xc0) file[i + 5] = file[i + 7] = 0xff;  // its sizes
  assert_error(INVALID_ARGUMENT, "65296 x 65288 pixels",
               shoal_image_decode("j", file, size, 3, &arena, &image));
  shoal_arena_deinit(&arena);
}

static void test_allocations(void **state) {
  (void)state;
  need_png();
  const char *path = sub_folder("e");
  sub_folder("e/one");
  sub_folder("e/two");
  write_grid("e/one/a.png", 12, 9);
  write_grid("e/two/b.png", 12, 9);
  assert_allocations(path, (shoal_dataset_options_t){.height = 4, .width = 4});
}

static void test_errors(void **state) {
  (void)state;
  shoal_dataset_t *dataset;
  const char *path = sub_folder("d");
  const shoal_dataset_options_t images = {.kind = "images"};
  assert_error(INVALID_ARGUMENT, "no sub-folders", shoal_dataset_open(path, &images, &dataset));
  sub_folder("d/empty");
  assert_error(INVALID_ARGUMENT, "d/empty' has no PNG or JPEG",
               shoal_dataset_open(path, &images, &dataset));
  write_file("d/empty/a.jpg", "nothing", 7);
  assert_error(INVALID_ARGUMENT, "a.jpg' is neither", shoal_dataset_open(path, &images, &dataset));
  assert_error(INVALID_ARGUMENT, "2 channels",
               shoal_dataset_open(path, &(shoal_dataset_options_t){.kind = "images", .channels = 2},
                                  &dataset));
  assert_error(
      INVALID_ARGUMENT, "-5 pixels",
      shoal_dataset_open(path, &(shoal_dataset_options_t){.kind = "images", .pad = -5}, &dataset));
  assert_error(INVALID_ARGUMENT, "both a height and a width",
               shoal_dataset_open(path, &(shoal_dataset_options_t){.kind = "images", .resize = 5},
                                  &dataset));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_formats),     cmocka_unit_test(test_folder),
      cmocka_unit_test(test_crops),       cmocka_unit_test(test_too_small),
      cmocka_unit_test(test_resize),      cmocka_unit_test(test_damaged),
      cmocka_unit_test(test_jpeg),        cmocka_unit_test(test_errors),
      cmocka_unit_test(test_allocations),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
