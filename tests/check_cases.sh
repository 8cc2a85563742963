#!/usr/bin/env bash
# labels: san
# Random cases that once failed, shrunk, each with what was wrong; and cases of kinds that the generator once never drew.
set -euo pipefail
check() {
  echo "$1"
  "$SHOAL_BIN" check --case "$2"
}
check "a halo counted from the start of another axis's part of the same dim" \
  'seed=748050 ranks=4 sgd; i0=i32[2,2,3]<8; s0=f64[2,2,7,7]; s1=f64[2,2,2,3]; v0=conv(s0,s1){stride=[2,1], padding=[0,2], dilation=[2,1]}; v1=max_pool(v0){kernel=[1,2], stride=[1,1], padding=[0,0]}; v2=pick(v1,i0); mesh data=2,tensor=2; pin i0 data:2/2,tensor:2+2+2'
check "the same in the gradient of pooling" \
  'seed=117298 ranks=4 sgd; s0=f32[1,1,4,4]; v0=max_pool(s0){kernel=[3,1], stride=[1,1], padding=[0,0]}; mesh data=2,tensor=1,seq=2; pin s0 data:2/2,tensor:0,seq:2'
check "windows of a concat cut by two axes" \
  'seed=849623 ranks=6 none; i0=f64[2,2]; s0=f64[4]; v0=reshape(i0){shape=[4]}; v1=concat(v0,s0){axis=0}; mesh data=3,tensor=1,seq=2@3,1,5,2,0,4; pin i0 data:1,seq:0(3,4)'
check "decisions are imposed from the joined and rounded form, not from the summands" \
  'seed=109845 ranks=4 sgd; i0=bf16[2,2,2,1]; s0=bf16[2,2,1,1]; s1=bf16[3,2,2,1]; v0=einsum(i0,s1){equation="abcd,wbcd->aw"}; v1=reduce_min(v0){dims=[1], keep=0}; mesh data=2,tensor=2; pin s1 data:0,tensor:1'
check "items that only some operands share with another axis's cut of the same dim" \
  'seed=737288 ranks=6 sgd; s0=f64[2,2,6,5]; s1=f64[2,2]; v0=max_pool(s0){kernel=[1,3], stride=[2,2], padding=[0,1]}; v1=einsum(v0,s1){equation="abcd,xw->abcdxw"}; mesh data=2,tensor=3; pin s0 data:2/3; pin t1 tensor:2/2'
check "a coarse cut goes in front of a finer one, also past cuts of other dims" \
  'seed=36225 ranks=8 sgd; i0=i32[4]<1; i1=i32[2,2,2,2]<3; i2=i32[2,2,2,2]<3; s0=f32[1,4]; v0=embedding(s0,i0); v1=reshape(v0){shape=[2,2,2,2]}; v2=equal(i1,i2); v3=where(v2,v1,v1); mesh data=2,tensor=2,seq=2; pin i1 data:1,tensor:3(3,0),seq:0'
check "the same where the finer one has unequal chunks" \
  'seed=323800 ranks=4 none; i0=f64[2,5]; v0=reshape(i0){shape=[10]}; mesh data=2,tensor=2; pin i0 data:1*(4/1,1/2),tensor:0'
check "the largest part of a mesh on another class's rank: what is planned is touched, class by class" \
  'seed=429051 ranks=6 none opaque; i0=f32[1,1]; s0=f32[1,2]; v0=matmul(i0,s0){transpose_a=0, transpose_b=0}; mesh p!data=2,tensor=2@0,1,2,3; mesh q!data=2@4,5; mesh u!data=3,tensor=2@2,1,0,3,4,5; pin s0 u!data:1,tensor:0/3'
check "the same, with parts that other classes do not have" \
  'seed=868806 ranks=4 adamw opaque; i0=f64[1,2]; i1=f64[2]; s0=f64[2]; v0=dropout(i0,step){p=0.4, key=123}; v1=mul(i1,s0); mesh p!data=2,tensor=1@0,1; mesh q!data=2@3,2; mesh u!data=2,tensor=2@1,3,0,2; pin s0 u!data:0,tensor:0/3; stage v0/* p'
check "a rank that only sends does not use the arena for its messages" \
  'seed=235756 ranks=2 adamw eval opaque; i0=f64[2,4]; s0=f64[2,4]; v0=square(i0); v1=affine(v0){scale=1, shift=0.5}; v2=log(v1); v3=random_normal(step){shape=[2,4], key=345, dtype=f64, mean=0, std=1}; v4=add(v2,v3); v5=random_normal(step){shape=[2,4], key=210, dtype=f64, mean=0, std=1}; v6=add(v1,v5); v7=mul(v6,s0); mesh p!data=1,micro=3@0; mesh q!data=1,micro=3@1; pin s0 q!; pin i0 p!micro:0; pin t4 micro:0; pin t7 micro:0; pin loss/square_1 q!; stage v0/* p; stage v1/* p; stage v2/* p; stage v3/* q; stage v4/* q; stage v5/* q; stage v6/* q; stage v7/* q; stage loss/* q'
check "a rule of where, found on two conditions that were both true" \
  'seed=191257 ranks=4 adamw opaque; i0=f64[2,6]; i1=i32[2]<6; i2=i32[2]<3; i3=i32[]<3; s0=f64[2]; v0=pick(i0,i1); v1=gelu(v0); v2=greater_equal(v1,v0); v3=where(v2,v0,v1); v4=affine(v3){scale=0.25, shift=0}; v5=equal(i2,i3); v6=where(v5,v4,v4); v7=mul(v1,s0); mesh data=2,tensor=2; pin i1 data:0,tensor:0(2,4); pin t7 ; pin v2/greater_equal ; pin v0/pick tensor:partial(sum); pin i0 tensor:1; pin i1 ; pin v1/gelu ; pin v3/where tensor:partial(sum)'
check "a decision imposed from the unreduced form, which the program had rounded since" \
  'seed=467831 ranks=4 adamw; i0=bf16[5,7]; s0=bf16[5,2]; v0=matmul(i0,s0){transpose_a=1, transpose_b=0}; v1=reduce_min(v0){dims=[0], keep=0}; v2=neg(s0); mesh data=1,tensor=4; pin i0 tensor:0'
check "indices in every part of a table and of a vocabulary" \
  'seed=1 ranks=4 sgd; i0=i32[9]<4099; i1=i32[41]<211; s0=f64[4099,2]; s1=f64[41,211]; v0=embedding(s0,i0); v1=pick(s1,i1); mesh tensor=4; pin s0 tensor:0; pin s1 tensor:1'
check "micro cuts the columns of what a reshape merges: rows cannot be dealt inside that" \
  'seed=224768 ranks=2 none; i0=f64[3,5]; i1=i32[3,5]<3; i2=i32[5]<3; v0=equal(i1,i2); v1=where(v0,i0,i0); v2=reshape(v1){shape=[15]}; mesh data=1,tensor=2,micro=3; pin i0 tensor:0; pin i2 micro:0,tensor:0'
check "60 ranks as threads: two meshes in a given order, uneven, some with nothing" \
  'seed=1 ranks=60 adamw; i0=f64[37,5]; s0=f64[5,11]; s1=f64[11,3]; v0=matmul(i0,s0); v1=gelu(v0); v2=matmul(v1,s1); mesh p!data=7,tensor=4@27,26,25,24,23,22,21,20,19,18,17,16,15,14,13,12,11,10,9,8,7,6,5,4,3,2,1,0; mesh q!data=16,tensor=2@28-59; pin i0 p!data:0; pin s0 p!tensor:1; pin s1 q!tensor:0,data:1(3,1,2,0,1,1,0,1,1,1,1,1,1,1,1,1); stage v0/* p; stage v1/* p; stage v2/* q; stage loss/* q'
check "192 ranks on three axes, statically" \
  'seed=1 ranks=192 adamw; i0=f64[37,15]; s0=f64[15,11]; s1=f64[11,13]; v0=matmul(i0,s0); v1=gelu(v0); v2=matmul(v1,s1); mesh data=16,tensor=4,seq=3; pin i0 data:0,seq:1; pin s0 tensor:1/2; pin s1 tensor:0; pin s1#adamw.m data:flat'
check "integers of both signs, reduced over ranks: no part may start at 0" \
  'seed=3 ranks=6 sgd; i0=i32[7,5]~4; i1=i64[7,3]~4; s0=f64[5]; s1=f64[7]; v0=reduce_max(i0){dims=[0], keep=0}; v1=cast(v0){dtype=f64}; v2=mul(v1,s0); v3=reduce_min(i1){dims=[1], keep=0}; v4=cast(v3){dtype=f64}; v5=mul(v4,s1); mesh data=3,tensor=2; pin i0 data:0(1,0,2); pin i1 data:0,tensor:1'
check "the same over micro-batches" \
  'seed=3 ranks=2 sgd; i0=i32[7,5]~4; i1=i64[7,5]~4; s0=f64[5]; v0=reduce_max(i0){dims=[0], keep=0}; v1=cast(v0){dtype=f64}; v2=mul(v1,s0); v3=reduce_min(i1){dims=[0], keep=0}; v4=cast(v3){dtype=f64}; v5=mul(v4,s0); mesh data=2,micro=3; pin i0 micro:0,data:0; pin i1 micro:0,data:0'
check "quotients of integers, whose divisors are not 0" \
  'seed=5 ranks=3 sgd; i0=i64[7,5]<100; i1=i64[5]<9+; s0=f64[7,5]; v0=floor_div(i0,i1); v1=remainder(i0,i1); v2=sub(v0,v1); v3=cast(v2){dtype=f64}; v4=mul(v3,s0); mesh data=3; pin i0 data:0(1,0,2)'
check "products, largest sizes and any over a cut dim" \
  'seed=6 ranks=3 sgd; i0=f64[4,7]; s0=f64[4,7]; v0=mul(i0,s0); v1=reduce_prod(v0){dims=[1]}; v2=norm(v0){dims=[1], p=inf}; v3=add(v1,v2); v4=greater(i0,v0); v5=reduce_any(v4){dims=[1]}; v6=where(v5,v3,v1); mesh tensor=3; pin i0 tensor:1; pin s0 tensor:1; pin v1/reduce_prod tensor:partial(prod); pin v5/reduce_any tensor:partial(max)'
check "zeros and ties, and five steps" \
  'seed=4 ranks=4 momentum steps=5; i0=f64[6,6]=; i1=f64[6]=; s0=f64[6]; v0=maximum(i0,i1); v1=relu(i0); v2=add(v0,v1); v3=reduce_max(v2){dims=[1], keep=0}; v4=mul(v3,s0); mesh data=2,tensor=2; pin i0 data:0,tensor:1'
check "exponentials that overflow unless the maximum of all ranks is subtracted" \
  'seed=5 ranks=4 sgd; i0=f64[5,9]; i1=i32[5]<9; s0=f64[5,9]; v0=affine(i0){scale=800, shift=-50}; v1=add(v0,s0); v2=softmax(v1){axis=1}; v3=cross_entropy(v1,i1); v4=affine(v3){scale=0.001, shift=0}; mesh tensor=4; pin i0 tensor:1; pin s0 tensor:1; expand v2/*; expand v3/*; expand grad/v3/*'
check "93 ranks, statically: sums stay summands between two meshes with an axis of the same name and size" \
  'seed=768301 ranks=93 sgd; i0=i32[2]<2; s0=f32[2,2]; v0=embedding(s0,i0); v1=square(v0); mesh p!data=3,tensor=19@0-56; mesh q!data=3,tensor=12@57-92; pin s0 q!data:0,tensor:1; pin grad/v1/square/affine q!data:partial(sum); stage v0/* p; stage v1/* q'
check "a narrow type overflows on one device, too" \
  'seed=622056 ranks=3 sgd; i0=i32[40,2]<2; s0=f16[2,1]; s1=f16[1,40,2,1]; v0=embedding(s0,i0); v1=einsum(v0,s1){equation="abc,wabc->cw"}; mesh p!data=2@1,0; mesh q!data=1@2'
check "the same in evaluation" \
  'seed=398619 ranks=2 momentum eval; i0=f16[3,3]; i1=i32[3,3]~4; s0=f16[3,3]; v0=cast(i1){dtype=f16}; v1=relu(v0); v2=square(v0); v3=affine(v2){scale=1, shift=0.5}; v4=div(v1,v3); v5=tanh(v2); v6=dropout(v5,step){p=0.4, key=603}; v7=mul(v3,s0); mesh data=2; pin i1 data:1*3; pin t4 ; pin t6 data:1+1+1; pin t7 data:1+0+1; pin v7/mul data:0*3'
check "the same in f32, in steps that diverge" \
  'seed=806938 ranks=3 momentum steps=5; i0=f32[5,1]; i1=f32[4,7,6,7]; s0=f32[4,1]; s1=f32[4,7,6,7]; s2=f32[4,7,6,7]; s3=f32[9,4,7,6,7]; v0=matmul(i0,s0){transpose_a=0, transpose_b=1}; v1=attention(s1,i1,s2){causal=1}; v2=einsum(v1,s3){equation="abcd,wabcd->w"}; mesh data=3; pin s0 data:1; pin s1 data:2*2; pin s2 data:0; pin t2 '
check "a sum cut over ranks that does not cancel: its parts are rounded" \
  'seed=30487 ranks=2 none; i0=f16[40,3]; v0=reduce_sum(i0){dims=[0,1], keep=0}; mesh data=2; pin i0 data:1/2'
check "a state that is copied before its next value arrives in its place: the copy is the old value" \
  'seed=838839 ranks=2 none guarded; i0=f64[1,1]; s0=f64[1,1]; v0=mul(i0,s0); mesh p!data=1,micro=2@0; mesh q!data=1,micro=2@1; mesh u!data=2,micro=2@1,0; pin i0 p!micro:0; stage v0/* q'
check "the same with a bool, on three meshes" \
  'seed=855346 ranks=3 none guarded; i0=f64[6,5]; v0=reshape(i0){shape=[15,2]}; mesh p!data=1,micro=2@0; mesh q!data=1,micro=2@1; mesh r!data=1,micro=2@2; mesh u!data=3,micro=2@1,0,2; pin i0 micro:0; stage loss/* r'
check "an accumulator of a value that is computed again begins behind the first" \
  'seed=35853 ranks=6 sgd blocks=4; i0=f64[2,2]; s0=f64[2]; s1=f64[2]; v0=broadcast_to(i0){shape=[6,2,2]}; v1=layer_norm(v0,s0,s1){eps=0.1, with="gamma,beta"}; mesh data=3,tensor=2,micro=2@0,1,2,3,4,5; pin i0 micro:1; decide schedule train gpipe; decide recompute b* yes'
check "the same, of a minimum" \
  'seed=769446 ranks=7 sgd blocks=3; i0=f64[2,2]; s0=f64[1,2]; v0=random_uniform(step){shape=[2,2], key=0, dtype=f64, low=-1, high=2}; v1=add(i0,v0); v2=tanh(v1); v3=reduce_min(v2){dims=[0], keep=1}; v4=mul(v3,s0); mesh data=7,micro=2@0,1,2,3,4,5,6; pin i0 micro:0; decide schedule train gpipe; decide recompute b* yes'
check "a state's old value goes to another mesh while its new one comes from there" \
  'seed=949610 ranks=2 none untrained; i0=f64[1,1]; s0=f64[1,1]; v0=matmul(i0,s0){transpose_a=0, transpose_b=0}; mesh p!data=1,micro=2@0; mesh q!data=1,micro=2@1; pin last p!; pin i0 p!micro:0; stage loss/* q'
check "a bounded value beside a state in host memory" \
  'seed=409712 ranks=8 adamw untrained; i0=f64[4,2]; i1=i32[4]<2; i2=f64[3,4]; i3=f32[2,3,7,3]; i4=i32[2,3]<8; i5=bf16[3,9]; i6=bf16[3,9]; s0=f64[2]; s1=f64[2]; s2=f64[2]; v0=cross_entropy(i0,i1); v1=layer_norm(i0,s0,s0){eps=0.1, with="gamma,beta"}; v2=pad(i2){start=[1,2], shape=[5,7]}; v3=bound(i3,i4); v4=layer_norm(s0,s1,s2){eps=0.1, with="gamma,beta"}; v5=relu(v4); v6=maximum(v5,v5); v7=softmax_grad(i5,i6){axis=-1}; mesh data=2,tensor=2,seq=2,micro=3; pin last ; pin one data:1(1,1),tensor:flat; pin s1#adamw.m seq:0; pin s2#adamw.v tensor:flat; pin i0 data:0,seq:0+2+1; pin i1 micro:0,data:0/3,tensor:0/3,seq:0; pin i4 data:0,tensor:1/2,seq:0; pin t1 micro:0; pin t3 tensor:0,seq:1; pin t7 data:1,tensor:0+0+2,seq:0+1+2; pin v1/layer_norm.rstd data:0,tensor:0,seq:0/3(2,3); pin loss/square_1 ; pin loss/sub_2 data:0/2; pin loss/square_2 data:1/5,tensor:1,seq:0; pin loss/square_3 data:1,tensor:2/3,seq:2/4; pin grad/loss/reduce_mean_4/reshape seq:0; pin grad/s0/add data:0,tensor:0,seq:0; pin v5/relu tensor:flat; pin v4/layer_norm.y tensor:flat; pin v5/relu tensor:flat; pin v4/layer_norm.y tensor:flat; pin v6/maximum tensor:flat; expand v1/layer_norm; expand v4/layer_norm; decide schedule train interleaved; decide memory one host; decide prefetch one 2; decide memory fixed host; decide prefetch fixed 3; decide memory s0#adamw.m host; decide prefetch s0#adamw.m 2; decide memory s0#adamw.v host; decide memory s1#adamw.m host; decide prefetch s1#adamw.m 2; decide memory s1#adamw.v file; decide memory s2#adamw.v host; decide keep loss/reduce_mean file; decide keep loss/square_1 file; decide keep loss/square_2 host; decide keep loss/reduce_mean_2 host; decide keep loss/square_3 host; decide keep loss/reduce_mean_3 host; decide keep loss/square_5 file; decide recompute v* yes; decide keep s2 redo; decide fetch * request'
check "after a narrow type has overflowed on one device, one infinity is as good as another" \
  'seed=677455 ranks=1 sgd; s0=f16[16,3,3,5]; s1=f16[16,3]; s2=f16[16,3,3,2]; v0=max_pool(s0){kernel=[1,3], stride=[1,2], padding=[0,0]}; v1=einsum(v0,s1){equation="abcd,ab->abcd"}; v2=square(v1); v3=affine(v2){scale=1, shift=0.5}; v4=sqrt(v3); v5=einsum(v4,s2){equation="abcd,abcd->"}; mesh data=1'
check "an exchange of what waits in host memory and files: its counts are read where they are, too" \
  'seed=338739 ranks=4 momentum; i0=i64[2,2]<2; i1=f64[2,2,1,2]; s0=f64[2,2,1,2]; v0=add(i1,s0); v1=bound(v0,i0); v2=gelu(v1); v3=bound(v2,i0); v4=tanh(v3); v5=bound(v4,i0); mesh data=2,rows=2; pin i0 data:0; decide way v2/gelu rows={x:0 -> out:0}; decide way v4/tanh rows={x:1 -> out:1}; decide way v5/bound rows={x:3 -> out:3}; decide way grad/v5/bound/bound rows={x:0, counts:0 -> out:0}; decide keep v0/add host; decide keep v3/bound file; decide way v2/gelu data=whole'
check "rows of experts, recomputed, in micro-batches that differ" \
  'seed=21 ranks=3 adamw blocks=2; i0=i32[5,4]<7; i1=f64[5,4,6,2]; s0=f64[5,4,6,2]; s1=f64[4,2,3]; v0=add(i1,s0); v1=bound(v0,i0); v2=einsum(v1,s1){equation="secd,edf->secf"}; v3=bound(v2,i0); v4=tanh(v3); mesh rows=3,micro=2; pin i0 micro:0,rows:0; pin i1 micro:0,rows:0; pin s1 rows:0; decide way b0/v1/bound rows={x:0, counts:0 -> out:0}; decide way b1/v2/einsum rows={a:1, b:0 -> out:1}; decide way b1/v3/bound rows={x:1, counts:1 -> out:1}; decide way b2/v4/tanh rows={x:0 -> out:0}; decide recompute b* yes'
check "a group with more rows than there is room for" \
  'seed=22 ranks=3 sgd; i0=i32[5,4]<28; i1=f64[5,4,6,2]; s0=f64[5,4,6,2]; v0=add(i1,s0); v1=bound(v0,i0); v2=tanh(v1); mesh rows=3; pin i0 rows:0; pin i1 rows:0; decide way v1/bound rows={x:0, counts:0 -> out:0}; decide way v2/tanh rows={x:1 -> out:1}'
check "an input that is fed in micro-batches and that a node of the loop needs whole: it was refused" \
  'seed=1 ranks=2 sgd; i0=f64[4,6]; i1=i32[5]<4; s0=f64[6]; v0=embedding(i0,i1); v1=mul(v0,s0); mesh data=2,micro=2; pin i0 micro:1,data:0; pin i1 micro:0; pin t1 micro:1'
check "a block that is recomputed on two meshes: what goes from one to the other was sent again, too late" \
  'seed=1 ranks=2 sgd blocks=3; i0=f64[4,3]; s0=f64[3,3]; s1=f64[3,3]; v0=matmul(i0,s0); v1=gelu(v0); v2=matmul(v1,s1); v3=gelu(v2); mesh p!data=1,micro=2@0; mesh q!data=1,micro=2@1; pin i0 p!micro:0; pin t3 q!micro:0; stage b0/v0/* p; stage b0/v1/* p; stage b0/v2/* q; stage b1/v3/* q; stage loss/* q; decide schedule train 1f1b; decide recompute b* yes'
check "a mean that is zero but for rounding decides about nothing" \
  'seed=693623 ranks=2 none guarded; i0=f64[1,1]; i1=f64[1,1]; i2=i64[1]<7; i3=f32[1,1,9]; i4=i32[1,1]<9; i5=f32[]; v0=cross_entropy_grad(i3,i4,i5); mesh data=2@0,1'
check "a gradient that is gathered in tiles behind its reduction, exchanged in each micro-batch" \
  'seed=819503 ranks=8 sgd; i0=f64[4,3]; s0=f64[3,3]; v0=matmul(i0,s0){transpose_a=0, transpose_b=0}; mesh data=2,tensor=2,seq=2; pin s0 tensor:1/4(3,4); pin i0 data:1,tensor:0+2+2; pin t0 tensor:1,seq:0+1+0; decide sync s* each; decide tile * auto 2'
check "the same on 20 ranks" \
  'seed=777940 ranks=20 sgd; i0=f64[18,5]; i1=f64[5]; s0=f64[5]; s1=f64[5]; v0=layer_norm(i0,s0,s1){eps=0.1, with="gamma,beta"}; v1=add(s1,i1); mesh data=2,tensor=5,seq=2; pin s1 data:0/2,tensor:0,seq:0; pin i0 seq:0; decide sync s* each; decide tile * auto 3'
check "several values in one message to each rank: what is planned for them is what is packed, not each by itself" \
  'seed=674746 ranks=2 adamw untrained opaque; i0=f64[3,3]=; i1=f64[3,3]=; s0=f64[3]; s1=f64[3]; v0=layer_norm(i0,s0,s1){eps=0.1, with="gamma,beta"}; v1=maximum(v0,v0); v2=concat(i0,i1){axis=0}; v3=greater_equal(v2,v2); v4=where(v3,v2,v2); mesh data=2; pin s0 data:0/2(4,4); pin last data:1/2; pin two data:1*(2/1,1/1); pin s0#adamw.v data:flat; pin s1#adamw.v data:flat; pin i1 data:0+1+0; pin v2/concat data:0; pin t4 data:0; expand grad/v0/layer_norm/layer_norm_grad; decide sync * bucket=all; decide fetch * request'
check "types for storage, fed, cast, moved between ranks and cast back" \
  'seed=5 ranks=4 sgd; i0=f32[6,5]; i1=i8[6,5]; i2=f8_e5m2[5,6]; s0=f32[6,5]; v0=mul(i0,s0); v1=cast(v0){dtype=f8_e4m3}; v2=transpose(v1){perm=[1,0]}; v3=cast(v2){dtype=f32}; v4=transpose(i1){perm=[1,0]}; v5=cast(v4){dtype=f32}; v6=cast(i2){dtype=f32}; v7=mul(v3,v5); v8=mul(v7,v6); v9=transpose(v8){perm=[1,0]}; v10=mul(v9,s0); mesh data=2,tensor=2; pin i0 data:0; pin i1 data:1,tensor:0; pin i2 tensor:1'
check "integers that an op wants positive were fed zeros" \
  'seed=652419 ranks=2 none; i0=f64[2,2]; i1=i64[2]<100; i2=i64[2]<9+; v0=minimum(i0,i0); v1=floor_div(i1,i2); mesh data=1,tensor=2'
check "a difference of numbers that are equal but for rounding, in f32" \
  'seed=665118 ranks=2 momentum blocks=2; i0=f32[1,1]; i1=i32[6,6]<2; s0=f32[37,1]; s1=f32[2,37]; s2=f32[6,37]; v0=matmul(i0,s0){transpose_a=0, transpose_b=1}; v1=embedding(s1,i1); v2=einsum(v1,s2){equation="abc,ac->b"}; v3=affine(v2){scale=0.015, shift=0}; v4=softmax(v3){axis=0}; v5=reduce_sum(v4){dims=[0], keep=1}; mesh data=2@0,1; pin s1 data:0; expand grad/b2/v4/softmax/softmax_grad'
check "a mean of what a norm has made zero on average" \
  'seed=958174 ranks=2 momentum guarded blocks=4; i0=f32[3,1]; i1=i32[3,1]<3; i2=i64[3,1]<3; i3=f32[3]; i4=f32[3]; s0=f32[3,3,1,3]; s1=f32[3,1]; s2=f32[3]; v0=max_pool(s0){kernel=[1,2], stride=[1,2], padding=[0,1]}; v1=reduce_min(s0){dims=[0,1,2], keep=0}; v2=einsum(v1,s1){equation="a,aw->aw"}; v3=reduce_sum(v2){dims=[0], keep=0}; v4=concat(v3,i3){axis=0}; v5=layer_norm(i3,s2,i4){eps=0.1, with="gamma,beta"}; v6=neg(v5); mesh data=2@1,0; pin i3 data:0; expand b1/v5/layer_norm'
check "a mean of large terms that cancel, in steps that diverge" \
  'seed=838644 ranks=8 momentum eval; i0=f32[2,4]; s0=f32[4,16]; s1=f32[16]; s2=f32[16]; v0=matmul(i0,s0){transpose_a=0, transpose_b=0}; v1=layer_norm(v0,s1,s2){eps=0.1, with="gamma,beta"}; v2=reduce_sum(v1){dims=[0,1], keep=0}; mesh data=2,tensor=2,seq=2@0,1,2,3,4,5,6,7; pin s0 tensor:1; pin s1 data:0/9,tensor:0,seq:0'
check "a loss whose terms cancel" \
  'seed=777281 ranks=3 momentum eval guarded opaque blocks=3; i0=f32[5,2]; i1=f32[6,2,2,5]; s0=f32[2,2,5,4]; s1=f32[2,2,1,2]; v0=conv(s0,s1){stride=[2,1], padding=[0,1], dilation=[1,1]}; v1=einsum(v0,i1){equation="abcd,wabd->cdw"}; mesh data=3; pin held data:flat; pin turned data:1; pin late data:2*(3/1,3/1); pin i1 data:1; pin t1 ; pin loss/affine_1 data:0; pin loss/neg data:0; pin update/s0/sgd_momentum_update.w data:2/3; pin update/s1/sgd_momentum_update.m data:0; pin s0 data:0; pin grad/b0/v1/einsum/einsum data:0; pin grad/loss/square/mul ; pin i1 data:1; pin grad/b0/v0/conv/conv_grad_w data:partial(sum); decide sync * bucket=2K; decide recompute b* yes; decide fetch loss request; decide tile * auto 5'
check "micro-batch 0, the largest, has slot 0 in whatever order a table runs them: what is planned is touched" \
  'seed=174304 ranks=4 sgd blocks=2; i0=f64[7,5]; s0=f64[5,5]; s1=f64[5,5]; s2=f64[5,5]; s3=f64[5,5]; s4=f64[5,5]; v0=matmul(i0,s0){transpose_a=0, transpose_b=0}; v1=sigmoid(v0); v2=matmul(v1,s1){transpose_a=0, transpose_b=0}; v3=gelu(v2); v4=matmul(v3,s2){transpose_a=0, transpose_b=0}; v5=relu(v4); v6=matmul(v5,s3){transpose_a=0, transpose_b=0}; v7=tanh(v6); v8=matmul(v7,s4){transpose_a=0, transpose_b=0}; v9=gelu(v8); mesh p!data=1,micro=6@0; mesh q!data=1,micro=6@1; mesh r!data=2,micro=6@2-3; pin i0 p!micro:0; stage b1/v2/* q; stage b1/v3/* q; stage b2/v4/* r; stage b2/v5/* p; stage b4/v8/* q; stage b4/v9/* r; decide schedule train table p: F0.2 F0.5 F0.3 F3.2 F0.0 F0.4 F3.5 F0.1 F3.3 F3.0 B3.2 B0.2 F3.4 B3.5 F3.1 B3.3 B3.0 B0.5 B0.3 B0.0 B3.1 B3.4 B0.1 B0.4 q: F1.2 F1.5 F1.3 F4.2 F1.0 B4.2 F1.4 B1.2 F4.5 F1.1 F4.3 F4.0 F4.4 B4.5 F4.1 B4.3 B4.0 B1.5 B1.3 B1.0 B4.1 B4.4 B1.1 B1.4 r: F2.2 F2.5 F2.3 F5.2 F2.0 B5.2 F2.4 B2.2 F5.5 B5.5 F2.1 F5.3 F5.0 B5.3 B5.0 B2.5 F5.4 F5.1 B2.3 B2.0 B5.1 B5.4 B2.1 B2.4; decide keep b1/v2/matmul host'
check "a decision on which the program agrees with the one-device run, and f64 with neither" \
  'seed=186534 ranks=1 none guarded; i0=bf16[10,5]; s0=bf16[10,5]; v0=mul(i0,s0); mesh data=1,tensor=1'
check "a grouped product over rows of a part that lie apart" \
  'seed=8 ranks=2 sgd; i0=i64[3]; s0=f64[8,3]; s1=f64[3,3,4]; v0=grouped_matmul(s0,s1,i0); v1=tanh(v0); mesh data=2; pin s0 data:0*2; pin v0/grouped_matmul data:0*2'
check "an element of a sum whose terms cancel inside of the op" \
  'seed=617136 ranks=3 momentum eval; i0=f32[3,6]; i1=i32[]<6; s0=f32[6,3,6]; v0=einsum(i0,s0){equation="ab,wab->w"}; v1=tanh(v0); v2=pick(v1,i1); mesh data=3; pin s0 data:1'
