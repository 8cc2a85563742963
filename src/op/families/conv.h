// What convolution and transposed convolution share.
#ifndef SHOAL_OP_CONV_H_
#define SHOAL_OP_CONV_H_

#include "op/families/window.h"

// Into how many groups `channels`, those of operand `what`, fall if each has `each`, and that as
// many groups share `outputs`. Parts may have no channels at all.
SHOAL_MUST_USE shoal_status_t shoal_conv_groups(const shoal_call_t *call, const char *what,
                                                int64_t channels, int64_t each, int64_t outputs,
                                                int64_t *out_groups);
// to[n,c,s..] = the sum over outputs and taps that see it of from[n,o,..] w[o,c,tap..]: a gradient
// of x, or a transposed convolution. `to_place` and `from_place` say where the parts lie; the
// workspace is that of taps for `to`. f64 or f32.
SHOAL_MUST_USE shoal_status_t shoal_conv_spread(const shoal_call_t *call,
                                                const shoal_window_t *window,
                                                const shoal_place_t *to_place,
                                                const shoal_place_t *from_place,
                                                const shoal_tensor_t *w, const shoal_tensor_t *from,
                                                const shoal_tensor_t *to, void *workspace);

#endif  // SHOAL_OP_CONV_H_
