"""Evaluates alert rules at one moment, as Prometheus does, over series that a test has.

It knows the parts of PromQL that alert rules about the present use, and refuses all others.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping

import promql_parser as promql
from prometheus_client.samples import Sample

#: Series with the labels that tell them apart, and the name if it is still known.
Vector = dict[frozenset[tuple[str, str]], float]

_COMPARISONS = {
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
}
_ARITHMETIC = {"*": operator.mul, "/": operator.truediv, "+": operator.add, "-": operator.sub}
_AGGREGATIONS: dict[str, Callable[[list[float]], float]] = {"max": max, "min": min, "sum": sum}


def firing(rule: Mapping[str, object], samples: Iterable[Sample]) -> list[dict[str, str]]:
    """Return the labels of each alert that a rule raises, once its condition has lasted for the time that it asks.

    Args:
        rule: A rule of a PrometheusRule.
        samples: All series that Prometheus has, with the labels of their targets.
    """
    found = _evaluate(promql.parse(str(rule["expr"])), list(samples))
    assert isinstance(found, dict), "a number is no condition"
    return [dict(labels) for labels in found]


def _evaluate(node: promql.Expr, samples: list[Sample]) -> Vector | float:
    match node:
        case promql.NumberLiteral():
            return float(node.val)
        case promql.ParenExpr():
            return _evaluate(node.expr, samples)
        case promql.VectorSelector():
            return {
                frozenset({**each.labels, "__name__": each.name}.items()): each.value
                for each in samples
                if each.name == node.name and all(matches(each.labels, one) for one in node.matchers.matchers)
            }
        case promql.Call() if node.func.name == "absent":
            (argument,) = node.args
            return {} if _vector(argument, samples) else {frozenset(): 1.0}
        case promql.AggregateExpr():
            return _aggregate(node, samples)
        case promql.BinaryExpr():
            return _combine(node, samples)
        case _:
            raise NotImplementedError(node.prettify())


def matches(labels: Mapping[str, str], matcher: promql.Matcher) -> bool:
    """Return whether a series with these labels satisfies a matcher of a selector."""
    value = labels.get(matcher.name, "")
    match matcher.op:
        case promql.MatchOp.Equal:
            return value == matcher.value
        case promql.MatchOp.NotEqual:
            return value != matcher.value
        case promql.MatchOp.Re:
            return re.fullmatch(matcher.value, value) is not None
        case _:
            return re.fullmatch(matcher.value, value) is None


def _vector(node: promql.Expr, samples: list[Sample]) -> Vector:
    found = _evaluate(node, samples)
    assert isinstance(found, dict), node.prettify()
    return found


def _aggregate(node: promql.AggregateExpr, samples: list[Sample]) -> Vector:
    kept = set() if node.modifier is None else set(node.modifier.labels)
    assert node.modifier is None or node.modifier.type == promql.AggModifierType.By, node.prettify()
    groups: dict[frozenset[tuple[str, str]], list[float]] = {}
    for labels, value in _vector(node.expr, samples).items():
        groups.setdefault(frozenset(each for each in labels if each[0] in kept), []).append(value)
    return {labels: _AGGREGATIONS[str(node.op)](values) for labels, values in groups.items()}


def _combine(node: promql.BinaryExpr, samples: list[Sample]) -> Vector:
    name, left, right = str(node.op), _evaluate(node.lhs, samples), _evaluate(node.rhs, samples)
    calculate = _ARITHMETIC.get(name)
    if isinstance(left, float):
        assert calculate is not None, node.prettify()
        assert isinstance(right, dict), node.prettify()
        return {_nameless(labels): calculate(left, value) for labels, value in right.items()}
    others = dict.fromkeys(left, right) if isinstance(right, float) else {}
    if isinstance(right, dict):
        known = {_joined(labels, node): value for labels, value in right.items()}
        assert name == "unless" or len(known) == len(right), f"several series at once: {node.prettify()}"
        others = {labels: known[at] for labels in left if (at := _joined(labels, node)) in known}
    if name == "unless":
        return {labels: value for labels, value in left.items() if labels not in others}
    if calculate is not None:
        return {
            _nameless(labels): calculate(value, others[labels]) for labels, value in left.items() if labels in others
        }
    compare = _COMPARISONS[name]
    return {labels: value for labels, value in left.items() if labels in others and compare(value, others[labels])}


def _nameless(labels: frozenset[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    return frozenset(each for each in labels if each[0] != "__name__")


def _joined(labels: frozenset[tuple[str, str]], node: promql.BinaryExpr) -> frozenset[tuple[str, str]]:
    """The labels by which the two sides of an operator are joined."""
    matching = None if node.modifier is None else node.modifier.matching
    if matching is None:
        return _nameless(labels)
    assert matching.type == promql.LabelModifierType.Include, node.prettify()
    return frozenset(each for each in labels if each[0] in matching.labels)
