// Images from the bytes of a file, through libpng and libjpeg. Both are optional: a build without
// one says UNAVAILABLE. Sizes are refused before memory is asked for.
#ifndef SHOAL_DATA_DECODE_H_
#define SHOAL_DATA_DECODE_H_

#include "data/image.h"

enum { SHOAL_IMAGE_MOST_PIXELS = 1 << 26, SHOAL_IMAGE_MOST_SIDE = 1 << 16 };

// By its first bytes, with 1 or 3 channels. `name` is for messages. Pixels lie in the arena.
SHOAL_MUST_USE shoal_status_t shoal_image_decode(const char *name, const void *data, int64_t size,
                                                 int64_t channels, shoal_arena_t *arena,
                                                 shoal_image_t *out_image);
SHOAL_MUST_USE shoal_status_t shoal_png_decode(const char *name, const void *data, int64_t size,
                                               int64_t channels, shoal_arena_t *arena,
                                               shoal_image_t *out_image);
SHOAL_MUST_USE shoal_status_t shoal_jpeg_decode(const char *name, const void *data, int64_t size,
                                                int64_t channels, shoal_arena_t *arena,
                                                shoal_image_t *out_image);

// Room for an image of that size, or why there is none.
SHOAL_MUST_USE shoal_status_t shoal_image_reserve(const char *name, int64_t channels,
                                                  int64_t height, int64_t width,
                                                  shoal_arena_t *arena, shoal_image_t *out_image);
SHOAL_MUST_USE shoal_status_t shoal_image_damaged(const char *name, const char *why);

// Here, because a build with both libraries does not need it.
SHOAL_MUST_USE static inline shoal_status_t shoal_image_unavailable(const char *name,
                                                                    const char *library) {
  return SHOAL_ERROR_HINT(UNAVAILABLE,
                          "install it (tools/bootstrap --optional does), and build Shoal again",
                          "'%s' cannot be decoded: this build has no %s", name, library);
}

extern const bool shoal_has_png, shoal_has_jpeg;  // the library was there when this was built

#endif  // SHOAL_DATA_DECODE_H_
