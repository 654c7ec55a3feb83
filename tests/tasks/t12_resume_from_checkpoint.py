from sentence_transformers import SentenceTransformerTrainer as Trainer
from transformers.trainer_utils import get_last_checkpoint

import duckplets as dp

last = get_last_checkpoint(args.output_dir)
with dp.Corpus("mixed.duckdb") as corpus:
    state = f"{last}/sampler.state.duckdb"
    run = corpus.resume(state=state) if last else corpus.sampler(batch_size=8, seed=7)
    calls = [run.hf_callback()]
    trainer = Trainer(model, args, train_dataset=run.to_hf(), loss=loss, callbacks=calls)
    trainer.train(resume_from_checkpoint=last)
