// Shoal, base: what every other header stands on - statuses, allocators, element types, shapes.
//
// Nothing here knows about tensors' contents, graphs or ranks. All functions are *Not collective*
// and do not block. Strings returned by getters are borrowed and live as long as what they were
// asked of.
#ifndef SHOAL_BASE_H_
#define SHOAL_BASE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SHOAL_API __attribute__((visibility("default")))
#define SHOAL_MUST_USE __attribute__((warn_unused_result))

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
  SHOAL_DTYPE_COUNT
} shoal_dtype_t;

SHOAL_API const char *shoal_dtype_name(shoal_dtype_t dtype);  // "f32"
SHOAL_API size_t shoal_dtype_size(shoal_dtype_t dtype);       // bytes of an element
SHOAL_API bool shoal_dtype_is_float(shoal_dtype_t dtype);     // f64, f32, bf16 or f16
SHOAL_API bool shoal_dtype_parse(const char *name,
                                 shoal_dtype_t *out_dtype);  // false: no such name

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
