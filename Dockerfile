# A collector in a container: not root, nothing writable but /data and /tmp.
#
#   docker build -t keyveil .
#   docker run --read-only --tmpfs /tmp -v keyveil:/data -p 127.0.0.1:8337:8337 keyveil

FROM python:3.13-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE requirements.lock ./
COPY src ./src
# The versions of the lock, but only for what a collector needs: the tools of developers stay out.
RUN sed -e 's/--hash=[^ ]*//g' -e 's/\\$//' requirements.lock > pins.txt \
 && python -m venv /opt/keyveil \
 && /opt/keyveil/bin/pip install --no-cache-dir --disable-pip-version-check --constraint pins.txt '.[local,server]'

FROM python:3.13-slim
RUN groupadd --system --gid 10001 keyveil \
 && useradd --system --uid 10001 --gid keyveil --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin keyveil \
 && install --directory --owner keyveil --group keyveil --mode 0700 /data
COPY --from=build /opt/keyveil /opt/keyveil
# Other machines may connect to the container, so somebody in front must speak TLS: docs/deployment.md.
ENV PATH=/opt/keyveil/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    NUMBA_CACHE_DIR=/tmp/numba \
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
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8337/healthz', timeout=4)"]
ENTRYPOINT ["keyveil"]
CMD ["serve"]
