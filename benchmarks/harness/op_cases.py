"""The operators that `./dev bench ops` measures: each at sizes of real networks.

A case is a function and the arguments it is called with. `x` is an activation: an input of the forward pass, and a
parameter when training, so that its gradient is computed. `w` is a weight, `i`, `flag` and `byte` are data without a
gradient, `layer` is a module of torch. Values of `x` and `w` lie between `low` and `high`.
"""
from dataclasses import dataclass
from typing import Callable

import torch
import torch.nn.functional as F
from torch import nn

IMAGE, PLANE, TOKENS, LOGITS = (8, 64, 56, 56), (1024, 1024), (8, 128, 768), (128, 1000)
SMALL = (16, 12, 9, 9)  # what the tutorial's CNN has between its layers


@dataclass
class Argument:
    role: str  # "activation", "weight", "data" or "layer"
    make: Callable  # () -> a tensor or a module


@dataclass
class Case:
    name: str
    function: Callable
    arguments: list
    kinds: tuple = ("forward", "training")
    is_sparse: bool = False  # reads no more of its weights than it returns
    is_comparable: bool = True  # False: results are random or leave a choice, such as the order of equals


def uniform(shape, low, high, dtype):
    return torch.empty(shape).uniform_(low, high).to(dtype)


def x(*shape, low=-2.0, high=2.0, dtype=torch.float32):
    return Argument("activation", lambda: uniform(shape, low, high, dtype))


def w(*shape, low=-0.1, high=0.1, dtype=torch.float32):
    return Argument("weight", lambda: uniform(shape, low, high, dtype))


def fixed(*shape, low=-2.0, high=2.0, dtype=torch.float32):
    """Floating-point data without a gradient, such as the target of a loss."""
    return Argument("data", lambda: uniform(shape, low, high, dtype))


def i(*shape, high, low=0, dtype=torch.int64):
    return Argument("data", lambda: torch.randint(low, high, shape).to(dtype))


def flag(*shape):
    return i(*shape, high=2, dtype=torch.bool)


def layer(kind, *settings, **more):
    return Argument("layer", lambda: kind(*settings, **more))


CASES = []
FORWARD = ("forward",)


def case(name, function, *arguments, **more):
    CASES.append(Case(name, function, list(arguments), **more))


def unary():
    for name in ("relu", "relu6", "leaky_relu", "elu", "selu", "silu", "gelu", "mish", "hardswish", "hardsigmoid",
                 "hardtanh", "softplus", "logsigmoid", "softsign"):
        case(f"{name}", getattr(F, name), x(*IMAGE))
    case("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), x(*IMAGE))
    case("prelu", F.prelu, x(*IMAGE), w(64))
    for name in ("sigmoid", "tanh", "exp", "expm1", "abs", "neg", "square", "sin", "cos", "atan", "erf"):
        case(name, getattr(torch, name), x(*IMAGE))
    for name in ("log", "log1p", "sqrt", "rsqrt", "reciprocal"):
        case(name, getattr(torch, name), x(*IMAGE, low=0.5, high=2.0))
    case("tan", torch.tan, x(*IMAGE, low=-1.0, high=1.0))
    case("asin", torch.asin, x(*IMAGE, low=-0.9, high=0.9))
    for name in ("floor", "round", "sign"):
        case(name, getattr(torch, name), x(*IMAGE), kinds=FORWARD)
    case("isfinite", torch.isfinite, x(*IMAGE), kinds=FORWARD)
    case("clamp", lambda x: x.clamp(-1, 1), x(*IMAGE))
    case("clamp_min", lambda x: x.clamp(min=0.1), x(*TOKENS))
    case("pow_3", lambda x: x ** 3, x(*IMAGE))
    case("pow_1.7", lambda x: x ** 1.7, x(*IMAGE, low=0.1))
    case("relu_small", F.relu, x(*SMALL))
    case("dropout", lambda x: F.dropout(x, 0.1, True), x(*TOKENS), is_comparable=False)


def binary():
    case("add", torch.add, x(*IMAGE), x(*IMAGE))
    case("add_small", torch.add, x(*SMALL), x(*SMALL))
    case("sub", torch.sub, x(*IMAGE), x(*IMAGE))
    case("mul", torch.mul, x(*IMAGE), x(*IMAGE))
    case("div", torch.div, x(*IMAGE), x(*IMAGE, low=0.5))
    case("add_channel", torch.add, x(*IMAGE), w(64, 1, 1))
    case("mul_row", torch.mul, x(*TOKENS), w(768))
    case("mul_column", torch.mul, x(*TOKENS), x(8, 128, 1))
    case("mul_gate", torch.mul, x(*IMAGE), x(8, 64, 1, 1))
    case("outer_sum", torch.add, x(1024, 1), x(1, 1024))
    case("mul_scalar", lambda x: x * 0.125, x(*IMAGE))
    case("maximum", torch.maximum, x(*IMAGE), x(*IMAGE))
    case("pow", torch.pow, x(*PLANE, low=0.1), x(*PLANE))
    case("atan2", torch.atan2, x(*PLANE), x(*PLANE))
    case("addcmul", lambda a, b, c: torch.addcmul(a, b, c, value=0.5), x(*PLANE), x(*PLANE), x(*PLANE))
    case("lerp", lambda a, b: torch.lerp(a, b, 0.3), x(*PLANE), x(*PLANE))
    for name, dtype in (("i32", torch.int32), ("i64", torch.int64)):
        addend = i(*PLANE, high=1000, dtype=dtype)
        case(f"add_{name}", torch.add, addend, addend, kinds=FORWARD)
    numbers = i(*PLANE, low=1, high=1000, dtype=torch.int32)
    case("mul_i32", torch.mul, numbers, numbers, kinds=FORWARD)
    case("floor_divide_i32", lambda a, b: torch.div(a, b, rounding_mode="floor"), numbers, numbers, kinds=FORWARD)
    case("remainder_i32", torch.remainder, numbers, numbers, kinds=FORWARD)
    case("bitwise_and_i32", torch.bitwise_and, numbers, numbers, kinds=FORWARD)
    case("logical_and", torch.logical_and, flag(*PLANE), flag(*PLANE), kinds=FORWARD)
    case("logical_not", torch.logical_not, flag(*PLANE), kinds=FORWARD)
    case("greater", torch.gt, x(*PLANE), x(*PLANE), kinds=FORWARD)
    case("less_scalar", lambda x: x < 0.5, x(*PLANE), kinds=FORWARD)
    case("equal_i64", torch.eq, i(*PLANE, high=10), i(*PLANE, high=10), kinds=FORWARD)
    case("where", torch.where, flag(*PLANE), x(*PLANE), x(*PLANE))
    case("where_scalar", lambda x: torch.where(x > 0, x, x * 0.1), x(*PLANE))
    case("masked_fill", lambda x, m: x.masked_fill(m, -1e9), x(8, 8, 128, 128), flag(8, 1, 128, 128))


def casts():
    for source, target in (("float32", "float16"), ("float16", "float32"), ("float32", "bfloat16"),
                           ("bfloat16", "float32")):
        to = getattr(torch, target)
        case(f"cast_{source}_{target}", lambda x, to=to: x.to(to), x(*PLANE, dtype=getattr(torch, source)))
    for source, target in (("int32", "float32"), ("uint8", "float32"), ("bool", "float32"), ("int64", "int32")):
        data = i(*PLANE, high=2, dtype=getattr(torch, source))
        case(f"cast_{source}_{target}", lambda x, to=getattr(torch, target): x.to(to), data, kinds=FORWARD)
    case("cast_float32_int32", lambda x: x.to(torch.int32), x(*PLANE), kinds=FORWARD)


def reductions():
    case("sum_all", torch.sum, x(*PLANE))
    for name, shape, axes in (("last", TOKENS, -1), ("first", PLANE, 0), ("middle", TOKENS, 1),
                              ("spatial", IMAGE, (2, 3)), ("channels", IMAGE, (0, 2, 3))):
        case(f"sum_{name}", lambda x, axes=axes: x.sum(axes), x(*shape))
    case("mean_last", lambda x: x.mean(-1), x(*TOKENS))
    case("mean_spatial", lambda x: x.mean((2, 3)), x(*IMAGE))
    case("max_all", lambda x: x.max(), x(*PLANE))
    case("max_last", lambda x: x.max(-1), x(*TOKENS))
    case("min_first", lambda x: x.min(0), x(*PLANE))
    case("amax_last", lambda x: x.amax(-1), x(*TOKENS))
    case("amax_spatial", lambda x: x.amax((2, 3)), x(*IMAGE))
    case("argmax_last", lambda x: x.argmax(-1), x(*LOGITS), kinds=FORWARD)
    case("argmax_first", lambda x: x.argmax(0), x(*PLANE), kinds=FORWARD)
    case("argmax_channels", lambda x: x.argmax(1), x(4, 21, 128, 128), kinds=FORWARD)
    case("prod_last", lambda x: x.prod(-1), x(*PLANE, low=0.9, high=1.1))
    case("var_last", lambda x: x.var(-1), x(*TOKENS))
    case("std_all", lambda x: x.std(), x(*PLANE))
    case("norm_all", lambda x: x.norm(), x(*PLANE))
    case("norm_last", lambda x: x.norm(dim=-1), x(*TOKENS))
    case("norm_1_last", lambda x: x.norm(p=1, dim=-1), x(*TOKENS))
    case("normalize", lambda x: F.normalize(x, dim=-1), x(*TOKENS))
    case("logsumexp", lambda x: x.logsumexp(-1), x(*LOGITS))
    case("any_last", lambda x: x.any(-1), flag(*PLANE), kinds=FORWARD)
    case("all", lambda x: x.all(), i(*PLANE, low=1, high=2, dtype=torch.bool), kinds=FORWARD)
    case("sum_i32", lambda x: x.sum(-1), i(*PLANE, high=100, dtype=torch.int32), kinds=FORWARD)
    case("cosine_similarity", lambda a, b: F.cosine_similarity(a, b, dim=-1), x(*TOKENS), x(*TOKENS))
    case("cumsum_last", lambda x: x.cumsum(-1), x(*PLANE))
    case("cumsum_first", lambda x: x.cumsum(0), x(*PLANE))
    case("cumprod_last", lambda x: x.cumprod(-1), x(*PLANE, low=0.9, high=1.1))
    case("cumsum_i64", lambda x: x.cumsum(-1), i(*PLANE, high=2), kinds=FORWARD)
    case("sort_rows", lambda x: x.sort(-1), x(256, 1024), is_comparable=False)
    case("sort_long", lambda x: x.sort(-1), x(65536), is_comparable=False)
    case("argsort_i32", lambda x: x.argsort(-1), i(256, 1024, high=1000000, dtype=torch.int32), kinds=FORWARD,
         is_comparable=False)
    case("topk_5", lambda x: x.topk(5, -1), x(*LOGITS))
    case("topk_50_of_vocabulary", lambda x: x.topk(50, -1), x(8, 30522))


def moves():
    case("cat_channels", lambda a, b: torch.cat((a, b), 1), x(*IMAGE), x(*IMAGE))
    case("cat_last", lambda a, b: torch.cat((a, b), -1), x(*PLANE), x(1024, 64))
    case("stack", lambda a, b: torch.stack((a, b), 1), x(*PLANE), x(*PLANE))
    case("slice_channels", lambda x: x[:, 16:48].contiguous(), x(*IMAGE))
    case("slice_step", lambda x: x[:, ::2].contiguous(), x(*PLANE))
    case("chunk_sum", lambda x: x.chunk(3, -1)[0] + x.chunk(3, -1)[2], x(*TOKENS))
    case("select_token", lambda x: x[:, 0] * 2, x(*TOKENS))
    case("pad_zero", lambda x: F.pad(x, (1, 1, 1, 1)), x(*IMAGE))
    case("pad_channels", lambda x: F.pad(x, (0, 0, 0, 0, 0, 8)), x(*IMAGE))
    case("pad_reflect", lambda x: F.pad(x, (3, 3, 3, 3), mode="reflect"), x(8, 16, 112, 112))
    case("pad_replicate", lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate"), x(8, 16, 112, 112))
    case("roll", lambda x: x.roll((3, 3), (1, 2)), x(8, 56, 56, 64))
    case("roll_last", lambda x: x.roll(5, -1), x(*PLANE))
    case("tile", lambda x: x.repeat(4, 4), x(256, 256))
    case("repeat_interleave", lambda x: x.repeat_interleave(2, 1), x(1024, 512))
    case("expand", lambda x: x.expand(1024, 1024).contiguous(), x(1, 1024))
    case("transpose", lambda x: x.t().contiguous(), x(*PLANE))
    case("channels_last", lambda x: x.permute(0, 2, 3, 1).contiguous(), x(*IMAGE))
    case("channels_first", lambda x: x.permute(0, 3, 1, 2).contiguous(), x(8, 224, 224, 3))
    case("split_heads", lambda x: x.view(8, 128, 12, 64).transpose(1, 2).contiguous(), x(*TOKENS))
    case("merge_heads", lambda x: x.transpose(1, 2).reshape(8, 128, 768), x(8, 12, 128, 64))
    case("transpose_half", lambda x: x.t().contiguous(), x(*PLANE, dtype=torch.float16))
    case("flip_last", lambda x: x.flip(-1), x(*PLANE))
    case("flip_first", lambda x: x.flip(0), x(*PLANE))
    case("tril", torch.tril, x(*PLANE))
    case("unfold", lambda x: F.unfold(x, 3, padding=1), x(8, 16, 56, 56))
    case("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), x(*IMAGE))


def indexing():
    case("gather_last", lambda x, n: x.gather(-1, n), x(*PLANE), i(*PLANE, high=1024))
    case("gather_first", lambda x, n: x.gather(0, n), x(*PLANE), i(*PLANE, high=1024))
    case("index_select", lambda x, n: x.index_select(0, n), x(4096, 256), i(4096, high=4096))
    case("index_select_last", lambda x, n: x.index_select(1, n), x(*PLANE), i(512, high=1024))
    case("index", lambda x, n: x[n], x(4096, 256), i(4096, high=4096))
    case("index_pairs", lambda x, a, b: x[a, b], x(*PLANE), i(65536, high=1024), i(65536, high=1024))
    case("scatter", lambda x, n, y: x.scatter(1, n, y), x(*PLANE), i(1024, 256, high=1024), x(1024, 256))
    case("scatter_add", lambda x, n, y: x.scatter_add(0, n, y), x(*PLANE), i(*PLANE, high=1024), x(*PLANE))
    case("scatter_add_last", lambda x, n, y: x.scatter_add(1, n, y), x(*PLANE), i(*PLANE, high=1024), x(*PLANE))
    case("index_add", lambda x, n, y: x.index_add(0, n, y), x(1024, 256), i(4096, high=1024), x(4096, 256))
    case("embedding", F.embedding, i(8, 128, high=30522), w(30522, 256), is_sparse=True)
    case("embedding_padding", lambda n, w: F.embedding(n, w, padding_idx=0), i(8, 128, high=10000), w(10000, 256),
         is_sparse=True)
    case("embedding_bag", lambda n, w: F.embedding_bag(n, w, mode="sum"), i(1024, 8, high=20000), w(20000, 64),
         is_sparse=True)
    case("embedding_bag_mean", lambda n, w: F.embedding_bag(n, w, mode="mean"), i(1024, 8, high=20000), w(20000, 64),
         is_sparse=True)
    case("one_hot", lambda n: F.one_hot(n, 1000).float(), i(512, high=1000), kinds=FORWARD)


def images():
    case("max_pool_2", lambda x: F.max_pool2d(x, 2), x(*IMAGE))
    case("max_pool_3", lambda x: F.max_pool2d(x, 3, 2, 1), x(4, 64, 112, 112))
    case("max_pool_small", lambda x: F.max_pool2d(x, 2), x(16, 5, 26, 26))
    case("max_pool_1d", lambda x: F.max_pool1d(x, 4), x(16, 64, 1024))
    case("avg_pool_2", lambda x: F.avg_pool2d(x, 2), x(*IMAGE))
    case("avg_pool_3", lambda x: F.avg_pool2d(x, 3, 1, 1), x(*IMAGE))
    case("adaptive_avg_pool_1", lambda x: F.adaptive_avg_pool2d(x, 1), x(8, 512, 7, 7))
    case("adaptive_avg_pool_7", lambda x: F.adaptive_avg_pool2d(x, 7), x(*IMAGE))
    case("adaptive_avg_pool_5", lambda x: F.adaptive_avg_pool2d(x, 5), x(8, 64, 28, 28))
    case("adaptive_max_pool_4", lambda x: F.adaptive_max_pool2d(x, 4), x(*IMAGE))
    case("upsample_nearest", lambda x: F.interpolate(x, scale_factor=2), x(8, 64, 28, 28))
    for mode in ("bilinear", "bicubic"):
        case(f"upsample_{mode}", lambda x, mode=mode: F.interpolate(x, scale_factor=2, mode=mode), x(8, 32, 28, 28))
    case("resize_bilinear", lambda x: F.interpolate(x, size=(224, 224), mode="bilinear"), x(8, 3, 256, 256))
    case("batch_norm", lambda norm, x: norm(x), layer(nn.BatchNorm2d, 64), x(*IMAGE))
    case("batch_norm_1d", lambda norm, x: norm(x), layer(nn.BatchNorm1d, 512), x(256, 512))
    case("layer_norm", lambda norm, x: norm(x), layer(nn.LayerNorm, 768), x(*TOKENS))
    case("group_norm", lambda norm, x: norm(x), layer(nn.GroupNorm, 8, 64), x(*IMAGE))
    case("instance_norm", F.instance_norm, x(*IMAGE))
    case("softmax_attention", lambda x: x.softmax(-1), x(8, 8, 128, 128))
    case("softmax_channels", lambda x: x.softmax(1), x(4, 21, 128, 128))
    case("softmax_classes", lambda x: x.softmax(-1), x(*LOGITS))
    case("log_softmax", lambda x: x.log_softmax(-1), x(*LOGITS))
    case("log_softmax_vocabulary", lambda x: x.log_softmax(-1), x(64, 30522))


def losses():
    classes, probability = i(128, high=1000), dict(low=0.05, high=0.95)
    case("nll_loss", F.nll_loss, x(*LOGITS), classes)
    case("cross_entropy", F.cross_entropy, x(*LOGITS), classes)
    case("cross_entropy_vocabulary", F.cross_entropy, x(64, 30522), i(64, high=30522))
    case("cross_entropy_pixels", F.cross_entropy, x(4, 21, 128, 128), i(4, 128, 128, high=21))
    case("cross_entropy_smoothed", lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), x(*LOGITS), classes)
    case("bce_with_logits", F.binary_cross_entropy_with_logits, x(*PLANE), fixed(*PLANE, low=0, high=1))
    case("bce", F.binary_cross_entropy, x(*PLANE, **probability), fixed(*PLANE, **probability))
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        case(name, getattr(F, name), x(*PLANE), fixed(*PLANE))
    case("kl_div", lambda x, y: F.kl_div(x, y, reduction="batchmean"), x(*PLANE), fixed(*PLANE, **probability))


def products():
    def linear(name, rows, inner, columns, dtype=torch.float32):
        case(name, F.linear, x(rows, inner, dtype=dtype), w(columns, inner, dtype=dtype), w(columns, dtype=dtype))

    def bmm(name, batch, rows, inner, columns, dtype=torch.float32):
        case(name, torch.matmul, x(*batch, rows, inner, dtype=dtype), x(*batch, inner, columns, dtype=dtype))

    linear("linear_tokens", 1024, 512, 512)
    linear("linear_up", 256, 768, 3072)
    linear("linear_down", 256, 3072, 768)
    linear("linear_classes", 16, 512, 1000)
    linear("linear_one", 1, 1024, 1024)
    linear("linear_small", 16, 972, 100)
    linear("linear_narrow", 256, 13, 512)
    bmm("matmul", (), 512, 512, 512)
    bmm("matmul_odd", (), 333, 517, 131)
    bmm("bmm", (64,), 128, 64, 128)
    bmm("bmm_small", (256,), 16, 16, 16)
    case("attention_scores", lambda q, k: q @ k.transpose(-1, -2), x(8, 8, 128, 64), x(8, 8, 128, 64))
    bmm("attention_mix", (8, 8), 128, 128, 64)
    case("matmul_vector", torch.mv, x(*PLANE), x(1024))
    case("einsum", lambda a, b: torch.einsum("bij,bkj->bik", a, b), x(16, 128, 64), x(16, 128, 64))
    linear("linear_bfloat16", 256, 768, 768, dtype=torch.bfloat16)
    bmm("matmul_bfloat16", (), 512, 512, 512, dtype=torch.bfloat16)


def convolutions():
    def conv(name, image, channels, kernel, stride=1, padding=0, groups=1, dilation=1, dtype=torch.float32):
        rank = len(image) - 2
        shape = (channels, image[1] // groups) + (kernel,) * rank
        function = getattr(F, f"conv{rank}d")
        case(name, lambda x, w, b: function(x, w, b, stride, padding, dilation, groups), x(*image, dtype=dtype),
             w(*shape, dtype=dtype), w(channels, dtype=dtype))

    conv("conv_3x3", (4, 64, 56, 56), 64, 3, padding=1)
    conv("conv_3x3_deep", (4, 256, 14, 14), 256, 3, padding=1)
    conv("conv_1x1", (4, 64, 56, 56), 128, 1)
    conv("conv_1x1_deep", (4, 512, 7, 7), 1024, 1)
    conv("conv_1x1_strided", (4, 128, 28, 28), 256, 1, stride=2)
    conv("conv_strided", (4, 64, 56, 56), 128, 3, stride=2, padding=1)
    conv("conv_stem", (2, 3, 224, 224), 64, 7, stride=2, padding=3)
    conv("conv_patches", (4, 3, 224, 224), 192, 16, stride=16)
    conv("conv_one_image", (1, 64, 56, 56), 64, 3, padding=1)
    conv("conv_small_1", (16, 1, 28, 28), 5, 3)
    conv("conv_small_2", (16, 5, 13, 13), 12, 5)
    conv("conv_depthwise", (4, 96, 56, 56), 96, 3, padding=1, groups=96)
    conv("conv_depthwise_strided", (4, 96, 56, 56), 96, 3, stride=2, padding=1, groups=96)
    conv("conv_depthwise_deep", (4, 576, 14, 14), 576, 3, padding=1, groups=576)
    conv("conv_grouped", (4, 128, 28, 28), 128, 3, padding=1, groups=32)
    conv("conv_dilated", (4, 64, 28, 28), 64, 3, padding=2, dilation=2)
    conv("conv_1d", (8, 64, 1024), 64, 5, padding=2)
    conv("conv_3d", (1, 16, 16, 32, 32), 32, 3, padding=1)
    case("conv_transposed", lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2), x(4, 128, 28, 28),
         w(128, 64, 2, 2), w(64))
    case("conv_transposed_4x4", lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), x(4, 64, 16, 16),
         w(64, 32, 4, 4))
    conv("conv_3x3_bfloat16", (4, 64, 28, 28), 64, 3, padding=1, dtype=torch.bfloat16)


def recurrent():
    for kind in ("RNN", "GRU", "LSTM"):
        states = [x(64, 256)] * (2 if kind == "LSTM" else 1)
        function = ((lambda cell, v, h, c: cell(v, (h, c))) if kind == "LSTM" else (lambda cell, v, h: cell(v, h)))
        case(f"{kind.lower()}_cell", function, layer(getattr(nn, kind + "Cell"), 256, 256), x(64, 256), *states)
        case(f"{kind.lower()}_layer", lambda cell, v: cell(v)[0], layer(getattr(nn, kind), 128, 128), x(32, 16, 128))


def narrow_floats():
    half, brain = dict(dtype=torch.float16), dict(dtype=torch.bfloat16)
    for name, settings in (("half", half), ("bfloat16", brain)):
        case(f"add_{name}", torch.add, x(*PLANE, **settings), x(*PLANE, **settings))
        case(f"mul_{name}", torch.mul, x(*PLANE, **settings), x(*PLANE, **settings))
        case(f"sum_last_{name}", lambda x: x.sum(-1), x(*PLANE, **settings))
        case(f"cat_{name}", lambda a, b: torch.cat((a, b), 1), x(*PLANE, **settings), x(*PLANE, **settings))
        case(f"where_{name}", torch.where, flag(*PLANE), x(*PLANE, **settings), x(*PLANE, **settings))
        case(f"embedding_{name}", F.embedding, i(8, 128, high=10000), w(10000, 256, **settings), is_sparse=True)
    case("relu_bfloat16", F.relu, x(*PLANE, **brain))
    case("gelu_bfloat16", F.gelu, x(*PLANE, **brain))
    case("softmax_bfloat16", lambda x: x.softmax(-1), x(*PLANE, **brain))
    case("layer_norm_bfloat16", lambda v, a, b: F.layer_norm(v, (768,), a, b), x(*TOKENS, **brain), w(768, **brain),
         w(768, **brain))
    case("max_pool_bfloat16", lambda x: F.max_pool2d(x, 2), x(8, 64, 28, 28, **brain))


for family in (unary, binary, casts, reductions, moves, indexing, images, losses, products, convolutions, recurrent,
               narrow_floats):
    family()
