"""Models of the zoo in plain PyTorch, written from their papers and with the names that torchvision, PyTorch Geometric
and the models' own repositories give their parameters: what Shoal's families are compared with. settings are the
family's (`shoal models NAME`)."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    """A basic block, or a bottleneck."""

    def __init__(self, before, planes, stride, deep, width=64, groups=1):
        super().__init__()
        after = planes * (4 if deep else 1)
        inner = planes * width // 64 * groups
        shapes = [(before, inner, 1, 1, 1), (inner, inner, 3, stride, groups), (inner, after, 1, 1, 1)] if deep else [
            (before, planes, 3, stride, 1), (planes, planes, 3, 1, 1)]
        self.count = len(shapes)
        for i, (a, b, kernel, step, parts) in enumerate(shapes, 1):
            setattr(self, f"conv{i}", nn.Conv2d(a, b, kernel, step, kernel // 2, groups=parts, bias=False))
            setattr(self, f"bn{i}", nn.BatchNorm2d(b))
        self.downsample = None
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        y = x
        for i in range(1, self.count + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            y = F.relu(y) if i < self.count else y
        return F.relu(y + (self.downsample(x) if self.downsample else x))


class ResNet(nn.Module):
    def __init__(self, blocks, deep, planes, channels, classes, **more):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, planes, 7, 2, 3, bias=False), nn.BatchNorm2d(planes)
        before = planes
        for stage, count in enumerate(blocks):
            layer = []
            for i in range(count):
                layer.append(Residual(before, planes << stage, 2 if stage and not i else 1, deep, **more))
                before = (planes << stage) * (4 if deep else 1)
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layer))
        self.fc = nn.Linear(before, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class PreActivation(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(before), nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn2, self.conv2 = nn.BatchNorm2d(after), nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.convShortcut = nn.Conv2d(before, after, 1, stride, bias=False) if before != after else None

    def forward(self, x):
        active = F.relu(self.bn1(x))
        y = self.conv2(F.relu(self.bn2(self.conv1(active))))
        return y + (self.convShortcut(active) if self.convShortcut else x)


class Stage(nn.Module):
    def __init__(self, *blocks):
        super().__init__()
        self.layer = nn.Sequential(*blocks)

    def forward(self, x):
        return self.layer(x)


class WideResNet(nn.Module):
    def __init__(self, depth, widen, channels, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 16, 3, 1, 1, bias=False)
        before = 16
        for stage in range(3):
            after, blocks = (16 << stage) * widen, []
            for i in range((depth - 4) // 6):
                blocks.append(PreActivation(before, after, 2 if stage and not i else 1))
                before = after
            setattr(self, f"block{stage + 1}", Stage(*blocks))
        self.bn1, self.fc = nn.BatchNorm2d(before), nn.Linear(before, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.block3(self.block2(self.block1(self.conv1(x))))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class DoubleConv(nn.Module):
    def __init__(self, before, after, inner=None):
        super().__init__()
        inner = inner or after
        self.double_conv = nn.Sequential(
            nn.Conv2d(before, inner, 3, padding=1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(),
            nn.Conv2d(inner, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU())

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(before, after))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, before, after, bilinear):
        super().__init__()
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True) if bilinear else \
            nn.ConvTranspose2d(before, before // 2, 2, 2)
        self.conv = DoubleConv(before, after, before // 2 if bilinear else None)

    def forward(self, x, skip):
        return self.conv(torch.cat([skip, self.up(x)], 1))


class OutConv(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.conv = nn.Conv2d(before, after, 1)

    def forward(self, x):
        return self.conv(x)


class UNet(nn.Module):
    def __init__(self, width, levels, channels, classes, bilinear=False):
        super().__init__()
        self.levels, factor = levels, 2 if bilinear else 1
        self.inc = DoubleConv(channels, width)
        for i in range(levels):
            last = factor if i + 1 == levels else 1
            setattr(self, f"down{i + 1}", Down(width << i, (width << i + 1) // last))
        for i in range(levels):
            before = width << levels - i
            last = factor if i + 1 < levels else 1
            setattr(self, f"up{i + 1}", Up(before, before // 2 // last, bilinear))
        self.outc = OutConv(width, classes)

    def forward(self, x):
        skips = [self.inc(x)]
        for i in range(self.levels):
            skips.append(getattr(self, f"down{i + 1}")(skips[-1]))
        x = skips.pop()
        for i in range(self.levels):
            x = getattr(self, f"up{i + 1}")(x, skips.pop())
        return self.outc(x).permute(0, 2, 3, 1)


class EncoderBlock(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Dropout(0), nn.Linear(hidden, width))

    def forward(self, x):
        y = self.ln_1(x)
        x = x + self.self_attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    def __init__(self, tokens, width, heads, layers, hidden):
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.empty(1, tokens, width).normal_(std=0.02))
        self.layers = nn.Sequential()
        for i in range(layers):
            self.layers.add_module(f"encoder_layer_{i}", EncoderBlock(width, heads, hidden))
        self.ln = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x):
        return self.ln(self.layers(x + self.pos_embedding))


class VisionTransformer(nn.Module):
    def __init__(self, patch, width, heads, layers, channels, size, classes):
        super().__init__()
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.conv_proj = nn.Conv2d(channels, width, patch, patch)
        self.encoder = Encoder((size // patch) ** 2 + 1, width, heads, layers, 4 * width)
        self.heads = nn.Sequential()
        self.heads.add_module("head", nn.Linear(width, classes))

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        return self.heads(self.encoder(torch.cat([self.class_token.expand(len(x), -1, -1), x], 1))[:, 0])


class LanguageLstm(nn.Module):
    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.encoder = nn.Embedding(vocabulary, width)
        self.rnn = nn.LSTM(width, width, layers, batch_first=True)
        self.decoder = nn.Linear(width, vocabulary)

    def forward(self, ids):
        return self.decoder(self.rnn(self.encoder(ids))[0])


class GatConv(nn.Module):
    """PyTorch Geometric's, without its library: alpha is a softmax over the edges that end at a node."""

    def __init__(self, before, width, heads):
        super().__init__()
        self.lin = nn.Linear(before, heads * width, bias=False)
        self.att_src, self.att_dst = (nn.Parameter(torch.empty(1, heads, width)) for _ in range(2))
        self.bias = nn.Parameter(torch.zeros(heads * width))
        self.heads, self.width = heads, width

    def forward(self, x, src, dst):
        h = self.lin(x).view(-1, self.heads, self.width)
        e = (h * self.att_src).sum(-1)[src] + (h * self.att_dst).sum(-1)[dst]
        share = F.leaky_relu(e, 0.2).exp()
        share = share / torch.zeros(len(x), self.heads, dtype=x.dtype).index_add(0, dst, share)[dst]
        sent = torch.zeros_like(h).index_add(0, dst, share.unsqueeze(-1) * h[src])
        return sent.flatten(1) + self.bias


class Gat(nn.Module):
    """Rows are graphs, joined into one that has no edges between them."""

    def __init__(self, features, width, heads, layers, classes):
        super().__init__()
        self.layers = layers
        for i in range(1, layers + 1):
            last = i == layers
            setattr(self, f"conv{i}", GatConv(features, classes if last else width, 1 if last else heads))
            features = width * heads

    def forward(self, x, src, dst):
        rows, nodes, _ = x.shape
        first, own = torch.arange(rows).unsqueeze(1) * nodes, torch.arange(rows * nodes)
        src, dst = (torch.cat([(ends + first).flatten(), own]) for ends in (src, dst))
        x = x.flatten(0, 1)
        for i in range(1, self.layers + 1):
            x = getattr(self, f"conv{i}")(x, src, dst)
            x = F.elu(x) if i < self.layers else x
        return x.view(rows, nodes, -1)


def mlp(sizes, last):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*(layers if last else layers[:-1]))


class Dlrm(nn.Module):
    def __init__(self, dense, tables, width, bottom, top):
        super().__init__()
        count = len(tables) + 1
        self.emb_l = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for rows in tables)
        self.bot_l = mlp([dense, *bottom, width], True)
        self.top_l = mlp([width + count * (count - 1) // 2, *top, 1], False)

    def forward(self, x, *ids):
        x = self.bot_l(x)
        all = torch.stack([x, *(bag(i) for bag, i in zip(self.emb_l, ids))], 1)
        rows, columns = torch.tril_indices(all.shape[1], all.shape[1], -1)
        return self.top_l(torch.cat([x, (all @ all.mT)[:, rows, columns]], 1)).squeeze(1)


class Gan(nn.Module):
    """Both halves of a DCGAN; forward gives both losses, from pictures and noise."""

    def __init__(self, noise, width, channels, size):
        super().__init__()
        count = int(math.log2(size // 4))
        up, down = [], []
        for i in range(count):
            after = width << count - 1 - i
            before = noise if i == 0 else after * 2
            up += [nn.ConvTranspose2d(before, after, 4, 2 if i else 1, 1 if i else 0, bias=False),
                   nn.BatchNorm2d(after), nn.ReLU()]
            down += [nn.Conv2d(width << i - 1 if i else channels, width << i, 4, 2, 1, bias=False)]
            down += [nn.BatchNorm2d(width << i)] if i else []
            down += [nn.LeakyReLU(0.2)]
        self.generator, self.discriminator = nn.Module(), nn.Module()
        self.generator.main = nn.Sequential(*up, nn.ConvTranspose2d(width, channels, 4, 2, 1, bias=False), nn.Tanh())
        self.discriminator.main = nn.Sequential(*down, nn.Conv2d(width << count - 1, 1, 4, bias=False))
