"""Batches whose files would be small are routed by fewer tasks."""

from __future__ import annotations

import pytest

from bindery.jobs.splits import EMPTY_BYTES, FILE_BYTES, FILE_ROWS, TASK_RECORDS, Joined, enough_tasks
from bindery.store.commit import WrittenFile


def written(name: str, rows: int = 1, size: int = EMPTY_BYTES, *, vhost: str = "/", kind: str = "queue") -> WrittenFile:
    return WrittenFile(kind, vhost, name, f"{name}.parquet", size, rows)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("files", "enough"),
    [
        ([(1, 100)], 1),
        ([(FILE_ROWS - 1, 100)], 1),
        ([(2 * FILE_ROWS - 1, 100)], 1),
        ([(2 * FILE_ROWS, 100)], 2),
        ([(FILE_ROWS // 4, EMPTY_BYTES)] * 40, 10),
        ([(1, EMPTY_BYTES + 2 * FILE_BYTES - 1)], 1),
        ([(1, EMPTY_BYTES + 2 * FILE_BYTES)], 2),
        ([(10, EMPTY_BYTES + FILE_BYTES // 4)] * 40, 10),
        ([(3 * FILE_ROWS, EMPTY_BYTES + 2 * FILE_BYTES)], 3),
    ],
)
def test_files_are_to_have_a_size(files: list[tuple[int, int]], enough: int) -> None:
    assert enough_tasks(1, [written("q", rows, size) for rows, size in files]) == enough


def test_many_records_are_not_left_to_one_task() -> None:
    files = [written(f"q{number}") for number in range(2_000)]
    assert enough_tasks(TASK_RECORDS - 1, files) == 1
    assert enough_tasks(25 * TASK_RECORDS, files) == 25


def test_each_table_counts_once() -> None:
    files = [written("a", FILE_ROWS), written("b", FILE_ROWS), written("b", 2 * FILE_ROWS)]
    assert enough_tasks(1, files) == 2
    assert enough_tasks(1, [*files, written("a", vhost="v"), written("a", kind="unroutable")]) == 1


def test_however_many_tasks_wrote_a_batch_the_same_number_is_enough() -> None:
    for tasks in (1, 5, 40, 200):
        rows, content = 40 * FILE_ROWS // tasks, 40 * FILE_BYTES // tasks
        many = [written(name, rows) for name in ("a", "b") for _ in range(tasks)]
        large = [written(name, 1, EMPTY_BYTES + content) for name in ("a", "b") for _ in range(tasks)]
        assert enough_tasks(1, many) == 40
        assert enough_tasks(1, large) in (39, 40)


def test_a_batch_has_tasks_for_its_records() -> None:
    joined = Joined()
    assert joined.tasks(1_000) is None, "nothing is known yet"
    joined.learn(500, 2)
    assert joined.tasks(1_500) == 2
    assert joined.tasks(1_501) == 1
    assert joined.tasks(11_501) == 40, "ten thousand records, 250 each"
    joined.learn(0, 1)
    assert joined.tasks(11_501) == 1, "an empty batch, of which nothing is learned"
    assert joined.tasks(11_752) == 2
    assert joined.tasks(9_000) is None, "topics are gone"
    assert joined.tasks(9_250) == 1
