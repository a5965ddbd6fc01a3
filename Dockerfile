# A collector in a container: not root, nothing writable but /data and /tmp.
#
#   docker build -t keyveil .
#   docker run --read-only --tmpfs /tmp -v keyveil:/data -p 127.0.0.1:8337:8337 keyveil
#
# The base is named by its version. Pass a digest that you trust to fix it to the byte:
#
#   docker build --build-arg BASE=python:3.13.9-slim@sha256:… -t keyveil .

ARG BASE=python:3.13.9-slim

FROM ${BASE} AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE requirements-run.lock ./
COPY tools/sbom.py ./tools/sbom.py
COPY src ./src
COPY clients/javascript ./clients/javascript
# Only files whose hash is in the lock get into /wheels, and nothing that would run code to be built. Everything else is
# installed from there: the build backend, which stays in this stage, and what a collector needs, without the tools of
# developers.
RUN python -m pip download --quiet --no-cache-dir --require-hashes --only-binary :all: --dest /wheels -r requirements-run.lock
RUN python -m venv /opt/backend \
 && /opt/backend/bin/python -m pip install --quiet --no-cache-dir --no-index --find-links /wheels hatchling \
 && /opt/backend/bin/python -m hatchling build -t wheel -d /wheels
RUN python -m venv /opt/keyveil \
 && /opt/keyveil/bin/python -m pip install --quiet --no-cache-dir --no-index --find-links /wheels 'keyveil[local,server]' \
 && /opt/keyveil/bin/python tools/sbom.py > /opt/keyveil/sbom.json
# Machine code of the loops that a collector runs, for the processor that builds the image; others compile anew. It is
# read-only there, and is copied to /tmp when a collector starts: Numba takes only what it could also write.
RUN NUMBA_CACHE_DIR=/opt/keyveil/kernels PYTHONDONTWRITEBYTECODE=1 /opt/keyveil/bin/python -m keyveil.collector.warming \
 && chmod -R a+rX /opt/keyveil/kernels

FROM ${BASE}
RUN groupadd --system --gid 10001 keyveil \
 && useradd --system --uid 10001 --gid keyveil --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin keyveil \
 && install --directory --owner keyveil --group keyveil --mode 0700 /data
COPY --from=build /opt/keyveil /opt/keyveil
# Other machines may connect to the container, so somebody in front must speak TLS: docs/deployment.md.
ENV PATH=/opt/keyveil/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    NUMBA_CACHE_DIR=/tmp/numba \
    KEYVEIL_WARM_KERNELS=/opt/keyveil/kernels \
    KEYVEIL_HOST=0.0.0.0 \
    KEYVEIL_PORT=8337 \
    KEYVEIL_BEHIND_TLS=true \
    KEYVEIL_JSON_LOGS=true \
    KEYVEIL_DATABASE_URL=sqlite:////data/keyveil.db
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8337
STOPSIGNAL SIGTERM
# Ready, not only alive: a report that is sent now would be stored and counted.
HEALTHCHECK --interval=15s --timeout=8s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8337/readyz', timeout=7)"]
ENTRYPOINT ["keyveil"]
CMD ["serve"]
