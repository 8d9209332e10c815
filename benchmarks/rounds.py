"""Contenders take turns, so that a busy machine slows all of them; the best turn counts."""

import time
from collections.abc import Callable, Mapping

from benchmarks.kafka_records import Answer

Turn = Callable[[], Answer]

WARM_UP_TURNS = 3  # what HotSpot needs before its figures settle; ours compiled with the first


def timed(work: Callable[[], int]) -> Turn:
    """A turn from a function that returns how many things it met."""

    def turn() -> Answer:
        begin = time.perf_counter()
        count = work()
        return Answer(time.perf_counter() - begin, count)

    return turn


def cpu_timed(work: Callable[[], int]) -> Turn:
    """As `timed`, but in CPU seconds of all threads of this process."""

    def turn() -> Answer:
        begin = time.process_time()
        count = work()
        return Answer(time.process_time() - begin, count)

    return turn


def best_rates(
    contenders: Mapping[str, Turn], rounds: int, warm_ups: int = WARM_UP_TURNS
) -> dict[str, float]:
    """Things per second of each contender, the best of alternating rounds."""
    for turn in contenders.values():
        for _ in range(warm_ups):
            turn()
    best = dict.fromkeys(contenders, 0.0)
    for _ in range(rounds):
        for name, turn in contenders.items():
            answer = turn()
            best[name] = max(best[name], answer.count / answer.seconds)
    return best


def rate_once(work: Callable[[], int]) -> float:
    """Things per second of something too slow to take turns with."""
    answer = timed(work)()
    return answer.count / answer.seconds
