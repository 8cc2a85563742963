// See decode.h.
#include "data/decode.h"

#include <string.h>

#include "base/status.h"

const char *shoal_image_format(int64_t index, bool *out_available) {
  static const char *const names[] = {"png", "jpeg"};
  const bool available[] = {shoal_has_png, shoal_has_jpeg};
  if (index < 0 || index > 1) return NULL;
  if (out_available) *out_available = available[index];
  return names[index];
}

shoal_status_t shoal_image_decode(const char *name, const void *data, int64_t size,
                                  int64_t channels, shoal_arena_t *arena,
                                  shoal_image_t *out_image) {
  *out_image = (shoal_image_t){0};
  if (size >= 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0)
    return shoal_png_decode(name, data, size, channels, arena, out_image);
  if (size >= 3 && memcmp(data, "\xff\xd8\xff", 3) == 0)
    return shoal_jpeg_decode(name, data, size, channels, arena, out_image);
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "write it again as PNG or JPEG, or remove it",
                          "'%s' is neither a PNG nor a JPEG image", name);
}

shoal_status_t shoal_image_reserve(const char *name, int64_t channels, int64_t height,
                                   int64_t width, shoal_arena_t *arena, shoal_image_t *out_image) {
  if (height < 1 || width < 1 || height > SHOAL_IMAGE_MOST_SIDE || width > SHOAL_IMAGE_MOST_SIDE ||
      height * width > SHOAL_IMAGE_MOST_PIXELS)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "the file is damaged; or make the image smaller",
                            "'%s' says that it has %lld x %lld pixels", name, (long long)width,
                            (long long)height);
  *out_image = (shoal_image_t){.channels = channels,
                               .height = height,
                               .width = width,
                               .channel_step = 1,
                               .row_step = width * channels,
                               .column_step = channels};
  out_image->pixels = SHOAL_NEW(arena, unsigned char, height *width *channels);
  return out_image->pixels ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_image_damaged(const char *name, const char *why) {
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "the file is damaged: copy it again, or remove it",
                          "'%s' cannot be decoded: %s", name, why);
}
