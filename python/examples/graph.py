"""A graph that changes: a set of edges `(from, to)`, updated and queried in batches.

    python graph.py --vertices 10000 --edges 100000 --batches 10 --device cpu

The neighbours of a vertex are the range of all edges that begin with it, and its degree is the count of that range.
After each batch of new and removed edges, degrees, the distances from one vertex (by breadth-first search) and the
number of triangles are computed, and at the end compared with a plain implementation over Python's sets.
"""

from __future__ import annotations

import argparse
from itertools import combinations, pairwise
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpulsm

Vertices = NDArray[np.uint32]
UNREACHED = -1


class Graph:
    """An undirected graph without loops: of each edge both directions are in the set."""

    def __init__(self, device: str = "best") -> None:
        self.edges = gpulsm.Set(("uint32", "uint32"), device=device)

    def update(self, new: tuple[Vertices, Vertices], removed: tuple[Vertices, Vertices]) -> None:
        """Adds edges and removes others, as one batch; one that is among both is removed."""
        self.edges.update(insert=_both_ways(new), delete=_both_ways(removed))

    def degrees(self, vertices: Vertices) -> NDArray[np.int64]:
        """How many neighbours each vertex has."""
        degrees: NDArray[np.int64] = self.edges.count(*self.edges.prefix_range(vertices))
        return degrees

    def neighbours(self, vertices: Vertices) -> tuple[NDArray[np.int64], Vertices]:
        """The neighbours of all vertices, end to end, and where those of each begin."""
        offsets, (_, neighbours), _ = self.edges.range(*self.edges.prefix_range(vertices))
        return offsets, neighbours

    def distances(self, source: int, vertices: int) -> NDArray[np.int64]:
        """How many edges each vertex is away from one of them: breadth first, a layer at a time."""
        distances = np.full(vertices, UNREACHED, np.int64)
        distances[source] = 0
        layer = np.array([source], np.uint32)
        while len(layer):
            _, neighbours = self.neighbours(layer)
            following = np.unique(neighbours)
            following = following[distances[following] == UNREACHED]
            distances[following] = distances[layer[0]] + 1
            layer = following
        return distances

    def triangles(self, vertices: int) -> int:
        """How many sets of three vertices are all neighbours of each other."""
        offsets, neighbours = self.neighbours(np.arange(vertices, dtype=np.uint32))
        vertex_of = np.repeat(np.arange(vertices), np.diff(offsets))
        above = neighbours > vertex_of
        begins = np.searchsorted(vertex_of[above], np.arange(vertices + 1))
        corners = [_pairs(neighbours[above][start:end]) for start, end in pairwise(begins)]
        # Two neighbours of a vertex, both greater than it, that are neighbours themselves.
        first, second = (np.concatenate(side) for side in zip(*corners, strict=True))
        return int(self.edges.contains((first, second)).sum())


def _pairs(vertices: Vertices) -> tuple[Vertices, Vertices]:
    """Every two of some vertices."""
    first, second = np.triu_indices(len(vertices), 1)
    return vertices[first], vertices[second]


def _both_ways(edges: tuple[Vertices, Vertices]) -> tuple[Vertices, Vertices]:
    first, second = edges
    return np.concatenate([first, second]), np.concatenate([second, first])


class PlainGraph:
    """The same graph as sets of neighbours."""

    def __init__(self, vertices: int) -> None:
        self.neighbours: list[set[int]] = [set() for _ in range(vertices)]

    def update(self, new: Any, removed: Any) -> None:
        for first, second in zip(*map(np.ndarray.tolist, new), strict=True):
            self.neighbours[first].add(second)
            self.neighbours[second].add(first)
        for first, second in zip(*map(np.ndarray.tolist, removed), strict=True):
            self.neighbours[first].discard(second)
            self.neighbours[second].discard(first)

    def distances(self, source: int) -> list[int]:
        distances = [UNREACHED] * len(self.neighbours)
        distances[source] = 0
        queue = [source]
        for vertex in queue:
            for other in self.neighbours[vertex]:
                if distances[other] == UNREACHED:
                    distances[other] = distances[vertex] + 1
                    queue.append(other)
        return distances

    def triangles(self) -> int:
        return sum(
            second in self.neighbours[first]
            for vertex, others in enumerate(self.neighbours)
            for first, second in combinations(
                sorted(other for other in others if other > vertex), 2
            )
        )


def random_edges(random: np.random.Generator, vertices: int, count: int) -> Any:
    """Edges between random vertices, none from a vertex to itself."""
    first = random.integers(0, vertices, count, np.uint32)
    second = random.integers(0, vertices - 1, count, np.uint32)
    return first, second + (second >= first).astype(np.uint32)


def main(arguments: list[str] | None = None) -> None:
    """Builds a graph in batches, and checks the answers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--vertices", type=int, default=10_000)
    parser.add_argument("--edges", type=int, default=100_000, help="in all batches together")
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--device", default="best", help="best, cpu, cuda or cuda:N")
    options = parser.parse_args(arguments)
    random, vertices = np.random.default_rng(1), options.vertices
    graph, plain = Graph(options.device), PlainGraph(vertices)
    share = options.edges // options.batches
    for batch in range(options.batches):
        new = random_edges(random, vertices, share)
        chosen = random.random(share) < 0.2
        removed = new[0][chosen], new[1][chosen]
        if batch:
            removed = removed[0], random.permutation(removed[1])  # Most of them are not there.
        start = perf_counter()
        graph.update(new, removed)
        degrees = graph.degrees(np.arange(vertices, dtype=np.uint32))
        distances = graph.distances(0, vertices)
        triangles = graph.triangles(vertices)
        took = 1000 * (perf_counter() - start)
        plain.update(new, removed)
        print(
            f"batch {batch + 1}: {len(graph.edges) // 2:,} edges, greatest degree {degrees.max()}, "
            f"{(distances != UNREACHED).sum():,} vertices reached, {triangles:,} triangles, {took:.0f} ms"
        )
    assert degrees.tolist() == [len(others) for others in plain.neighbours]
    assert distances.tolist() == plain.distances(0)
    assert triangles == plain.triangles()
    graph.edges.validate()
    print("answers checked against sets of neighbours")


if __name__ == "__main__":
    main()
