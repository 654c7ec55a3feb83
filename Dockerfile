# duckplets with all that a driver and Dask's workers need; the versions are those of the lock.
#
#     docker build -t duckplets .
#     docker run --rm -v "$PWD:/data" duckplets status corpus.duckdb
#     docker run --rm --entrypoint dask duckplets worker tcp://HOST:8786 --nthreads 1

FROM python:3.12-slim AS build
WORKDIR /checkout
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY duckplets duckplets
COPY sql sql
COPY migrations migrations
# The lock is for tests as well: it says which versions, and the extras say which packages. A
# package from a folder has no hash, so pip cannot compare those of the others here.
RUN sed -E '/^[ #]/d; s/ \\$//' requirements.lock > versions.txt \
    && python -m venv /opt/duckplets \
    && /opt/duckplets/bin/pip install --no-cache-dir --constraint versions.txt \
        '.[dask,fts,quality,tokenizers]'

FROM python:3.12-slim
COPY --from=build /opt/duckplets /opt/duckplets
ENV PATH=/opt/duckplets/bin:$PATH
# By its number, so that Kubernetes can tell that it is not root.
RUN useradd --create-home --uid 1000 duckplets && install -d -o 1000 -g 1000 /data
USER 1000:1000
WORKDIR /data
ENTRYPOINT ["duckplets"]
