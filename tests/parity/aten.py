"""What ATen's functions are in Shoal, for those that training steps of 85 models use: the names of what is compared for
each, an OpInfo (its adapter shows the composition) or an op of Shoal. Names with "backward" ask for a gradient."""

NATIVE = {name: there for line in """
aten.mul.Tensor aten.mul.Scalar: mul
aten.add.Tensor: add
aten.sub.Tensor aten.sub.Scalar: sub
aten.div.Tensor aten.div.Scalar: div.no_rounding_mode
aten.div.Tensor_mode: div.floor_rounding
aten.reciprocal.default: reciprocal
aten.clamp.default: clamp
aten.permute.default: permute
aten.sum.dim_IntList: sum
aten.mean.dim aten.mean.default: mean
aten.max.dim: max.reduction_with_dim
aten.linalg_vector_norm.default: linalg.vector_norm
shoal.adamw.default: adamw_update adam_update
aten.full_like.default: full_like
aten.full.default: full
aten.arange.start_step: arange
aten.stack.default: stack
aten.cat.default: cat
aten.mm.default: mm
aten.bmm.default: bmm
aten.addmm.default: addmm
aten.baddbmm.default: baddbmm
aten._grouped_mm.default: grouped_matmul
aten._log_softmax.default aten._log_softmax_backward_data.default: log_softmax
aten._softmax.default aten._softmax_backward_data.default: softmax
aten.nll_loss_forward.default aten.nll_loss_backward.default: nn.functional.nll_loss nn.functional.cross_entropy
aten.reshape.default: reshape
aten.expand.default: expand
aten.unsqueeze.default: unsqueeze
aten.squeeze.dims: squeeze.multiple
aten.select.int: select
aten.repeat.default: repeat
aten.slice.Tensor: slice
aten.slice_scatter.default: slice_scatter
aten.split_with_sizes.default: split_with_sizes
aten.constant_pad_nd.default: constant_pad_nd
aten.flip.default: flip
aten.roll.default: roll
aten.tril.default: tril
aten.triu.default: triu
aten.embedding.default aten.embedding_dense_backward.default: nn.functional.embedding
aten.index.Tensor: __getitem__
aten.index_put.default: index_put
aten.index_add.default: index_add
aten.index_select.default: index_select
aten.gather.default: gather
aten.scatter.src aten.scatter.value: scatter
aten.scatter_add.default: scatter_add
aten.topk.default: topk
aten.sort.default: sort
aten.cumsum.default: cumsum
aten.neg.default: neg
aten.abs.default: abs
aten.exp.default: exp
aten.log.default: log
aten.log1p.default: log1p
aten.sqrt.default: sqrt
aten.rsqrt.default: rsqrt
aten.sin.default: sin
aten.cos.default: cos
aten.floor.default: floor
aten.pow.Tensor_Scalar aten.pow.Scalar aten.pow.Tensor_Tensor: pow __rpow__
aten._to_copy.default: to
aten.where.self: where
aten.masked_fill.Scalar: masked_fill
aten.bitwise_and.Tensor: bitwise_and
aten.bitwise_not.default: bitwise_not
aten.logical_and.default: logical_and
aten.le.Tensor: le
aten.lt.Scalar: lt
aten.ge.Tensor aten.ge.Scalar: ge
aten.gt.Tensor aten.gt.Scalar: gt
aten.eq.Tensor aten.eq.Scalar: eq
aten.ne.Scalar: ne
aten.maximum.default: maximum
aten.minimum.default: minimum
aten.sigmoid.default aten.sigmoid_backward.default: sigmoid
aten.tanh.default aten.tanh_backward.default: tanh
aten.relu.default aten.threshold_backward.default: nn.functional.relu
aten.gelu.default aten.gelu_backward.default: nn.functional.gelu
aten.silu.default aten.silu_backward.default: nn.functional.silu
aten.hardsigmoid.default aten.hardsigmoid_backward.default: nn.functional.hardsigmoid
aten.hardswish.default aten.hardswish_backward.default: nn.functional.hardswish
aten.leaky_relu.default aten.leaky_relu_backward.default: nn.functional.leaky_relu
aten.elu.default aten.elu_backward.default: nn.functional.elu
aten.mse_loss.default aten.mse_loss_backward.default: nn.functional.mse_loss
aten.binary_cross_entropy_with_logits.default: nn.functional.binary_cross_entropy_with_logits
aten.convolution.default aten.convolution_backward.default: nn.functional.conv2d nn.functional.conv_transpose2d
aten.max_pool2d_with_indices.default aten.max_pool2d_with_indices_backward.default: nn.functional.max_pool2d
aten.avg_pool2d.default aten.avg_pool2d_backward.default: nn.functional.avg_pool2d
aten._adaptive_avg_pool2d.default aten._adaptive_avg_pool2d_backward.default: nn.functional.adaptive_avg_pool2d
aten.upsample_nearest2d.default aten.upsample_nearest2d_backward.default: nn.functional.interpolate.nearest
aten.native_layer_norm.default aten.native_layer_norm_backward.default: native_layer_norm
aten.native_group_norm.default aten.native_group_norm_backward.default: nn.functional.group_norm
aten._native_batch_norm_legit_functional.default aten.native_batch_norm_backward.default: nn.functional.batch_norm
shoal.sdpa.default shoal.sdpa_backward.default: nn.functional.scaled_dot_product_attention
shoal.dropout.default: dropout
aten.bernoulli.p: bernoulli
aten.rand.default: random_uniform
aten.randn_like.default: random_normal
""".strip().splitlines() for names, _, there in [line.partition(": ")] for name in names.split()}
