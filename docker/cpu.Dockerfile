# reflex.serve on a CPU. Build from the repository's root:
#   docker build -f docker/cpu.Dockerfile -t reflex-serve .
#   docker run -p 8000:8000 -v reflex-data:/data -e REFLEX_API_KEYS=change-me reflex-serve backbone=smollm2_135m
FROM python:3.11-slim AS build
WORKDIR /src
RUN python -m venv /opt/reflex
ENV PATH=/opt/reflex/bin:$PATH
COPY constraints.txt pyproject.toml README.md LICENSE ./
# torch first: --build-arg TORCH_INDEX=<the CPU index that PyTorch's install page names> takes its CPU build;
# without it pip's default build comes, which works and is gigabytes larger (docs/decisions/002).
ARG TORCH_INDEX=
RUN pip install --no-cache-dir -c constraints.txt ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch
COPY reflex reflex
COPY conf conf
RUN pip install --no-cache-dir -c constraints.txt ".[serve]"

FROM python:3.11-slim
RUN useradd --create-home --uid 10001 reflex && install -d -o reflex -g reflex /data
COPY --from=build /opt/reflex /opt/reflex
ENV PATH=/opt/reflex/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HF_HOME=/data/hub \
    REFLEX_CACHE=/data/cache \
    REFLEX_STATE_CACHE=/data/states \
    REFLEX_RUNS=/data/runs
USER reflex
WORKDIR /data
VOLUME /data
EXPOSE 8000
# Loading counts as healthy (/health says so); a failed load does not. Orchestrators ask /ready.
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["python", "-m", "reflex.serve", "serve=container"]
