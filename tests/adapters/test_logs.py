"""What a run uses is logged where people look: TensorBoard and MLflow, written and read back."""

import logging

import pytest
from adapters.loaders import loader, torch
from adapters.models import arguments, embedder, st
from effort import some

import duckplets as dp
from duckplets.torch import SamplerDataset

lightning = pytest.importorskip("pytorch_lightning")
events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

BATCH, STEPS, EVERY = 8, 5, 2
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of SQLAlchemy, by MLflow
    pytest.mark.filterwarnings("ignore:.*num_workers:UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory):
    """MLflow over a file of SQLite, which tells nobody else."""
    with pytest.MonkeyPatch.context() as patched:
        for name in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
            patched.setenv(name, "true")
        mlflow = pytest.importorskip("mlflow")
        folder = tmp_path_factory.mktemp("mlflow")
        mlflow.set_tracking_uri(f"sqlite:///{folder}/runs.db")
        mlflow.set_experiment("tests")
        yield mlflow
        mlflow.set_tracking_uri(None)


def in_mlflow(mlflow):
    """Return parameters and metrics of the last run."""
    client = mlflow.MlflowClient()
    found = client.search_runs([mlflow.get_experiment_by_name("tests").experiment_id])[0]
    history = {
        name: [(of.step, of.value) for of in client.get_metric_history(found.info.run_id, name)]
        for name in found.data.metrics
    }
    return found.data.params, history


def in_tensorboard(folder):
    """Return all texts, those of hyperparameters too, and the scalars below a folder."""
    texts, scalars = "", {}
    for file in sorted(folder.rglob("events.out.*")):
        read = events.EventAccumulator(str(file))
        read.Reload()
        tags = read.Tags()
        texts += "".join(
            value.decode(errors="replace")
            for tag in tags["tensors"]
            for event in read.Tensors(tag)
            for value in event.tensor_proto.string_val
        )
        for metadata in read.summary_metadata.values():  # of hyperparameters
            texts += metadata.plugin_data.content.decode(errors="replace")
        scalars |= {tag: [(e.step, e.value) for e in read.Scalars(tag)] for tag in tags["scalars"]}
    return texts, scalars


def counted(corpus_path, **arguments):
    """Return the metrics of the run after every second step, as one process has them."""
    found = {}
    with dp.Corpus(corpus_path, read_only=True) as corpus:
        sampler = corpus.sampler(batch_size=BATCH, **arguments)
        for batch in sampler:
            if (batch.step + 1) % EVERY == 0:
                data = sampler.metrics().items()
                found[batch.step + 1] = {n: v for n, v in data if n.startswith("data/")}
            if batch.step + 1 == STEPS:
                return found
    raise AssertionError


def assert_logged(scalars, expected, prefix=""):
    for name in expected[EVERY]:
        series = [(step, pytest.approx(values[name])) for step, values in expected.items()]
        assert scalars[prefix + name] == series, name
    shares = [scalars[f"{prefix}forecast/{name}/share"] for name in ("one", "two")]
    assert [len(series) for series in shares] == [1, 1]
    assert sum(series[0][1] for series in shares) == pytest.approx(1)
    assert {series[0][0] for series in shares} == {0}


# ---- trainers of sentence-transformers and transformers


def test_a_trainer_reports_what_it_used(corpus_path, tmp_path, mlflow, monkeypatch):
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "board"))
    model = embedder()
    with dp.Corpus(corpus_path, read_only=True) as corpus:
        sampler = corpus.sampler(batch_size=BATCH)
        trainer = st.SentenceTransformerTrainer(
            model=model,
            args=arguments(
                tmp_path, STEPS, BATCH, report_to=["tensorboard", "mlflow"], logging_steps=EVERY
            ),
            train_dataset=sampler.to_hf(),
            loss=st.sentence_transformer.losses.MultipleNegativesRankingLoss(model),
        )
        trainer.add_callback(sampler.hf_logger(trainer, every=EVERY))
        trainer.train()
        assert sampler.step > STEPS, "the trainer reads ahead of what it uses"
        run_id = sampler.run_id
    losses = [entry["step"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses == [2, 4], "the trainer's own logs are as they were"
    expected = counted(corpus_path)
    params, metrics = in_mlflow(mlflow)
    assert params["data_run"] == run_id
    assert_logged(metrics, expected)
    texts, scalars = in_tensorboard(tmp_path / "board")
    assert run_id in texts
    assert_logged(scalars, expected, "train/")
    assert [step for step, _ in scalars["train/loss"]] == losses


def test_a_reporter_that_raises_ends_no_training(corpus_path, tmp_path, caplog):
    class Broken(pytest.importorskip("transformers").TrainerCallback):
        @property
        def tb_writer(self):
            raise ConnectionError("https://user:password@host")

        def on_log(self, args, state, control, logs, **_):
            if "loss" not in logs and "train_loss" not in logs:
                raise ConnectionError("https://user:password@host")

    model = embedder()
    with dp.Corpus(corpus_path, read_only=True) as corpus:
        sampler = corpus.sampler(batch_size=BATCH)
        settings = arguments(tmp_path, STEPS, BATCH, logging_steps=1)
        trainer = st.SentenceTransformerTrainer(
            model=model,
            args=settings,
            train_dataset=sampler.to_hf(),
            loss=st.sentence_transformer.losses.MultipleNegativesRankingLoss(model),
            callbacks=[Broken()],
        )
        trainer.add_callback(sampler.hf_logger(trainer, every=1))
        with caplog.at_level(logging.WARNING, "duckplets"):
            trainer.train()
    assert trainer.state.global_step == STEPS
    said = [record.getMessage() for record in caplog.records if "logger" in record.getMessage()]
    assert len(said) == 2, "its config, and its metrics"
    assert all("ConnectionError: training continues" in line for line in said)
    assert "password" not in caplog.text
    assert len([e for e in trainer.state.log_history if "loss" in e]) == STEPS


# ---- Lightning


class Lengths(lightning.LightningModule):
    """Learns the length of texts; may end in the middle of an epoch."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))
        self.seen = []

    def training_step(self, batch, index):
        self.seen.append(batch["anchor"])
        return (self.scale * torch.tensor([float(len(t)) for t in batch["anchor"]])).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-6)


def lightning_trainer(folder, dataset, steps=STEPS, **options):
    given = {"logger": False, "enable_checkpointing": False}
    return lightning.Trainer(
        default_root_dir=folder,
        max_steps=steps,
        accelerator="cpu",
        use_distributed_sampler=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=1,
        callbacks=[dataset.lightning_callback(every=EVERY)],
        **given | options,
    )


def test_lightning_logs_what_it_used(corpus_path, tmp_path, mlflow):
    dataset = SamplerDataset(corpus_path, batch_size=BATCH)
    loggers = [
        lightning.loggers.TensorBoardLogger(tmp_path / "board"),
        lightning.loggers.MLFlowLogger("tests", tracking_uri=mlflow.get_tracking_uri()),
    ]
    trainer = lightning_trainer(tmp_path, dataset, logger=loggers)
    trainer.fit(Lengths(), loader(dataset, 1))
    expected = counted(corpus_path)
    params, metrics = in_mlflow(mlflow)
    assert params["data_run"] == dataset.run_id
    assert_logged(metrics, expected)
    texts, scalars = in_tensorboard(tmp_path / "board")
    assert dataset.run_id in texts
    assert_logged(scalars, expected)


@pytest.mark.parametrize("workers", some([0, 1, 2], less=2))
def test_lightning_goes_on_from_its_checkpoint(corpus_path, tmp_path, alone, workers, caplog):
    class Broken(lightning.loggers.CSVLogger):
        def log_metrics(self, metrics, step=None):
            raise ConnectionError("https://user:password@host")

    def dataset(**arguments):
        return SamplerDataset(corpus_path, **{"batch_size": 16, "seed": 7, **arguments})

    first, model = dataset(), Lengths()
    trainer = lightning_trainer(tmp_path, first, 3, logger=Broken(tmp_path))
    with caplog.at_level(logging.WARNING, "duckplets"):
        trainer.fit(model, loader(first, workers))
    assert len(model.seen) == 3
    assert caplog.text.count("ConnectionError: training continues") == 1
    assert "password" not in caplog.text
    trainer.save_checkpoint(tmp_path / "three.ckpt")
    again, model = dataset(), Lengths()
    trainer = lightning_trainer(tmp_path, again, 6)
    trainer.fit(model, loader(again, workers), ckpt_path=tmp_path / "three.ckpt")
    assert model.seen == [batch["anchor"] for batch in alone[3:6]]
    for other, words in ((dataset(batch_size=8), "batch_size"), (dataset(seed=8), "seed")):
        trainer = lightning_trainer(tmp_path, other, 6)
        with pytest.raises(dp.StateMismatchError, match=words):
            trainer.fit(Lengths(), loader(other), ckpt_path=tmp_path / "three.ckpt")


def test_lightning_needs_the_step_of_a_batch(corpus_path, tmp_path):
    dataset = SamplerDataset(corpus_path, batch_size=BATCH)
    batches = loader(dataset, collate_fn=lambda batch: {"anchor": batch["anchor"]})
    with pytest.raises(dp.SamplerError, match="let collate_fn keep it"):
        lightning_trainer(tmp_path, dataset).fit(Lengths(), batches)


# ---- any other loop


@pytest.mark.parametrize("workers", [None, 0, 1])  # None for a sampler
def test_any_loop_logs_to_any_function(corpus_path, mlflow, workers):
    with dp.Corpus(corpus_path, read_only=True) as corpus, mlflow.start_run():
        if workers is None:
            run = batches = corpus.sampler(batch_size=BATCH, steps=STEPS)
        else:
            run = SamplerDataset(corpus_path, batch_size=BATCH, steps=STEPS)
            batches = loader(run, workers)
        mlflow.log_param("data_run", run.run_id)
        used = dp.log_run(run, lambda of, step: mlflow.log_metrics(of, step=step), every=EVERY)
        for batch in batches:
            used((batch.step if workers is None else batch["step"]) + 1)
        assert run.run_id == corpus.sampler(batch_size=BATCH).run_id != corpus.sampler().run_id
    params, metrics = in_mlflow(mlflow)
    assert params["data_run"].startswith("default-")
    assert_logged(metrics, counted(corpus_path))


def test_a_resumed_run_logs_its_forecast_where_it_goes_on(corpus_path):
    dataset = SamplerDataset(corpus_path, batch_size=BATCH)
    dataset.load_state_dict(dataset.state_dict(step=3))
    logged = []
    dp.log_run(dataset, lambda of, step: logged.append((step, of)))
    assert [step for step, _ in logged] == [dataset.step] == [3]
    for wrong in ({"every": 0}, {"every": 1.5}):
        with pytest.raises(dp.SamplerError, match="every="):
            dp.log_run(dataset, print, **wrong)
    with pytest.raises(dp.SamplerError, match="lambda values, step"):
        dp.log_run(dataset, object())
