"""Ctrl-C, and what a signal handler raises, come out as they are; files open again."""

from effort import often
from prebuilt import toy_corpus
from programs import said

OWN = """
import random, signal, sys
import duckplets as dp


class Own(Exception):
    pass


def handler(*_):
    raise Own


draw, came = random.Random(1), 0
signal.signal(signal.SIGALRM, handler)
with dp.Corpus(sys.argv[1]) as corpus:
    corpus.status()  # imports that are interrupted leave half a module
    for _ in range(int(sys.argv[2])):
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.05 * draw.random())
                corpus.status()
                corpus.sql("SELECT count(*) FROM sections AS a, sections AS b, sections AS c")
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except Own:
            came += 1
print(came)
"""
CTRL_C = """
import faulthandler, random, signal, sys, threading
import duckplets as dp

faulthandler.dump_traceback_later(100, exit=True)
draw, came, main = random.Random(1), 0, threading.main_thread().ident
long = "SELECT count(*) FROM sections AS a, sections AS b, sections AS c, sections"


def use(statement, read_only):
    corpus = dp.Corpus(sys.argv[1], read_only=read_only)
    corpus.status()
    sampler = corpus.sampler(batch_size=4)
    next(sampler)
    sampler.save()
    corpus.sql(statement)


use("SELECT 1", False)  # imports that are interrupted leave half a module
for number in range(int(sys.argv[2])):
    interrupt = threading.Timer(0.4 * draw.random(), signal.pthread_kill, [main, signal.SIGINT])
    try:
        interrupt.start()
        use(long, number % 2 == 0)
        interrupt.join()
    except KeyboardInterrupt:
        came += 1
print(came)
"""


def test_own_exceptions_come_out(tmp_path):
    toy_corpus(tmp_path / "c.duckdb", 400).close()
    many = often(200, less=16)
    assert int(said("-c", OWN, tmp_path / "c.duckdb", str(many))) > many / 4


def test_ctrl_c_comes_out_and_files_that_are_dropped_open_again(tmp_path):
    toy_corpus(tmp_path / "c.duckdb", 400).close()
    many = often(60, less=6)
    assert int(said("-c", CTRL_C, tmp_path / "c.duckdb", str(many))) == many
