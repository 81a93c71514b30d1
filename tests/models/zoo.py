"""Models of many kinds, made small: each entry builds a model whose forward returns its loss while training and its
output otherwise, and a batch for it. Dropout and stochastic depth are off, so eager PyTorch predicts every loss."""
import math

import poptorch
import torch
import torch.nn.functional as F
from torch import nn

try:
    import torchvision
except ImportError:
    torchvision = None

ZOO = {}


def entry(build):
    ZOO[build.__name__] = build
    return build


def without_randomness(model):
    for module in model.modules():
        if isinstance(module, (nn.Dropout, nn.Dropout2d)) or type(module).__name__ == "StochasticDepth":
            module.p = 0.0
        elif isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
    return model


@torch.no_grad()
def awake(model, x):
    """Fresh models send zeros through zero weights and untouched statistics; a comparison would not see much."""
    for parameter in model.parameters():
        if not parameter.any():
            parameter.normal_(std=0.02)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 0.7
    model.train()(x)
    return model


class WithLoss(nn.Module):
    """Adds a loss to a model of images. Auxiliary heads, where there are any, count for 0.4."""

    def __init__(self, model, loss):
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, x, target):
        outputs = self.model(x)
        if isinstance(outputs, dict):
            heads = list(outputs.values())
        else:
            heads = list(outputs) if isinstance(outputs, tuple) else [outputs]
        if not self.training:
            return heads[0]
        weights = [1.0] + [0.4] * (len(heads) - 1)
        total = sum(weight * self.loss(head, target) for weight, head in zip(weights, heads))
        return heads[0], poptorch.identity_loss(total, reduction="none")


def classifier(name, size, batch=4, **options):
    def build():
        model = without_randomness(getattr(torchvision.models, name)(weights=None, num_classes=10, **options))
        inputs = (torch.randn(batch, 3, size, size), torch.randint(10, (batch,)))
        return WithLoss(awake(model, inputs[0]), nn.CrossEntropyLoss()), inputs

    ZOO[name] = build


def segmenter(name, size, **options):
    def build():
        function = getattr(torchvision.models.segmentation, name)
        model = without_randomness(function(weights=None, weights_backbone=None, num_classes=5, **options))
        inputs = (torch.randn(2, 3, size, size), torch.randint(5, (2, size, size)))
        return WithLoss(awake(model, inputs[0]), nn.CrossEntropyLoss()), inputs

    ZOO[name] = build


if torchvision is not None:
    for name, size in {
            "resnet18": 64, "resnet50": 64, "resnext50_32x4d": 64, "mobilenet_v2": 64, "mobilenet_v3_large": 64,
            "mobilenet_v3_small": 64, "efficientnet_b0": 64, "mnasnet0_5": 128, "densenet121": 64, "vgg11_bn": 32,
            "vgg11": 32, "alexnet": 64, "squeezenet1_1": 64, "shufflenet_v2_x0_5": 64, "regnet_y_400mf": 64,
            "convnext_tiny": 64
    }.items():
        classifier(name, size)
    classifier("googlenet", 64, aux_logits=True, init_weights=False)
    classifier("inception_v3", 299, aux_logits=True, init_weights=False)
    classifier("vit_b_16", 32, batch=2, image_size=32)
    classifier("swin_t", 64, batch=2)
    classifier("swin_v2_t", 64, batch=2)
    classifier("maxvit_t", 224, batch=1, input_size=(224, 224))
    segmenter("fcn_resnet50", 32, aux_loss=True)
    segmenter("deeplabv3_resnet50", 32, aux_loss=True)
    segmenter("deeplabv3_mobilenet_v3_large", 32)
    segmenter("lraspp_mobilenet_v3_large", 32)

IMAGE_MODELS = list(ZOO)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, mask):
        batch, length, width = x.shape
        q, k, v = [part.view(batch, length, self.heads, -1).permute(0, 2, 1, 3) for part in self.qkv(x).split(width, 2)]
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.size(-1)) + mask
        mixed = torch.matmul(F.softmax(scores, dim=-1), v)
        return self.out(mixed.permute(0, 2, 1, 3).contiguous().view(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, norm_first):
        super().__init__()
        self.norm_first = norm_first
        self.attention = Attention(width, heads)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, mask):
        if self.norm_first:
            x = x + self.attention(self.norm1(x), mask)
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.mlp(x))


class BertPreTraining(nn.Module):
    """Masked words through a decoder tied to the embedding, and next sentence."""

    def __init__(self, words=50, width=32, length=12):
        super().__init__()
        self.words = nn.Embedding(words, width, padding_idx=0)
        self.positions = nn.Embedding(length, width)
        self.types = nn.Embedding(2, width)
        self.register_buffer("position_ids", torch.arange(length).expand((1, -1)))
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.blocks = nn.ModuleList([Block(width, 4, False) for _ in range(2)])
        self.pooler = nn.Linear(width, width)
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.decoder = nn.Linear(width, words, bias=False)
        self.decoder.weight = self.words.weight
        self.decoder_bias = nn.Parameter(torch.zeros(words))
        self.next_sentence = nn.Linear(width, 2)

    def forward(self, ids, types, attention_mask, positions, labels, next_label):
        x = self.words(ids) + self.types(types) + self.positions(self.position_ids[:, :ids.size(1)])
        mask = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * -10000.0
        x = self.norm(x)
        for block in self.blocks:
            x = block(x, mask)
        pooled = torch.tanh(self.pooler(x[:, 0]))
        picked = torch.gather(x, 1, positions.unsqueeze(-1).expand(-1, -1, x.size(-1)))
        scores = self.decoder(self.transform(picked)) + self.decoder_bias
        next_scores = self.next_sentence(pooled)
        if not self.training:
            return scores, next_scores
        masked = F.cross_entropy(scores.view(-1, scores.size(-1)), labels.view(-1), ignore_index=-100)
        following = F.cross_entropy(next_scores, next_label.view(-1))
        accuracy = scores.argmax(-1).eq(labels).float().mean()
        return accuracy, poptorch.identity_loss(masked + following, reduction="none")


@entry
def bert_pretraining():
    labels = torch.randint(50, (2, 3))
    labels[0, 2] = -100
    attention = torch.ones(2, 12, dtype=torch.long)
    attention[1, 8:] = 0
    inputs = (torch.randint(50, (2, 12)), torch.randint(2, (2, 12)), attention, torch.randint(12, (2, 3)), labels,
              torch.randint(2, (2,)))
    return BertPreTraining(), inputs


class Gpt(nn.Module):
    def __init__(self, words=50, width=32, length=12):
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(length, width)
        allowed = torch.tril(torch.ones(length, length, dtype=torch.uint8))
        self.register_buffer("causal", allowed.view(1, 1, length, length))
        self.blocks = nn.ModuleList([Block(width, 4, True) for _ in range(2)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        length = ids.size(1)
        x = self.words(ids) + self.positions(torch.arange(0, length, dtype=torch.long, device=ids.device).unsqueeze(0))
        allowed = self.causal[:, :, :length, :length].bool()
        mask = torch.where(allowed, torch.tensor(0.0), torch.tensor(-1e4))
        for block in self.blocks:
            x = block(x, mask)
        scores = self.head(self.norm(x))
        if not self.training:
            return scores
        before, after = scores[..., :-1, :].contiguous(), ids[..., 1:].contiguous()
        return scores, F.cross_entropy(before.view(-1, scores.size(-1)), after.view(-1))


@entry
def gpt2():
    return Gpt(), (torch.randint(50, (2, 12)),)


class UNet(nn.Module):
    def __init__(self, transposed, classes=3, width=8):
        super().__init__()

        def convs(inputs, outputs):
            return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs),
                                 nn.ReLU(inplace=True), nn.Conv2d(outputs, outputs, 3, padding=1),
                                 nn.ReLU(inplace=True))

        def up(inputs, outputs):
            if transposed:
                return nn.ConvTranspose2d(inputs, outputs, 2, stride=2)
            return nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
                                 nn.Conv2d(inputs, outputs, 1))

        self.down1, self.down2, self.bottom = convs(3, width), convs(width, 2 * width), convs(2 * width, 4 * width)
        self.up2, self.up1 = up(4 * width, 2 * width), up(2 * width, width)
        self.left2, self.left1 = convs(4 * width, 2 * width), convs(2 * width, width)
        self.out = nn.Conv2d(width, classes, 1)

    def joined(self, skip, x):
        high, wide = skip.size(2) - x.size(2), skip.size(3) - x.size(3)
        return torch.cat([skip, F.pad(x, [wide // 2, wide - wide // 2, high // 2, high - high // 2])], dim=1)

    def forward(self, x):
        one = self.down1(x)
        two = self.down2(F.max_pool2d(one, 2))
        x = self.bottom(F.max_pool2d(two, 2))
        x = self.left2(self.joined(two, self.up2(x)))
        return self.out(self.left1(self.joined(one, self.up1(x))))


def cross_entropy_and_dice(scores, target):
    chances = F.softmax(scores, dim=1)
    truth = F.one_hot(target, scores.size(1)).permute(0, 3, 1, 2).float()
    shared = (chances * truth).sum(dim=(0, 2, 3))
    dice = 1 - ((2 * shared + 1) / (chances.sum(dim=(0, 2, 3)) + truth.sum(dim=(0, 2, 3)) + 1)).mean()
    return F.cross_entropy(scores, target) + dice


@entry
def unet_transposed():
    return WithLoss(UNet(True), nn.CrossEntropyLoss()), (torch.randn(2, 3, 18, 18), torch.randint(3, (2, 18, 18)))


@entry
def unet_upsample_dice():
    return WithLoss(UNet(False), cross_entropy_and_dice), (torch.randn(2, 3, 18, 18), torch.randint(3, (2, 18, 18)))


class Tagger(nn.Module):
    def __init__(self, recurrent, width, tags=7):
        super().__init__()
        self.words = nn.Embedding(30, 12)
        self.recurrent = recurrent
        self.out = nn.Linear(width, tags)

    def forward(self, ids, tags):
        scores = F.log_softmax(self.out(self.recurrent(self.words(ids))[0]), dim=-1)
        if not self.training:
            return scores
        return scores, F.nll_loss(scores.view(-1, scores.size(-1)), tags.view(-1))


def tagger(recurrent, width=10):
    return Tagger(recurrent, width), (torch.randint(30, (3, 6)), torch.randint(7, (3, 6)))


@entry
def lstm_tagger():
    return tagger(nn.LSTM(12, 10, num_layers=2, batch_first=True, bidirectional=True), width=20)


@entry
def gru_tagger():
    return tagger(nn.GRU(12, 10, num_layers=2, batch_first=True))


@entry
def rnn_tagger():
    return tagger(nn.RNN(12, 10, batch_first=True, nonlinearity="relu"))


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru, self.out = nn.LSTMCell(5, 8), nn.GRUCell(8, 6), nn.Linear(6, 1)

    def forward(self, x, target):
        h, c = x.new_zeros(x.size(1), 8), torch.zeros(x.size(1), 8)
        g, outputs = None, []
        for step in x:
            h, c = self.lstm(step, (h, c))
            g = self.gru(h, g)
            outputs.append(self.out(g))
        y = torch.stack(outputs)
        return (y, F.mse_loss(y, target)) if self.training else y


@entry
def recurrent_cells():
    return Cells(), (torch.randn(4, 3, 5), torch.randn(4, 3, 1))


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.source, self.target = nn.Embedding(20, 16), nn.Embedding(20, 16)
        self.transformer = nn.Transformer(16, 4, 2, 2, 32, dropout=0.0, batch_first=True)
        self.out = nn.Linear(16, 20)

    def forward(self, source, target):
        causal = self.transformer.generate_square_subsequent_mask(target.size(1))
        x = self.transformer(self.source(source), self.target(target), tgt_mask=causal,
                             src_key_padding_mask=source == 0, memory_key_padding_mask=source == 0)
        scores = self.out(x)
        if not self.training:
            return scores
        return scores, F.cross_entropy(scores[:, :-1].reshape(-1, 20), target[:, 1:].reshape(-1), ignore_index=0)


@entry
def transformer_masks():
    source = torch.randint(1, 20, (2, 7))
    source[1, 5:] = 0
    return Translator(), (source, torch.randint(1, 20, (2, 6)))


class Attender(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.cross = nn.MultiheadAttention(16, 2, kdim=8, vdim=8, add_bias_kv=True)

    def forward(self, x, memory, padding, target):
        blocked = torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu(1)
        y, weights = self.attention(x, x, x, attn_mask=blocked, key_padding_mask=padding)
        z, _ = self.cross(y.transpose(0, 1), memory, memory, need_weights=False)
        return (z, F.l1_loss(z, target)) if self.training else (z, weights)


@entry
def multihead_attention():
    padding = torch.zeros(2, 5, dtype=torch.bool)
    padding[0, 3:] = True
    return Attender(), (torch.randn(2, 5, 16), torch.randn(3, 2, 8), padding, torch.randn(5, 2, 16))


@entry
def transformer_encoder():
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True, activation="gelu", norm_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Flatten(), nn.Linear(80, 3))
    return WithLoss(model, nn.CrossEntropyLoss()), (torch.randn(2, 5, 16), torch.randint(3, (2,)))


class MovingAverage(nn.Module):
    """Buffers written in forward: in place and through a view."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("steps", torch.zeros(1, dtype=torch.long))
        self.register_buffer("table", torch.zeros(3, 4))

    def forward(self, x, target):
        y = self.linear(x)
        if self.training:
            with torch.no_grad():
                self.mean.mul_(0.9).add_(y.mean(0), alpha=0.1)
                self.steps += 1
                self.table[1] = y[0]
        y = y - self.mean + self.table.sum(0) * 0.1 + self.steps.float() * 0.01
        return (y, F.smooth_l1_loss(y, target)) if self.training else y


@entry
def buffers_written():
    return MovingAverage(), (torch.randn(3, 4), torch.randn(3, 4))


@entry
def weight_and_spectral_norm():
    model = nn.Sequential(nn.utils.weight_norm(nn.Linear(6, 8)), nn.Tanh(), nn.utils.spectral_norm(nn.Linear(8, 8)),
                          nn.ELU(), nn.utils.parametrizations.spectral_norm(nn.Linear(8, 4)))
    return WithLoss(model, nn.MSELoss()), (torch.randn(3, 6), torch.randn(3, 4))


@entry
def conv1d():
    model = nn.Sequential(nn.Conv1d(4, 8, 5, stride=2, padding=2, dilation=2), nn.GroupNorm(2, 8), nn.SiLU(),
                          nn.MaxPool1d(2), nn.ConvTranspose1d(8, 6, 3, stride=2), nn.InstanceNorm1d(6, affine=True),
                          nn.PReLU(6), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(6, 3))
    return WithLoss(model, nn.CrossEntropyLoss()), (torch.randn(2, 4, 24), torch.randint(3, (2,)))


@entry
def conv3d():
    model = nn.Sequential(nn.Conv3d(2, 4, 3, padding=1, padding_mode="circular"), nn.BatchNorm3d(4), nn.LeakyReLU(0.1),
                          nn.MaxPool3d(2), nn.Conv3d(4, 4, 3, groups=2, padding=1), nn.InstanceNorm3d(4),
                          nn.Hardswish(), nn.ConvTranspose3d(4, 4, 2, stride=2), nn.AvgPool3d(2), nn.Flatten(),
                          nn.Linear(32, 3))
    return WithLoss(model, nn.CrossEntropyLoss()), (torch.randn(2, 2, 4, 4, 4), torch.randint(3, (2,)))


@entry
def image_norms():
    model = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(3, 8, 3),
                          nn.InstanceNorm2d(8, affine=True, track_running_stats=True), nn.ReLU6(),
                          nn.Conv2d(8, 8, 3, groups=8), nn.GroupNorm(4, 8), nn.Mish(), nn.LocalResponseNorm(3),
                          nn.PixelShuffle(2), nn.Softplus(), nn.LPPool2d(2, 2), nn.AdaptiveMaxPool2d(3), nn.Flatten(),
                          nn.Linear(18, 4), nn.Softmax(dim=1))
    return WithLoss(model, nn.BCELoss()), (torch.randn(2, 3, 10, 10), torch.rand(2, 4))


def sum_of_losses(scores, target):
    signs, chances = target.round() * 2 - 1, F.softmax(target, 1)
    return sum([
        F.binary_cross_entropy_with_logits(scores, target),
        F.kl_div(F.log_softmax(scores, 1), chances, reduction="batchmean"),
        F.huber_loss(scores, target),
        F.poisson_nll_loss(scores, target),
        F.soft_margin_loss(scores, signs),
        F.cosine_embedding_loss(scores, target, torch.ones(scores.size(0))),
        F.hinge_embedding_loss(torch.sigmoid(scores), signs),
        F.multilabel_soft_margin_loss(scores, target.round()),
        F.cross_entropy(scores, chances, label_smoothing=0.1),
    ])


@entry
def many_losses():
    model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 6))
    return WithLoss(model, sum_of_losses), (torch.randn(4, 5), torch.rand(4, 6))


class StochasticDepthNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 2)

    def dropped(self, x):
        keep = 1.0
        noise = torch.empty([x.size(0), 1], dtype=x.dtype, device=x.device).bernoulli_(keep)
        return x * noise.div_(keep)

    def forward(self, x):
        x = x + self.dropped(torch.relu(self.first(x)))
        return self.out(x + self.dropped(torch.relu(self.second(x))))


@entry
def stochastic_depth():
    return WithLoss(StochasticDepthNet(), nn.CrossEntropyLoss()), (torch.randn(4, 6), torch.randint(2, (4,)))
