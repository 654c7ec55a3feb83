"""What a signal handler raises comes out as it is, whatever it interrupts, and files open again."""

from effort import often
from prebuilt import toy_corpus
from programs import said

PROGRAM = """
import faulthandler, random, signal, sys
import duckplets as dp

faulthandler.dump_traceback_later(100, exit=True)
draw, came = random.Random(1), 0


class Own(Exception):
    pass


def handler(*_):
    raise Own


def interrupted(run):
    global came
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.05 * draw.random())
            run()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Own:
        came += 1


def opened():
    with dp.Corpus(sys.argv[1]) as corpus:
        corpus.status()


signal.signal(signal.SIGALRM, handler)
with dp.Corpus(sys.argv[1], read_only=True) as corpus:
    sampler = corpus.sampler(batch_size=4)
    for _ in range(int(sys.argv[2])):
        interrupted(sampler.save)
    sampler.save()
for _ in range(int(sys.argv[2])):
    interrupted(opened)
opened()
print(came)
"""


def test_own_exceptions_come_out_and_files_open_again(tmp_path):
    toy_corpus(tmp_path / "c.duckdb", 40).close()
    many = often(200, less=30)
    assert int(said("-c", PROGRAM, tmp_path / "c.duckdb", str(many))) > many / 4
