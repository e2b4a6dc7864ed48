"""Image folders for tests, and the functions that ranks and workers run with torchvision. `datasets` is
torchvision.datasets, or None if torchvision or torch is missing."""

import importlib.util
import pathlib

import vision
from real import coco_files, ranks

datasets = None
if importlib.util.find_spec("torchvision") is not None and importlib.util.find_spec("torch") is not None:
    datasets = vision.datasets()

    from recstore.integrations.torchvision import CocoDetection, DatasetFolder, ImageFolder

    class Folder(ImageFolder):
        """This class is here so that a spawned worker imports this module, and with it the operators of torchvision."""

    class Detection(CocoDetection):
        """See Folder."""

    class CatsOnly(ImageFolder):
        """A subclass that selects classes."""

        def find_classes(self, directory):
            classes, _ = super().find_classes(directory)
            chosen = [name for name in classes if name.startswith("c")]
            return chosen, {name: 10 + i for i, name in enumerate(chosen)}

    class OwnSamples(DatasetFolder):
        """A subclass with its own samples."""

        @staticmethod
        def make_dataset(directory, class_to_idx, extensions=None, is_valid_file=None, allow_empty=False):
            return [(f"{directory}/{name}/only", i) for name, i in class_to_idx.items()]


def size_of(image):
    """A transform: the width and height of an image as one number."""
    return 1000 * image.size[0] + image.size[1]


def count_of(annotations):
    return len(annotations)


def ends_in_png(path):
    return path.endswith(".png")


def image_folder(root, classes, files, content=b""):
    """Makes a folder of image files, some in subfolders, and other files."""
    for i in range(classes):
        folder = pathlib.Path(root) / f"class{i:03}"
        (folder / "more").mkdir(parents=True)
        (folder / "notes.txt").touch()
        for k in range(files):
            where = folder / "more" if k % 10 == 3 else folder
            (where / f"n{i:08}_{k}.{'png' if k % 2 else 'JPEG'}").write_bytes(content)
    return str(root)


# ---- Run by ranks ----


def folder_plain(root):
    dataset = datasets.ImageFolder(root)
    return dataset, (ranks.checksum(dataset.samples), sum(dataset.targets))


def folder_shared(root, name):
    dataset = ImageFolder(root, shared=name)
    return dataset, (ranks.checksum(dataset.samples), sum(dataset.targets))


def detection_plain(path):
    with coco_files.quiet():
        dataset = datasets.CocoDetection("images", path)
    return dataset, (ranks.checksum(map(dataset._load_target, dataset.ids)), sum(dataset.ids))


def detection_shared(path, name):
    dataset = CocoDetection("images", path, shared=name)
    return dataset, (ranks.checksum(map(dataset._load_target, dataset.ids)), sum(dataset.ids))
