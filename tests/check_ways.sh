#!/usr/bin/env bash
# Ways that a practitioner expects, asked for by name and proven equal to one device on 2 and 3 ranks with uneven parts,
# gradients included: halos of windows with any stride, dilation and padding; units and chunks of reshapes, windows of
# concatenations and splits; tables, contractions; and random numbers, which are the same bits however they are cut.
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"

# WAY OP-AND-OPERANDS CASE: v1 is the op; the case is what comes before it.
way() {
  local node=v1/${2%%(*}
  check "${2%%(*} $1, $ranks ranks" "seed=7 ranks=$ranks sgd; $3; v1=$2; v2=tanh(v1); mesh space=$ranks; decide way $node space=$1"
}
for ranks in 2 3; do
  image='i0=f64[2,1,31,3]; s0=f64[2,1,31,3]; s1=f64[2,1,3,1]; s2=f64[2,1,4,1]; v0=add(i0,s0)'
  way '{x:2/2#17+3+0 -> out:2}' 'conv(v0,s1){stride=[2,1], padding=[3,0], dilation=[2,1]}' "$image"
  way '{x:2/3#10+0+1 -> out:2}' 'conv(v0,s2){stride=[3,1], padding=[0,0]}' "$image"
  way '{x:2/2#15+1+2 -> out:2}' 'max_pool(v0){kernel=[3,1], stride=[2,1], padding=[1,0], dilation=[2,1]}' "$image"
  way '{x:2/3#11 -> out:2}' 'max_pool(v0){kernel=[3,1], stride=[3,1], padding=[0,0], ceil=1}' "$image"
  way '{x:2/2#16+1+0 -> out:2}' 'avg_pool(v0){kernel=[3,1], stride=[2,1], padding=[1,0]}' "$image"
  way '{x:2#32+2+1 -> out:2}' 'avg_pool(v0){kernel=[4,1], stride=[1,1], padding=[2,0], count_pad=0}' "$image"
  small='i0=f64[2,2,17,3]; s0=f64[2,2,17,3]; s1=f64[2,1,3,1]; v0=add(i0,s0)'
  way '{x:2+0+1 -> out:2/2}' 'conv_transpose(v0,s1){stride=[2,1], padding=[1,0], output_padding=[1,0]}' "$small"
  way '{x:2#21+4+0 -> out:2}' 'conv_transpose(v0,s1){stride=[1,1], padding=[0,0], dilation=[2,1]}' "$small"
  way '{x:2 -> out:2/2}' 'resize(v0){shape=[2,2,34,3]}' "$small"
  way '{x:2+1+1 -> out:2/2}' 'resize(v0){shape=[2,2,34,3], mode="linear"}' "$small"
  way '{x:2+2+2 -> out:2/2}' 'resize(v0){shape=[2,2,34,3], mode="cubic"}' "$small"
  way '{x:2/3 -> out:2}' 'adaptive_avg_pool(v0){shape=[2,1,10,3]}' 'i0=f64[2,1,30,3]; s0=f64[2,1,30,3]; v0=add(i0,s0)'
  way '{x:1/2#14+0+3 -> out:1}' 'unfold(v0){axis=1, size=5, step=2}' 'i0=f64[2,31]; s0=f64[2,31]; v0=add(i0,s0)'

  row='i0=f64[5,12]; s0=f64[5,12]; v0=add(i0,s0)'
  way '{x:1/4 -> out:1}' 'reshape(v0){shape=[5,3,4]}' "$row"
  way '{x:1*3 -> out:2}' 'reshape(v0){shape=[5,3,4]}' "$row"
  way '{x:2 -> out:1*3}' 'reshape(v0){shape=[5,12]}' 'i0=f64[5,3,4]; s0=f64[5,3,4]; v0=add(i0,s0)'
  way '{xs[0]:1@0..3, xs[1]:1@3..7 -> out:1}' 'concat(v0,s1){axis=1}' 'i0=f64[5,3]; s0=f64[5,3]; s1=f64[5,4]; v0=add(i0,s0)'
  way '{table:0 -> out:sum}' 'embedding(v0,i0)' 'i0=i32[5]<11; i1=f64[11,4]; s0=f64[11,4]; v0=add(i1,s0)'
  way '{a:2, b:0 -> out:sum}' 'einsum(v0,s1){equation="btc,cn->btn"}' 'i0=f64[3,5,7]; s0=f64[3,5,7]; s1=f64[7,4]; v0=add(i0,s0)'

  drawn='i0=f64[5,7]; s0=f64[5,7]; v0=mul(i0,s0)'
  for cut in 0 1 flat; do
    way "{x:$cut -> out:$cut}" 'dropout(v0,step){p=0.3, key=5}' "$drawn"
    check "random numbers cut along $cut, $ranks ranks" \
      "seed=8 ranks=$ranks sgd; $drawn; v1=random_normal(step){shape=[5,7], key=77, dtype=f64, mean=0, std=1}; v2=random_uniform(step){shape=[5,7], key=78, dtype=f64, low=-1, high=1}; v3=mul(v0,v1); v4=mul(v3,v2); mesh space=$ranks; decide way v1/random_normal space={-> out:$cut}; decide way v2/random_uniform space={-> out:$cut}"
  done
done
