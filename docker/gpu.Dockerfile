# reflex.serve on an NVIDIA GPU. Build from the repository's root:
#   docker build -f docker/gpu.Dockerfile -t reflex-serve:gpu .
#   docker run --gpus all -p 8000:8000 -v reflex-data:/data -e REFLEX_API_KEYS=change-me reflex-serve:gpu
FROM python:3.11-slim AS build
WORKDIR /src
RUN python -m venv /opt/reflex
ENV PATH=/opt/reflex/bin:$PATH
COPY constraints.txt pyproject.toml README.md LICENSE ./
# The default build of torch carries the CUDA libraries it needs; the driver comes from the host.
RUN pip install --no-cache-dir -c constraints.txt torch
COPY reflex reflex
COPY conf conf
RUN pip install --no-cache-dir -c constraints.txt ".[serve,gpu]"

FROM python:3.11-slim
# Triton compiles the fused kernels of linear attention at first use.
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 reflex && install -d -o reflex -g reflex /data
COPY --from=build /opt/reflex /opt/reflex
ENV PATH=/opt/reflex/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HF_HOME=/data/hub \
    REFLEX_CACHE=/data/cache \
    REFLEX_STATE_CACHE=/data/states \
    REFLEX_RUNS=/data/runs \
    TRITON_CACHE_DIR=/data/cache/triton \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER reflex
WORKDIR /data
VOLUME /data
EXPOSE 8000
# Loading counts as healthy (/health says so); a failed load does not. Orchestrators ask /ready.
HEALTHCHECK --interval=15s --timeout=5s --start-period=120s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["python", "-m", "reflex.serve", "serve=container", "profile=gpu"]
