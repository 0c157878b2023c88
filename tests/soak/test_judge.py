from tests.soak.judge import Sample, usual


def sample(broker: int, tasks: int = 100, files: int = 30) -> Sample:
    return Sample({"clients": 1_000_000, "broker": broker}, tasks, files)


def test_the_usual_is_what_most_samples_show() -> None:
    samples = [sample(broker, tasks) for broker, tasks in ((5, 1), (900, 3), (7, 2))]
    assert usual(samples) == sample(7, 2)


def test_five_per_cent_of_memory_and_a_few_tasks_and_files_may_come() -> None:
    then = sample(1_000_000)
    assert sample(1_050_000, 105, 33).grown_since(then) == []
    assert sample(1_060_000, 106, 34).grown_since(then) == [
        "broker has grown from 976 to 1,035 KiB",
        "tasks have grown from 100 to 106",
        "files have grown from 30 to 34",
    ]
