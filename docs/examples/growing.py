"""A DataLoader over annotations, in a list or in a RecordList. A worker that reads the list copies its pages, but not
the pages of the store. To see it:

    recstore monitor --html list.html -- python growing.py list
    recstore monitor --html recordlist.html -- python growing.py recordlist
"""

import sys
import time

import torch

from recstore import RecordList


class Annotations(torch.utils.data.Dataset):
    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        sample = self.samples[index]
        time.sleep(0.0005)  # stands for decoding sample["file_name"]
        return torch.tensor(sample["bbox"])


def annotations(count):
    for i in range(count):
        box = [i % 640 + 0.25, i % 480 + 0.5, i % 97 + 1.75, i % 89 + 2.5]
        yield {"id": i, "image_id": i // 7, "category_id": i % 80, "bbox": box, "file_name": f"{i // 7:012}.jpg"}


def main(kind, count=400_000):
    samples = RecordList(annotations(count)) if kind == "recordlist" else list(annotations(count))
    loader = torch.utils.data.DataLoader(Annotations(samples), batch_size=256, shuffle=True, num_workers=4)
    print(f"{sum(len(batch) for batch in loader):,} boxes")


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:]))
