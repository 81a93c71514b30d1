"""Loaders of torchvision's image sets make batches in C++: the items, their order and the state of generators are those
of torch's loader; whatever is not known for certain is left to it."""

import multiprocessing

import numpy
import poptorch
import pytest
import torch
import torchvision
from support.loading import assert_like_torch, assert_same, is_known, loaders
from torchvision import transforms

FAST = {"sharing_strategy": poptorch.SharingStrategy.Fork}  # starts without importing torch again
NORMALIZED = [transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,))]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def image_set(name, length=37, transform=None, **attributes):
    """A set of torchvision with random images in place of files."""
    kind = getattr(torchvision.datasets, name)
    dataset = kind.__new__(kind)
    drawn = numpy.random.RandomState(3)
    grey = drawn.randint(0, 256, (length, 9, 7)).astype(numpy.uint8)
    colour = drawn.randint(0, 256, (length, 3, 8, 6)).astype(numpy.uint8)
    labels = drawn.randint(0, 10, length)
    dataset.root, dataset.transforms, dataset.target_transform = "", None, None
    if "MNIST" in name:
        dataset.data, dataset.targets = torch.from_numpy(grey), torch.from_numpy(labels)
    elif name in ("USPS", "SEMEION"):
        dataset.data, dataset.targets, dataset.labels = grey, labels.tolist(), labels
    elif "CIFAR" in name:
        dataset.data, dataset.targets = colour.transpose(0, 2, 3, 1), labels.tolist()
    else:
        dataset.data, dataset.labels = colour, labels.astype(numpy.uint8 if name == "STL10" else numpy.int64)
    dataset.transform = transforms.Compose(NORMALIZED) if transform is None else transform
    for attribute, value in attributes.items():
        setattr(dataset, attribute, value)
    return dataset


def digits(**attributes):
    return image_set("MNIST", **attributes)


# -- equal to torch's -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["MNIST", "FashionMNIST", "KMNIST", "EMNIST", "CIFAR10", "CIFAR100", "USPS", "SEMEION",
                                  "SVHN", "STL10"])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_sets(name, num_workers):
    channels = 3 if name in ("CIFAR10", "CIFAR100", "SVHN", "STL10") else 1
    chain = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN[:channels], STD[:channels])])
    assert_like_torch(*loaders(image_set(name, transform=chain), shuffle=True, num_workers=num_workers))


CHAINS = {
    "bytes": [transforms.PILToTensor()],
    "numbers": [transforms.ToTensor()],
    "normalised": [transforms.ToTensor(), transforms.Normalize(MEAN, STD)],
    "twice": [transforms.ToTensor(), transforms.Normalize(MEAN, STD), transforms.Normalize([0.1] * 3, [3] * 3, True)],
    "half": [transforms.ToTensor(), transforms.ConvertImageDtype(torch.float16)],
    "double": [transforms.PILToTensor(), transforms.ConvertImageDtype(torch.float64)],
    "nested": [transforms.Compose([transforms.PILToTensor()]), transforms.ConvertImageDtype(torch.float32)],
    "cropped": [transforms.CenterCrop(5), transforms.ToTensor(), transforms.Normalize(MEAN, STD)],
    "cropped beyond": [transforms.CenterCrop((4, 11)), transforms.ToTensor(), transforms.Normalize(MEAN, STD)],
    "padded": [transforms.Pad(2), transforms.ToTensor(), transforms.Normalize(MEAN, STD)],
    "padded in colour": [transforms.Pad((1, 2, 3, 4), fill=(9, 200, 17)), transforms.ToTensor()],
    "padded later": [transforms.ToTensor(), transforms.Pad(1, fill=0.25), transforms.Normalize(MEAN, STD)],
    "reflected": [transforms.Pad(3, padding_mode="reflect"), transforms.ToTensor()],
    "repeated": [transforms.ToTensor(), transforms.Pad(3, padding_mode="edge"), transforms.CenterCrop(9)],
    "resized": [transforms.Resize((12, 5)), *NORMALIZED],
    "resized by its shorter side": [transforms.Resize(13), transforms.CenterCrop(10), transforms.ToTensor()],
    "resized to the nearest": [transforms.Resize(9, transforms.InterpolationMode.NEAREST), transforms.PILToTensor()],
    "resized by cubes": [transforms.Resize(4, transforms.InterpolationMode.BICUBIC), transforms.ToTensor()],
    "resized later": [transforms.ToTensor(), transforms.Resize((5, 7)), transforms.Normalize(MEAN, STD)],
    "grey": [transforms.Grayscale(), *NORMALIZED],
    "grey in colour": [transforms.Grayscale(3), transforms.ToTensor(), transforms.Normalize(MEAN, STD)],
    "grey later": [transforms.ToTensor(), transforms.Grayscale(), transforms.Pad(1)],
    "grey and small": [transforms.Pad(1), transforms.Grayscale(), transforms.Resize(5), *NORMALIZED],
    "mirrored": [transforms.Pad((2, 1), padding_mode="symmetric"), transforms.PILToTensor()],
}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("name", ["CIFAR10", "SVHN"])
def test_chains_of_transforms(name, chain):
    assert_like_torch(*loaders(image_set(name, transform=transforms.Compose(CHAINS[chain]))))


def test_every_byte_in_large_images():
    """More pixels than a byte can count."""
    images = torch.arange(2 * 40 * 300).to(torch.uint8).reshape(2, 40, 300)
    chain = transforms.Compose([transforms.Pad(2, fill=7), *NORMALIZED])
    assert_like_torch(*loaders(digits(data=images, targets=torch.tensor([1, 2]), transform=chain), batch_size=1))


def test_a_transform_without_compose():
    assert_like_torch(*loaders(digits(transform=transforms.ToTensor())))


def test_default_type():
    ours, theirs = loaders(digits())
    torch.set_default_dtype(torch.float64)
    try:
        assert next(iter(ours))[0].dtype == torch.float64
        assert_like_torch(ours, theirs)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
def test_orders(num_workers, shuffle, drop_last):
    assert_like_torch(*loaders(digits(), shuffle=shuffle, drop_last=drop_last, num_workers=num_workers))


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_that_persist_or_not(persistent):
    assert_like_torch(*loaders(digits(), shuffle=True, num_workers=2, persistent_workers=persistent), epochs=3)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_generator_is_as_far_as_with_torch(num_workers):
    generator = torch.Generator()
    sampler = torch.utils.data.RandomSampler(range(37), replacement=True, num_samples=150, generator=generator)
    settings = {"num_workers": num_workers, "sampler": sampler, "generator": generator}
    assert_like_torch(*loaders(digits(), **settings), generator=generator)


class Halves:
    """A sampler of the user's own."""

    def __len__(self):
        return 30

    def __iter__(self):
        return iter([*range(0, 30, 2), *range(1, 30, 2)])


SAMPLERS = {
    "own": Halves(),
    "weighted": torch.utils.data.WeightedRandomSampler(torch.arange(37.0), 50),
    "of a part": torch.utils.data.SubsetRandomSampler(range(5, 25)),
    "of numbers of numpy": numpy.arange(20),
    # Each with memory of its own: torch's workers are sent tensors by threads, one for each worker, that would move
    # memory they share at the same time.
    "of tensors": [torch.tensor(number) for number in range(20)],
    "from the end": list(range(-1, -20, -1)),
}


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_samplers(sampler, num_workers):
    assert_like_torch(*loaders(digits(), num_workers=num_workers, sampler=SAMPLERS[sampler]))


def test_batch_samplers():
    sampler = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(range(37)), 3, drop_last=False)
    ours = poptorch.DataLoader(poptorch.Options(), digits(), batch_sampler=sampler, drop_last=False)
    assert_like_torch(ours, torch.utils.data.DataLoader(digits(), batch_sampler=sampler))
    ours = poptorch.DataLoader(poptorch.Options().deviceIterations(2), digits(), batch_sampler=sampler)
    torch.manual_seed(3)
    found = list(ours)
    torch.manual_seed(3)
    expected = list(torch.utils.data.DataLoader(digits(), batch_sampler=sampler))[:12]
    assert torch.equal(torch.cat([item[0] for item in found]), torch.cat([item[0] for item in expected]))


def test_items_of_several_iterations_and_replicas():
    options = poptorch.Options().deviceIterations(3).replicationFactor(2)
    options.Training.gradientAccumulation(2)
    ours, theirs = loaders(digits(), options, batch_size=1, shuffle=True)
    assert ours.combinedBatchSize == 12
    assert_like_torch(ours, theirs)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_parts_of_sets(num_workers):
    first, second = torch.utils.data.random_split(image_set("CIFAR10", transform=transforms.ToTensor()), [20, 17])
    for part in (first, second, torch.utils.data.Subset(second, numpy.array([3, 1, 1, 16, -1, 5]))):
        assert_like_torch(*loaders(part, batch_size=3, shuffle=True, num_workers=num_workers))


def test_shares_of_processes():
    seen = []
    for process in range(3):
        options = poptorch.Options().randomSeed(5)
        options.Distributed.configureProcessId(process, 3)
        known, slow = (poptorch.DataLoader(options, digits(), batch_size=4, shuffle=True, num_workers=1, **settings)
                       for settings in ({}, {"worker_init_fn": print}))
        for _ in range(2):
            items = list(known)
            assert_same(items, list(slow))
            seen += items
        assert is_known(known) and not is_known(slow)
    assert len(seen) == 18


@pytest.mark.parametrize("mode", [poptorch.DataLoaderMode.Async, poptorch.DataLoaderMode.AsyncRebatched])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_asynchronous_loaders(mode, drop_last, num_workers):
    ours = poptorch.DataLoader(poptorch.Options(), digits(), batch_size=5, drop_last=drop_last, mode=mode,
                               num_workers=num_workers, async_options=FAST)
    _, theirs = loaders(digits(), batch_size=5, drop_last=drop_last)
    for _ in range(2):
        assert_same([[part.clone() for part in item] for item in ours], list(theirs))
    ours.terminate()


@pytest.mark.parametrize("persistent", [False, True])
def test_large_items_are_made_ahead(persistent):
    images = torch.arange(12 * 300 * 400).to(torch.uint8).reshape(12, 300, 400)
    dataset = digits(data=images, targets=torch.arange(12))
    settings = {"batch_size": 3, "shuffle": True, "num_workers": 1, "persistent_workers": persistent}
    ours, theirs = loaders(dataset, **settings)
    assert_like_torch(ours, theirs, epochs=3)
    ours, theirs = loaders(dataset, **settings)
    trails = []
    for loader in (ours, theirs):  # an item that was begun is not one of the next epoch
        torch.manual_seed(1)
        next(iter(loader))
        trails.append(list(loader))
    assert_same(*trails)


def test_asynchronous_loaders_whose_sets_are_too_large(monkeypatch):
    monkeypatch.setenv("ASPEN_LOADER_MEMORY", "1K")
    ours = poptorch.DataLoader(poptorch.Options(), digits(), batch_size=5, mode=poptorch.DataLoaderMode.Async,
                               num_workers=2, async_options=FAST)
    _, theirs = loaders(digits(), batch_size=5)
    for _ in range(2):
        assert_same([[part.clone() for part in item] for item in ours], list(theirs))
    ours.terminate()


def test_no_workers_are_started():
    loader = poptorch.DataLoader(poptorch.Options(), digits(), batch_size=4, num_workers=3)
    iterator = iter(loader)
    assert next(iterator)[0].shape == (4, 1, 9, 7) and iter(loader) is iterator
    assert not multiprocessing.active_children()
    iterator._shutdown_workers()


def test_an_epoch_may_be_broken_off():
    ours, theirs = loaders(digits(), num_workers=2)
    for loader in (ours, theirs):
        next(iter(loader))
    assert_same(list(ours), list(theirs))


# -- changes ----------------------------------------------------------------------------------------------------------
def change_steps(dataset):
    dataset.transform.transforms.append(transforms.Pad(1))


def change_mean(dataset):
    dataset.transform.transforms[1].mean = [0.25]


def change_in_place(dataset):
    dataset.data[20:] = 3
    dataset.targets[20:] = 11


def change_data(dataset):
    dataset.data = 255 - dataset.data
    dataset.targets = dataset.targets + 1


def change_transform(dataset):
    dataset.transform = transforms.PILToTensor()


def change_to_unknown(dataset):
    dataset.transform = lambda image: torch.tensor(image.size)


def change_labels(dataset):
    dataset.target_transform = lambda label: -label


def change_method(dataset):
    type(dataset).__getitem__ = lambda self, index: (torch.tensor([index]), 1)


@pytest.mark.parametrize("change", [change_in_place, change_data, change_transform, change_steps, change_mean,
                                    change_to_unknown, change_labels, change_method])
@pytest.mark.parametrize("when", ["during an epoch", "between epochs"])
@pytest.mark.parametrize("workers", [{"num_workers": 0}, {"num_workers": 1, "persistent_workers": False},
                                     {"num_workers": 1, "persistent_workers": True}])
def test_changes_are_seen_when_torch_sees_them(change, when, workers):
    trails = []
    original = torchvision.datasets.MNIST.__getitem__
    for choose in (0, 1):
        chain = transforms.Compose([transforms.ToTensor(), transforms.Normalize([0.5], [0.5])])
        dataset = digits(length=60, transform=chain)
        loader = loaders(dataset, **workers)[choose]
        assert choose == 1 or is_known(loader)
        try:
            iterator = iter(loader)
            items = [next(iterator) for _ in range(2)]
            if when == "between epochs":
                items += list(iterator)
            change(dataset)
            items += list(iterator)
            trails.append(items + list(loader))
        finally:
            torchvision.datasets.MNIST.__getitem__ = original
    assert_same(*trails)


# -- what is not known ------------------------------------------------------------------------------------------------
class OwnDigits(torchvision.datasets.MNIST):
    pass


class OwnNormalize(transforms.Normalize):
    pass


def own_digits():
    dataset = digits()
    dataset.__class__ = OwnDigits
    return dataset


def chained(*steps):
    return digits(transform=transforms.Compose(list(steps)))


def hooked():
    normalize = transforms.Normalize((0.5,), (0.5,))
    normalize.register_forward_hook(lambda *arguments: None)
    return chained(transforms.ToTensor(), normalize)


UNKNOWN = {
    "subclass": (own_digits, {}, "OwnDigits"),
    "subclass of a transform": (lambda: chained(transforms.ToTensor(), OwnNormalize((0.5,), (0.5,))), {},
                                "OwnNormalize"),
    "random": (lambda: chained(transforms.RandomCrop(5), transforms.ToTensor()), {}, "RandomCrop"),
    "lambda": (lambda: chained(transforms.ToTensor(), transforms.Lambda(lambda image: image)), {}, "Lambda"),
    "function": (lambda: digits(transform=lambda image: torch.tensor(image.size)), {}, "function"),
    "hook": (hooked, {}, "Normalize was changed"),
    "a mean for each pixel": (
        lambda: chained(transforms.ToTensor(), transforms.Normalize(torch.rand(1, 9, 7), torch.ones(1, 9, 7))), {},
        "each pixel"),
    "labels": (lambda: digits(target_transform=lambda label: label + 1), {}, "target_transform"),
    "collation": (digits, {"collate_fn": lambda samples: torch.utils.data.default_collate(samples)}, "collate_fn"),
    "start of workers": (digits, {"num_workers": 1, "worker_init_fn": lambda worker: None}, "worker_init_fn"),
    "context": (digits, {"num_workers": 1, "multiprocessing_context": "fork"}, "multiprocessing_context"),
    "no batches": (digits, {"batch_size": None}, "no batches"),
    "another set": (lambda: torch.utils.data.ConcatDataset([digits()]), {}, "ConcatDataset"),
    "labels that are fractions": (lambda: digits(targets=torch.rand(37)), {}, "whole numbers"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_is_not_known_is_left_to_torch(case, capfd):
    make, settings, reason = UNKNOWN[case]
    loader = poptorch.DataLoader(poptorch.Options(), make(), **{"batch_size": 4, **settings})
    poptorch.setLogLevel("DEBUG")
    try:
        assert not is_known(loader)
    finally:
        poptorch.setLogLevel("WARN")
    log = capfd.readouterr().err
    assert "samples are made one by one" in log and reason in log


def test_the_log_tells_what_is_known(capfd):
    poptorch.setLogLevel("DEBUG")
    try:
        loader = poptorch.DataLoader(poptorch.Options(), digits(), batch_size=4, num_workers=2)
        assert is_known(loader)
    finally:
        poptorch.setLogLevel("WARN")
    assert "batches of MNIST of 37 images are made in C++ by ToTensor, Normalize" in capfd.readouterr().err


def test_a_replaced_method_is_not_known(monkeypatch):
    monkeypatch.setattr(torchvision.datasets.MNIST, "__getitem__", lambda self, index: (torch.tensor([index]), 1))
    assert not is_known(poptorch.DataLoader(poptorch.Options(), digits(), batch_size=4))


def test_a_replaced_function_is_noticed(monkeypatch):
    """The transform is torchvision's, but not what it calls."""
    functional = transforms.functional
    rolled = functional.to_tensor
    monkeypatch.setattr(functional, "to_tensor", lambda image: rolled(image).roll(1, 2))
    assert not is_known(poptorch.DataLoader(poptorch.Options(), digits(), batch_size=4))


def test_a_changed_collation_is_not_known(monkeypatch):
    functions = torch.utils.data._utils.collate.default_collate_fn_map
    monkeypatch.setitem(functions, int, lambda batch, **settings: torch.tensor(batch) + 1)
    assert not is_known(poptorch.DataLoader(poptorch.Options(), digits(), batch_size=4))


def test_errors_are_those_of_the_data_set():
    for dataset, sampler in ((digits(), [0, 40]), (torch.utils.data.Subset(digits(), [1, 40]), [0, 1])):
        ours, theirs = loaders(dataset, sampler=sampler, batch_size=2)
        messages = []
        for loader in (ours, theirs):
            with pytest.raises(IndexError) as caught:
                list(loader)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


def test_images_without_a_transform_are_no_tensors():
    with pytest.raises(TypeError, match="default_collate"):
        list(poptorch.DataLoader(poptorch.Options(), digits(transform=transforms.Compose([])), batch_size=4))


# -- what is remembered -----------------------------------------------------------------------------------------------
class Counted:
    """Counts the images that a transform of the library is applied to."""

    def __init__(self, monkeypatch, name):
        self.count = 0
        original = getattr(transforms.functional, name)

        def counting(image, *arguments, **settings):
            self.count += 1
            return original(image, *arguments, **settings)

        monkeypatch.setattr(transforms.functional, name, counting)


@pytest.mark.parametrize("workers", [{"num_workers": 0}, {"num_workers": 1, "persistent_workers": False},
                                     {"num_workers": 1, "persistent_workers": True}])
def test_images_are_resized_once(monkeypatch, workers):
    counted = Counted(monkeypatch, "resize")
    loader = poptorch.DataLoader(poptorch.Options(), chained(transforms.Resize(5), *NORMALIZED), batch_size=1,
                                 shuffle=True, **workers)
    for _ in range(3):
        assert len(list(loader)) == 37
    assert is_known(loader) and 37 <= counted.count < 60  # some more to find out what the transform does


def test_images_that_change_are_resized_again():
    dataset = chained(transforms.Resize(5), *NORMALIZED)
    ours, theirs = loaders(dataset)
    assert_same(list(ours), list(theirs))
    dataset.data[3:9] += 100
    assert_same(list(ours), list(theirs))
    dataset.transform.transforms[0].size = 6
    assert_same(list(ours), list(theirs))
    dataset.transform.transforms[2].mean = (0.25,)
    assert_same(list(ours), list(theirs))
    assert is_known(ours)


def test_what_is_remembered_is_bounded(monkeypatch):
    dataset = chained(transforms.Resize((5, 5)), *NORMALIZED)
    monkeypatch.setenv("ASPEN_LOADER_MEMORY", str(37 * (9 * 7 + 5 * 5)))  # the rows and what they are made of
    assert is_known(poptorch.DataLoader(poptorch.Options(), dataset, batch_size=4))
    assert not is_known(poptorch.DataLoader(poptorch.Options(), dataset, batch_size=4, num_workers=1))  # copies, too
    monkeypatch.setenv("ASPEN_LOADER_MEMORY", "3K")
    assert not is_known(poptorch.DataLoader(poptorch.Options(), dataset, batch_size=4))


# -- memory -----------------------------------------------------------------------------------------------------------
def test_copies_are_bounded(monkeypatch):
    settings = {"batch_size": 4, "num_workers": 1}
    monkeypatch.setenv("ASPEN_LOADER_MEMORY", str(37 * 9 * 7))
    assert is_known(poptorch.DataLoader(poptorch.Options(), digits(), **settings))
    monkeypatch.setenv("ASPEN_LOADER_MEMORY", "2K")
    assert not is_known(poptorch.DataLoader(poptorch.Options(), digits(), **settings))
    assert is_known(poptorch.DataLoader(poptorch.Options(), digits(), batch_size=4))  # needs no copy


def test_without_memory_nothing_is_known(monkeypatch):
    monkeypatch.setenv("ASPEN_LOADER_MEMORY", "0")
    assert not is_known(poptorch.DataLoader(poptorch.Options(), digits(), batch_size=4))


def test_a_wrong_bound_is_an_error(monkeypatch):
    monkeypatch.setenv("ASPEN_LOADER_MEMORY", "much")
    with pytest.raises(poptorch.Error, match='ASPEN_LOADER_MEMORY is "much"'):
        iter(poptorch.DataLoader(poptorch.Options(), digits(), batch_size=4, num_workers=1))
