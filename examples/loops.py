"""Kill four training loops, and continue from their own checkpoints with the same input ids.

pip install 'duckplets[torch]' accelerate lightning
python examples/loops.py [LOOP…]

LOOP: plain (PyTorch), sharded (torch.distributed.checkpoint, as in torchtitan), accelerate,
lightning. Each runs on one process and on two (gloo), and is killed with SIGKILL. It continues
from the last checkpoint, which has the model and the position of the run.
"""

import json
import os
import signal
import socket
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import duckplets as dp
from duckplets.torch import SamplerDataset

FAQ = Path(__file__).parent / "data" / "faq.csv"
BATCH = 8  # of all processes together
STEPS, SAVED, KILLED = 8, 3, 5  # saved every 3 steps, killed after 5
WORLDS = 1, 2  # processes
WORDS, WIDTH = 1000, 16

Ids = torch.Tensor
Take = Callable[[dict[str, Any]], tuple[Ids, Ids]]


def input_ids(texts: list[str]) -> Ids:
    """Return numbers for the words of texts, shape (texts, WIDTH)."""
    rows = [[zlib.crc32(word.encode()) % WORDS for word in text.split()] for text in texts]
    return torch.tensor([(row + [0] * WIDTH)[:WIDTH] for row in rows])


def loss_of(model: torch.nn.Module, anchors: Ids, positives: Ids) -> torch.Tensor:
    """Return the loss of finding the positive of each anchor in the batch."""
    one, other = model(torch.cat([anchors, positives])).chunk(2)
    return torch.nn.functional.cross_entropy(one @ other.T, torch.arange(len(one)))


def dataset_of(corpus: Path) -> SamplerDataset:
    """Return the run; every process takes its slice of each batch."""
    return SamplerDataset(corpus, batch_size=BATCH // size(), seed=7, steps=STEPS)


def size() -> int:
    """Return the number of processes."""
    return int(os.environ["WORLD_SIZE"])


def model_and_optimiser() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """Return a small encoder with the same weights everywhere."""
    torch.manual_seed(7)
    model = torch.nn.EmbeddingBag(WORDS, 16)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


# ---- the loops


def plain(corpus: Path, folder: Path, take: Take) -> None:
    """Train with PyTorch alone; workers of the DataLoader are ahead of the training."""
    distributed.init_process_group("gloo")
    bare, optimiser = model_and_optimiser()
    model, dataset = DistributedDataParallel(bare), dataset_of(corpus)
    checkpoint = folder / "last.pt"
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        bare.load_state_dict(saved["model"])
        dataset.load_state_dict(saved["data"])
    for batch in DataLoader(dataset, batch_size=None, num_workers=1):
        loss_of(model, *take(batch)).backward()
        optimiser.step()
        optimiser.zero_grad()
        used = batch["step"] + 1
        if used % SAVED == 0 and distributed.get_rank() == 0:
            state = {"model": bare.state_dict(), "data": dataset.state_dict(step=used)}
            torch.save(state, folder / "new.pt")
            os.replace(folder / "new.pt", checkpoint)


def sharded(corpus: Path, folder: Path, take: Take) -> None:
    """Train with checkpoints that all processes write, for each object with a state_dict."""
    from torch.distributed import checkpoint

    distributed.init_process_group("gloo")
    bare, optimiser = model_and_optimiser()
    model, dataset = DistributedDataParallel(bare), dataset_of(corpus)
    states = {"model": bare, "dataloader": dataset}
    if saved := sorted(folder.glob("step-*")):
        checkpoint.load(states, checkpoint_id=saved[-1])
    for batch in dataset:  # in this process, so where it stands is what was used
        loss_of(model, *take(batch)).backward()
        optimiser.step()
        optimiser.zero_grad()
        if (batch["step"] + 1) % SAVED == 0:
            checkpoint.save(states, checkpoint_id=folder / f"step-{batch['step'] + 1}")


def accelerate(corpus: Path, folder: Path, take: Take) -> None:
    """Train with accelerate; torchdata's loader knows which prepared batches were used."""
    from accelerate import Accelerator
    from torchdata.stateful_dataloader import StatefulDataLoader

    accelerator = Accelerator(cpu=True)
    model, optimiser = accelerator.prepare(*model_and_optimiser())
    batches = StatefulDataLoader(dataset_of(corpus), batch_size=None, num_workers=1)
    accelerator.register_for_checkpointing(batches)  # and not prepared
    if saved := sorted(folder.glob("step-*")):
        accelerator.load_state(saved[-1])
    for batch in batches:
        accelerator.backward(loss_of(model, *take(batch)))
        optimiser.step()
        optimiser.zero_grad()
        if (batch["step"] + 1) % SAVED == 0:
            accelerator.save_state(folder / f"step-{batch['step'] + 1}")


def lightning(corpus: Path, folder: Path, take: Take) -> None:
    """Train with Lightning, whose checkpoints have what its callbacks keep."""
    import pytorch_lightning as lightning

    class Data(lightning.LightningDataModule):
        def __init__(self) -> None:
            super().__init__()
            self.dataset = dataset_of(corpus)

        def train_dataloader(self) -> Any:
            return DataLoader(self.dataset, batch_size=None, num_workers=1)

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.optimiser = model_and_optimiser()

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            return loss_of(self.encoder, *take(batch))

        def configure_optimizers(self) -> Any:
            return self.optimiser

    data, last = Data(), folder / "last.ckpt"
    saving = lightning.callbacks.ModelCheckpoint(
        folder, every_n_train_steps=SAVED, save_last=True, save_top_k=0
    )
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=size(),
        strategy="ddp",
        max_steps=STEPS,
        callbacks=[saving, data.dataset.lightning_callback()],
        use_distributed_sampler=False,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Model(), data, ckpt_path=last if last.exists() else None)


LOOPS = {loop.__name__: loop for loop in (plain, sharded, accelerate, lightning)}

# ---- killing them


def process(
    loop: str, corpus: Path, folder: Path, rank: int, world: int, port: int, killed: int | None
) -> None:
    """Run a loop in one of its processes, as torchrun would; write down what it takes."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    taken = 0
    with open(folder / f"taken-{rank}.jsonl", "w", encoding="utf-8") as file:

        def take(batch: dict[str, Any]) -> tuple[Ids, Ids]:
            nonlocal taken
            if taken == killed and rank == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            taken += 1
            ids = input_ids(batch["anchor"]), input_ids(batch["positive"])
            print(json.dumps([batch["step"], [of.tolist() for of in ids]]), file=file, flush=True)
            return ids

        LOOPS[loop](corpus, folder, take)
    if distributed.is_initialized():
        distributed.destroy_process_group()


def run(
    loop: str, corpus: Path, folder: Path, world: int, killed: int | None = None
) -> tuple[int, list[Any]]:
    """Run a loop on some processes; return the first exit code and all samples, by step."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [(loop, corpus, folder, rank, world, port, killed) for rank in range(world)]
    started = [get_context("spawn").Process(target=process, args=each) for each in arguments]
    for each in started:
        each.start()
    started[0].join()
    for each in started[1:]:
        if started[0].exitcode:
            each.kill()  # as torchrun does with the others
        each.join()
    rows = [
        [json.loads(line) for line in (folder / f"taken-{rank}.jsonl").read_text().splitlines()]
        for rank in range(world)
    ]
    steps = [
        [parts[0][0], [[row for part in parts for row in part[1][i]] for i in range(2)]]
        for parts in zip(*rows, strict=not killed)
    ]
    return started[0].exitcode, steps


def unbroken(corpus: Path) -> Iterator[Any]:
    """Yield what one process takes that trains nothing."""
    with dp.Corpus(corpus, read_only=True) as opened:
        for batch in opened.sampler(batch_size=BATCH, seed=7, steps=STEPS):
            ids = input_ids(batch["anchor"]), input_ids(batch["positive"])
            yield [batch.step, [of.tolist() for of in ids]]


def main(loops: list[str]) -> None:
    """Kill each loop, let it continue, and compare with an unbroken run."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "faq.duckdb"
        with dp.Corpus(corpus) as opened:
            opened.ingest(FAQ, anchor="question", positive="answer", progress=False)
            opened.split(train=1, validation=0, test=0)
        whole = list(unbroken(corpus))
        for loop in loops:
            for world in WORLDS:
                kept = Path(folder) / f"{loop}-{world}"
                kept.mkdir()
                code, first = run(loop, corpus, kept, world, killed=KILLED)
                _, rest = run(loop, corpus, kept, world)
                same = first == whole[:KILLED] and rest == whole[SAVED:]
                print(
                    f"{loop}, processes: {world}: killed (signal {-code}) after {KILLED} steps, "
                    f"went on with step {rest[0][0]}; the input ids of all steps are those of an "
                    f"unbroken run: {same}"
                )


if __name__ == "__main__":
    main(sys.argv[1:] or list(LOOPS))
