// PNG, through libpng's simplified interface, which returns its errors instead of jumping.
#include "data/decode.h"

#ifdef SHOAL_HAS_PNG
#include <png.h>
#include <string.h>

#include "base/status.h"

const bool shoal_has_png = true;

shoal_status_t shoal_png_decode(const char *name, const void *data, int64_t size, int64_t channels,
                                shoal_arena_t *arena, shoal_image_t *out_image) {
  png_image image;
  memset(&image, 0, sizeof image);
  image.version = PNG_IMAGE_VERSION;
  shoal_status_t status = NULL;
  if (!png_image_begin_read_from_memory(&image, data, (size_t)size)) {
    status = shoal_image_damaged(name, image.message);
  } else {
    status = shoal_image_reserve(name, channels, image.height, image.width, arena, out_image);
    image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
    const png_color black = {0, 0, 0};  // behind what is transparent
    if (!status && !png_image_finish_read(&image, &black, (void *)out_image->pixels, 0, NULL))
      status = shoal_image_damaged(name, image.message);
  }
  png_image_free(&image);
  return status;
}
#else
const bool shoal_has_png = false;

shoal_status_t shoal_png_decode(const char *name, const void *data, int64_t size, int64_t channels,
                                shoal_arena_t *arena, shoal_image_t *out_image) {
  (void)data, (void)size, (void)channels, (void)arena, (void)out_image;
  return shoal_image_unavailable(name, "libpng");
}
#endif
