"""ctc_beam_search_decoder, fps and nearest in wrapped models, beside plain Python."""

import math

import poptorch
import pytest
import torch

from support.models import FunctionModel, quiet


def infer(function, *inputs, options=None):
    return poptorch.inferenceModel(FunctionModel(lambda self, *x: function(*x)), options or quiet())(*inputs)


# -- the decoder --------------------------------------------------------------------------------------------------------


def _log_add(a, b):
    larger, smaller = max(a, b), min(a, b)
    return larger if smaller == -math.inf else larger + math.log1p(math.exp(smaller - larger))


def prefix_beam_search(rows, blank, beam_width, top_paths):
    """Plain Python: prefixes with the log-probabilities of ending in a blank and in their last label."""
    beams = {(): (0.0, -math.inf)}
    for row in rows:
        grown = {}

        def add(prefix, blank_end, label_end):
            old = grown.get(prefix, (-math.inf, -math.inf))
            grown[prefix] = (_log_add(old[0], blank_end), _log_add(old[1], label_end))

        for prefix, (blank_end, label_end) in beams.items():
            both = _log_add(blank_end, label_end)
            add(prefix, both + row[blank], label_end + row[prefix[-1]] if prefix else -math.inf)
            for label, probability in enumerate(row):
                if label != blank:
                    before = blank_end if prefix and prefix[-1] == label else both
                    add(prefix + (label,), -math.inf, before + probability)
        ranked = sorted(grown.items(), key=lambda item: (-_log_add(*item[1]), item[0]))
        beams = dict(ranked[:beam_width])
    ranked = sorted(((prefix, _log_add(*ends)) for prefix, ends in beams.items()), key=lambda item: (-item[1], item[0]))
    return [(path, value) for path, value in ranked if value > -math.inf][:top_paths]


@pytest.mark.parametrize("blank, beam_width, top_paths", [(0, 100, 1), (0, 8, 4), (3, 5, 5), (1, 1, 1)])
def test_decoder_equals_a_plain_prefix_beam_search(blank, beam_width, top_paths):
    torch.manual_seed(7)
    steps, samples, classes = 9, 3, 4
    probs = torch.log_softmax(3 * torch.randn(steps, samples, classes), 2)
    lengths = torch.tensor([steps, 5, 1])
    values, sizes, paths = infer(
        lambda p, n: poptorch.ctc_beam_search_decoder(p, n, blank, beam_width, top_paths), probs, lengths
    )
    assert values.shape == sizes.shape == (samples, top_paths) and paths.shape == (samples, top_paths, steps)
    assert sizes.dtype == paths.dtype == torch.int32
    for n in range(samples):
        expected = prefix_beam_search(probs[: lengths[n], n].tolist(), blank, beam_width, top_paths)
        for place in range(top_paths):
            path, value = expected[place] if place < len(expected) else ((), -math.inf)
            assert sizes[n, place] == len(path)
            assert tuple(paths[n, place].tolist()) == path + (0,) * (steps - len(path))
            torch.testing.assert_close(values[n, place], torch.tensor(value), rtol=1e-5, atol=1e-5)


def test_decoder_sums_over_alignments():
    # Two steps, label 1 with probability 0.6 each: "1" by (1 1), (1 -) and (- 1), 0.36 + 0.24 + 0.24.
    probs = torch.tensor([[0.4, 0.6], [0.4, 0.6]]).log().unsqueeze(1)
    value, size, path = infer(lambda p: poptorch.ctc_beam_search_decoder(p, torch.tensor([2])), probs)
    torch.testing.assert_close(value.exp(), torch.tensor([[0.84]]))
    assert size.item() == 1 and path.tolist() == [[[1, 0]]]


def test_decoder_gives_zeros_outside_a_model():
    for result, shape in zip(poptorch.ctc_beam_search_decoder(torch.randn(5, 2, 3), torch.tensor([5, 5]), top_paths=4),
                             [(2, 4), (2, 4), (2, 4, 5)]):
        assert torch.equal(result, torch.zeros(shape, dtype=result.dtype))


DECODER_ERRORS = {
    "shape": (torch.zeros(2, 3), torch.tensor([1]), {}, "probs must be floating point of shape"),
    "type": (torch.zeros(2, 1, 3, dtype=torch.int), torch.tensor([1]), {}, "probs must be floating point"),
    "lengths": (torch.zeros(2, 1, 3), torch.tensor([1, 1]), {}, "lengths must be 1 integers, one for each sample"),
    "blank": (torch.zeros(2, 1, 3), torch.tensor([1]), dict(blank=3), "blank 3 is no class; expected 0 <= blank < 3"),
    "paths": (torch.zeros(2, 1, 3), torch.tensor([1]), dict(beam_width=2, top_paths=3), "1 <= top_paths <= beam_width"),
    "length": (torch.zeros(2, 1, 3), torch.tensor([3]), {}, "the length of sample 0 is 3; expected 0 <= length <= 2"),
}


@pytest.mark.parametrize("name", DECODER_ERRORS)
def test_decoder_checks_its_arguments(name):
    probs, lengths, settings, message = DECODER_ERRORS[name]
    with pytest.raises(poptorch.Error, match=rf"\[ctc_beam_search_decoder\].*{message}"):
        infer(lambda p, n: poptorch.ctc_beam_search_decoder(p, n, **settings), probs, lengths)


def test_decoder_beside_a_loss():
    """A training model may decode; the loss does not see it."""
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)

        def forward(self, x):
            probs = self.layer(x).log_softmax(2)
            return poptorch.ctc_beam_search_decoder(probs, torch.tensor([4, 4])), poptorch.identity_loss(probs, "mean")

    model = Model()
    trainer = poptorch.trainingModel(model, quiet())
    x = torch.randn(4, 2, 3)
    probs = model.layer(x).log_softmax(2)
    (value, _, _), _ = trainer(x)
    expected = [prefix_beam_search(probs[:, n].tolist(), 0, 100, 1)[0][1] for n in range(2)]
    torch.testing.assert_close(value.flatten(), torch.tensor(expected), rtol=1e-5, atol=1e-5)


# -- points -------------------------------------------------------------------------------------------------------------


def farthest(points, begin, end, start, count):
    chosen = [start]
    while len(chosen) < count:
        distances = torch.stack([(points[begin:end] - points[i]).square().sum(1) for i in chosen]).min(0).values
        chosen.append(begin + int(distances.argmax()))
    return chosen[:count]


@pytest.mark.parametrize("ratio", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("ptr", [[0, 20], [0, 7, 12, 20], [3, 9]])
def test_fps_takes_the_farthest_points_of_each_segment(ptr, ratio):
    points = torch.randn(20, 3, generator=torch.Generator().manual_seed(4))
    expected = [row for begin, end in zip(ptr, ptr[1:])
                for row in farthest(points, begin, end, begin, math.ceil((end - begin) * ratio))]
    result = infer(lambda x: poptorch.fps(x, ptr, ratio), points)
    assert result.dtype == torch.int32 and result.tolist() == expected
    assert poptorch.fps(points, ptr, ratio).tolist() == expected


def test_fps_from_a_random_start_follows_the_seed():
    points = torch.randn(40, 2, generator=torch.Generator().manual_seed(4))
    results = []
    for seed in (1, 1, 2, 3, 4):
        rows = infer(lambda x: poptorch.fps(x, [0, 20, 40], 0.2, True), points, options=quiet().randomSeed(seed)).tolist()
        assert rows == (farthest(points, 0, 20, rows[0], 4) + farthest(points, 20, 40, rows[4], 4))
        results.append(rows)
    assert results[0] == results[1]
    assert len({tuple(rows) for rows in results}) > 1


def test_fps_checks_its_arguments():
    points = torch.zeros(4, 3)
    for arguments, message in (
        ((3, [0, 4]), "expects a tensor, not a int"),
        ((points, torch.tensor([0, 4])), "ptr must be a list of ints"),
        ((points, [0, 4.0]), "ptr must be a list of ints"),
        ((points, [4]), "at least two numbers"),
        ((points, [0, 5]), "gives no segments of 4 points"),
        ((points, [2, 1]), "gives no segments"),
        ((points, [0, 4], "half"), "ratio must be a number"),
        ((points, [0, 4], 1.5), "expected 0 < ratio <= 1"),
        ((points, [0, 4], 0.5, 1), "random_start must be a bool"),
        ((points.int(), [0, 4]), "src must be floating point"),
    ):
        with pytest.raises(poptorch.Error, match=rf"\[fps\].*{message}"):
            poptorch.fps(*arguments)


def test_nearest_equals_the_smallest_distance():
    x, y = torch.randn(7, 3), torch.randn(9, 3)
    result = infer(poptorch.nearest, x, y)
    assert result.dtype == torch.int32
    assert torch.equal(result.long(), torch.cdist(x, y).argmin(1))
    assert torch.equal(poptorch.nearest(x, y), result)
    assert torch.equal(infer(poptorch.nearest, x[:, 0], y[:, 0]).long(), (x[:, :1] - y[:, 0]).abs().argmin(1))


@pytest.mark.parametrize("as_list", [(False, False), (True, True), (True, False), (False, True)])
def test_nearest_within_the_same_batch(as_list):
    torch.manual_seed(1)
    x, y = torch.randn(6, 2), torch.randn(8, 2)
    ids = [0, 0, 1, 1, 1, 3], [0, 0, 0, 1, 1, 2, 3, 3]
    given = [list(i) if listed else torch.tensor(i) for i, listed in zip(ids, as_list)]
    distances = torch.cdist(x, y)
    distances[torch.tensor(ids[0]).unsqueeze(1) != torch.tensor(ids[1])] = math.inf
    assert torch.equal(infer(lambda x, y: poptorch.nearest(x, y, *given), x, y).long(), distances.argmin(1))


def test_nearest_with_batches_that_are_inputs():
    x, y = torch.tensor([[0.0], [0.0]]), torch.tensor([[5.0], [1.0]])
    executor = poptorch.inferenceModel(
        FunctionModel(lambda self, x, y, a, b: poptorch.nearest(x, y, batch_x=a, batch_y=b)), quiet())
    assert executor(x, y, torch.tensor([0, 1]), torch.tensor([0, 1])).tolist() == [0, 1]
    assert executor(x, y, torch.tensor([2, 2]), torch.tensor([2, 2])).tolist() == [1, 1]
    with pytest.raises(poptorch.Error, match=r"(?s)\[nearest\] row 1 of x is in batch 4, of which y has no rows.*captured"):
        executor(x, y, torch.tensor([2, 4]), torch.tensor([2, 2]))
    with pytest.raises(poptorch.Error, match="batch_y must be sorted"):
        executor(x, y, torch.tensor([2, 2]), torch.tensor([3, 2]))


def test_nearest_checks_its_arguments():
    points = torch.zeros(4, 3)
    for arguments, message in (
        ((3, points), "expects a tensor, not a int"),
        ((points, [1.0]), "expects a tensor, not a list"),
        ((points, torch.zeros(4, 2)), "the points of x have 3 coordinates and those of y 2"),
        ((points, points, 3), "batch_x must be a tensor or a list of ints, not 3"),
        ((points, points, None, [0, 1]), "batch_y must be 4 integers, one for each point"),
        ((points, points, torch.zeros(4)), "batch_x must be 4 integers"),
    ):
        with pytest.raises(poptorch.Error, match=rf"\[nearest\].*{message}"):
            poptorch.nearest(*arguments)
