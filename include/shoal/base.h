// Shoal, base: what every other header stands on - statuses, allocators, element types, shapes.
//
// Nothing here knows about tensors' contents, graphs or ranks. All functions are *Not collective*
// and do not block. Strings returned by getters are borrowed and live as long as what they were
// asked of.
#ifndef SHOAL_BASE_H_
#define SHOAL_BASE_H_

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SHOAL_API __attribute__((visibility("default")))
#define SHOAL_MUST_USE __attribute__((warn_unused_result))

// The version of the library that runs, "0.1.0".
SHOAL_API const char *shoal_version(void);

// -------------------------------------------------------------------------------------------------
// Status: NULL is success. Anything else is an owned error that must be passed on, annotated or
// freed.
// -------------------------------------------------------------------------------------------------

typedef enum shoal_code {
#define SHOAL_STATUS_CODE(id, number, exit_code, text) SHOAL_##id = number,
#include "shoal/status.inc"
#undef SHOAL_STATUS_CODE
} shoal_code_t;

typedef struct shoal_status *shoal_status_t;

// Creates an error. `message` is copied; `hint` (what the user can do) may be NULL. When memory is
// short it returns a static out-of-memory status: creating an error never fails.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_status_create(shoal_code_t code, const char *file,
                                                            int line, const char *message,
                                                            const char *hint);

// Puts `context` before the message: "while lowering node 12 'attn/qk': ...". Takes `status`,
// returns it.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_status_annotate(shoal_status_t status,
                                                              const char *context);

// Frees an error; NULL is allowed.
SHOAL_API void shoal_status_free(shoal_status_t status);

// Deep copy: a status is a value, it may cross threads and ranks.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_status_clone(shoal_status_t status);

SHOAL_API shoal_code_t shoal_status_code(shoal_status_t status);    // SHOAL_OK for NULL
SHOAL_API const char *shoal_status_message(shoal_status_t status);  // "" for NULL
SHOAL_API const char *shoal_status_hint(shoal_status_t status);     // "" when there is none
SHOAL_API const char *shoal_status_file(shoal_status_t status);  // where it was made; "" for NULL
SHOAL_API int shoal_status_line(shoal_status_t status);          // 0 for NULL
SHOAL_API const char *shoal_code_name(shoal_code_t code);        // "INVALID_ARGUMENT"
SHOAL_API int shoal_code_exit(shoal_code_t code);                // exit status of a program

// Prints an error for people, for the end of a program's main: "shoal: error: CODE: message", where
// it was made ("  at mlp.c:17": the user's line for an error of a graph) and its hint, a line each.
// NULL is success and prints nothing; `file` NULL is stderr. The one function of the library that
// prints.
SHOAL_API void shoal_status_print(shoal_status_t status, FILE *file);

#define SHOAL_RETURN_IF_ERROR(expr)                      \
  do {                                                   \
    shoal_status_t shoal_status_local_ = (expr);         \
    if (shoal_status_local_) return shoal_status_local_; \
  } while (0)

// SHOAL_ERROR(INVALID_ARGUMENT, "axis '%s' has size 0", name): an error of this line, its message
// formatted as printf does. SHOAL_ERROR_HINT takes a hint too, which may be NULL.
#define SHOAL_ERROR(code, ...) SHOAL_ERROR_HINT(code, NULL, __VA_ARGS__)
#define SHOAL_ERROR_HINT(code, hint, ...) \
  shoal_status_createf_(SHOAL_##code, __FILE__, __LINE__, hint, __VA_ARGS__)
#define SHOAL_OOM() SHOAL_ERROR(OUT_OF_MEMORY, "out of memory")

// Inline, so that nothing variadic is in the ABI. Longer messages are cut.
__attribute__((format(printf, 5, 6))) SHOAL_MUST_USE static inline shoal_status_t
shoal_status_createf_(shoal_code_t code, const char *file, int line, const char *hint,
                      const char *format, ...) {
  char message[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return shoal_status_create(code, file, line, message, hint);
}

// For functions that own something: stores the error in `status` and jumps to the cleanup label.
#define SHOAL_GOTO_IF_ERROR(status, label, expr) \
  do {                                           \
    (status) = (expr);                           \
    if (status) goto label;                      \
  } while (0)

// -------------------------------------------------------------------------------------------------
// Allocator: a value, passed at create and stored by what is created.
// -------------------------------------------------------------------------------------------------

typedef struct shoal_allocator {
  void *self;
  void *(*alloc)(void *self, size_t size);  // 64-byte aligned; NULL when memory is short
  void (*free)(void *self, void *memory);   // memory may be NULL
} shoal_allocator_t;

// The C library's; safe to use from any thread.
SHOAL_API shoal_allocator_t shoal_allocator_system(void);

// Arena: many small blocks freed together; what layouts, plans and printed texts are allocated
// from.
typedef struct shoal_arena shoal_arena_t;
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_arena_create(shoal_allocator_t allocator,
                                                           shoal_arena_t **out_arena);
SHOAL_API void shoal_arena_free(shoal_arena_t *arena);  // NULL is allowed
// Zeroed memory for `count` elements of `size` bytes, 16-byte aligned, which lives as long as the
// arena; NULL when memory is short or the product overflows. A count of 0 gives a valid pointer.
SHOAL_API void *shoal_arena_alloc(shoal_arena_t *arena, size_t count, size_t size);
#define SHOAL_NEW(arena, type, n) ((type *)shoal_arena_alloc((arena), (size_t)(n), sizeof(type)))

// Files: read whole, written so that readers see the old file or the new one. Errors are NOT_FOUND
// or IO and name the file. They block for as long as the file system takes.

// The file's bytes in the arena, with a zero behind them that is not counted.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_file_read(const char *path, shoal_arena_t *arena,
                                                        const char **out_data, int64_t *out_size);
// Writes a temporary file beside `path`, syncs it and renames it. What is there and is no plain
// file - a fifo, a device, a symbolic link - is written into instead.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_file_write(const char *path, const void *data,
                                                         int64_t size);

// -------------------------------------------------------------------------------------------------
// Memory kinds
// -------------------------------------------------------------------------------------------------

// Where the bytes of a value lie: in the device's own memory, where it computes; in the memory of
// the host; in a file of the rank's own, which is gone with the rank.
typedef enum shoal_memory_kind {
  SHOAL_MEMORY_DEVICE,
  SHOAL_MEMORY_HOST,
  SHOAL_MEMORY_FILE,
  SHOAL_MEMORY_COUNT
} shoal_memory_kind_t;

SHOAL_API const char *shoal_memory_kind_name(shoal_memory_kind_t memory);  // "device"
SHOAL_API bool shoal_memory_kind_parse(const char *name,
                                       shoal_memory_kind_t *out_memory);  // false: no such name

// -------------------------------------------------------------------------------------------------
// Element types and shapes
// -------------------------------------------------------------------------------------------------

typedef enum shoal_dtype {
  SHOAL_F64,
  SHOAL_F32,
  SHOAL_BF16,
  SHOAL_F16,
  SHOAL_I64,
  SHOAL_I32,
  SHOAL_U8,
  SHOAL_BOOL,
  SHOAL_I8,       // this and the following are for storage, see shoal_dtype_is_storage
  SHOAL_F8_E4M3,  // 4 bits of exponent: up to 448, no infinity; what is larger becomes NaN
  SHOAL_F8_E5M2,  // 5 bits of exponent: up to 57344; what is larger becomes infinite
  SHOAL_DTYPE_COUNT
} shoal_dtype_t;

SHOAL_API const char *shoal_dtype_name(shoal_dtype_t dtype);  // "f32"
SHOAL_API size_t shoal_dtype_size(shoal_dtype_t dtype);       // bytes of an element
SHOAL_API bool shoal_dtype_is_float(shoal_dtype_t dtype);     // f64, f32, bf16 or f16
// i8, f8_e4m3 or f8_e5m2: kept, fed, fetched, moved and cast, but never computed with. No gradient
// flows through them, and no reduction joins them.
SHOAL_API bool shoal_dtype_is_storage(shoal_dtype_t dtype);
SHOAL_API bool shoal_dtype_parse(const char *name,
                                 shoal_dtype_t *out_dtype);  // false: no such name

// One element of an array as a double, and back, rounded to nearest even (integers: truncated).
SHOAL_API double shoal_dtype_load(shoal_dtype_t dtype, const void *data, int64_t index);
SHOAL_API void shoal_dtype_store(shoal_dtype_t dtype, void *data, int64_t index, double value);

#define SHOAL_MAX_RANK 8

typedef struct shoal_shape {
  int32_t rank;
  int64_t dims[SHOAL_MAX_RANK];
} shoal_shape_t;

#ifdef __cplusplus
}
template <typename... Dims>
inline shoal_shape_t shoal_shape_of_(Dims... dims) {
  return shoal_shape_t{(int32_t)sizeof...(Dims), {(int64_t)dims...}};
}
#define SHOAL_SHAPE(...) shoal_shape_of_(__VA_ARGS__)
extern "C" {
#else
#define SHOAL_SHAPE(...) \
  ((shoal_shape_t){sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), {__VA_ARGS__}})
#endif
#define SHOAL_SCALAR (shoal_shape_scalar())

static inline shoal_shape_t shoal_shape_scalar(void) {
  shoal_shape_t shape = {0, {0}};
  return shape;
}
SHOAL_API int64_t shoal_shape_count(const shoal_shape_t *shape);  // product of dims; 1 for a scalar
SHOAL_API bool shoal_shape_equal(const shoal_shape_t *a,
                                 const shoal_shape_t *b);  // in rank and all dims

// A dense row-major tensor in host memory, borrowed.
typedef struct shoal_tensor {
  void *data;
  shoal_dtype_t dtype;
  shoal_shape_t shape;
} shoal_tensor_t;

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_BASE_H_
