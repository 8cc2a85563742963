// See events.h. A record is
//   u64 length, u32 masked CRC of those 8 bytes, the bytes, u32 masked CRC of the bytes
// all little-endian. A field of a protobuf is its number and kind, then a varint, 4 or 8 bytes, or
// a length and so many bytes.
#include "data/events.h"

#include <string.h>

typedef enum kind { VARINT = 0, EIGHT = 1, BYTES = 2, FOUR = 5 } kind_t;
// Fields of the messages.
enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SCALAR = 2 };

uint32_t shoal_crc32c(const void *data, int64_t length) {
  const unsigned char *bytes = data;
  uint32_t crc = ~UINT32_C(0);
  for (int64_t i = 0; i < length; ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82F63B78) : 0);
  }
  return ~crc;
}

// ---- bytes --------------------------------------------------------------------------------------

// What is written goes to the end of a buffer; after a failure nothing more does.
typedef struct writer {
  shoal_allocator_t allocator;
  shoal_buffer_t *out;
  bool failed;
} writer_t;

static void add(writer_t *w, const void *data, int64_t length) {
  if (!w->failed) w->failed = !shoal_buffer_add(w->allocator, w->out, data, length);
}

static void add_number(writer_t *w, uint64_t value, int bytes) {
  unsigned char data[8];
  for (int i = 0; i < bytes; ++i) data[i] = (unsigned char)(value >> 8 * i);
  add(w, data, bytes);
}

static void add_varint(writer_t *w, uint64_t value) {
  for (; value >= 0x80; value >>= 7) add_number(w, value | 0x80, 1);
  add_number(w, value, 1);
}

static void add_field(writer_t *w, int number, kind_t kind) {
  add_varint(w, (uint64_t)number << 3 | (uint64_t)kind);
}

static void add_double(writer_t *w, int number, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  add_field(w, number, EIGHT);
  add_number(w, bits, 8);
}

static void add_float(writer_t *w, int number, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  add_field(w, number, FOUR);
  add_number(w, bits, 4);
}

static void add_bytes(writer_t *w, int number, const void *data, int64_t length) {
  add_field(w, number, BYTES);
  add_varint(w, (uint64_t)length);
  add(w, data, length);
}

static uint32_t masked(const void *data, int64_t length) {
  const uint32_t crc = shoal_crc32c(data, length);
  return (crc >> 15 | crc << 17) + UINT32_C(0xA282EAD8);
}

static void add_record(writer_t *w, const shoal_buffer_t *event) {
  const int64_t start = w->out->length;
  add_number(w, (uint64_t)event->length, 8);
  if (!w->failed) add_number(w, masked(w->out->data + start, 8), 4);
  add(w, event->data, event->length);
  add_number(w, masked(event->data, event->length), 4);
}

// ---- events -------------------------------------------------------------------------------------

bool shoal_events_version(shoal_allocator_t allocator, double time, shoal_buffer_t *out) {
  static const char version[] = "brain.Event:2";
  shoal_buffer_t event = {0};
  writer_t inner = {.allocator = allocator, .out = &event},
           w = {.allocator = allocator, .out = out};
  add_double(&inner, EVENT_TIME, time);
  add_bytes(&inner, EVENT_VERSION, version, sizeof version - 1);
  if (!inner.failed) add_record(&w, &event);
  shoal_buffer_deinit(allocator, &event);
  return !inner.failed && !w.failed;
}

static int64_t varint_size(uint64_t value) {
  int64_t size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

// The bytes of a Summary.Value: two fields whose numbers take a byte.
static int64_t value_size(int64_t tag) {
  return 1 + varint_size((uint64_t)tag) + tag + 1 + 4;
}

bool shoal_events_scalars(shoal_allocator_t allocator, double time, int64_t step,
                          const shoal_metric_t *values, int64_t count, shoal_buffer_t *out) {
  shoal_buffer_t event = {0};
  writer_t inner = {.allocator = allocator, .out = &event},
           w = {.allocator = allocator, .out = out};
  int64_t size = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t value = value_size((int64_t)strlen(values[i].name));
    size += 1 + varint_size((uint64_t)value) + value;
  }
  add_double(&inner, EVENT_TIME, time);
  add_field(&inner, EVENT_STEP, VARINT);
  add_varint(&inner, (uint64_t)step);
  add_field(&inner, EVENT_SUMMARY, BYTES);
  add_varint(&inner, (uint64_t)size);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t tag = (int64_t)strlen(values[i].name);
    add_field(&inner, SUMMARY_VALUE, BYTES);
    add_varint(&inner, (uint64_t)value_size(tag));
    add_bytes(&inner, VALUE_TAG, values[i].name, tag);
    add_float(&inner, VALUE_SCALAR, (float)values[i].value);
  }
  if (!inner.failed) add_record(&w, &event);
  shoal_buffer_deinit(allocator, &event);
  return !inner.failed && !w.failed;
}
