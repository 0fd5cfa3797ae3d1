"""Who runs and who waits, on scripted arrivals; one call of ``plan`` is one step."""

from __future__ import annotations

from models.engines.transformers_engine.sequences import Claim, Scheduler, prefill_order

MEMORY = 1000
PATIENCE = 10


class Job(Claim):
    """A request that holds ``columns`` for ``steps`` steps."""

    def __init__(self, name: str, steps: int) -> None:
        super().__init__()
        self.name = name
        self.left = steps


class Machine:
    """Run jobs step by step in a memory of 1,000 columns, and log who started when."""

    def __init__(self, max_running: int = 8) -> None:
        self.schedule: Scheduler[Job] = Scheduler(max_running=max_running, patience=PATIENCE)
        self.now = 0
        self.started: dict[str, int] = {}
        self.ended: dict[str, int] = {}
        self.set_back: list[str] = []

    @property
    def free(self) -> int:
        return MEMORY - sum(job.columns for job in self.schedule.running)

    def add(self, name: str, columns: int, steps: int, priority: int = 0) -> Job:
        job = Job(name, steps)
        self.schedule.add(job, priority=priority, columns=columns)
        return job

    def step(self, steps: int = 1) -> None:
        for _ in range(steps):
            plan = self.schedule.plan(self.free)
            for job in plan.preempted:
                self.set_back.append(job.name)
                self.schedule.set_back(job, columns=job.columns)
            for job in plan.admitted:
                self.schedule.admit(job)
                self.started.setdefault(job.name, self.now)
            assert self.free >= 0
            assert len(self.schedule.running) <= self.schedule._max_running
            self.now += 1
            for job in list(self.schedule.running):
                job.left -= 1
                if job.left == 0:
                    self.schedule.remove(job)
                    self.ended[job.name] = self.now


def test_short_ones_pass_a_long_one_that_has_no_room() -> None:
    """They start at once in the memory that is left, though the long one came first."""
    machine = Machine()
    machine.add("running", 600, steps=8)
    machine.step()
    machine.add("long", 900, steps=5)
    machine.add("short 1", 100, steps=3)
    machine.add("short 2", 100, steps=3)
    machine.step()

    assert machine.started == {"running": 0, "short 1": 1, "short 2": 1}
    machine.step(20)
    assert machine.started["long"] == machine.ended["running"] == 8
    assert machine.set_back == []


def test_a_long_one_is_not_starved_by_a_stream_of_short_ones() -> None:
    """Two short ones arrive at every step for ever: the long one starts after its patience, and they end after it."""
    machine = Machine()
    for _ in range(4):
        machine.add(f"short {machine.now} before", 100, steps=6)
    machine.step()
    machine.add("long", 900, steps=5)
    for _ in range(60):
        machine.add(f"short {machine.now} a", 100, steps=6)
        machine.add(f"short {machine.now} b", 100, steps=6)
        machine.step()

    assert machine.started["long"] == 1 + PATIENCE
    assert machine.ended["long"] == 1 + PATIENCE + 5
    assert machine.set_back
    machine.step(400)
    assert not machine.schedule.waiting
    assert not machine.schedule.running


def test_only_as_many_are_set_back_as_are_needed_and_the_last_first() -> None:
    """The others go on."""
    machine = Machine()
    machine.add("elder", 300, steps=90)
    machine.add("filler", 300, steps=5)
    machine.step()
    machine.add("long", 500, steps=5)
    for i in range(4):
        machine.add(f"short {i}", 100, steps=50)
    machine.step(20)

    assert machine.set_back == ["short 3", "short 2"]  # 300 were free after the filler's end
    assert machine.started["long"] == 1 + PATIENCE


def test_nobody_is_set_back_in_vain() -> None:
    """While an elder holds what the long one needs, the short ones go on, however long that takes."""
    machine = Machine()
    machine.add("elder", 600, steps=100)
    machine.step()
    machine.add("long", 900, steps=5)
    machine.add("short", 100, steps=90)
    machine.step(80)

    assert machine.set_back == []
    assert "long" not in machine.started
    machine.step(40)
    assert machine.started["long"] == 100


def test_a_growing_one_takes_from_the_last_and_never_from_an_elder() -> None:
    """make_room names the youngest; the youngest itself gives way when only elders are left."""
    machine = Machine()
    jobs = [machine.add(f"{i}", 300, steps=99) for i in range(3)]
    machine.step()

    assert machine.schedule.make_room(jobs[0], 100) == [jobs[2]]
    assert machine.schedule.make_room(jobs[0], 400) == [jobs[2], jobs[1]]
    assert machine.schedule.make_room(jobs[1], 100) == [jobs[2]]
    assert machine.schedule.make_room(jobs[1], 400) == [jobs[1]]
    assert machine.schedule.make_room(jobs[2], 100) == [jobs[2]]
    assert machine.schedule.make_room(jobs[2], 0) == []


def test_patience_holds_when_the_rows_are_taken_meanwhile() -> None:
    """Short ones that fill every row are set back as well as those that fill the memory."""
    machine = Machine(max_running=3)
    machine.add("elder", 200, steps=500)
    machine.add("filler", 300, steps=5)
    machine.step()
    machine.add("long", 800, steps=5)
    machine.add("endless 1", 50, steps=500)
    machine.add("endless 2", 50, steps=500)
    machine.step(30)

    assert machine.started["endless 2"] == 5
    assert machine.started["long"] == 1 + PATIENCE
    assert machine.set_back == ["endless 2", "endless 1"]


def test_waiting_for_a_row_sets_nobody_back() -> None:
    """With memory for all, a full batch is only waited for, whatever its length."""
    machine = Machine(max_running=1)
    machine.add("first", 100, steps=50, priority=0)
    machine.step()
    machine.add("important", 100, steps=5, priority=9)
    machine.step(60)

    assert machine.set_back == []
    assert machine.started["important"] == 50


def test_priority_goes_before_arrival() -> None:
    """Among those that wait."""
    machine = Machine(max_running=1)
    machine.add("running", 100, steps=2)
    machine.step()
    machine.add("low", 100, steps=1)
    machine.add("high", 100, steps=1, priority=1)
    machine.step(3)

    assert machine.started["high"] < machine.started["low"]


def job(remaining: int) -> Job:
    made = Job("", 1)
    made.num_to_prefill = remaining
    return made


def test_a_long_prompt_shares_its_steps_with_short_ones() -> None:
    """It takes half, the shortest of the others come next; other long ones wait for its end."""
    long, other, middle, short = job(10_000), job(9_000), job(400), job(20)

    assert prefill_order([long, other, middle, short], 512) == [(long, 256), (short, 512), (middle, 512)]
    assert prefill_order([long, other], 512) == [(long, 512), (other, 512)]
    assert prefill_order([middle, long, short], 512) == [(middle, 512), (long, 512), (short, 512)]
    assert prefill_order([], 512) == []
