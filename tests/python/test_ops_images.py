"""Pooling, normalisation, padding, resizing and rearranging of images against eager PyTorch."""

import pytest
import torch
import torch.nn.functional as F
from support import compare
from support.compare import PRODUCT, Case
from support.tensors import distinct, integers, normal, positive

LINE, IMAGE, VOLUME = distinct(2, 3, 9), distinct(2, 3, 7, 8), distinct(1, 2, 5, 6, 5)
POOLED = [(1, LINE), (2, IMAGE), (3, VOLUME)]
CASES = []
for axes, x in POOLED:
    pool = {name: getattr(F, f"{name}{axes}d") for name in
            ("max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool")}
    for options in ({"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 3, "stride": 2, "ceil_mode": True}):
        CASES += [Case(f"max_pool{axes}d {options}", lambda x, f=pool["max_pool"], o=options: f(x, **o), [x]),
                  Case(f"avg_pool{axes}d {options}", lambda x, f=pool["avg_pool"], o=options: f(x, **o), [x])]
    CASES += [
        Case(f"max_pool{axes}d dilation", lambda x, f=pool["max_pool"]: f(x, 2, 1, dilation=2), [x]),
        Case(f"max_pool{axes}d indices", lambda x, f=pool["max_pool"]: f(x, 3, 2, 1, return_indices=True), [x]),
        Case(f"max_pool{axes}d unbatched", lambda x, f=pool["max_pool"]: f(x, 2), [x[0]]),
        Case(f"avg_pool{axes}d without padding in the count",
            lambda x, f=pool["avg_pool"]: f(x, 3, 2, 1, count_include_pad=False), [x]),
        Case(f"avg_pool{axes}d ceil and padding", lambda x, f=pool["avg_pool"]: f(x, 3, 2, 1, ceil_mode=True), [x]),
        Case(f"adaptive_avg_pool{axes}d", lambda x, f=pool["adaptive_avg_pool"]: (f(x, 1), f(x, 3), f(x, 4)), [x]),
        Case(f"adaptive_max_pool{axes}d", lambda x, f=pool["adaptive_max_pool"]: (*f(x, 1, return_indices=True),
            *f(x, 3, return_indices=True)), [x]),
    ]
UNPOOL = torch.arange(0, 16, 4).reshape(1, 1, 2, 2)
CASES += [
    Case("avg_pool2d divisor", lambda x: F.avg_pool2d(x, 2, divisor_override=3), [IMAGE]),
    Case("avg_pool3d divisor", lambda x: F.avg_pool3d(x, 2, divisor_override=3), [VOLUME]),
    Case("adaptive_avg_pool2d keeps a size", lambda x: F.adaptive_avg_pool2d(x, (None, 3)), [IMAGE]),
    Case("_adaptive_avg_pool", lambda x, y: (torch.ops.aten._adaptive_avg_pool2d(x, [3, 2]),
        torch.ops.aten._adaptive_avg_pool3d(y, [2, 3, 2])), [IMAGE, VOLUME]),
    Case("max_pool2d_with_indices", lambda x: torch.ops.aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1]),
        [IMAGE]),
    Case("max_unpool2d", lambda x, i: F.max_unpool2d(x, i, 2, output_size=(1, 1, 4, 4)), [normal(1, 1, 2, 2), UNPOOL]),
    Case("max_unpool3d", lambda x, i: F.max_unpool3d(x, i, 2), [normal(1, 1, 1, 2, 2), UNPOOL.reshape(1, 1, 1, 2, 2)]),
    Case("lp_pool2d", lambda x: F.lp_pool2d(x, 2, 2), [positive(1, 2, 4, 4)], tolerance=PRODUCT),
    # Padding.
    Case("pad constant", lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, -1, 0, 2), value=2.0),
        F.pad(x, (0, 0, 0, 0, 1, 1))), [IMAGE]),
    Case("pad integers", lambda x: F.pad(x, (1, 2), value=7), [integers(0, 5, 2, 3)]),
    Case("pad reflect", lambda x, y, z: (F.pad(x, (2, 1), "reflect"), F.pad(y, (2, 1, 1, 3), "reflect"),
        F.pad(z, (1,) * 6, "reflect")), [LINE, IMAGE, VOLUME]),
    Case("pad replicate", lambda x, y, z: (F.pad(x, (2, 1), "replicate"), F.pad(y, (2, 1, 1, 9), "replicate"),
        F.pad(z, (1,) * 6, "replicate")), [LINE, IMAGE, VOLUME]),
    Case("pad circular", lambda x, y: (F.pad(x, (2, 1), "circular"), F.pad(y, (2, 1, 1, 3), "circular")),
        [LINE, IMAGE]),
    Case("pad parts", lambda x, y, z: (
        torch.ops.aten.constant_pad_nd(x, [1, 2], 3.0), torch.ops.aten._pad_enum(y, [1, 1, 1, 1], 1),
            torch.ops.aten._pad_circular(x, [1, 2]),
        torch.ops.aten.reflection_pad1d(x, [1, 2]), torch.ops.aten.reflection_pad2d(y, [1, 2, 1, 0]),
            torch.ops.aten.reflection_pad3d(z, [1] * 6),
        torch.ops.aten.replication_pad1d(x, [1, 2]), torch.ops.aten.replication_pad2d(y, [1, 2, 1, 0]),
            torch.ops.aten.replication_pad3d(z, [1] * 6)),
        [LINE, IMAGE, VOLUME]),
    # Blocks.
    Case("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), [normal(2, 8, 3, 4)]),
    Case("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), [normal(2, 2, 6, 4)]),
    Case("channel_shuffle", lambda x: (torch.ops.aten.channel_shuffle(x, 3),
        torch.ops.aten.native_channel_shuffle(x, 2)), [normal(2, 6, 3, 2)], grad=False),
    Case("unfold", lambda x: (F.unfold(x, 3), F.unfold(x, (2, 3), dilation=2, padding=1, stride=2), F.unfold(x[0], 2)),
        [IMAGE]),
    Case("fold", lambda x: (F.fold(x, (4, 5), 2), F.fold(x[0], (4, 5), 2)), [normal(2, 12, 12)]),
    Case("fold strided", lambda x: F.fold(x, (5, 7), (2, 3), dilation=2, padding=1, stride=2), [normal(1, 12, 9)]),
]
SIZES = [{"scale_factor": 2}, {"scale_factor": 1.7}, {"scale_factor": 0.6}, {"size": 5}, {"size": 11}]
for mode, x in (("nearest", LINE), ("nearest", IMAGE), ("nearest", VOLUME), ("nearest-exact", LINE),
    ("nearest-exact", IMAGE),
                ("nearest-exact", VOLUME), ("linear", LINE), ("bilinear", IMAGE), ("trilinear", VOLUME),
                    ("bicubic", IMAGE)):
    for size in SIZES:
        CASES.append(Case(f"{mode} {x.dim() - 2}d {size}", lambda x, m=mode, s=size: F.interpolate(x, mode=m, **s),
            [x], tolerance=PRODUCT))
    if "near" not in mode:
        CASES.append(Case(f"{mode} aligned", lambda x, m=mode: (F.interpolate(x, scale_factor=2, mode=m,
            align_corners=True), F.interpolate(x, size=4, mode=m, align_corners=True)), [x], tolerance=PRODUCT))
CASES += [
    Case("area", lambda x: F.interpolate(x, size=(3, 4), mode="area"), [IMAGE]),
    Case("upsample parts", lambda x, y, z: (
        torch.ops.aten.upsample_nearest1d(x, [14]), torch.ops.aten.upsample_nearest2d(y, [9, 5]),
            torch.ops.aten.upsample_nearest3d(z, [7, 7, 7]),
        torch.ops.aten._upsample_nearest_exact1d(x, [14]), torch.ops.aten._upsample_nearest_exact2d(y, [9, 5]),
            torch.ops.aten._upsample_nearest_exact3d(z, [7, 7, 7]),
        torch.ops.aten.upsample_linear1d(x, [14], False), torch.ops.aten.upsample_bilinear2d(y, [9, 5], True),
            torch.ops.aten.upsample_trilinear3d(z, [7, 7, 7], False),
        torch.ops.aten.upsample_bicubic2d(y, [9, 5], False)), [LINE, IMAGE, VOLUME], tolerance=PRODUCT),
]

# Normalisation.
for name, x in (("1d", normal(6, 4)), ("1d with length", normal(6, 4, 5)), ("2d", normal(3, 4, 5, 2)),
    ("3d", normal(2, 4, 3, 2, 2))):
    CASES += [
        Case(f"batch_norm {name} train", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
            [x, positive(4), normal(4)], tolerance=PRODUCT),
        Case(f"batch_norm {name} eval", lambda x, w, b, m, v: F.batch_norm(x, m.detach(), v.detach(), w, b),
            [x, positive(4), normal(4), normal(4), positive(4)], tolerance=PRODUCT),
    ]
B = normal(3, 4, 5, 2)
CASES += [
    Case("batch_norm plain", lambda x: F.batch_norm(x, None, None, training=True), [B], tolerance=PRODUCT),
    Case("batch_norm running", lambda x, m, v: (F.batch_norm(x, m.detach().clone(), v.detach().clone(), training=True),
        ), [B, normal(4), positive(4)], tolerance=PRODUCT),
    Case("native_batch_norm", lambda x, w, b: torch.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5),
        [B, positive(4), normal(4)], tolerance=PRODUCT, grad=False),
    Case("layer_norm", lambda x, w, b: (F.layer_norm(x, (5, 2), w, b), F.layer_norm(x, (4, 5, 2))),
        [B, positive(5, 2), normal(5, 2)], tolerance=PRODUCT),
    Case("native_layer_norm", lambda x: torch.native_layer_norm(x, [5, 2], None, None, 1e-5), [B], tolerance=PRODUCT),
    Case("group_norm", lambda x, w, b: (F.group_norm(x, 2, w, b), F.group_norm(x, 4), F.group_norm(x[:, :, 0, 0], 1)),
        [B, positive(4), normal(4)], tolerance=PRODUCT),
    Case("native_group_norm", lambda x: torch.native_group_norm(x, None, None, 3, 4, 10, 2, 1e-5), [B],
        tolerance=PRODUCT),
    Case("instance_norm", lambda x, w, b: F.instance_norm(x, None, None, w, b), [B, positive(4), normal(4)],
        tolerance=PRODUCT),
    Case("instance_norm running", lambda x, m, v: F.instance_norm(x, m.detach(), v.detach(), use_input_stats=False),
        [B, normal(4), positive(4)], tolerance=PRODUCT),
    Case("weight_norm", lambda v, g: (torch._weight_norm(v, g, 0),), [normal(4, 3, 2), positive(4, 1, 1)],
        tolerance=PRODUCT),
    Case("weight_norm of all", lambda v, g: torch._weight_norm(v, g, -1), [normal(4, 3), torch.tensor(2.0)],
        tolerance=PRODUCT),
    Case("_weight_norm_interface", lambda v, g: torch.ops.aten._weight_norm_interface(v, g, 0),
        [normal(4, 3), positive(4, 1)], tolerance=PRODUCT, grad=False),
    Case("local_response_norm", lambda x: F.local_response_norm(x, 2), [B], tolerance=PRODUCT),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matches_eager(case):
    compare.check(case)


@pytest.mark.parametrize("make", [lambda: torch.nn.BatchNorm2d(4),
    lambda: torch.nn.InstanceNorm2d(4, track_running_stats=True)],
                         ids=["BatchNorm2d", "InstanceNorm2d"])
def test_running_statistics_follow_the_batches(make):
    import poptorch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.scale = make(), torch.nn.Parameter(torch.ones(1))

        def forward(self, x):
            return poptorch.identity_loss((self.norm(x) * self.scale).pow(2).mean(), "none")

    mine, theirs = Model().train(), Model().train()
    executor = poptorch.trainingModel(mine, compare.options(), optimizer=torch.optim.SGD(mine.parameters(), lr=0.0))
    for _ in range(3):
        x = normal(5, 4, 3, 2) * 2 + 1
        executor(x)
        theirs(x)
    executor.copyWeightsToHost()
    torch.testing.assert_close(mine.norm.running_mean, theirs.norm.running_mean, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mine.norm.running_var, theirs.norm.running_var, rtol=1e-4, atol=1e-5)
    assert mine.norm.num_batches_tracked == theirs.norm.num_batches_tracked
