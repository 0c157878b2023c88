from cometmq.store.queue.next_offsets import NextOffsets


def test_kernels_and_python_see_the_same_numbers() -> None:
    offsets = NextOffsets()
    numbers = [offsets.add() for _ in range(200)]
    assert numbers == list(range(200))
    offsets.values[150] = 7
    offsets.longs[151] += 9
    assert (int(offsets.longs[150]), offsets.values[151], offsets.values[152]) == (7, 9, 0)


def test_what_is_there_stays_when_room_is_made() -> None:
    offsets = NextOffsets()
    for value in range(200):
        number = offsets.add()
        offsets.values[number] = value
    assert list(offsets.values[:200]) == list(range(200))
