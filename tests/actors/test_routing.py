from hc_ray_actors.routing import replica


def test_a_task_goes_to_the_same_replica_while_the_loads_allow_and_tasks_spread_over_idle_ones():
    assert {replica("abc", [0, 0, 0]) for _ in range(5)} == {replica("abc", [0, 0, 0])}
    assert len({replica(f"task{number}", [0, 0, 0]) for number in range(60)}) == 3


def test_no_replica_gets_more_than_a_quarter_above_the_mean():
    loads = [0, 0, 0, 0]
    for number in range(400):
        loads[replica(f"task{number % 7}", loads)] += 1
    assert max(loads) <= 1.25 * (sum(loads) / 4) + 1
