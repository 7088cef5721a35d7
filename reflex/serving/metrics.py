"""What Prometheus reads at /metrics. One registry per app, so several can live in one process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from reflex.serving.batcher import BatchStats
    from reflex.serving.engine import Engine

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
COUNTS = (1, 2, 4, 8, 16, 32, 64)
TOKENS = (16, 64, 256, 1024, 4096, 16384, 65536, 262144)


class Metrics:
    """Counters and histograms of one app; queue and cache are read from `engine` at every scrape."""

    def __init__(self, engine: Engine) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.registry.register(_EngineCollector(engine))

        def histogram(name: str, text: str, labels: tuple[str, ...], buckets: Any) -> Histogram:
            return Histogram(name, text, labels, buckets=buckets, registry=self.registry)

        def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(name, text, labels, registry=self.registry)

        self.requests = counter("reflex_requests", "Requests answered.", ("path", "status"))
        self.seconds = histogram(
            "reflex_request_seconds", "From arrival to answer.", ("path",), SECONDS
        )
        self.phase = histogram("reflex_phase_seconds", "Time per phase.", ("phase",), SECONDS)
        self.batch_requests = histogram(
            "reflex_batch_requests", "Requests sharing one forward.", (), COUNTS
        )
        self.batch_tokens = histogram("reflex_batch_tokens", "Tokens computed.", (), TOKENS)
        self.batch_seconds = histogram(
            "reflex_batch_seconds", "Duration of a forward.", (), SECONDS
        )
        self.decisions = counter("reflex_decisions", "Questions answered.", ("type",))
        self.tokens = counter("reflex_tokens", "Tokens of answered requests.", ("part",))
        self.left = counter("reflex_clients_left", "Clients that left before their answer.")

    def batch(self, stats: BatchStats) -> None:
        self.batch_requests.observe(stats.requests)
        self.batch_tokens.observe(stats.tokens)
        self.batch_seconds.observe(stats.seconds)

    def render(self) -> bytes:
        """The text exposition format."""
        return generate_latest(self.registry)


class _EngineCollector(Collector):
    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def collect(self) -> Iterable[Any]:
        engine = self.engine
        ready = 1.0 if engine.status == "ready" else 0.0
        yield GaugeMetricFamily("reflex_ready", "Whether requests are taken.", ready)
        yield GaugeMetricFamily(
            "reflex_queue_requests", "Requests waiting or running.", engine.depth
        )
        cache = engine.cache
        if cache is None:
            return
        found = CounterMetricFamily(
            "reflex_state_cache_lookups", "State cache lookups.", labels=["tier", "result"]
        )
        found.add_metric(["memory", "hit"], cache.hits)
        found.add_metric(["memory", "miss"], cache.misses)
        used = GaugeMetricFamily("reflex_state_cache_bytes", "Bytes of states.", labels=["tier"])
        used.add_metric(["memory"], cache.nbytes)
        disk = getattr(cache, "disk", None)
        if disk is not None:
            found.add_metric(["disk", "hit"], disk.hits)
            found.add_metric(["disk", "miss"], disk.misses)
            found.add_metric(["disk", "damaged"], disk.damaged)
            used.add_metric(["disk"], disk.nbytes)
            evicted = CounterMetricFamily("reflex_state_cache_evictions", "Files evicted.")
            evicted.add_metric([], disk.evicted)
            yield evicted
        yield found
        yield used
