"""The cost of a piece of work for everybody: seconds, CPU by process, memory, and requests as the API server counts them."""

import json
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields

_REQUESTS = "apiserver_request_total{"
_LABEL = re.compile(r'(\w+)="([^"]*)"')
#: The writes of the controllers that follow the readiness of Pods behind a Service.
_ENDPOINTS = ("PUT endpoints", "PUT endpointslices")
_WRITES_OF_STATUS = ("PUT", "PATCH")
#: What the table calls everybody's custom resource.
_CUSTOM_RESOURCE = "custom resource"
#: The share of all requests below which a kind is left out of the table.
_RARE = 0.01


@dataclass(frozen=True)
class Cost:
    """The cost of one piece of work, from its first request until the last status says ready.

    Args:
        seconds: How long it took.
        operator: Seconds of CPU of the process that did the work.
        api_server: Seconds of CPU of the API server.
        controller_manager: Seconds of CPU of the controller manager.
        etcd: Seconds of CPU of etcd.
        memory: Resident MiB of the process that did the work, at the end.
        requests: All requests to the API server, whoever sent them, without watches.
        endpoints: The updates of Endpoints and EndpointSlices among them.
        statuses: The writes of statuses of the custom resource among them.
        kinds: The requests by verb and resource.
    """

    seconds: float = 0.0
    operator: float = 0.0
    api_server: float = 0.0
    controller_manager: float = 0.0
    etcd: float = 0.0
    memory: float = 0.0
    requests: float = 0.0
    endpoints: float = 0.0
    statuses: float = 0.0
    kinds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """The costs of several who did the same work, in turns.

    Args:
        work: The work in words.
        costs: The costs of each turn by the name of who did the work; the first one is who the others are compared with.
    """

    work: str
    costs: dict[str, list[Cost]] = field(default_factory=dict)

    def ratio(self, name: str) -> float:
        """Return the median over all turns of the seconds by those of the first one in the same turn."""
        first = next(iter(self.costs.values()))
        return statistics.median(
            mine.seconds / theirs.seconds for mine, theirs in zip(self.costs[name], first, strict=True)
        )


def requests_by_kind(metrics: str) -> Counter[str]:
    """Return the requests that an API server has answered, by verb and resource, such as `PUT pods/status`.

    Args:
        metrics: The text of its metrics.
    """
    found: Counter[str] = Counter()
    for line in metrics.splitlines():
        if line.startswith(_REQUESTS):
            labels, _, value = line.rpartition(" ")
            of = dict(_LABEL.findall(labels))
            resource = "/".join(filter(None, (of["resource"], of["subresource"])))
            found[f"{of['verb']} {resource}"] += round(float(value))
    return found


def counted(sent: Counter[str], plural: str) -> Cost:
    """Return the counts of a cost: all requests but watches, updates of Endpoints, and writes of statuses.

    Args:
        sent: The requests by verb and resource.
        plural: The custom resource.
    """
    kinds = {
        kind.replace(f" {plural}", f" {_CUSTOM_RESOURCE}"): count
        for kind, count in sent.items()
        if not kind.startswith("WATCH ")
    }
    return Cost(
        requests=sum(kinds.values()),
        endpoints=sum(kinds.get(kind, 0) for kind in _ENDPOINTS),
        statuses=sum(kinds.get(f"{verb} {_CUSTOM_RESOURCE}/status", 0) for verb in _WRITES_OF_STATUS),
        kinds=kinds,
    )


def median(costs: Sequence[Cost]) -> Cost:
    """Return the median of each figure."""
    figures = [each.name for each in fields(Cost) if each.name != "kinds"]
    medians = {name: statistics.median(getattr(cost, name) for cost in costs) for name in figures}
    kinds = {kind for cost in costs for kind in cost.kinds}
    return Cost(**medians, kinds={kind: statistics.median(cost.kinds.get(kind, 0) for cost in costs) for kind in kinds})


def cost_table(comparisons: Iterable[Comparison]) -> str:
    """Return a table in Markdown: medians over the turns, and the ratio to the first one in the same turn."""
    columns = [
        *("work", "who", "seconds", "by the loader"),
        *("CPU s of the operator", "of the API server", "of the controller manager", "of etcd"),
        *("requests", "Endpoints", "statuses", "memory"),
    ]
    lines = [f"| {' | '.join(columns)} |", f"|---|---|{'---:|' * 10}"]
    for comparison in comparisons:
        for name, costs in comparison.costs.items():
            of = median(costs)
            cells = [
                f"{of.seconds:.1f}",
                f"{comparison.ratio(name):.2f} x",
                *(f"{cpu:.1f}" for cpu in (of.operator, of.api_server, of.controller_manager, of.etcd)),
                *(f"{count:,.0f}" for count in (of.requests, of.endpoints, of.statuses)),
                f"{of.memory:.0f} MiB",
            ]
            lines.append(f"| {comparison.work} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def kinds_table(comparisons: Sequence[Comparison]) -> str:
    """Return a table in Markdown: requests by verb and resource, medians over the turns. It leaves rare kinds out."""
    names = list(dict.fromkeys(name for each in comparisons for name in each.costs))
    lines = [f"| {' | '.join(['work', 'request', *names])} |", f"|---|---|{'---:|' * len(names)}"]
    for comparison in comparisons:
        of = {name: median(costs).kinds for name, costs in comparison.costs.items()}
        most = {kind: max(each.get(kind, 0) for each in of.values()) for kinds in of.values() for kind in kinds}
        rare = _RARE * max(sum(kinds.values()) for kinds in of.values())
        for kind in sorted(most, key=lambda kind: (-most[kind], kind)):
            if most[kind] >= rare:
                cells = [f"{of[name].get(kind, 0):,.0f}" if name in of else "" for name in names]
                lines.append(f"| {comparison.work} | {kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


def as_data(comparisons: Iterable[Comparison]) -> str:
    """Return all figures as JSON, one comparison a line."""
    return "".join(f"{json.dumps(asdict(each))}\n" for each in comparisons)
