"""Numbers in the text form of Prometheus, made from the rows of model.metric. What they mean is not here."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gpuward.model.metric import BY_NAME, METRICS, MOST_NAMES, OTHER, Metric, MetricKind

Samples = Callable[[], Mapping[str, Mapping[tuple[str, ...], float]]]
"""Returns the values of what is looked at when it is asked for: by metric, by the values of its labels."""


@dataclass(frozen=True, slots=True)
class Page:
    """What is answered to a scrape."""

    content_type: str
    body: bytes


class Exposition:
    """Implements Meter, and shows what was counted. One of a process."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # theirs
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)
        counted = [row for row in METRICS if row.is_counted]
        self._counters = {row.name: self._counter(row) for row in counted if row.kind is MetricKind.COUNTER}
        self._histograms = {row.name: self._histogram(row) for row in counted if row.kind is MetricKind.HISTOGRAM}

    def look_at(self, samples: Samples) -> None:
        """Show also what this returns whenever somebody asks."""
        self._registry.register(_Looking(samples))

    def add(self, metric: str, *labels: str, by: float = 1.0) -> None:
        """Let a counter go up."""
        counter, row = self._counters[metric], BY_NAME[metric]
        (counter.labels(*_shown(row, labels)) if row.labels else counter).inc(by)

    def observe(self, metric: str, value: float) -> None:
        """Take a value into a histogram."""
        self._histograms[metric].observe(value)

    def page(self, accept: str = "") -> Page:
        """Return all numbers, in the form that is asked for."""
        encode, content_type = choose_encoder(accept)
        return Page(content_type, encode(self._registry))

    def _counter(self, row: Metric) -> Counter:
        return Counter(row.name, row.says, [label.name for label in row.labels], registry=self._registry)

    def _histogram(self, row: Metric) -> Histogram:
        return Histogram(row.name, row.says, registry=self._registry, buckets=row.buckets)


class _Looking(Collector):
    """Shows what is looked at when it is asked for."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        """Return the families of all that is looked at."""
        for name, values in self._samples().items():
            row = BY_NAME[name]
            names = [label.name for label in row.labels]
            made = CounterMetricFamily if row.kind is MetricKind.COUNTER else GaugeMetricFamily
            family: GaugeMetricFamily | CounterMetricFamily = made(row.name, row.says, labels=names)
            for labels, value in _bounded(row, values):
                family.add_metric(labels, value)
            yield family


def _bounded(row: Metric, values: Mapping[tuple[str, ...], float]) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield the series of a metric; of names that people gave the first so many, all others as one."""
    names: dict[int, set[str]] = {at: set() for at, label in enumerate(row.labels) if not label.values}
    summed: dict[tuple[str, ...], float] = {}
    for labels, value in sorted(values.items()):
        shown = list(_shown(row, labels))
        for at, known in names.items():
            if shown[at] not in known and len(known) >= MOST_NAMES:
                shown[at] = OTHER
            known.add(shown[at])
        summed[tuple(shown)] = summed.get(tuple(shown), 0.0) + value
    yield from summed.items()


def _shown(row: Metric, labels: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(label.value_of(value) for label, value in zip(row.labels, labels, strict=True))
