"""Trains a small speech recognizer on a dict from names of utterances to their files, durations and transcripts.

The program writes short wav files to a temporary folder; each letter is a tone. It stops in the middle of an epoch,
like a killed job, and continues from its checkpoint. `speech_before.py` keeps the utterances in a dict,
`speech.py` in a store of recstore. `--help` lists the options.
"""

import argparse
import itertools
import math
import os
import random
import tempfile
import time
import wave

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

LETTERS = "abcdefghijkl"
RATE = 4000  # samples per second
TONE = 200  # samples per letter
BATCH = 16


def make_utterances(folder, count):
    """Write the wav files; yield the name and the record of each utterance."""
    rng = random.Random(0)
    tones = {
        letter: [int(9000 * math.sin(2 * math.pi * (150 + 140 * number) * t / RATE)) for t in range(TONE)]
        for number, letter in enumerate(LETTERS)
    }
    for number in range(count):
        text = "".join(rng.choices(LETTERS, k=rng.randint(4, 12)))
        samples = [max(-32768, value + rng.randint(-900, 900)) for letter in text for value in tones[letter]]
        path = os.path.join(folder, f"{number:06}.wav")
        with wave.open(path, "wb") as file:
            file.setparams((1, 2, RATE, 0, "NONE", ""))
            file.writeframes(b"".join(value.to_bytes(2, "little", signed=True) for value in samples))
        yield f"utt{number:06}", {"wav": path, "duration": len(samples) / RATE, "text": text, "speaker": number % 7}


def features(record):
    """The spectrogram of an utterance, and its letters as numbers from 1: 0 is the blank of CTC."""
    with wave.open(record["wav"]) as file:
        samples = torch.frombuffer(bytearray(file.readframes(file.getnframes())), dtype=torch.int16) / 32768
    spectrum = torch.stft(samples, n_fft=128, hop_length=50, window=torch.hann_window(128), return_complex=True)
    return spectrum.abs().log1p().T, torch.tensor([1 + LETTERS.index(letter) for letter in record["text"]])


class Utterances(Dataset):
    def __init__(self, utterances):
        self.utterances = utterances
        self.names = list(utterances)

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        return features(self.utterances[self.names[index]])


def collate(samples):
    spectrums, texts = zip(*samples)
    return {
        "spectrums": pad_sequence(spectrums, batch_first=True),
        "frames": torch.tensor([len(spectrum) for spectrum in spectrums]),
        "texts": pad_sequence(texts, batch_first=True),
        "letters": torch.tensor([len(text) for text in texts]),
    }


class Recognizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(65, 64, 5, padding=2), nn.ReLU(), nn.Conv1d(64, len(LETTERS) + 1, 5, padding=2)
        )

    def forward(self, spectrums):
        return self.layers(spectrums.transpose(1, 2)).permute(2, 0, 1).log_softmax(-1)

    def loss(self, batch):
        scores = self(batch["spectrums"])
        return nn.functional.ctc_loss(scores, batch["texts"], batch["frames"], batch["letters"])

    def text(self, spectrum):
        best = self(spectrum[None]).argmax(-1)[:, 0].unique_consecutive()
        return "".join(LETTERS[number - 1] for number in best if number)


def make_loader(utterances, workers=0, start_method=None):
    generator = torch.Generator()
    loader = DataLoader(
        Utterances(utterances),
        batch_size=BATCH,
        shuffle=True,
        generator=generator,
        num_workers=workers,
        persistent_workers=workers > 0,
        multiprocessing_context=start_method,
        collate_fn=collate,
    )
    return loader, generator


def train(utterances, checkpoint, options, stop_after=None):
    """Train a model, from the checkpoint if it exists, and return it. After `stop_after` utterances, save and stop."""
    torch.manual_seed(0)
    model = Recognizer()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loader, generator = make_loader(utterances, options.workers, options.start_method)
    epoch, done = 0, 0  # done: utterances of this epoch
    if os.path.exists(checkpoint):
        state = torch.load(checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        epoch, done = state["epoch"], state["done"]
        print(f"continues in epoch {epoch}", flush=True)
    while epoch < options.epochs:
        generator.manual_seed(epoch)
        began, losses = time.perf_counter(), []
        for batch in itertools.islice(loader, done // BATCH, None):  # reads the finished batches again
            loss = model.loss(batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            done += len(batch["frames"])
            if stop_after and done >= stop_after:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                state["epoch"], state["done"] = epoch, done
                torch.save(state, checkpoint)
                print(f"epoch {epoch}: stopped after {done} utterances", flush=True)
                return model
        seconds = time.perf_counter() - began
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}, {seconds:.1f} s", flush=True)
        epoch, done = epoch + 1, 0
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--utterances", type=int, default=400)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--start-method", choices=["fork", "spawn", "forkserver"])
    options = parser.parse_args()

    torch.set_num_threads(1)  # the model is small: more threads would be slower
    with tempfile.TemporaryDirectory() as folder:
        utterances = dict(make_utterances(folder, options.utterances))
        checkpoint = os.path.join(folder, "checkpoint.pt")
        train(utterances, checkpoint, options, stop_after=options.utterances // 2)
        model = train(utterances, checkpoint, options)
        spectrum, _ = features(utterances["utt000003"])
        print(f"said {utterances['utt000003']['text']}, understood {model.text(spectrum)}")


if __name__ == "__main__":
    main()
